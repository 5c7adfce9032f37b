# SPDX-License-Identifier: MIT
"""vmscope top: shares by the rounds of a guest's loops; the live view in a terminal of our own, which
must be as it was after every end; the guest runs on whatever happens."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import unittest

import linux_guest
import testbed
from qemu_machine import BareGuest
from vmscope_command import vmscope

BARE = testbed.GUESTS / "bare.elf"


def top(*arguments, **options):
    return json.loads(vmscope("top", "--once", "--json", *arguments, **options).out)


def rows_by(rows, *keys):
    return {tuple(row[key] for key in keys): row for row in rows}


class Once(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = BareGuest(name="bare", extra=("-name", "top-one"))
        cls.addClassCleanup(cls.guest.stop)
        cls.guest.wait_ready()
        cls.arguments = ("--symbols", BARE, "-F", "499", "-d", "1", *cls.guest.target)

    def test_functions(self):
        """Three quarters of the time are in major > work, a quarter in minor > helper > work."""
        found = top("--by", "function", *self.arguments)
        rows = rows_by(found["rows"], "function")
        guest, = found["guests"]
        busy = found["guests"][0]["vcpus"]
        self.assertGreater(guest["samples"], 50)
        self.assertGreater(rows["work",]["self"], 95)
        whole = rows["guest_main",]["total"]
        self.assertLess(whole, 100 * busy + 0.01)
        self.assertAlmostEqual(rows["major",]["total"] / whole, 0.75, delta=0.12)
        self.assertAlmostEqual(rows["minor",]["total"] / whole, 0.25, delta=0.12)
        minor, helper = (rows[name,]["samples"] for name in ("minor", "helper"))
        self.assertLessEqual(helper, minor)
        self.assertLess(minor - helper, 0.1 * minor + 2)  # the call itself
        order = [row["self"] for row in found["rows"]]
        self.assertEqual(order, sorted(order, reverse=True))

    def test_keys(self):
        """By vCPU and without functions; sorted by total; only some rows."""
        rows = top("--by", "vcpu", "--idle", *self.arguments)["rows"]
        self.assertEqual({row["vcpu"] for row in rows}, set(range(len(rows))))
        for row in rows:
            self.assertAlmostEqual(row["total"], 100, delta=0.01)
            self.assertIsNone(row["function"])
        rows = top("--by", "function", "--sort", "total", "-n", "2", *self.arguments)["rows"]
        self.assertEqual(len(rows), 2)
        self.assertGreaterEqual(rows[0]["total"], rows[1]["total"])
        self.assertEqual(self.guest.qmp.status(), "running")

    def test_guests(self):
        """Those that a pattern names, and no others."""
        other = BareGuest(name="bare", extra=("-name", "top-two"))
        self.addCleanup(other.stop)
        other.wait_ready()
        found = top("--guests", "top-*", "--by", "guest", "-d", "0.7", "--allow-stop")
        self.assertEqual({(guest["guest"], guest["pid"]) for guest in found["guests"]},
                         {("top-one", self.guest.pid), ("top-two", other.pid)})
        self.assertEqual({row["guest"] for row in found["rows"]}, {"top-one", "top-two"})
        for guest in self.guest, other:
            self.assertEqual(guest.qmp.status(), "running")

    def test_errors(self):
        for arguments, status, message in (
                (("--guests", "no-such-guest", "--once"), 1, "no guest here is called so"),
                (("--guests", "*", "-p", "1", "--once"), 2, "it excludes a target"),
                (("--json", *self.guest.target), 2, "are for --once"),
                (self.guest.target, 2, "needs a terminal"),
                (("--once", "--by", "colour", *self.guest.target), 2, "--by colour"),
                (("--once", "-d", "0", *self.guest.target), 2, "--delay"),
                (("--once", "--rows", "-1", *self.guest.target), 2, "--rows")):
            run = vmscope("top", *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)


class Processes(unittest.TestCase):
    def test_process(self):
        """A process that keeps a vCPU busy; the other vCPU is idle."""
        guest = linux_guest.LinuxGuest("6.1")
        self.addCleanup(guest.stop)
        pid = guest.start_workload("deep")
        rows = rows_by(top("--by", "process,vcpu", "-d", "1", *guest.target)["rows"], "process")
        self.assertIn((f"workload ({pid})",), rows)
        rows = rows_by(top("-d", "1", "-F", "199", *guest.target)["rows"], "process", "function")
        row = rows[f"workload ({pid})", "burn"]
        self.assertAlmostEqual(row["total"], 100, delta=25)
        self.assertEqual(row["module"], "/bin/workload")


class Screen(unittest.TestCase):
    """In a terminal that is a pseudo terminal."""

    def setUp(self):
        self.guest = BareGuest()
        self.addCleanup(self.guest.stop)
        self.guest.wait_ready()
        self.shown = ""
        self.ours, self.theirs = pty.openpty()
        self.addCleanup(os.close, self.ours)
        self.addCleanup(os.close, self.theirs)
        termios.tcsetwinsize(self.theirs, (24, 100))
        self.before = termios.tcgetattr(self.theirs)

    def start(self, *arguments):
        process = subprocess.Popen(
            [testbed.VMSCOPE, "top", "-d", "0.3", "--symbols", BARE, *arguments, *map(str, self.guest.target)],
            stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, start_new_session=True,
            env={**os.environ, "TERM": "xterm"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def read(self):
        while select.select([self.ours], [], [], 0.05)[0]:
            self.shown += os.read(self.ours, 65536).decode(errors="replace")
        return self.shown

    def wait_for(self, pattern):
        testbed.wait_for(lambda: re.search(pattern, self.read()), pattern)

    def press(self, key):
        """What is shown begins anew. Ctrl-L draws all of it."""
        self.read()
        self.shown = ""
        os.write(self.ours, key)

    def check_terminal(self):
        """It is as it was: its settings, its first screen, its cursor."""
        testbed.wait_for(lambda: self.read().count("\x1b[?1049l") == 1, "the first screen")
        self.assertEqual(self.shown.count("\x1b[?1049h"), 1)
        self.assertIn("\x1b[?25h", self.shown[self.shown.rindex("\x1b[?25l"):] + self.shown)
        testbed.wait_for(lambda: termios.tcgetattr(self.theirs) == self.before, "the terminal's settings")
        testbed.wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")

    def test_keys(self):
        process = self.start("--by", "function")
        self.wait_for(r"work \(bare\.elf\)")
        self.assertNotEqual(termios.tcgetattr(self.theirs), self.before)
        began = self.shown
        self.press(b"v\x0c")
        self.wait_for("VCPU +FUNCTION")
        self.press(b"f\x0c")
        self.wait_for(r"VCPU +\n? *[^F]")
        self.assertNotIn("FUNCTION", self.shown)
        self.press(b"t\x0c")
        self.wait_for(">TOTAL")
        self.assertNotIn(">SELF", self.shown)
        self.shown = began
        os.write(self.ours, b"q")
        self.assertEqual(process.wait(testbed.ANSWER_SECONDS), 0)
        self.check_terminal()

    def test_signals(self):
        """Ends that it can prepare for, and one that it cannot."""
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(number):
                self.shown = ""
                process = self.start()
                self.wait_for(r"work \(bare\.elf\)")
                process.send_signal(number)
                self.assertEqual(process.wait(testbed.ANSWER_SECONDS), status)
                self.check_terminal()

    def test_guest_goes(self):
        process = self.start()
        self.wait_for(r"work \(bare\.elf\)")
        self.guest.qmp.quit()
        self.assertEqual(process.wait(testbed.ANSWER_SECONDS), 1)
        self.assertIn("the machine has gone", self.read())
        self.assertEqual(termios.tcgetattr(self.theirs), self.before)

    def test_unusable_terminal(self):
        """One that is not known, and one that cannot place its cursor."""
        for name in "no-such-terminal", "dumb":
            run = subprocess.run([testbed.VMSCOPE, "top", *map(str, self.guest.target)], stdin=self.theirs,
                                 stdout=self.theirs, stderr=subprocess.PIPE, text=True,
                                 timeout=testbed.ANSWER_SECONDS, env={**os.environ, "TERM": name})
            self.assertEqual(run.returncode, 1)
            self.assertIn(f'cannot use the terminal "{name}"', run.stderr)


if __name__ == "__main__":
    unittest.main()
