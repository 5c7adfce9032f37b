# SPDX-License-Identifier: MIT
"""A Linux guest through the engine for KVM processes, where no host of ours runs one under KVM.

A guest runs under TCG and is saved: its memory as it lies, its registers, and a core file. A monitor
of the tests' own then has that memory mapped, and vCPUs whose pages say these registers, as if they had
been kicked out of the guest just now. What vmscope finds there must be what it finds in the core file.
"""
import json
import os
import pathlib
import re
import tempfile
import unittest

import linux_guest
from kvm_monitor import COUNTS, PROGRAM, Monitor
from machine_tool import Tool
from testbed import have_kvm
from test_record_guest import folded
from vmscope_command import vmscope

MIB = 1 << 20
MEMORY = 256
VCPUS = 2
SHOWN = (("ps",), ("modules",), ("dmesg",), ("stack",), ("stack", "--all", "--group"), ("info", "os"),
         ("disas", "schedule"), ("mem", "linux_banner", "64"))


@unittest.skipUnless(have_kvm() and PROGRAM.exists(), "there is no /dev/kvm")
class Linux(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-saved-", dir="/var/tmp")
        cls.addClassCleanup(directory.cleanup)
        cls.core = pathlib.Path(directory.name, "core")
        saved = pathlib.Path(directory.name, "saved")
        guest = linux_guest.LinuxGuest("6.1", memory=MEMORY, smp=VCPUS)
        try:
            guest.start_workload("sort")
            guest.qmp.command("stop")
            vmscope("core", *guest.target, "-o", cls.core)
            with Tool("qmp", guest.qmp_path) as tool:
                assert tool.do(f"save {saved}") == "ok"
        finally:
            guest.stop()
        os.truncate(saved, MEMORY * MIB)
        rows = json.loads(vmscope("regs", "-c", cls.core, "--json").out)
        saved.with_name("saved.regs").write_text("".join(
            f"{row['vcpu']} {row['register']} {row['value']}\n" for row in rows))
        cls.monitor = Monitor(*[COUNTS] * VCPUS, saved=saved)
        cls.addClassCleanup(cls.monitor.stop)

    @staticmethod
    def show(words, *target):
        """What is printed; warnings differ, as one is a file and one a process."""
        return vmscope(words[0], *target, *words[1:], check=False).out

    def test_wall(self):
        """Threads that wait, which nothing is held for: each at every tick, with the state and the stack that it
        has in the core file."""
        with tempfile.TemporaryDirectory() as folder:
            vmscope("record", "--wall", "--guest", self.monitor.pid, "-F", "99", "-t", "1", "-o", f"{folder}/file")
            found = folded(f"{folder}/file")
        stacks = {}
        for row in json.loads(vmscope("stack", "--all", "--json", "-c", self.core).out):
            if row["pid"] == row["tid"]:
                stacks.setdefault((f"{row['comm']} ({row['pid']})", row["state"]), []).append(row["symbol"] or "")
        waiting = {who: symbols for who, symbols in stacks.items() if who[1] in "SDI"}
        self.assertGreater(len(waiting), 30)
        ticks = max(count for _, count in found)
        for (process, state), symbols in waiting.items():
            found_stack, count = next((stack, count) for stack, count in found
                                      if stack.startswith(f"{process};[waiting: {state}"))
            self.assertEqual(count, ticks)
            # Each name, outermost first, without the modules.
            names = [re.sub(r" \[.*", "", name) for name in found_stack.split(";")[2:]]
            self.assertEqual(names[-len(symbols):], [name for name in reversed(symbols) if name], found_stack)
            channel = re.match(r"\[waiting: \w (\w+)", found_stack.split(";")[1])[1]
            self.assertIn(channel, symbols)

    def test_same(self):
        for words in SHOWN:
            with self.subTest(" ".join(words)):
                shown = self.show(words, "--pid", self.monitor.pid)
                self.assertEqual(shown, self.show(words, "-c", self.core))
                self.assertGreater(len(shown.splitlines()), 1)

    def test_memory_map(self):
        """The kernel's own account was read, and agrees."""
        said = vmscope("info", "-v", "--pid", self.monitor.pid).err
        self.assertIn("proved by page tables", said)
        self.assertNotIn("does not tell which memory", said)

    def test_sample(self):
        """Threads that do not run are read without a stop, at any rate."""
        run = vmscope("sample", "--pid", self.monitor.pid, "-F", 999, "-t", 1)
        taken = re.findall(r"^vCPU \d+: (\d+) samples, .* (\d+) failed", run.out, re.MULTILINE)
        self.assertEqual(len(taken), VCPUS)
        for samples, failed in taken:
            self.assertGreater(int(samples), 10 * int(failed))  # at the end one may be late
        stacks = vmscope("stack", "-c", self.core).out
        for name in re.findall(r"#\d+ +0x[0-9a-f]+ +(\w+)\+", stacks):
            self.assertIn(name, run.out)


if __name__ == "__main__":
    unittest.main()
