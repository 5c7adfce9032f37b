# SPDX-License-Identifier: MIT
"""Machines of any KVM monitor, by pid: vCPUs held one by one, without the monitor's knowledge.

The monitor is the tests' own (tests/tools/kvm_monitor.c), since a stock kernel does not boot under every
host's KVM. What vmscope shows is compared with what the guest's code is known to have in its
registers, and with the monitor's memory as /proc/PID/mem has it.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import kvm_monitor
from kvm_case import KNOWN, Case, read_mem, shown_memory, stacks
from kvm_monitor import CALLS, HALTS, SPINS
from machine_tool import Tool
from testbed import VMSCOPE, wait_for
from vmscope_command import vmscope

LOW_STACKS, HIGH_STACKS, STACK_SIZE = 0x80000, 0x1_0010_0000, 0x4000
# Paths of the call tree, outermost first, and where one may be between two calls.
TREE = [("run_vcpu", "major", "work"), ("run_vcpu", "minor", "helper", "work")]
PATHS = {path[:n] for path in TREE for n in range(1, 5)}



class TestReading(Case):
    def test_registers(self):
        monitor = self.start(SPINS, HALTS, SPINS, HALTS, high=8)
        names = kvm_monitor.symbols()
        for vcpu, regs in self.regs(monitor).items():
            self.assertEqual({name: regs[name] for name in KNOWN}, KNOWN)
            self.assertEqual(regs["rip"], names["known_halt" if vcpu % 2 else "known_spin"])
            end = HIGH_STACKS if vcpu % 2 else LOW_STACKS
            # Two calls, and a frame of 16 bytes with the frame pointer.
            self.assertEqual(regs["rsp"], end - vcpu * STACK_SIZE - 8 - 8 - 16 - 8)
            self.assertEqual((regs["cr0"], regs["cr3"], regs["cr4"], regs["efer"], regs["cs"]),
                             (0x80000011, 0x1000, 0x20, 0x500, 8))
        self.assertEqual(monitor.numbers("valid"), [0] * 4)

    variants = ({"one": True},)

    def start_spinning(self, **options):
        """A guest that has come to its spin: it writes to no other memory from then on."""
        monitor = self.start(SPINS, **options)
        spin = kvm_monitor.symbols()["known_spin"]
        wait_for(lambda: self.regs(monitor)[0]["rip"] == spin, "the guest to come to its spin")
        return monitor

    def check_memory(self, **options):
        monitor = self.start_spinning(high=8, **options)
        for pa, size, va in (map(lambda text: int(text, 0), re.split("[:@]", place))
                             for place in monitor.do("places")):
            expected = read_mem(monitor, va, size)
            shown = shown_memory(pa, size, *monitor.target)
            tables = slice(0x1000, 0x8000)  # the processor writes into them
            if pa == 0:
                shown, expected = (all_bytes[:tables.start] + all_bytes[tables.stop:]
                                   for all_bytes in (shown, expected))
            self.assertTrue(shown == expected)
            self.assertEqual(len(shown) % (1 << 20), -0x7000 % (1 << 20) if pa == 0 else 0)

    def test_memory(self):
        for options in self.variants:
            with self.subTest(**options):
                self.check_memory(**options)

    def test_stacks(self):
        monitor = self.start(CALLS, CALLS, HALTS)
        for _ in range(20):
            shown = stacks(self.vmscope("stack", monitor, "--symbols", kvm_monitor.ELF).out)
            for vcpu in (0, 1):
                self.assertEqual(shown[vcpu][0], "start")
                self.assertIn(tuple(shown[vcpu][1:]), PATHS)
            self.assertEqual(shown[2][-1], "known_halt")

    def test_holes(self):
        """Memory that nobody has used stays unused when all of it is read."""
        monitor = self.start_spinning(memfd=True, low=64, high=64)
        file, = (path for path in pathlib.Path(f"/proc/{monitor.pid}/fd").iterdir()
                 if "guest_mem" in os.readlink(path))
        before = os.stat(file).st_blocks
        with tempfile.TemporaryDirectory() as folder:
            self.vmscope("core", monitor, "-o", f"{folder}/core")
            self.assertIn("ran on while", vmscope("core", "info", f"{folder}/core").out)
        for place in monitor.do("places"):
            pa, size, _ = re.split("[:@]", place)
            subprocess.run([VMSCOPE, "mem", *monitor.target, "--physical", "--raw", pa, size],
                           stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(os.stat(file).st_blocks, before)

    def test_fetched_pages(self):
        """Pages that a userfaultfd would have to bring are not waited for."""
        monitor = self.start(SPINS, userfaultfd=True)
        names = kvm_monitor.symbols()
        regs = self.regs(monitor)[0]
        self.assertEqual(regs["rip"], names["known_spin"])
        missing = self.vmscope("mem", monitor, "--physical", hex(12 << 20), check=False)
        self.assertEqual(missing.status, 1)
        self.assertIn("0xc00000", missing.err)


class TestMap(Case):
    """Where memory lies, found out: compared with where the monitor has it."""

    layouts = ({"reversed": True, "low": 3072, "high": 64},)

    def ranges(self, monitor):
        with Tool("pid", monitor.pid) as tool:
            return [tuple(int(word, 0) for word in range_.split(":")[:2])
                    for range_ in tool.do("ranges").split()[1:]]

    def test_layouts(self):
        for options in self.layouts:
            with self.subTest(**options):
                monitor = self.start(CALLS, CALLS, HALTS, **options)
                places = [tuple(int(number, 0) for number in re.split("[:@]", place))
                          for place in monitor.do("places")]
                self.assertEqual(self.ranges(monitor), [place[:2] for place in places])
                for pa, _, va in places:
                    at = 0x100000  # code in low memory, stacks in high memory
                    self.assertEqual(shown_memory(pa + at, 0x100, "--pid", str(monitor.pid)),
                                     read_mem(monitor, va + at, 0x100))

    def test_wrong_places(self):
        monitor = self.start(SPINS)
        for memory, said in (("0:1M", "PA:SIZE@VA"), ("0:1M@0x1000", "no memory at 0x1000"),
                             ("0:0@0x1000", "PA:SIZE@VA")):
            run = vmscope("regs", "--pid", monitor.pid, "--memory", memory, check=False)
            self.assertNotEqual(run.status, 0)
            self.assertIn(said, run.err)
        run = vmscope("regs", "--pid", monitor.pid, "--memory", "0:2M@0x200000", "--memory",
                      "1M:1M@0x900000", check=False)
        self.assertNotEqual(run.status, 0)

    def test_list(self):
        monitor = self.start(SPINS, HALTS, duplicate=True)
        rows = [row for row in json.loads(vmscope("list", "--json").out)
                if row["pid"] == monitor.pid]
        self.assertEqual([(row["vcpus"], row["accel"], row["obstacle"]) for row in rows],
                         [(2, "kvm", None)])


if __name__ == "__main__":
    unittest.main()
