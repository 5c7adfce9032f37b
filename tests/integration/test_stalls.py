# SPDX-License-Identifier: MIT
"""QEMU stands still for longer than vmscope waits, so that what was asked of it comes late. The
machine is afterwards as its owner left it.
"""
import os
import signal
import threading
import time
import unittest

from machine_tool import Tool, error_code, guards
from monitor_between import MonitorBetween, WaysBetween
from qemu_machine import BareGuest
from testbed import ANSWER_SECONDS, wait_for

STALL_SECONDS = 6.5  # vmscope waits 5 s for an answer


class StallingMonitor(MonitorBetween):
    """Stops QEMU's process before it gets a certain command."""
    stage, stalls = None, 0
    resume_at = None  # the owner resumes the machine before this one

    def command(self, data):
        if self.resume_at and self.resume_at in data:
            self.resume_at = None
            self.machine.qmp.command("cont")
        if self.stage and self.stage in data:
            self.stage = None
            self.stalls += 1
            os.kill(self.machine.pid, signal.SIGSTOP)
            threading.Timer(STALL_SECONDS, os.kill, (self.machine.pid, signal.SIGCONT)).start()


class SlowWays(WaysBetween):
    """Hold back what QEMU's monitor and its gdb stub are asked, each until it is opened. QEMU takes
    up late what is asked of a stub that was given up, as after a stall, but in a known order."""

    def __init__(self, machine):
        self.monitor, self.stub = threading.Event(), threading.Event()
        self.open()
        super().__init__(machine)

    def close(self):
        self.monitor.clear()
        self.stub.clear()

    def open(self):
        self.stub.set()
        self.monitor.set()

    def command(self, data):
        self.monitor.wait(ANSWER_SECONDS)

    def request(self, data):
        self.stub.wait(ANSWER_SECONDS)


class Stalls(unittest.TestCase):
    def setUp(self):
        self.guest = BareGuest("bare")
        self.addCleanup(self.guest.stop)

    def begin(self, between):
        self.between = between
        self.tool = Tool("qmp", between.path)
        self.addCleanup(self.tool.end)
        self.assertEqual(self.tool.opened.split()[0], "ok")

    def look_at_paused(self):
        self.guest.qmp.command("stop")
        self.assertEqual(self.tool.do("hold"), "ok")

    def end(self, kill=False):
        if kill:
            self.tool.kill()
        self.tool.end()
        self.between.end()
        wait_for(lambda: not guards(str(self.between.path)), "the watchdog to end")

    def check(self, status):
        """It is so when the stub that was given up is gone, after what was asked of it; and stays so."""
        wait_for(lambda: not any(device["label"].startswith("vmscope") for device in
                                 self.guest.qmp.command("query-chardev")), "the stub to be removed")
        wait_for(lambda: self.guest.qmp.status() == status, f"the guest to be {status}")
        for _ in range(5):
            time.sleep(0.1)
            self.assertEqual(self.guest.qmp.status(), status)

    def leave_request(self):
        """A request to the stub of a machine that its owner has paused is given up."""
        self.begin(SlowWays(self.guest))
        self.look_at_paused()
        for verb in "regs 0", "release", "hold":
            self.assertEqual(self.tool.do(verb).split()[0], "ok")
        self.between.close()
        self.assertIsNotNone(error_code(self.tool.do("regs 0")))

    def resume_before_late_request(self):
        """The owner resumes the machine while a request waits, which stops it then."""
        self.leave_request()
        self.guest.qmp.command("cont")
        self.between.stub.set()
        wait_for(lambda: self.guest.qmp.status() == "paused", "the late request")

    def test_late_request_to_a_stub(self):
        self.resume_before_late_request()
        self.between.open()
        self.check("running")
        self.end()
        self.check("running")

    def test_late_request_to_the_stub_of_one_that_was_killed(self):
        self.resume_before_late_request()
        self.tool.kill()
        self.between.open()
        self.end()
        self.check("running")

    def test_late_request_while_it_is_paused(self):
        self.leave_request()
        self.between.open()
        self.check("paused")
        self.end()
        self.check("paused")

    def test_paused_while_the_stub_is_added(self):
        self.begin(StallingMonitor(self.guest))
        self.look_at_paused()
        self.between.stage = b"gdbserver chardev"
        self.assertIsNotNone(error_code(self.tool.do("regs 0")))
        self.assertEqual(self.between.stalls, 1)
        self.check("paused")
        self.end()
        self.check("paused")

    def test_resumed_while_the_stub_is_added(self):
        """It runs when the stub's command comes, whose answer is missing: that stop is ours."""
        self.begin(StallingMonitor(self.guest))
        self.look_at_paused()
        self.between.resume_at, self.between.stage = b"getfd", b"gdbserver chardev"
        self.assertIsNotNone(error_code(self.tool.do("regs 0")))
        self.assertEqual(self.between.stalls, 1)
        self.check("running")
        self.end()
        self.check("running")


if __name__ == "__main__":
    unittest.main()
