# SPDX-License-Identifier: MIT
"""User stacks of programs without frame pointers (tests/guests/frames.c), by their unwind tables.

What is right, the program's source says: who calls whom.
"""
import collections
import json
import pathlib
import tempfile
import unittest

import linux_guest
import testbed
import vmscope_command

PROGRAMS = ("frames", "frames-static", "frames-static-pie")
# What is called below main, the outermost first.
WAIT = ["wait_outer", *["wait_middle"] * 3, "wait_inner", "pause"]
SIGNAL = ["raise_signal", "kill", "trampoline", "on_signal", "wait_outer", "wait_middle", "wait_inner",
          "pause"]
THREADS = 4


def by_thread(rows):
    """Rows of `vmscope stack --json` by thread, each the outermost frame first."""
    threads = collections.defaultdict(list)
    for row in rows:
        threads[row["thread"]].insert(0, row)
    return threads


def user_names(rows):
    """Names of the user frames, "?" for those without one; `__kill` is another name of `kill`."""
    return [(row["symbol"] or "?").lstrip("_") for row in rows if row["mode"] == "user"]


class Frames:
    """The tests; subclasses say which processor."""
    arch = ""

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest("6.1", arch=cls.arch)

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def tearDown(self):
        self.guest.run("killall -9 frames frames-static frames-static-pie 2>/dev/null", check=False)

    def vmscope(self, *arguments):
        return vmscope_command.vmscope(*arguments[:1], *self.guest.target, *arguments[1:]).out

    def start(self, program, mode):
        """Starts a program; its process id, when it has got to where it waits."""
        pid = int(self.guest.run(f"{program} {mode} >/dev/null 2>&1 & echo $!"))
        wanted = THREADS + 1 if mode == "threads" else 1

        def is_there():
            stats = self.guest.run(f"cat /proc/{pid}/task/*/stat", check=False).splitlines()
            waits = [line for line in stats if ") S " in line or "spin" in mode]
            return len(waits) == wanted and program in self.guest.run(f"readlink /proc/{pid}/exe")
        testbed.wait_for(is_there, f"{program} {mode} to wait")
        return pid

    def stack(self, tid):
        rows = json.loads(self.vmscope("stack", "--task", tid, "--json"))
        return by_thread(rows)[tid]

    def check_main(self, rows, wanted):
        """Beyond main there are the C library's start and _start, where a stack ends."""
        self.assertEqual(rows[0]["end"], "complete")
        names = user_names(rows)
        main = names.index("main")
        self.assertEqual(names[0], "start")
        self.assertLessEqual(main, 3, names)
        inner = ["?" if name == "trampoline" else name for name in wanted]
        found = ["?" if name == "trampoline" or want == "?" else name
                 for name, want in zip(names[main + 1:], inner)]
        self.assertEqual(found, inner)
        self.assertEqual(len(names) - main - 1, len(wanted), names)
        # The kernel's half is in one piece with it.
        self.assertIn(rows[len(names)]["symbol"], ("entry_SYSCALL_64_after_hwframe", "el0t_64_sync"))

    def test_sleeping(self):
        for program in PROGRAMS:
            with self.subTest(program):
                self.check_main(self.stack(self.start(program, "wait")), WAIT)

    def test_signal_on_another_stack(self):
        for program in PROGRAMS:
            with self.subTest(program):
                self.check_main(self.stack(self.start(program, "signal")), SIGNAL)

    def test_threads(self):
        for program in PROGRAMS:
            with self.subTest(program):
                pid = self.start(program, "threads")
                threads = by_thread(json.loads(self.vmscope("stack", "--all", "--state", "S", "--json")))
                ours = sorted((rows for rows in threads.values() if rows[0]["pid"] == pid),
                              key=lambda rows: rows[0]["tid"])
                self.assertEqual(len(ours), THREADS + 1)
                for depth, rows in enumerate(ours[1:], 1):
                    names = user_names(rows)
                    self.assertEqual(names[2:], ["run_thread", "wait_outer",
                                                 *["wait_middle"] * (depth + 1), "wait_inner", "pause"])
                    self.assertEqual(rows[0]["end"], "complete")
                self.guest.run(f"kill -9 {pid}")

    def test_groups(self):
        for _ in range(3):
            self.start("frames", "wait")
        groups = collections.defaultdict(list)
        for row in json.loads(self.vmscope("stack", "--all", "--group", "--json")):
            groups[row["group"]].append(row)
        ours = [rows for rows in groups.values() if any("wait_inner" in row["symbol"] for row in rows)]
        self.assertEqual([rows[0]["threads"] for rows in ours], [3])
        everybody = len(self.guest.run("ls -d /proc/[0-9]*/task/*").split())
        self.assertLess(abs(sum(rows[0]["threads"] for rows in groups.values()) - everybody), 6)

    def test_guest_runs_in_between(self):
        """Where a guest would be held for long it runs for a moment: what waits is the same afterwards."""
        pid = self.start("frames", "threads")
        run = vmscope_command.vmscope("stack", *self.guest.target, "--all", "--json", "--hold-limit", "0.001")
        self.assertRegex(run.err, "has run [0-9]+ times in between")
        ours = [rows for rows in by_thread(json.loads(run.out)).values() if rows[0]["pid"] == pid]
        self.assertEqual(len(ours), THREADS + 1)
        for rows in ours:
            self.assertEqual(rows[0]["end"], "complete")
            self.assertIn("wait_inner", user_names(rows))

    def test_core_file(self):
        pid = self.start("frames", "threads")
        with tempfile.TemporaryDirectory() as folder:
            core = pathlib.Path(folder) / "core"
            vmscope_command.vmscope("core", *self.guest.target, "-o", core)
            rows = json.loads(vmscope_command.vmscope("stack", "-c", core, "--all", "--json").out)
        ours = [stack for stack in by_thread(rows).values() if stack[0]["pid"] == pid]
        self.assertEqual(len(ours), THREADS + 1)
        for stack in ours:
            self.assertIn("wait_inner", user_names(stack))
            self.assertEqual(stack[0]["end"], "complete")


class X86(Frames, unittest.TestCase):
    arch = "x86_64"


if __name__ == "__main__":
    unittest.main()
