# SPDX-License-Identifier: MIT
"""Guests whose own structures are damaged, as after a crash: what can be read is shown, and what
is missing is said."""
import json
import os
import re
import struct
import unittest

from linux_guest import LinuxGuest
from vmscope_command import vmscope


class GuestMemory:
    """Of a paused guest, by QEMU's own translations."""

    def __init__(self, guest):
        self._guest = guest
        self._memory = os.open(f"/proc/{guest.pid}/mem", os.O_RDWR)

    def close(self):
        os.close(self._memory)

    def _place(self, va):
        monitor = self._guest.qmp.hmp
        pa = re.search("gpa: (0x[0-9a-f]+)", monitor(f"gva2gpa {va:#x}"))[1]
        return int(re.search(" is (0x[0-9a-f]+)", monitor(f"gpa2hva {pa}"))[1], 16)

    def read(self, va):
        return struct.unpack("<Q", os.pread(self._memory, 8, self._place(va)))[0]

    def write(self, va, value):
        os.pwrite(self._memory, struct.pack("<Q", value), self._place(va))


class Damaged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest("6.1")
        cls.addClassCleanup(cls.guest.stop)
        cls.symbols = {symbol.name: symbol.va for symbol in cls.guest.kallsyms()}
        cls.guest.qmp.command("stop")
        cls.memory = GuestMemory(cls.guest)
        cls.addClassCleanup(cls.memory.close)

    def run_command(self, *arguments):
        return vmscope(*arguments, *self.guest.target, check=False)

    def damage(self, va, value):
        """Until the test ends."""
        self.addCleanup(self.memory.write, va, self.memory.read(va))
        self.memory.write(va, value)

    def rows(self, *arguments, status):
        run = self.run_command(*arguments, "--json")
        self.assertEqual(run.status, status, run.err)
        return json.loads(run.out), run.err

    def link_of(self, tasks):
        """Where the second task of the list has the pointer to the third."""
        places = {int(task["task"], 16) for task in tasks}
        init_task = self.symbols["init_task"]
        for offset in range(0, 8192, 8):
            if (second := self.memory.read(init_task + offset)) - offset in places:
                return second
        self.fail("init_task leads to no other task")

    def test_tasks(self):
        whole, _ = self.rows("ps", status=0)
        link = self.link_of(whole)
        for wrong in (link, 0, 0xdead000000000100):
            with self.subTest(hex(wrong)):
                self.damage(link, wrong)
                found, error = self.rows("ps", status=1)
                self.assertEqual(found, whole)
                self.assertIn("list of processes", error)
                self.assertEqual(self.run_command("stack", "--task", "2").status, 0)

    def test_modules(self):
        whole, _ = self.rows("modules", status=0)
        link = self.memory.read(self.symbols["modules"])
        self.damage(link, link)
        found, error = self.rows("modules", status=1)
        self.assertCountEqual(found, whole)
        self.assertEqual(error.count("list of modules"), 1, error)
        for how in ("--quiet",), ():
            items, error = self.rows("info", "modules", "os", *how, status=1)
            self.assertCountEqual([row["name"] for row in items["modules"]],
                                  [row["name"] for row in whole])
            self.assertTrue(items["os"])
            self.assertEqual(error.count("list of modules"), 1, error)

    def test_log(self):
        """Words of the ring that the kernel's log begins with: its size, the oldest, the newest."""
        ring = self.memory.read(self.symbols["prb"])
        for offset in (0, 32):
            with self.subTest(offset):
                self.damage(ring + offset, 0)
                run = self.run_command("dmesg")
                self.assertEqual(run.status, 1)
                self.assertRegex(run.err, r"\d+ of \d+ records cannot be read")


if __name__ == "__main__":
    unittest.main()
