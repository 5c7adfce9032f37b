# SPDX-License-Identifier: MIT
"""A guest with probes that its owner has paused stays paused, in whatever order things happen."""
import itertools
import os
import signal
import time

from machine_tool import guards
from stop_probes_tool import CounterGuest, Probes
from testbed import wait_for

STEPS = ("arm", "disarm", "hold", "stall")
ENDS = ("end", "kill", "stop and kill", "kill with watchdog", "stalled kill")


class Paused(CounterGuest):
    def pause(self):
        """A `stop` at a hit has no effect in QEMU (docs/safety.md): until one has."""
        self.guest.qmp.command("stop")
        wait_for(lambda: self.stays_paused() or self.guest.qmp.command("stop"), "a pause", 20)

    def stays_paused(self, seconds=0.1):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.guest.qmp.status() != "paused":
                return False
        return True

    def check_paused(self, after):
        for _ in range(4):
            self.assertEqual(self.guest.qmp.status(), "paused", after)
            time.sleep(0.03)

    def do(self, probes, step):
        """One step beside a paused guest."""
        if step == "stall":
            os.kill(self.guest.pid, signal.SIGSTOP)
            probes.do("hold")
            time.sleep(0.1)
            os.kill(self.guest.pid, signal.SIGCONT)
            return
        if step == "arm" and self.is_armed or step == "disarm" and not self.is_armed:
            return
        n = len(probes.lines)
        probes.do(f"{step} 0")
        if step != "hold":
            self.is_armed = step == "arm"
            wait_for(lambda: len(probes.lines) > n, step)

    def end(self, probes, how):
        if how == "end":
            probes.end()
            return
        if how == "stop and kill":
            probes.kill(signal.SIGSTOP)
            time.sleep(0.7)  # the watchdog removes what there is
        if how == "kill with watchdog":
            for pid in guards(str(self.guest.qmp_path)):
                os.kill(pid, signal.SIGKILL)
        if how == "stalled kill":
            os.kill(self.guest.pid, signal.SIGSTOP)
            probes.do("disarm 0")
            time.sleep(0.1)
        probes.kill()
        os.kill(self.guest.pid, signal.SIGCONT)
        self.wait_watchdog()

    def check_order(self, steps, how, begins_armed):
        self.is_armed = True
        if not begins_armed:
            self.pause()
        probes = Probes(self.guest, [self.visit])
        self.addCleanup(probes.end)
        probes.wait_line("armed", 0)
        if begins_armed:
            probes.wait_hits(2)
            self.pause()
        self.check_paused("arming")
        for step in steps:
            self.do(probes, step)
            self.check_paused(step)
        self.end(probes, how)
        self.check_paused(how)
        if how == "kill with watchdog":
            with Probes(self.guest, [self.visit]) as after:
                after.wait_line("armed", 0)
            self.check_paused("the next vmscope")
        self.guest.qmp.command("cont")
        self.check_runs()

    def test_every_order(self):
        for i, steps in enumerate(itertools.permutations(STEPS)):
            for begins_armed in True, False:
                how = ENDS[(2 * i + begins_armed) % len(ENDS)]
                with self.subTest(steps=steps, how=how, begins_armed=begins_armed):
                    self.check_order(steps, how, begins_armed)
