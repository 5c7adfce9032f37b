# SPDX-License-Identifier: MIT
"""Comparisons of recordings of two programs that have measured the processor time of their functions
themselves: the table, and the differential flame graph."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import testbed
from test_record import HERTZ, MAY, samples_of
from vmscope_command import vmscope

SVG = "{http://www.w3.org/2000/svg}"


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Diff(unittest.TestCase):
    """The second program has a slower burn_short: another build in another folder."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.truth, cls.files = [], []
        for name, long, short in (("old", 3000000, 1000000), ("new", 1500000, 1500000)):
            program = cls.folder / name / "program"
            program.parent.mkdir()
            subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-pthread", f"-DLONG={long}",
                            f"-DSHORT={short}", "-o", program,
                            testbed.ROOT / "tests" / "guests" / "record_program.c"], check=True)
            cls.files.append(cls.folder / f"{name}.fxt")
            run = vmscope("record", "-F", HERTZ, "-o", cls.files[-1], "--", program, "shares", "1")
            cls.truth.append(list(map(int, run.out.split())))

    def diff(self, *arguments):
        return json.loads(vmscope("diff", "--json", *arguments).out)

    def shares(self):
        """Percent of the program's time, by function: (before, after)."""
        return {name: [100 * pair[i] / sum(pair) for pair in self.truth]
                for i, name in enumerate(("burn_long", "burn_short"))}

    def test_shares(self):
        found = self.diff(*self.files)
        rows = {row["function"]: row for row in found["functions"]}
        for name, (before, after) in self.shares().items():
            row = rows[name]
            self.assertEqual((row["process"], row["module"]), ("program", "program"))
            self.assertAlmostEqual(row["before"], before, delta=8)
            self.assertAlmostEqual(row["after"], after, delta=8)
            self.assertAlmostEqual(row["change"], after - before, delta=12)
            self.assertLess(row["error"], 6)
        changes = [abs(row["change"]) for row in found["functions"]]
        self.assertEqual(changes, sorted(changes, reverse=True))
        for side, file in zip(("before", "after"), self.files):
            self.assertEqual(found[side]["samples"], len(list(samples_of(file.read_bytes()))))
        everything = self.diff("--all", *self.files)["functions"]
        self.assertEqual(len(everything), len(found["functions"]) + found["left_out"])

    def test_rate(self):
        """Processor time per second of the recording: the program is a part of it."""
        found = self.diff("--by", "rate", "--all", "--total", *self.files)
        self.assertEqual(found["unit"], "ms/s")
        for i, name in enumerate(("burn_long", "burn_short")):
            row, = [row for row in found["functions"] if row["function"] == name]
            for pair, side in zip(self.truth, ("before", "after")):
                truth = pair[i] / 1e6 / found[side]["seconds"]
                self.assertAlmostEqual(row[side] / truth, 1, delta=0.25)

    def test_same(self):
        """Nothing has changed between a recording and itself."""
        found = self.diff(self.files[0], self.files[0])
        self.assertEqual(found["functions"], [])
        self.assertIn("No function has changed", vmscope("diff", self.files[0], self.files[0]).out)

    def test_order(self):
        """The other way round every change has the other sign."""
        forth, back = self.diff(*self.files), self.diff(*reversed(self.files))
        self.assertEqual({row["function"]: row["change"] for row in forth["functions"]},
                         {row["function"]: -row["change"] for row in back["functions"]})

    def test_flame_graph(self):
        picture, table = self.folder / "diff.svg", self.folder / "diff.txt"
        vmscope("diff", *self.files, "-o", picture, "-o", table)
        self.assertIn("burn_short", table.read_text())
        root = ElementTree.parse(picture).getroot()
        whole = len(list(samples_of(self.files[1].read_bytes())))
        classes, sums = {}, {}
        for group in root.findall(f"{SVG}g[@id='frames']/{SVG}g"):
            title = group.find(f"{SVG}title").text
            name, samples, own = re.match(
                r"(.*) \((\d+) samples?, [\d.]+ %, change [-+.\d]+, of its own ([-+.\d]+)\)$",
                title).groups()
            rect = group.find(f"{SVG}rect")
            self.assertAlmostEqual(float(rect.get("width")), 1180 * int(samples) / whole, delta=0.02)
            classes.setdefault(name, set()).add((rect.get("class"), float(own)))
            sums[name] = sums.get(name, 0) + int(samples)
        shares = self.shares()
        for name, shade in (("burn_long", "less4"), ("burn_short", "more4")):
            (found, own), = classes[name]
            before, after = shares[name]
            self.assertIn(found, (shade, shade.replace("4", "3")))
            self.assertAlmostEqual(own, after - before, delta=12)
            self.assertAlmostEqual(100 * sums[name] / whole, after, delta=8)
        self.assertEqual(classes["all"], {("same0", 0.0)})
        self.assertEqual(classes["program"], {("same0", 0.0)})

    def test_errors(self):
        damaged, nothing = self.folder / "damaged", self.folder / "nothing"
        damaged.write_bytes(self.files[0].read_bytes()[:-9])
        run = vmscope("diff", damaged, self.files[1], check=False)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, f"{damaged} .*(truncated at byte|lacks its end)")
        self.assertIn("burn_short", run.out)
        for arguments, status, message in (
                ((self.files[0],), 2, "an argument is missing"),
                ((self.files[0], nothing), 1, "No such file"),
                ((self.files[0], __file__), 1, "is not a recording"),
                ((*self.files, "--by", "size"), 2, "--by size")):
            run = vmscope("diff", *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)


if __name__ == "__main__":
    unittest.main()
