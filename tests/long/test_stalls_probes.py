# SPDX-License-Identifier: MIT
"""QEMU stands still while breakpoints are set, or while the machine is released with them, until
vmscope has ended: nothing of it is left in the guest then.
"""
import os
import signal
import time

from machine_tool import guards
from monitor_between import WaysBetween
from stop_probes_tool import CounterGuest, Probes
from testbed import wait_for

SLOW_SECONDS = 0.05  # longer than what QEMU has said of its state stays valid


class StallingWays(WaysBetween):
    """Stops QEMU's process before it gets a certain request, by its stub or its monitor."""
    at_request, at_command = b"", b""
    is_slow = False  # the answer to that request comes late, and QEMU goes on

    def command(self, data):
        if self.at_command and self.at_command in data:
            self.at_command = b""
            self.stall()

    def stall(self):
        os.kill(self.machine.pid, signal.SIGSTOP)

    def request(self, data):
        if not self.at_request or self.at_request not in data:
            return
        self.at_request = b""
        if self.is_slow:
            time.sleep(SLOW_SECONDS)
            self.at_command = b"query-status"
        else:
            self.stall()


class Stalls(CounterGuest):
    def check_stall(self, **when):
        between = StallingWays(self.guest)
        for name, value in when.items():
            setattr(between, name, value)
        probes = Probes(self.guest, [self.visit], path=between.path)
        probes.wait_line("armed")
        self.assertTrue(self.is_stalled())
        probes.end()
        self.assertTrue(self.is_stalled())
        os.kill(self.guest.pid, signal.SIGCONT)
        wait_for(lambda: not guards(str(between.path)), "the watchdog to end")
        between.end()
        self.check_runs()

    def is_stalled(self):
        with open(f"/proc/{self.guest.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    def test_while_breakpoints_are_set(self):
        self.check_stall(at_request=b"$Z")

    def test_while_it_is_released(self):
        self.check_stall(at_request=b"$Z", is_slow=True)
