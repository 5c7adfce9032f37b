# SPDX-License-Identifier: MIT
"""Names of code that a guest's programs make at run time (tests/guests/makes_code.c)."""
import re
import unittest

import linux_guest
from vmscope_command import vmscope

NAME = "JS:*hot loop /app/main.js:10:5"


class MadeCode:
    series, arch = "", "x86_64"

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)

    def start(self, command):
        """Starts a command that makes code; the number of that program in the guest."""
        self.guest.run(f"{command} >/dev/null 2>&1 &")
        self.addCleanup(self.guest.run, "killall -9 makes_code", check=False)
        return self.guest.run("until pidof makes_code; do sleep 0.1; done").split()[0]

    def check_names(self, path):
        text = vmscope("sample", "-t", "1", "--by", "address", "--facts", "none", *self.guest.target).out
        found = re.findall(rf"{re.escape(NAME)}(?:\+0x([0-9a-f]+))? \({path}\) \[(0x[0-9a-f]+)\]", text)
        self.assertTrue(found, text)
        self.assertNotIn("replaced", text)
        return [int(address, 16) - int(offset or "0", 16) for offset, address in found]

    def test_names(self):
        pid = self.start("makes_code")
        start, = set(self.check_names(f"/tmp/perf-{pid}.map"))
        # The kernel says where a program has memory that it can execute, and that is no file.
        areas = [line.split("-")[0] for line in self.guest.run(f"cat /proc/{pid}/maps").splitlines()
                 if " rwxp " in line]
        self.assertEqual([int(area, 16) for area in areas], [start])
        self.assertEqual(self.guest.run(f"head -n 2 /tmp/perf-{pid}.map | tail -n 1").split()[0], hex(start))

    def test_symbol_and_disas(self):
        """The code is found by name, and its first instruction is where the program has put it."""
        pid = self.start("makes_code")
        start = int(self.guest.run(f"head -n 2 /tmp/perf-{pid}.map | tail -n 1").split()[0], 16)
        path = f"/tmp/perf-{pid}.map"
        self.assertEqual(vmscope("symbol", "--task", pid, NAME, *self.guest.target).out,
                         f"{start:016x} t {NAME}\t[{path}]\n")
        self.assertEqual(vmscope("symbol", "--task", pid, hex(start + 1), *self.guest.target).out,
                         f"{start + 1:016x} {NAME}+0x1 ({path})\n")
        lines = vmscope("disas", "--task", pid, NAME, *self.guest.target).out.splitlines()
        self.assertEqual(lines[0], f"{NAME}+0x0 ({path}):")
        self.assertTrue(lines[1].startswith(f"=> {start:016x}"), lines)


class MadeCode612(MadeCode, unittest.TestCase):
    series = "6.12"


if __name__ == "__main__":
    unittest.main()
