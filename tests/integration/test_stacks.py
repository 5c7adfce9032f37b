# SPDX-License-Identifier: MIT
"""Stacks of real guests: how many reach their root, and user frames of a program with known calls.

That each frame is right is compared with gdb elsewhere (make check-gdb).
"""
import collections
import json
import re
import subprocess
import unittest

import linux_guest
from long_tests import takes_long
import testbed
import vmscope_command

WANTED_PERCENT = 98
WANTED_STACKS = 300
# What the workload calls, innermost first.
DEEP = ["burn", *(f"deep_{n}" for n in range(8, 0, -1)), "work_deep", "main"]


def user_functions(arch):
    """Begins and names of the workload's functions, by address: it is linked to a fixed one."""
    run = subprocess.run([arch.nm, "-n", "--defined-only", arch.programs / "workload"], text=True,
                         check=True, stdout=subprocess.PIPE)
    return [(int(va, 16), name) for va, kind, name in map(str.split, run.stdout.splitlines())
            if kind in "tTwW"]


def stacks(guest):
    """By vCPU: the rows of `vmscope stack`."""
    rows = collections.defaultdict(list)
    for row in json.loads(vmscope_command.vmscope("stack", *guest.target, "--json").out):
        rows[row["vcpu"]].append(row)
    return rows.values()


class Stacks:
    """The tests; subclasses say which kernel."""
    series = ""

    @classmethod
    def start_guest(cls):
        return linux_guest.LinuxGuest(cls.series)

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def tearDown(self):
        self.guest.stop_workload()

    def test_kernel_stacks_reach_their_root(self):
        self.guest.start_workload("mix")
        complete = total = 0
        while total < WANTED_STACKS:
            report = vmscope_command.vmscope("sample", *self.guest.target, "-F", "199", "-t", "2").out
            for percent, n in re.findall(r"kernel stacks complete ([\d.]+)% of (\d+)", report):
                complete += float(percent) * int(n) / 100
                total += int(n)
            self.assertTrue(total, report)
        self.assertGreaterEqual(100 * complete / total, WANTED_PERCENT)

    def test_user_stack(self):
        functions = user_functions(self.guest.arch)
        self.guest.start_workload("deep")

        def called():
            for rows in stacks(self.guest):
                names = [max(function for function in functions if function[0] <= va)[1]
                         for va in (int(row["address"], 16) for row in rows
                                    if row["mode"] == "user")
                         if va >= functions[0][0]]
                # Before a function has set up its frame its caller cannot be seen.
                if names[:len(DEEP)] == DEEP:
                    return rows
            return None
        rows = testbed.wait_for(called, "a sample in the workload's innermost function")
        for row in rows:
            if row["mode"] == "user":
                self.assertEqual(row["comm"], "workload")


class Linux61(Stacks, unittest.TestCase):
    series = "6.1"
    test_kernel_stacks_reach_their_root = None  # test_sample.py has that of this kernel and the next


class Linux612(Stacks, unittest.TestCase):
    series = "6.12"
    test_kernel_stacks_reach_their_root = None


@takes_long
@testbed.needs_newest
class LinuxNewest(Stacks, unittest.TestCase):
    series = testbed.NEWEST


if __name__ == "__main__":
    unittest.main()
