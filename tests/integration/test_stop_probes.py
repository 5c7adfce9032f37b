# SPDX-License-Identifier: MIT
"""Probes by breakpoints of QEMU's gdb stub: what is hit, and what is left of it in the machine.
There is more in tests/long/test_stop_probes_*.py.
"""
import os
import signal
import unittest

from machine_tool import guards
from stop_probes_tool import CounterGuest, TickingGuest
from vmscope_command import vmscope


class Hits(CounterGuest):
    def test_before_and_after(self):
        probes = self.probes([self.at("counted_nop", "before", "rip", "rdi"),
                              self.at("counted_nop", "after", "rip", "rdi")])
        probes.wait_hits(60)
        probes.end()
        hits = probes.hits()
        self.assertEqual([hit["place"] for hit in hits[:60]], [0, 1] * 30)
        self.assertEqual(set(probes.values(place=0)), {self.symbols["counted_nop"]})
        self.assertEqual(set(probes.values(place=1)), {self.symbols["counted_nop"] + 1})
        self.check_consecutive(probes.values(index=1, place=1), 30)
        self.check_runs()


class Killed(TickingGuest):
    def test_alone(self):
        self.arm().kill()
        self.wait_watchdog()
        self.check_ticks()

    def test_with_the_watchdog(self):
        """The next vmscope puts right what they have left."""
        probes = self.arm()
        for pid in [*guards(str(self.guest.qmp_path)), probes.process.pid]:
            os.kill(pid, signal.SIGKILL)
        probes.process.wait()
        probes.end()
        vmscope("info", "--qmp", self.guest.qmp_path, "--allow-stop")
        self.check_ticks()


if __name__ == "__main__":
    unittest.main()
