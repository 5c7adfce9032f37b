# SPDX-License-Identifier: MIT
"""vmscope flow without the agent: all that it does with it, by breakpoints, on a Linux guest."""
import signal
import time
import unittest

import test_flow
import testbed
from linux_guest import LinuxGuest
from test_flow import OPEN, PATH


class StubX86(test_flow.Flow, unittest.TestCase):
    pc, first_size = "rip", 5
    too_many = 1, "at 4096 addresses at most"
    test_lost_beside_a_file = None  # beside a vmscope that is stopped there are no probes

    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1")

    def test_break(self):
        """The machine stands still where a file is opened, until its owner resumes it."""
        process = self.start(f"{OPEN}={PATH}", "--break", "--if", f'{PATH} == "/proc/uptime"')
        self.guest.run("(sleep 1; cat /proc/uptime) >/dev/null 2>&1 &")
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertIn('"/proc/uptime"', out)
        self.assertIn("stands still", err)
        self.assertEqual(self.guest.qmp.status(), "debug")
        self.guest.qmp.command("cont")
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")
        self.assertEqual(self.guest.qmp.status(), "running")

    def test_stopped_by_a_signal(self):
        """The probes of a vmscope that does not move go. When it goes on, it says so, hits or not."""
        for where in (OPEN, "kernel_power_off"):
            with self.subTest(where=where):
                process = self.start(where)
                process.send_signal(signal.SIGSTOP)
                self.guest.run("cat /proc/uptime")
                time.sleep(3)  # more than the watchdog waits for a sign of life
                process.send_signal(signal.SIGCONT)
                _, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
                self.assertEqual(process.returncode, 1, err)
                self.assertIn("the probes were taken away, because of this program, which did not move", err)
                self.assertEqual(self.guest.run("echo lives").strip(), "lives")
