# SPDX-License-Identifier: MIT
"""Probes at source lines. The truth is objdump's table of lines."""
import collections
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from test_agent_engine import BareGuest
from vmscope_command import vmscope

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "guests" / "counter.c"
ROW = re.compile(r"(\S+) +(\d+|-) +0x([0-9a-f]+)( +\d+)?( +x)?( +END)?$")


def decoded_lines(elf):
    """For each (file, line): where its code begins, but for rows that go on where one of it ended."""
    text = subprocess.run(["objdump", "--dwarf=decodedline", elf], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    begins, before = collections.defaultdict(set), None
    for match in filter(None, map(ROW.match, text.splitlines())):
        place = match[1], match[2]
        if place != before and match[2] != "-" and match[5]:
            begins[place[0], int(place[1])].add(int(match[3], 16))
        before = place
    return begins


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = BareGuest("counter", accel="tcg,thread=multi")
        cls.addClassCleanup(cls.guest.stop)
        cls.begins = decoded_lines(cls.guest.elf)

    def flow(self, *words, **options):
        return vmscope("flow", *self.guest.target, "--symbols", self.guest.elf, *words, **options)

    def hits(self, *words):
        *records, _ = map(json.loads, self.flow("--json", "--hits", "3000", *words).out.splitlines())
        return collections.Counter(int(record["address"], 16) for record in records)

    def test_addresses(self):
        """All lines of the loop in which the guest spends its life."""
        texts = dict(enumerate(SOURCE.read_text().splitlines(), 1))
        lines = [line for line, text in texts.items()
                 if re.search(r"number\+\+|counts\.|counted\(number,|i < 2000", text)]
        self.assertEqual(len(lines), 5)
        for line in lines:
            with self.subTest(line=line):
                reached = set(self.hits(f"counter.c:{line}=rdi"))
                expected = self.begins["counter.c", line]
                self.assertLessEqual(reached, expected)
                # "number = 1" was before.
                self.assertEqual(len(expected - reached), "number = 1" in texts[line])

    def test_moments(self):
        """A moment follows the line."""
        line, = (line for line, text in enumerate(SOURCE.read_text().splitlines(), 1) if "counts.value =" in text)
        *records, _ = map(json.loads, self.flow("--json", "--hits", "20", f"guests/counter.c:{line}:both=cpu").out
                          .splitlines())
        self.assertEqual({record["moment"] for record in records}, {"before", "after"})

    def test_wrong_words(self):
        for words, status, expected in (
                ("counter.c:1", 1, "counter.c:1 has no code; the next line with code is 15"),
                ("counter.c:99999", 1, "counter.c:99999 has no code, nor has a line below it"),
                ("count.c:15", 1, "no symbol file tells of a source called count.c (did you mean counter.c"),
                ("ounter.c:15", 1, "no symbol file tells of a source called ounter.c"),
                ("counter.c:0", 2, "the line"),
                ("counter.c:15:call", 2, "is a line"),
                ("counter.c:15:never", 2, "must be followed by before")):
            with self.subTest(words=words):
                run = self.flow(words, "-t", "0.1", check=False)
                self.assertEqual(run.status, status, run.err)
                self.assertIn(expected, run.err)
                self.assertEqual(len(run.err.splitlines()), 1, run.err)

    def test_same_name(self):
        """Two sources of one name: none is taken for the other, and both are named."""
        with tempfile.TemporaryDirectory() as folder:
            sources = [pathlib.Path(folder, part, "twin.c") for part in ("one", "two")]
            for source in sources:
                source.parent.mkdir()
                source.write_text(f"void {source.parent.name}(void) {{}}\n")
            elf = pathlib.Path(folder, "twins.elf")
            subprocess.run(["gcc", "-g", "-nostdlib", "-static", "-Wl,-e,one", "-o", elf, *sources], check=True)
            flow = ("flow", *self.guest.target, "--symbols", elf, "-t", "0.1")
            run = vmscope(*flow, "twin.c:1", check=False)
            self.assertEqual((run.status, run.out), (2, ""))
            message, = run.err.splitlines()
            self.assertIn("2 files are called twin.c: write more of the path of one of", message)
            for source in sources:
                self.assertIn(str(source), message)
                more = vmscope(*flow, f"{source.parent.name}/twin.c:1", check=False)
                self.assertNotIn("twin.c", more.err)

    def test_without_lines(self):
        run = vmscope("flow", *self.guest.target, "counter.c:15", check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("give a file with debugging information by --symbols", run.err)


if __name__ == "__main__":
    unittest.main()
