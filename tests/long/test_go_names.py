# SPDX-License-Identifier: MIT
"""Names of a program in Go whose symbols are stripped, by the table of its runtime; the truth are the
symbols that it had."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from test_profile_readers import debian_package
from vmscope_command import vmscope

PROGRAM = """package main

import "sort"

type shape struct{ side float64 }

//go:noinline
func (s *shape) area() float64 { return s.side * s.side }

//go:noinline
func spin(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i % 7
	}
	return
}

func main() {
	numbers := make([]int, 1000)
	for s := (shape{}); s.area() >= 0; s.side = float64(spin(100000)) {
		for i := range numbers {
			numbers[i] = (i * 7919) % 1000
		}
		sort.Ints(numbers)
	}
}
"""


class Compiled:
    """A program that Go's own tools compile."""
    source = ""

    @classmethod
    def setUpClass(cls):
        cls.tools = debian_package("golang-1.19-go", "usr/lib/go-1.19/pkg/tool/linux_amd64")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "main.go").write_text(cls.source)
        cls.packages = cls.tools.parents[1] / "linux_amd64"
        cls.run_tool("compile", "-p", "main", "-o", "main.o", "-I", cls.packages, "main.go")

    @classmethod
    def run_tool(cls, name, *arguments):
        subprocess.run([cls.tools / name, *arguments], cwd=cls.folder, check=True,
                       env=dict(os.environ, GOROOT=str(cls.tools.parents[2])))

    @classmethod
    def link(cls, mode, out):
        cls.run_tool("link", f"-buildmode={mode}", "-L", cls.packages, "-o", out, "main.o")


class GoNames(Compiled, unittest.TestCase):
    source = PROGRAM

    def check_names(self, mode):
        """Every function of a stack is what nm calls it, at the same distance from main."""
        whole, stripped = self.folder / mode, self.folder / f"{mode}-stripped"
        self.link(mode, whole)
        shutil.copy(whole, stripped)
        subprocess.run(["strip", stripped], check=True)
        self.assertNotIn(".symtab", subprocess.run(["readelf", "-S", "-W", stripped], check=True, text=True,
                                                   stdout=subprocess.PIPE).stdout)
        listed = subprocess.run(["nm", whole], check=True, text=True, stdout=subprocess.PIPE).stdout
        places = collections.defaultdict(set)  # an assembler function and its wrapper have one name
        for va, name in re.findall(r"^([0-9a-f]+) [Tt] (.+)$", listed, re.M):
            places[name.removesuffix(".abi0")].add(int(va, 16))
        file = self.folder / f"{mode}.fxt"
        vmscope("record", "-q", "-F", 999, "-t", 1, "-o", file, "--", "timeout", "3", stripped)
        report = vmscope("report", "--format", "perf", file).out
        frames = set(re.findall(rf"^\s+([0-9a-f]+) (.+) \({stripped}\)$", report, re.M))
        names = {name for _, name in frames}
        self.assertLessEqual({"main.main", "main.spin", "runtime.main", "sort.pdqsort"}, names)
        biases = set.intersection(*({int(va, 16) - place for place in places[name]} for va, name in frames))
        self.assertEqual(len(biases), 1, frames)

    def test_fixed(self):
        self.check_names("exe")

    def test_moved(self):
        self.check_names("pie")


if __name__ == "__main__":
    unittest.main()
