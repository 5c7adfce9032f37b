# SPDX-License-Identifier: MIT
"""What the owners of a machine do while vmscope holds it, or would: their commands count, and the
machine is afterwards as it would have been. docs/safety.md tells the rules.
"""
import os
import signal
import socket
import subprocess
import time
import unittest

import linux_guest
import testbed
import vmscope_command
from monitor_between import MonitorBetween
from qemu_machine import BareGuest, Machine
from testbed import ANSWER_SECONDS, wait_for
from vmscope_command import vmscope
from machine_tool import INVALID_STATE, NOT_NOW, Tool, error_code, guards, registers
from test_attach import Attached

WATCHED = 15  # enum vms_error


def is_running(machine):
    return machine.qmp.status() == "running"


class Migration(unittest.TestCase):
    """Of a guest of this host to another QEMU of this host."""

    def setUp(self):
        self.source = BareGuest("bare")
        self.addCleanup(self.source.stop)
        self.address = f"unix:{self.source.directory}/migration"
        self.destination = Machine("-kernel", self.source.elf, "-incoming", self.address, smp=1,
                                   memory=64)
        self.addCleanup(self.destination.stop)
        self.tool = Tool("qmp", self.source.qmp_path)
        self.addCleanup(self.tool.end)

    def migrate(self, bandwidth):
        self.source.qmp.command("migrate-set-parameters", max_bandwidth=bandwidth)
        self.source.qmp.command("migrate", uri=self.address)

    def status(self):
        return self.source.qmp.command("query-migrate").get("status")

    def wait_completed(self):
        self.source.qmp.command("migrate-set-parameters", max_bandwidth=0)
        wait_for(lambda: self.status() == "completed", "the migration")
        wait_for(lambda: is_running(self.destination), "the destination to run")
        self.assertEqual(self.source.qmp.status(), "postmigrate")

    def test_no_hold_while_one_is_active(self):
        self.migrate(1024)
        self.assertEqual(error_code(self.tool.do("hold")), NOT_NOW)
        self.assertTrue(is_running(self.source))
        self.source.qmp.command("migrate_cancel")
        wait_for(lambda: self.status() == "cancelled", "the migration to end")
        self.assertEqual(self.tool.do("hold"), "ok")
        self.assertIn("rip", registers(self.tool.do("regs 0")))
        self.assertEqual(self.tool.do("release"), "ok")
        self.assertTrue(is_running(self.source))

    def test_one_that_begins_in_a_hold(self):
        self.assertEqual(self.tool.do("hold"), "ok")
        self.migrate(1024)
        wait_for(lambda: is_running(self.source), "the hold to be ended")
        self.assertEqual(error_code(self.tool.do("regs 0")), INVALID_STATE)
        answer = self.tool.do("release")
        self.assertEqual(error_code(answer), INVALID_STATE)
        self.assertIn("migration", answer)
        self.wait_completed()

    def test_the_source_stays_where_it_is(self):
        self.migrate(0)
        self.wait_completed()
        self.assertEqual(self.tool.do("hold"), "ok")
        self.assertIn("rip", registers(self.tool.do("regs 0")))
        self.assertEqual(self.tool.do("release"), "ok")
        self.assertEqual(self.source.qmp.status(), "postmigrate")
        self.assertTrue(is_running(self.destination))

    def test_sampled(self):
        self.tool.end()
        sampler = vmscope_command.start_vmscope("sample", "-F", "499", "-t", "3", *self.source.target)
        wait_for(lambda: self.source.qmp.event_names().count("RESUME") > 10,
                 "the sampling to begin")
        self.migrate(0)
        self.wait_completed()
        _, err = sampler.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertIn("samples are missing", err)
        self.wait_completed()

    def test_what_needs_no_hold_goes_on(self):
        self.tool.end()
        self.migrate(1024)
        run = vmscope("mem", "--physical", "0x100000", "16", *self.source.target)
        self.assertRegex(run.out, r"(?i)100000")
        self.assertTrue(is_running(self.source))


class LateShutdown(MonitorBetween):
    """The event of a shutdown reaches vmscope only with the next resume, as if it had come right
    before it."""
    held = b""

    def answer(self, line):
        if b'"SHUTDOWN"' in line:
            self.held = line
            return b""
        if b'"RESUME"' in line:
            line, self.held = self.held + line, b""
        return line


class ShutDown(unittest.TestCase):
    """A shutdown that is to pause the machine comes after vmscope's last look, and before `cont`."""

    def setUp(self):
        self.machine = BareGuest("bare", ["-action", "reboot=shutdown,shutdown=pause"])
        self.addCleanup(self.machine.stop)
        self.late = LateShutdown(self.machine)
        self.tool = Tool("qmp", self.late.path)
        self.addCleanup(self.tool.end)
        self.assertEqual(self.tool.do("hold"), "ok")
        self.machine.qmp.command("system_reset")
        wait_for(lambda: "SHUTDOWN" in self.machine.qmp.event_names(), "the shutdown")
        self.assertEqual(self.tool.do("release"), "ok")

    def end(self):
        self.tool.end()
        self.late.end()

    def test_last_look(self):
        self.end()
        self.assertEqual(self.machine.qmp.status(), "paused")

    def test_next_look(self):
        self.assertEqual(self.tool.do("hold"), "ok")
        self.assertEqual(self.tool.do("release"), "ok")
        self.assertEqual(self.machine.qmp.status(), "paused")
        self.end()
        self.assertEqual(self.machine.qmp.status(), "paused")


