# SPDX-License-Identifier: MIT
"""Probes by breakpoints whose stub is removed, beside snapshots, and in a machine that a debugger has
stopped: nothing is left of them.
"""
import os
import signal
import subprocess
import tempfile
import time

from machine_tool import NOT_NOW, guards
from stop_probes_tool import CounterGuest, Probes, TickingGuest
from testbed import wait_for
from vmscope_command import vmscope


class Stub(TickingGuest):
    def setUp(self):
        super().setUp()
        self.guest.qmp.hmp("gdbserver none")  # QEMU keeps a monitor for the stub from then on
        self.chardevs = len(self.guest.qmp.command("query-chardev"))

    def test_removed_by_others(self):
        """Maybe within a step: the probes are gone, and said to be."""
        for _ in range(3):
            probes = self.arm()
            self.guest.qmp.hmp("gdbserver none")
            self.assertIn("taken away", probes.wait_line("taken")["message"])
            self.check_ticks()
            probes.end()

    def test_killed_without_the_stub(self):
        """The watchdog adds one of its own."""
        for _ in range(3):
            probes = self.arm()
            probes.kill(signal.SIGSTOP)
            self.guest.qmp.hmp("gdbserver none")
            probes.kill()
            self.wait_watchdog()
            self.check_ticks()
            self.assertEqual(len(self.guest.qmp.command("query-chardev")), self.chardevs)


class Snapshot(CounterGuest):
    """QEMU may abort where a snapshot is loaded at a hit: there are no breakpoints beside one."""

    def setUp(self):
        disk = tempfile.NamedTemporaryFile(prefix="vmscope-disk-")
        self.addCleanup(disk.close)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk.name, "64M"], check=True)
        self.options = {**self.options, "extra": [
            "-blockdev", f"driver=qcow2,node-name=disk,file.driver=file,file.filename={disk.name}",
            "-device", "virtio-blk-pci,drive=disk"]}
        super().setUp()

    def test_saved_by_a_job(self):
        """It may have ended before vmscope looks."""
        probes = self.probes([self.visit])
        probes.wait_hits(10)
        self.guest.qmp.command("snapshot-save", job_id="job", tag="snapshot", vmstate="disk",
                               devices=["disk"])
        self.assertEqual(probes.wait_line("taken")["error"], NOT_NOW)
        probes.end()
        wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")
        again = Probes(self.guest, [self.visit])
        self.addCleanup(again.end)
        self.assertIn("snapshot", again.wait_line("armed")["message"])


class LeftInDebug(CounterGuest):
    """A debugger has stopped the machine, as one of us may be, and has gone: its owner resumes it."""

    def setUp(self):
        super().setUp()
        debugger = self.probes([self.at("counted_nop", "halt")])
        debugger.wait_hits(1)
        debugger.end()
        self.probed = self.probes([self.visit])

    def check_stands(self):
        time.sleep(0.3)
        self.assertEqual(self.guest.qmp.status(), "debug")
        self.assertEqual(self.probed.hits(), [])
        self.guest.qmp.command("cont")

    def test_goes_on_by_its_owner(self):
        self.check_stands()
        self.probed.wait_hits(10)
        self.probed.end()
        self.check_runs()

    def test_killed(self):
        self.probed.kill()
        self.wait_watchdog()
        self.check_stands()
        self.check_runs()

    def test_killed_with_the_watchdog(self):
        for pid in [*guards(str(self.guest.qmp_path)), self.probed.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.probed.kill()
        vmscope("info", "--qmp", self.guest.qmp_path, "--allow-stop")
        self.check_stands()
        self.check_runs()
