# SPDX-License-Identifier: MIT
"""Coverage of a bare guest, from its first instruction to its last: the truth is QEMU's own log."""
import pathlib
import tempfile
import unittest

import calls
import coverage
from long_tests import takes_long
import qemu_machine
import testbed


class Bare:
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-coverage-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        testbed.build_guests()
        cls.elf = qemu_machine.ARCHS[cls.arch].programs / "calls.elf"
        cls.functions = calls.functions_of(cls.elf, cls.arch)

    def run_guest(self, name, *options, accel="tcg,thread=multi"):
        """Covers a whole run: what vmscope wrote, and what QEMU logged of the same run."""
        path = self.directory / name
        log = f"{path}.log"
        guest = qemu_machine.BareGuest(
            "calls", arch=self.arch, accel=accel, extra=("-d", "exec,nochain", "-D", log),
            launcher=coverage.launcher(path, "--symbols", self.elf, *options))
        try:
            status = guest.process.wait(testbed.BOOT_SECONDS)
            self.said = guest.log()
        finally:
            guest.stop()
        self.assertEqual(status, 0, self.said)
        self.totals, self.table = coverage.read_table(f"{path}.json")
        self.assertEqual(self.totals["lost"], 0)
        self.blocks = coverage.read_drcov(f"{path}.drcov")
        return path, coverage.ExecLog(log)

    def test_whole_run(self):
        """The same blocks as QEMU executed, of firmware, too."""
        _, log = self.run_guest("whole")
        self.assertGreater(len(set(log.blocks)), 100)
        self.assertEqual({block.va for block in self.blocks}, set(log.blocks))

    @takes_long
    def test_between(self):
        """From the first call of one function to the next call of another."""
        first, end = self.functions["play_coroutines"], self.functions["await_ticks"]
        _, log = self.run_guest("between", "--from", "play_coroutines", "--to", "await_ticks")
        self.assertEqual({block.va for block in self.blocks}, set(log.between(first, end)))

    @takes_long
    def test_never_reached(self):
        unused = max(self.functions.values()) + 0x100000
        self.run_guest("never", "--from", hex(unused))
        self.assertEqual((self.blocks, self.table, self.totals["functions_ran"]), ([], [], 0))
        self.assertIn("was never executed", self.said)

    @takes_long
    def test_no_room(self):
        """What finds no room is said, and what is told is true."""
        path = self.directory / "room"
        guest = qemu_machine.BareGuest(
            "calls", arch=self.arch, extra=("-d", "exec,nochain", "-D", f"{path}.log"),
            launcher=coverage.launcher(path, "--symbols", self.elf, "--max-blocks", "64"))
        self.addCleanup(guest.stop)
        guest.process.wait(testbed.BOOT_SECONDS)
        totals, _ = coverage.read_table(f"{path}.json")
        self.assertGreater(totals["lost"], 0)
        self.assertIn("incomplete", guest.log())
        blocks = {block.va for block in coverage.read_drcov(f"{path}.drcov")}
        self.assertLess(blocks, set(coverage.ExecLog(f"{path}.log").blocks))
        self.assertGreaterEqual(len(blocks), 32)


class Precise(Bare):
    """To the instruction."""

    def test_instructions(self):
        """One instruction after the other: exactly those that were executed, but what stood before
        a fault in its block."""
        path, _ = self.run_guest("blocks")
        blocks, totals = self.blocks, self.totals
        lines = coverage.Lcov(f"{path}.info")
        _, log = self.run_guest("single", accel="tcg,thread=multi,one-insn-per-tb=on")
        self.assertEqual(self.totals["cut"], 0)
        code = self.code()
        executed = code & set(log.blocks)
        covered = {va for block in blocks for va in range(block.va, block.va + block.size)}
        self.assertEqual(code & covered - executed, set())
        self.assertGreater(totals["cut"], 0)
        self.assertLessEqual(len(executed - covered), 8 * totals["cut"])
        self.check_lines(lines, covered)
        self.check_functions(lines, executed)

    def code(self):
        """The addresses of instructions in functions; what comes before is not 64-bit code."""
        first = self.functions.get("start64", 0)
        return {va for va in coverage.instructions(self.objdump, self.elf) if va >= first}

    def check_lines(self, lcov, covered):
        """Against the line table as binutils reads it."""
        expected = {}
        for name, line, va, end in coverage.line_table(self.objdump, self.elf):
            ran = any(at in covered for at in range(va, end))
            expected[name, line] = expected.get((name, line), False) or ran
        found = {(pathlib.Path(path).name, line): ran
                 for path, lines in lcov.lines.items() for line, ran in lines.items()}
        self.assertEqual(found, expected)
        self.assertTrue(any(expected.values()) and not all(expected.values()))

    def check_functions(self, lcov, executed):
        for path, functions in lcov.functions.items():
            for name, (line, ran) in functions.items():
                if self.functions.get(name, 0) in self.code():
                    entered = self.functions[name] in executed
                    self.assertEqual(ran, entered, f"{path}:{line} {name}")

    def test_amid_a_block(self):
        """Places that are not where blocks begin: not one instruction more than between them."""
        _, log = self.run_guest("found")
        executed = set(log.blocks)
        code = sorted(coverage.instructions(self.objdump, self.elf))
        entry = self.functions["play_coroutines"]
        first, second, third = code[code.index(entry):][:3]
        self.assertNotIn(second, executed)
        self.run_guest("amid", "--from", hex(second), "--to", hex(third))
        self.assertEqual([block[:2] for block in self.blocks], [(second, third - second)])
        self.run_guest("begin", "--from", hex(first), "--to", hex(second))
        self.assertEqual([block[:2] for block in self.blocks], [(first, second - first)])


class X86(Bare, unittest.TestCase):
    arch = "x86_64"
    objdump = "objdump"
