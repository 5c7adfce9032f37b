# SPDX-License-Identifier: MIT
"""How a run of `vmscope sample` can begin and end, and what then becomes of the guest."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import linux_guest
from long_tests import takes_long
import qemu_machine
import testbed
import vmscope_command
from vmscope_command import vmscope
from machine_tool import Tool
from sample_report import Report


class Killed:
    """A guest that ends while it is sampled, through whatever engine: what was sampled is told."""

    def report(self, process):
        out, err = process.communicate(timeout=60)
        self.assertGreater(sum(Report(out).samples.values()), 10, err)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err, "sampling ended early, after .*: .*(reset|went away|closed|gone)")
        return out

    def test_reboot(self):
        process = self.start("-t", "600")
        self.guest.qmp.command("system_reset")
        self.assertRegex(self.report(process), "Run: .*reset")
        testbed.wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")

    def test_exit(self):
        process = self.start("-t", "600")
        self.guest.qmp.quit()
        self.assertRegex(self.report(process), "Run: .*went away")

    def test_crash(self):
        process = self.start("-t", "600")
        self.guest.process.kill()
        self.assertRegex(self.report(process), "Run: .*went away")


    def test_stalled(self):
        """QEMU stops answering, and does not begin again: the run ends and says so."""
        process = self.start("-F", "90")
        os.kill(self.guest.pid, signal.SIGSTOP)
        try:
            time.sleep(1)  # some ticks
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            os.kill(self.guest.pid, signal.SIGCONT)
        self.assertEqual(process.returncode, 0, err)
        # The machine could not be held, or, where it was held just then, not be released.
        self.assertRegex(err, r"missing \(could not be held\): .*answer|samples were missed, .*answer")
        report = Report(out)
        self.assertGreater(min(report.samples.values()), 0)
        self.assertGreater(min(report.missed.values()), 10)
        report.check_ticks(self)
        testbed.wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")


class Plugged(unittest.TestCase):
    def test_new_vcpu(self):
        """A vCPU that is plugged in during a run is not sampled, which is said."""
        guest = qemu_machine.BareGuest(smp="1,maxcpus=2")
        self.addCleanup(guest.stop)
        process = vmscope_command.start_vmscope("sample", "-F", "200", *guest.target)
        self.addCleanup(process.kill)
        testbed.wait_for(lambda: guest.qmp.event_names().count("STOP") > 30, "the run to begin")
        place = next(cpu for cpu in guest.qmp.command("query-hotpluggable-cpus")
                     if "qom-path" not in cpu)
        guest.qmp.command("device_add", driver=place["type"], id="added", **place["props"])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertRegex(err, "not sampled: .* other vCPUs .* 2 instead of 1")


class Ends(Killed, unittest.TestCase):
    """However a run ends, the guest runs on and what was sampled is reported."""

    def setUp(self):
        self.guest = linux_guest.LinuxGuest("6.1")
        self.addCleanup(self.guest.stop)
        self.guest.start_workload("deep")

    def start(self, *arguments):
        """A run that is sampling when this returns."""
        self.guest.qmp.event_names()
        self.guest.qmp.events.clear()
        # By its socket, where it waits for the guard of one that was killed to let go.
        process = vmscope_command.start_vmscope("sample", *self.guest.target, *arguments)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def samples():
            self.assertIsNone(process.poll(), "vmscope has ended")
            return self.guest.qmp.event_names().count("STOP") > 30
        testbed.wait_for(samples, "30 stops of the guest")
        return process

    def test_reboot_in_every_format(self):
        files = [self.guest.directory / f"report.{suffix}" for suffix in ("txt", "svg", "folded")]
        process = self.start("-t", "600", *(word for path in files for word in ("-o", path)))
        self.guest.qmp.command("system_reset")
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err, "ended early, .*the guest was reset")
        for path in files:
            self.assertIn("the guest was reset", path.read_text(), path)
        head, *stacks = files[-1].read_text().splitlines()
        self.assertNotRegex(head, r"\d$")  # what ends in a number is a stack to other tools
        self.assertTrue(stacks and all(line.rsplit(" ", 1)[1].isdigit() for line in stacks))

    @takes_long
    def test_next_run_after_a_reboot(self):
        """A report whose run a reboot has ended samples what has booted."""
        tool = Tool("qmp", self.guest.qmp_path)
        self.addCleanup(tool.end)
        self.assertRegex(tool.do("sample 300"), "samples=[1-9].* guest=Linux end=complete")
        self.guest.qmp.command("system_reset")
        # SeaBIOS, which has run before, resets the machine once more.
        testbed.wait_for(lambda: tool.do("resets") == "ok 2", "both resets to be noticed")
        self.assertRegex(tool.do("sample 300"), "samples=[1-9].* end=complete")
        self.guest.wait_ready()
        self.assertRegex(tool.do("sample 300"), "samples=[1-9].* guest=Linux end=complete")

    def works(self):
        """The guest runs, and gets something done."""
        testbed.wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")
        self.assertEqual(self.guest.run("echo alive").strip(), "alive")

    def test_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.assertGreater(sum(Report(out).samples.values()), 10)
            self.works()

    def test_kill(self):
        """kill -9 at any moment: the guest is never left paused. tests/faults/ has it many times."""
        for _ in range(2):
            process = self.start("-F", "499")
            process.kill()
            process.communicate()
            self.works()

    @takes_long
    def test_freeze(self):
        """A vmscope that is stopped (Ctrl-Z) does not keep the guest stopped."""
        for _ in range(2):
            process = self.start("-F", "499")
            process.send_signal(signal.SIGSTOP)
            self.works()
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.works()

    def test_paused_by_its_user(self):
        self.guest.qmp.command("stop")
        path = self.guest.directory / "report.svg"
        for output in ((), ("-o", path)):
            run = vmscope("sample", "-t", "0.5", *output, *self.guest.target, check=False)
            self.assertEqual((run.status, run.out), (1, ""))
            self.assertRegex(run.err, r"nothing was sampled: .*machine was paused.*paused.*cont")
        self.assertFalse(path.exists())
        self.assertEqual(self.guest.qmp.status(), "paused")
        self.guest.qmp.command("cont")
        self.works()

    def test_two_at_once(self):
        process = self.start("-t", "600")
        run = vmscope("sample", "-t", "1", "-p", self.guest.pid, check=False)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, rf"process {process.pid} \(vmscope\) is using it")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)


class StandsStill(unittest.TestCase):
    """A machine that does not run: nothing is sampled, and its state says why."""

    def check(self, machine, state, says):
        self.assertEqual(machine.qmp.status(), state)
        run = vmscope("sample", "-t", "0.2", *machine.target, check=False)
        self.assertEqual((run.status, run.out), (1, ""))
        self.assertRegex(run.err, f"nothing was sampled: .*its state is {state}: .*{says}")
        self.assertEqual(machine.qmp.status(), state)

    def test_never_started(self):
        machine = qemu_machine.Machine("-S", smp=1, memory=64)
        self.addCleanup(machine.stop)
        self.check(machine, "prelaunch", "-S")

    def test_migrated(self):
        guest = qemu_machine.BareGuest("bare")
        self.addCleanup(guest.stop)
        guest.save(guest.directory / "state")
        self.check(guest, "postmigrate", "migrated or saved")


class Arguments(unittest.TestCase):
    """Values that cannot be: refused at once, with the range."""

    @classmethod
    def setUpClass(cls):
        cls.guest = qemu_machine.BareGuest("bare")

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def refused(self, *arguments, says, status=2):
        run = vmscope("sample", *arguments, *self.guest.target, check=False)
        self.assertEqual(run.status, status, run.err)
        self.assertRegex(run.err, says)
        self.assertEqual(run.out, "")
        self.assertEqual(self.guest.qmp.status(), "running")

    def test_interval(self):
        for interval in ("0", "9", "10000001", "-5", "-1", "nan", "1" + 30 * "0", "ten", ""):
            self.refused("--interval", interval, "-t", "1",
                         says=f"--interval {interval}: .*10 to 10000000 us")

    def test_frequency(self):
        for frequency in ("0", "-1", "1e9", "nan", "inf"):
            self.refused("-F", frequency, "-t", "1", says="100000")

    def test_depth(self):
        for depth in ("0", "-1", "1025", "99999999999"):
            self.refused("--depth", depth, "-t", "1", says="1024|range")

    def test_duration(self):
        for duration in ("0", "-1", "1e300", "nan", "inf"):
            self.refused("-t", duration, says="more than 0")

    def test_min_percent(self):
        for share in ("-1", "101", "nan", "half"):
            self.refused("--min-percent", share, "-t", "1", says=f"{share}: .*0 to 100")

    def test_format_and_order(self):
        self.refused("--format", "gif", says="text.*folded.*svg")
        self.refused("--by", "colour", says="function.*address")

    def test_facts(self):
        self.refused("--facts=", "-t", "1", says='--facts "": .*items')
        self.refused("--facts=os,", "-t", "1", says='no item ""')

    def test_output_that_cannot_be_written(self):
        for path in ("/nowhere/report", "/proc/report", str(self.guest.directory)):
            self.refused("-t", "1", "-o", path, says=path, status=1)
        self.refused("-t", "600", "-o", "", says="name of a file")

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "w") as full:
            run = subprocess.run([testbed.VMSCOPE, "sample", "-t", "0.3", *self.guest.target],
                                 stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("No space", run.stderr)

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("mount"), "only root can mount")
    def test_full_disk(self):
        """The error is reported, nothing is left behind, and an earlier report is kept."""
        with tempfile.TemporaryDirectory() as directory:
            mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", directory],
                                   stderr=subprocess.PIPE, text=True)
            if mount.returncode:
                self.skipTest(f"cannot mount a file system: {mount.stderr.strip()}")
            try:
                path = pathlib.Path(directory) / "report.svg"
                path.write_text("earlier")
                self.refused("-t", "0.5", "-o", path, says="No space", status=1)
                self.assertEqual(list(path.parent.iterdir()), [path])
                self.assertEqual(path.read_text(), "earlier")
            finally:
                subprocess.run(["umount", directory], check=True)


if __name__ == "__main__":
    unittest.main()
