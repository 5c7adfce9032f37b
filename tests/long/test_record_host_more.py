# SPDX-License-Identifier: MIT
"""More recordings of a machine's threads together with its guest: under TCG, and of one that ends."""
import pathlib
import tempfile
import time
import unittest

import linux_guest
import test_agent_engine
import testbed
from kvm_monitor import CALLS, ELF, EXITS, HALTS, SLEEPS, Monitor
from qemu_machine import BareGuest
from test_record import MAY, TRACEPOINT
from test_record_guest import folded, report_stats, start_recording
from test_record_host import HERTZ, HostCase, count, samples_by_thread
from vmscope_command import vmscope


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Translated(HostCase):
    """A Linux guest under TCG, by the agent: seldom enough that the kicks for samples of the guest, in which
    vCPUs wait when the host is busy, are a small part of QEMU's time."""
    make = test_agent_engine.LinuxGuest
    hertz = 99
    seconds = 3

    @classmethod
    def start(cls):
        cls.guest = cls.make()
        cls.addClassCleanup(cls.guest.stop)
        cls.target = cls.guest.target
        cls.workload = cls.guest.start_workload("deep")

    def test_threads(self):
        self.check_threads()

    def test_counts(self):
        self.check_counts()

    def test_shares(self):
        """A program that does nothing but spin in a function that eight others lead to. Of the host, code
        that is in no file has the share of the guest."""
        joined = [(stack, n) for stack, n in self.stacks if ";[guest];" in stack]
        own = count(joined, rf"\[vCPU \d\];\[guest\];workload \({self.workload}\);.*;main;.*;deep_1;"
                            r".*;deep_8;burn")
        self.assertGreater(own / count(joined, ""), 0.9)
        share = count(self.stacks, r"\[guest") / self.whole
        self.assertRegex(vmscope("report", self.file).out, r"(?m)^Host: .*\nGuest: +Linux 6")
        self.assertAlmostEqual(share, self.host_alone(r"(\[anon\]\+0x[0-9a-f]+|helper_\w+)$"), delta=0.12)
        self.assertGreater(share, 0.5)  # the rest is QEMU's work for samples, more on a busy host


class ByStub(Translated):
    """Each sample stops the whole machine: there are few."""
    make = linux_guest.LinuxGuest
    hertz = 49
    seconds = 4


@unittest.skipUnless(MAY and testbed.have_kvm() and TRACEPOINT.exists(), "needs /dev/kvm, perf events and tracefs")
class Exits(unittest.TestCase):
    """vCPUs of a monitor: one calls functions, one writes to a port all the time, one is halted, one is in the
    monitor's own code."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.monitor = Monitor(CALLS, EXITS, HALTS, SLEEPS)
        cls.addClassCleanup(cls.monitor.stop)
        vmscope("record", "--host", "--guest", cls.monitor.pid, "--symbols", ELF, "-F", 199, "-t", 4,
                "-o", cls.folder / "both")
        cls.stacks = folded(cls.folder / "both")

    def of(self, vcpu):
        return [(stack, n) for stack, n in self.stacks if f";[vCPU {vcpu}];" in stack]

    def test_threads(self):
        """The monitor says which thread executes which vCPU."""
        counts = samples_by_thread((self.folder / "both").read_bytes())
        for vcpu, tid in enumerate(self.monitor.numbers("threads")):
            self.assertEqual(count(self.of(vcpu), ""), counts[tid])

    def test_guest(self):
        """Each vCPU has the functions that it executes, and no others."""
        for vcpu, functions in enumerate(("major|minor|helper|work", "write_port|run_vcpu", "halt|run_vcpu",
                                          "write_port|run_vcpu")):
            joined = [(stack, n) for stack, n in self.of(vcpu) if ";[guest];" in stack]
            self.assertEqual(count(joined, ""), count(joined, rf";\[guest\];start\b.*;({functions})\b"), joined)
        self.assertGreater(count(self.of(0), r"\[guest\]"), 0.5 * count(self.of(0), ""))

    def test_wall(self):
        """The threads of vCPUs that are halted, or sleep in the monitor, wait for as long as they do not run."""
        vmscope("record", "--host", "--wall", "--guest", self.monitor.pid, "--symbols", ELF, "-F", 99, "-t", 2,
                "-o", self.folder / "wall")
        stacks = folded(self.folder / "wall")
        ticks = report_stats(self.folder / "wall")["elapsed ns"] * 99 / 1e9
        for vcpu, call in ((2, "kvm_vcpu_block"), (3, "clock_nanosleep")):
            own = [(stack, n) for stack, n in stacks if f";[vCPU {vcpu}];" in stack]
            self.assertAlmostEqual(count(own, "") / ticks, 1, delta=0.1)
            self.assertGreater(count(own, rf";\[vCPU {vcpu}\];\[waiting: S [^;]*\];.*{call}"), 0.7 * count(own, ""))
            self.assertEqual(count(own, r"\[waiting.*\[guest"), 0)
        self.assertGreater(count(stacks, r"\[vCPU 0\];.*\[guest\];start"), 0)

    def test_exits(self):
        """Of the thread that exits all the time, as much is in KVM, and in the monitor's own function, as in a
        recording of this thread alone. Each sample of the guest makes it exit once more."""
        vmscope("record", "--tid", self.monitor.numbers("threads")[1], "-F", HERTZ, "-t", 2,
                "-o", self.folder / "alone")
        alone = folded(self.folder / "alone")
        for pattern in (r"kvm_arch_vcpu_ioctl_run", r"x86_emulate_instruction", r";run_vcpu_thread$"):
            self.assertAlmostEqual(count(self.of(1), pattern) / count(self.of(1), ""),
                                   count(alone, pattern) / count(alone, ""), delta=0.1, msg=pattern)


@unittest.skipUnless(MAY and testbed.have_kvm(), "needs /dev/kvm and perf events")
class Gone(unittest.TestCase):
    def test_gone(self):
        """The machine ends meanwhile: what was sampled is kept, and names are."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "gone"
        guest = BareGuest(accel="kvm")
        self.addCleanup(guest.stop)
        process = start_recording("--host", "--guest", guest.pid, "--symbols", guest.elf, "-F", HERTZ,
                                  "-o", file)
        time.sleep(0.5)
        guest.process.kill()
        process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertIn(process.returncode, (0, 1))  # which of both sessions notices it first
        self.assertGreater(count(folded(file), r"\[vCPU 0\];.*;\[guest\];start64"), 0)


if __name__ == "__main__":
    unittest.main()