class Owners(Attached):
    def test_reset_in_a_hold(self):
        tool = self.open()
        tool.do("hold")
        self.machine.qmp.command("system_reset")
        wait_for(lambda: "RESET" in self.machine.qmp.event_names(), "the reset")
        tool.do("release")
        wait_for(lambda: is_running(self.machine), "the guest to run after its reset")

    def test_cont_while_attaching(self):
        for _ in range(30):
            self.machine.qmp.command("stop")
            tool = self.open()
            tool.send("hold")
            self.machine.qmp.command("cont")
            tool.read()
            tool.do("regs 0")
            tool.do("release")
            tool.end()
            self.assertTrue(is_running(self.machine))

    def test_cont_and_stop_in_a_hold(self):
        """What the machine stands still by then is its owner's stop."""
        tool = self.open()
        for _ in range(3):
            self.assertEqual(tool.do("hold"), "ok")
            time.sleep(0.01)
            self.machine.qmp.command("cont")
            self.machine.qmp.command("stop")
            answer = tool.do("release")
            self.assertEqual(error_code(answer), INVALID_STATE)
            self.assertIn("somebody else", answer)
            self.assertEqual(self.machine.qmp.status(), "paused")
            self.machine.qmp.command("cont")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(tool.do("release"), "ok")
        tool.end()
        self.assert_untouched()

    def test_stop_while_attaching(self):
        """Before the stub is there: nobody has a right to undo it."""
        tool = self.open()
        self.machine.qmp.command("stop")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(tool.do("release"), "ok")
        tool.end()
        self.assert_untouched("paused")

    def test_never_started(self):
        machine = Machine("-S")
        self.addCleanup(machine.stop)
        tool = Tool("qmp", machine.qmp_path)
        self.addCleanup(tool.end)
        self.assertEqual(tool.do("hold"), "ok")
        self.assertIn("rip", registers(tool.do("regs 0")))
        self.assertEqual(tool.do("release"), "ok")
        tool.end()
        self.assertEqual(machine.qmp.status(), "prelaunch")

    def test_limit_of_a_hold(self):
        tool = self.open()
        self.assertEqual(tool.do("limit 50000000"), "ok")
        self.assertEqual(tool.do("hold"), "ok")
        wait_for(lambda: is_running(self.machine), "the limit to pass")
        answer = tool.do("release")
        self.assertEqual(error_code(answer), INVALID_STATE)
        self.assertIn("limit", answer)
        self.assertEqual(tool.do("limit 30000000000"), "ok")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(tool.do("release"), "ok")

    def test_no_descriptor_is_left(self):
        def descriptors():
            return len(os.listdir(f"/proc/{self.machine.pid}/fd"))
        before = descriptors()
        for number in (None, signal.SIGKILL):
            tool = self.open()
            tool.do("hold")
            tool.kill(number) if number else tool.end()
            self.assert_untouched()
            wait_for(lambda: descriptors() == before, "the descriptors to be closed")


