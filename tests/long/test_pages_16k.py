# SPDX-License-Identifier: MIT
"""A guest of aarch64 whose kernel has pages of 16 KiB: what `make check` states of pages of 4 KiB.

Its kernel also signs return addresses, and has addresses of 52 bits in tables of four levels.
"""
import json
import tempfile
import unittest

import linux_guest
import testbed
import test_aarch64
import test_calls_running
import test_flow_stacks
import test_frames
import test_guest
import test_made_code
import test_modules
import test_names
import test_processes
import test_stacks
import test_symbols
import test_types
from test_agent_engine import LinuxGuest
from vmscope_command import vmscope

SERIES = "6.12-16k"


def setUpModule():
    if not (testbed.KERNELS / f"{SERIES}-arm64" / "release").exists():
        raise unittest.SkipTest("there is no such kernel: run scripts/setup --large-pages")


class New(test_aarch64.New):
    series = SERIES


class Symbols(New, test_symbols.Stock, unittest.TestCase):
    link_text = 0xffffc00080000000  # above modules, which begin where 47 bits of address end
    test_another_kernels_file = None  # says nothing of the guest's pages


class Guest(New, test_guest.Guest, unittest.TestCase):
    scheduler = test_aarch64.Guest.scheduler


class Stacks(New, test_stacks.Stacks, unittest.TestCase):
    pass


class Pages(New, test_aarch64.Pages, unittest.TestCase):
    linear_map = test_aarch64.Pages52Bits.linear_map


class Commands(New, test_aarch64.Asked, unittest.TestCase):
    test_registers = test_aarch64.Commands.test_registers
    test_code = test_aarch64.Commands.test_code
    test_work_is_seen = test_aarch64.Commands.test_work_is_seen


class Modules(New, test_modules.Modules, unittest.TestCase):
    @classmethod
    def kernel(cls):
        return f"{SERIES}-arm64"


class Names(test_names.Names, unittest.TestCase):
    series, arch, programs = SERIES, "aarch64", testbed.GUESTS / "arm64"


class Processes(test_processes.Processes, unittest.TestCase):
    series, arch = SERIES, "aarch64"


class MadeCode(test_made_code.MadeCode, unittest.TestCase):
    series, arch = SERIES, "aarch64"


class Frames(test_frames.Frames, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(SERIES, arch="aarch64")


class Calls(test_calls_running.Running, unittest.TestCase):
    series, arch = SERIES, "aarch64"


class FlowStacks(test_flow_stacks.Stacks, unittest.TestCase):
    @staticmethod
    def start_guest():
        return LinuxGuest(SERIES, arch="aarch64")


class Types(test_types.Aarch64, unittest.TestCase):
    zeros = test_types.X86.zeros

    @classmethod
    def start_guest(cls):
        return LinuxGuest(SERIES, arch="aarch64")


class Core(test_aarch64.Asked, New, unittest.TestCase):
    def test_core(self):
        """A core file is seen as the guest was, by its processes, stacks and programs' names."""
        pid = self.guest.run("frames wait >/dev/null 2>&1 & echo $!").strip()
        self.guest.run(f"until grep -q '^State:.S' /proc/{pid}/status; do sleep 0.1; done")
        commands = ("ps",), ("modules",), ("stack", "--task", pid), ("symbol", "--task", pid, "wait_inner")
        with tempfile.TemporaryDirectory() as directory:
            self.guest.qmp.command("stop")
            try:
                live = [self.ask(*command) for command in commands]
                vmscope("core", *self.guest.target, "-o", f"{directory}/core")
            finally:
                self.guest.qmp.command("cont")
            for command, rows in zip(commands, live):
                self.assertTrue(rows)
                self.assertEqual(json.loads(vmscope(*command, "-c", f"{directory}/core", "--json").out), rows)


if __name__ == "__main__":
    unittest.main()
