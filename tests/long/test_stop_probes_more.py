# SPDX-License-Identifier: MIT
"""Probes by breakpoints at many moments, with KVM, and on Linux guests of both architectures."""
import random
import signal
import time
import unittest

import test_stop_probes
from linux_guest import LinuxGuest
from machine_tool import guards
from stop_probes_tool import Probes
from testbed import have_kvm, wait_for


class More:
    def test_owner_stops_and_resumes(self):
        probes = self.probes(f"{self.nop}:rdi")
        for _ in range(15):
            probes.wait_hits(len(probes.hits()) + 3)
            self.guest.qmp.command("stop")
            if self.guest.qmp.status() == "paused":
                time.sleep(random.uniform(0, 0.05))
                self.assertEqual(self.guest.qmp.status(), "paused")
            self.guest.qmp.command("cont")
        probes.wait_hits(len(probes.hits()) + 3)
        probes.end()
        self.check_consecutive(probes.values(), 40)
        self.check_runs()

    def test_stopped_by_a_signal(self):
        probes = self.probes(f"{self.nop}:rdi")
        probes.wait_hits(3)
        probes.kill(signal.SIGSTOP)
        try:
            wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run", 20)
            self.check_runs()
        finally:
            probes.kill(signal.SIGCONT)
        probes.wait_line("take", 0)
        probes.end()
        self.check_runs()

    def test_others_hold_meanwhile(self):
        probes = self.probes(f"{self.nop}:rdi")
        for _ in range(20):
            probes.do("sample")
        probes.wait_hits(50)
        probes.end()
        self.assertFalse([line for line in probes.lines if "error" in line])
        self.check_consecutive(probes.values(), 50)
        self.check_runs()

    def test_killed_at_any_moment(self):
        sets = (f"{self.nop}:rdi", f"{self.nop}:after:rdi,{self.stos}:rcx:mem=rdi+0/16")
        for _ in range(20):
            probes = Probes("qmp", self.guest.qmp_path, *sets)
            if random.random() < 0.7:
                probes.wait_hits(random.randrange(1, 8))
            time.sleep(random.uniform(0, 0.1))
            probes.kill()
            # It stops the guest once more where there is nothing but breakpoints.
            wait_for(lambda: not guards(str(self.guest.qmp_path)), "the watchdog to end")
            self.check_runs()
        self.assertNotIn("vmscope-", self.guest.qmp.hmp("info chardev").replace("vmscope-test", ""))

    def test_killed_while_its_owner_has_paused_it(self):
        probes = self.probes(f"{self.nop}:rdi")
        probes.wait_hits(3)
        self.guest.qmp.command("stop")
        while not self.stays_paused():  # it stood at a hit, or by a hold
            self.guest.qmp.command("stop")
        probes.kill()
        wait_for(lambda: not guards(str(self.guest.qmp_path)), "the watchdog to end")
        self.assertEqual(self.guest.qmp.status(), "paused")
        self.guest.qmp.command("cont")
        self.check_runs()

    def stays_paused(self):
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            if self.guest.qmp.status() != "paused":
                return False
        return True


class Tcg(More, test_stop_probes.CounterGuest):
    pass


@unittest.skipUnless(have_kvm(), "there is no /dev/kvm")
class Kvm(More, test_stop_probes.Counter):
    accel = "kvm"
    progress = 20


class Linux(unittest.TestCase):
    """System calls of a program, by their arguments."""

    def check(self, guest, register):
        self.addCleanup(guest.stop)
        va = next(symbol.va for symbol in guest.kallsyms() if symbol.name == "ksys_write")
        place = f"{va:#x}:if={register}/777:{register}"
        with Probes("qmp", guest.qmp_path, place) as probes:
            probes.wait_line("armed")
            guest.run("dd if=/dev/zero of=/dev/null bs=777 count=60")
            self.assertEqual(probes.counts()["hits"], 60)
            self.assertEqual(probes.values(), [777] * 60)
        self.assertEqual(guest.run("echo lives").strip(), "lives")
        self.assertEqual(guest.qmp.status(), "running")

    def test_x86_64(self):
        self.check(LinuxGuest(), "rdx")

    def test_aarch64(self):
        self.check(LinuxGuest("6.12", arch="aarch64"), "x2")

    def test_limit_over_vcpus(self):
        guest = LinuxGuest(smp=4, boot=True)
        self.addCleanup(guest.stop)
        va = next(symbol.va for symbol in guest.kallsyms() if symbol.name == "ksys_write")
        for _ in range(4):
            guest.run("while :; do echo x; done >/dev/null 2>&1 &")
        for limit in 1, 50:
            with Probes("qmp", guest.qmp_path, f"{va:#x}:rdi;max={limit}") as probes:
                probes.wait_hits(limit)
                time.sleep(0.3)
                self.assertEqual(probes.counts()["hits"], limit)
                self.assertEqual(len(probes.hits()), limit)
        self.assertGreater(len({hit["vcpu"] for hit in probes.hits()}), 1)
        self.assertEqual(guest.qmp.status(), "running")
        guest.run("killall sh", check=False)
