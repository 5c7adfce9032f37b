# SPDX-License-Identifier: MIT
"""Call graphs for KCachegrind: of a trace that uftrace itself has recorded, by uftrace's own report and
by callgrind_annotate. That of a guest's trace is in test_calls_bare.py."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from callgrind_file import Callgrind
from vmscope_command import vmscope

PROGRAM = r"""
int volatile sum;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n * 1000; i++) sum += i; }
__attribute__((noinline)) void middle(int n) { leaf(n); leaf(n); sum++; }
__attribute__((noinline)) void recurse(int n) { if (n) recurse(n - 1); else leaf(1); sum++; }
int main(void) { for (int i = 0; i < 10; i++) middle(i); recurse(5); return 0; }
"""
CALLS = {"main": 1, "middle": 10, "leaf": 21, "recurse": 6}
EDGES = {("main", "middle"): 10, ("main", "recurse"): 1, ("middle", "leaf"): 20, ("recurse", "recurse"): 5,
         ("recurse", "leaf"): 1}
UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9, "ns": 1}


class Traced(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        source, program, cls.trace = cls.folder / "p.c", cls.folder / "program", cls.folder / "trace"
        source.write_text(PROGRAM)
        subprocess.run(["gcc", "-pg", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-o", program,
                        source], check=True)
        subprocess.run(["uftrace", "record", "--no-libcall", "--no-event", "-d", cls.trace, program],
                       check=True, capture_output=True)
        cls.file = cls.folder / "callgrind.out"
        vmscope("report", "--callgrind", cls.trace, "-o", cls.file)
        cls.graph = Callgrind(cls.file.read_text())

    def report(self):
        """uftrace's own: {function: (total ns, self ns, calls)}."""
        text = subprocess.run(["uftrace", "report", "-d", self.trace], check=True, capture_output=True,
                              text=True).stdout
        found = {}
        for total, unit, own, own_unit, calls, name in re.findall(
                r"^ *([\d.]+) +(\w+) +([\d.]+) +(\w+) +(\d+)  (\S+)$", text, re.MULTILINE):
            found[name] = float(total) * UNITS[unit], float(own) * UNITS[own_unit], int(calls)
        return found

    def test_calls(self):
        """As often as the program's text says."""
        self.assertEqual({name: calls for name, (_, calls) in self.graph.costs.items()}, CALLS)
        self.assertEqual({pair: calls for pair, (calls, _) in self.graph.edges.items()}, EDGES)
        self.assertEqual(set(self.graph.objects.values()), {"program"})

    def test_times(self):
        """As uftrace shows them, which rounds."""
        truth = self.report()
        self.assertEqual(set(truth), set(CALLS))
        for name, (total, own, _) in truth.items():
            self.assertAlmostEqual(self.graph.costs[name][0], own, delta=1 + own / 1000)
        self.assertEqual(self.graph.totals[0], sum(own for own, _ in self.graph.costs.values()))
        self.assertAlmostEqual(self.graph.totals[0], truth["main"][0], delta=1 + truth["main"][0] / 1000)
        self.assertAlmostEqual(self.graph.edges["main", "middle"][1], truth["middle"][0],
                               delta=1 + truth["middle"][0] / 1000)

    @unittest.skipUnless(shutil.which("callgrind_annotate"), "there is no callgrind_annotate")
    def test_callgrind_annotate(self):
        text = subprocess.run(["callgrind_annotate", "--auto=no", "--tree=both", "--threshold=100", self.file],
                              check=True, capture_output=True, text=True).stdout
        for name, (own, calls) in self.graph.costs.items():
            self.assertRegex(text, rf"(?m)^ *{own:,} \([ \d.]+%\) +{calls} \([ \d.]+%\) +\* +\?\?\?:{name} ")
        for (caller, callee), (calls, _) in self.graph.edges.items():
            self.assertRegex(text, rf"> +\?\?\?:{callee} \({calls}x\)")
            self.assertRegex(text, rf"< +\?\?\?:{caller} \({calls}x\)")

    def test_errors(self):
        empty = self.folder / "empty"
        empty.mkdir()
        torn = self.folder / "torn"
        shutil.copytree(self.trace, torn)
        data, = (path for path in torn.glob("[0-9]*.dat"))
        data.write_bytes(b"\xff" * 32)
        for arguments, status, message in (
                ((empty,), 1, "has no calls"),
                ((torn,), 1, "is no record"),
                ((self.folder / "none",), 1, "No such file"),
                ((self.trace, "--stats"), 2, "has no other options"),
                ((self.trace, "--open"), 2, "has no other options")):
            run = vmscope("report", "--callgrind", *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)

    def test_cut(self):
        """The last record was not written to its end."""
        cut = self.folder / "cut"
        shutil.copytree(self.trace, cut)
        data, = cut.glob("[0-9]*.dat")
        data.write_bytes(data.read_bytes()[:-5])
        graph = Callgrind(vmscope("report", "--callgrind", cut).out)
        self.assertEqual({name: calls for name, (_, calls) in graph.costs.items()}, CALLS)


if __name__ == "__main__":
    unittest.main()
