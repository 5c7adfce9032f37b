# SPDX-License-Identifier: MIT
"""Recordings that cost as much as small files can: every command ends, says in one line what it has
left out, and shows no name as anything else than a name."""
import gzip
import json
import pathlib
import re
import sys
import tempfile
import unicodedata
import unittest
import xml.etree.ElementTree

from vmscope_command import vmscope

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "hostile"))
import recordings  # noqa: E402

# What no recording of that size may cost, by count and size; and what costs more than a little budget.
SMALL = {"files": (2000, 100), "stacks": (1000, 3), "deep": (200, 100), "names": (500, 20),
         "same_names": (300, 64), "strings": (300, 30000), "generations": (1000, 50),
         "births": (300, 200), "mappings": (1000, 50), "replaced": (500, 50), "threads": (500, 8),
         "processes": (500, 8), "cpus": (100, 7), "odd": (60, 3)}
LARGE = {"deep": (1500, 120), "births": (16000, 3000)}
LITTLE = ("--budget", "0.1")
BINARY = ("perfetto", "pprof")
# That the C library or a terminal acts on, or that breaks a line in some program.
ACTIVE = ("Cc", "Cf", "Zl", "Zp", "Cs")


def list_formats():
    error = vmscope("report", "--format", "?", "/dev/null", check=False).err
    return re.split(", | or ", re.search(r"choose (.*) \(see", error)[1])


def count_folded(path):
    return sum(int(line.rsplit(" ", 1)[1]) for line in path.read_text().splitlines())


class HostileRecordings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.formats = list_formats()

    def test_formats(self):
        self.assertGreaterEqual(set(self.formats), {"text", "folded", "firefox", *BINARY})

    def make(self, kind, count, size, plain=False):
        path = self.folder / f"{kind}-{count}{'-plain' if plain else ''}"
        path.write_bytes(recordings.make_recording(kind, count, size, plain))
        return path

    def report(self, path, form, *options):
        """Returns the run and where it has written."""
        out = path.with_suffix(f".{form}")
        return vmscope("report", path, "--format", form, "-o", out, *options, check=False), out

    def read_function(self, path):
        """The name of a function that was found executing."""
        _, out = self.report(path, "folded")
        leaves = [line.rsplit(" ", 1)[0].rsplit(";", 1)[-1] for line in out.read_text().splitlines()]
        return next((leaf for leaf in leaves if not leaf.startswith(("0x", "["))), "none")

    def check_whole(self, path):
        """Returns all counts."""
        for form in self.formats:
            run, out = self.report(path, form)
            self.assertEqual((run.status, run.err), (0, ""), form)
            self.assertGreater(out.stat().st_size, 0, form)
        run = vmscope("report", "--stats", "--json", path, check=False)
        self.assertEqual((run.status, run.err), (0, ""))
        return [run.out, count_folded(path.with_suffix(".folded"))]

    def test_whole(self):
        """What costs little is shown whole, however it is made: with all counts of its twin."""
        for kind, (count, size) in SMALL.items():
            with self.subTest(kind):
                hostile, plain = (self.make(kind, count, size, which) for which in (False, True))
                self.assertEqual(self.check_whole(hostile), self.check_whole(plain))
                run = vmscope("diff", hostile, plain, "--all", check=False)
                self.assertEqual((run.status, run.err), (0, ""))
                self.check_annotated(hostile)

    def check_annotated(self, path):
        """Each sample of the function is shown, or there is none, which is one line."""
        function = self.read_function(path)
        run = vmscope("annotate", function, path, "--json", "-q", check=False)
        if function == "none":
            self.assertEqual((run.status, run.out, run.err.count("\n")), (1, "", 1), run.err)
            return
        self.assertEqual((run.status, run.err), (0, ""))
        samples = sum(int(line.rsplit(" ", 1)[1])
                      for line in path.with_suffix(".folded").read_text().splitlines()
                      if line.rsplit(" ", 1)[0].endswith(f";{function}"))
        self.assertEqual(sum(row["hits"] for row in json.loads(run.out)), samples)

    def check_cut(self, run, *what):
        self.assertEqual(run.status, 1, what)
        self.assertRegex(run.err, r"\A[^\n]* is not shown whole: it costs more [^\n]*\n\Z", what)

    def test_cut(self):
        """What costs more than there is is cut off, which is said in one line, whatever is shown."""
        for kind, (count, size) in LARGE.items():
            with self.subTest(kind):
                path = self.make(kind, count, size)
                for form in self.formats if kind == "deep" else ("text", "pprof"):
                    self.check_cut(self.report(path, form, *LITTLE)[0], form)
                self.check_cut(vmscope("diff", path, path, *LITTLE, check=False), "diff")
                run = vmscope("annotate", "evil", path, "-q", *LITTLE, check=False)
                self.assertEqual((run.status, run.err.count("\n")), (1, 1), run.err)
                if kind == "births":  # what the others cost is cut when names are found
                    self.check_cut(vmscope("report", "--stats", path, *LITTLE, check=False), "stats")
                # The same is whole with what a file of its size has.
                self.assertEqual(vmscope("report", "--stats", path, check=False).status, 0)

    def check_text(self, text, what):
        found = {f"U+{ord(c):04X}" for c in text
                 if c not in "\n\t" and unicodedata.category(c) in ACTIVE}
        self.assertEqual(found, set(), what)

    def check_binary(self, data, what):
        for name in recordings.ODD_NAMES:
            if any(unicodedata.category(c) in ACTIVE for c in name):
                self.assertNotIn(name.encode(), data, what)
        for c in "\u2028\u2029\u202e\u202d\u2066\u2069\u200e\u061c\x85":
            self.assertNotIn(c.encode(), data, what)

    def test_names(self):
        """No name has a line break, an escape or a character without a shape, in any output."""
        path = self.make("odd", *SMALL["odd"])
        for form in self.formats:
            run, out = self.report(path, form)
            self.check_text(run.out + run.err, form)
            data = out.read_bytes()
            if form in BINARY:
                self.check_binary(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, form)
            else:
                self.check_text(data.decode(), form)
        for run in (vmscope("diff", path, path, "--all"), vmscope("report", "--stats", path),
                    vmscope("annotate", self.read_function(path), path, check=False),
                    vmscope("annotate", "separator?", path, check=False)):
            self.check_text(run.out + run.err, run)

    def test_structure(self):
        """A name does not end what it is in."""
        path, plain = (self.make("odd", *SMALL["odd"], which) for which in (False, True))
        for form in ("firefox", "speedscope"):
            json.loads(self.report(path, form)[1].read_text())
        xml.etree.ElementTree.parse(self.report(path, "svg")[1])
        for form in ("folded", "perf"):
            lines, expected = (self.report(each, form)[1].read_text().splitlines()
                               for each in (path, plain))
            self.assertEqual(len(lines), len(expected), form)
        for line in path.with_suffix(".folded").read_text().splitlines():
            self.assertRegex(line, r" \d+\Z")


if __name__ == "__main__":
    unittest.main()