class Watched(Attached):
    """Another client sits on a monitor: the test."""

    def run_beside(self, *arguments):
        self.machine.qmp.event_names()
        self.machine.qmp.events.clear()
        run = subprocess.run([testbed.VMSCOPE, *arguments, "--qmp", self.machine.qmp_path],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stops = self.machine.qmp.event_names().count("STOP")
        return run, stops

    def test_refused(self):
        for command in (("stack",), ("regs",), ("sample", "-t", "0.2"),
                        ("core", "-o", self.machine.directory / "core")):
            with self.subTest(command[0]):
                run, stops = self.run_beside(*command)
                self.assertEqual(run.returncode, 1, run.stdout)
                self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
                self.assertIn("--allow-stop", run.stderr)
                self.assertEqual(stops, 0)
        self.assert_untouched()

    def test_allowed(self):
        run, stops = self.run_beside("regs", "--allow-stop")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertGreater(stops, 0)
        self.assert_untouched()

    def test_paused(self):
        """Nothing is stopped that stands still: no permission is needed to look at it."""
        self.machine.qmp.command("stop")
        run, stops = self.run_beside("regs", "rip")
        self.assertEqual(run.returncode, 0, run.stderr)
        theirs = self.machine.qmp.hmp("info registers")
        ours = run.stdout.split("rip")[1].split()[0]
        self.assertIn(f"{int(ours, 16):08x}", theirs)
        self.assertEqual(stops, 0)
        self.assert_untouched("paused")


class UnheldLinux(unittest.TestCase):
    """What needs no hold works where vmscope may not stop the machine, and stops nothing."""

    def setUp(self):
        self.guest = linux_guest.LinuxGuest("6.1")
        self.addCleanup(self.guest.stop)
        self.guest.run("true")
        self.guest.qmp.event_names()
        self.guest.qmp.events.clear()

    def run_beside(self, *arguments):
        return subprocess.run([testbed.VMSCOPE, *arguments, "--qmp", self.guest.qmp_path],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def check(self):
        for command, says in ((("ps",), "kthreadd"), (("dmesg",), "Linux version"),
                              (("modules",), "virtio"), (("symbol", "schedule"), "schedule"),
                              (("mem", "linux_banner", "32"), "Linux version"),
                              (("info", "cpus"), "vCPUs")):
            with self.subTest(command[0]):
                run = self.run_beside(*command)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn(says, run.stdout)
        self.assertNotIn("STOP", self.guest.qmp.event_names())

    def test_watched(self):
        self.check()

    def test_stub_of_another(self):
        """QEMU has one gdb stub at a time. A debugger's stays his, and what it stopped stopped."""
        path = self.guest.directory / "gdb"
        self.guest.qmp.hmp(f"gdbserver unix:{path},server=on,wait=off")
        self.check()
        for command in (("regs",), ("sample", "-t", "99")):
            run = self.run_beside(*command, "--allow-stop")
            self.assertEqual(run.returncode, 1, run.stdout)
            self.assertIn("has a gdb stub already", run.stderr)
        self.assertNotIn("STOP", self.guest.qmp.event_names())
        with socket.socket(socket.AF_UNIX) as debugger:
            debugger.connect(str(path))
            wait_for(lambda: self.guest.qmp.status() == "paused", "the debugger's stop")
            run = self.run_beside("regs", "rip", "--cpu", "0", "--allow-stop")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("RIP=" + run.stdout.split("0x")[1].strip(),
                          self.guest.qmp.hmp("info registers"))
            self.assertEqual(self.guest.qmp.status(), "paused")


class BothKilled(Attached):
    """Tool and watchdog at once, as a control group is killed."""

    def kill_both(self, tool):
        watchdogs = guards(str(self.machine.qmp_path))
        self.assertEqual(len(watchdogs), 1)
        os.kill(watchdogs[0], signal.SIGKILL)
        tool.process.kill()
        tool.process.wait()
        wait_for(lambda: not guards(str(self.machine.qmp_path)), "the watchdog to die")

    def test_held(self):
        tool = self.open()
        tool.do("hold")
        self.kill_both(tool)
        self.assertEqual(self.machine.qmp.status(), "paused")
        self.open().end()  # any look at it puts it right
        self.assert_untouched()

    def test_not_held(self):
        tool = self.open()
        tool.do("hold")
        tool.do("release")
        self.kill_both(tool)
        self.machine.qmp.command("stop")
        self.open().end()
        self.assert_untouched("paused")


class Stalled(Attached):
    """QEMU does not answer for a while, as when its main loop waits for a disk."""

    def test_killed_meanwhile(self):
        tool = self.open()
        tool.do("hold")
        os.kill(self.machine.pid, signal.SIGSTOP)
        try:
            tool.kill()
            self.assertTrue(guards(str(self.machine.qmp_path)))
        finally:
            os.kill(self.machine.pid, signal.SIGCONT)
        self.assert_untouched()

    def test_release_meanwhile(self):
        tool = self.open()
        tool.do("hold")
        os.kill(self.machine.pid, signal.SIGSTOP)
        try:
            answer = tool.do("release")  # it gives up waiting, not letting go
        finally:
            os.kill(self.machine.pid, signal.SIGCONT)
        self.assertIsNotNone(error_code(answer))
        wait_for(lambda: is_running(self.machine), "the guest to run")
        tool.end()
        self.assert_untouched()

    def test_end_meanwhile(self):
        """The tool ends in order while its timer tries a release again that QEMU does not answer."""
        tool = self.open()
        tool.do("hold")
        os.kill(self.machine.pid, signal.SIGSTOP)
        try:
            tool.do("release")
            time.sleep(0.5)  # the timer has begun by then
            tool.end()
        finally:
            os.kill(self.machine.pid, signal.SIGCONT)
        self.assertEqual(tool.process.returncode, 0)
        self.assert_untouched()

    def test_another_in_its_place(self):
        """The watchdog of a QEMU that has gone leaves its successor alone."""
        tool = self.open()
        tool.do("hold")
        watchdogs = guards(str(self.machine.qmp_path))
        os.kill(watchdogs[0], signal.SIGSTOP)
        self.machine.process.kill()
        self.machine.process.wait()
        os.unlink(self.machine.qmp_path)
        other = Machine("-S", "-qmp", f"unix:{self.machine.qmp_path},server=on,wait=off",
                        qmp=False)
        self.addCleanup(other.stop)
        tool.kill()
        os.kill(watchdogs[0], signal.SIGCONT)
        wait_for(lambda: not guards(str(self.machine.qmp_path)), "the watchdog to end")
        self.assertEqual(other.qmp.status(), "prelaunch")


if __name__ == "__main__":
    unittest.main()
