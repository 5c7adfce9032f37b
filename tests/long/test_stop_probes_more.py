# SPDX-License-Identifier: MIT
"""Probes by breakpoints: all that may be hit, at many moments, with TCG and KVM, and on Linux guests of
both architectures.
"""
import random
import signal
import time
import unittest

import test_stop_probes
from linux_guest import LinuxGuest
from machine_tool import NOT_NOW
from stop_probes_tool import CounterGuest, Probes
from testbed import have_kvm, wait_for


class Hits:
    def test_every_visit_is_a_hit(self):
        probes = self.probes([self.at("counted_nop", "before", "rdi", "[rsi]16")])
        probes.wait_hits(100)
        counts = probes.counts()
        numbers = probes.values()
        self.check_consecutive(numbers, 100)
        self.assertEqual([hit["number"] for hit in probes.hits()],
                         list(range(1, len(numbers) + 1)))
        mark = 0x1122334455667788
        self.assertEqual(probes.values(index=1), [number << 64 | mark for number in numbers])
        self.assertEqual(counts["hits"], len(numbers))
        self.check_runs()

    def test_instruction_that_repeats_itself(self):
        probes = self.probes([self.at("repeated_stos", "after", "rcx"),
                              self.at("repeated_stos", "before", "rcx"), "max=10"])
        probes.wait_hits(10)
        probes.end()
        self.assertEqual(probes.values(), [40, 0] * 5)
        self.check_runs()

    def test_two_sets_at_one_place(self):
        probes = self.probes([self.visit], [self.visit, "max=7"])
        probes.wait_hits(7, 1)
        probes.wait_hits(30)
        probes.do("disarm 1")
        before = len(probes.wait_hits(30))
        probes.wait_hits(before + 10)
        probes.end()
        self.check_consecutive(probes.values(), 40)
        self.check_consecutive(probes.values(1), 7)
        self.assertEqual(len(probes.hits(1)), 7)
        self.check_runs()

    def test_limit(self):
        probes = self.probes([self.visit, "max=5"])
        probes.wait_hits(5)
        self.check_runs()
        counts = probes.ask_counts()
        self.assertEqual((counts["hits"], counts["armed"]), (5, False))
        self.assertEqual(len(probes.hits()), 5)

    def test_condition(self):
        first = self.number() + 10 ** 9
        probes = self.probes([self.at("counted_nop", "before", f"rdi={first}", "rdi")],
                             [self.at("counted_nop", "before", "rdi", "rsi=1")])
        wait_for(lambda: probes.ask_counts()["rejected"] > 5, "hits that are rejected")
        self.assertEqual(probes.counts()["hits"], 0)
        self.check_runs()

    def test_memory_that_is_not_there(self):
        probes = self.probes([self.at("counted_nop", "before", "[0x7fffffff0000]8", "rdi"), "max=3"])
        probes.wait_hits(3)
        self.assertEqual(probes.values(), [None] * 3)
        self.check_consecutive(probes.values(index=1), 3)

    def test_a_hit_that_halts(self):
        probes = self.probes([self.at("counted_nop", "halt", "rdi")])
        probes.wait_hits(1)
        wait_for(lambda: self.guest.qmp.status() != "running", "the guest to stop")
        time.sleep(0.5)
        self.assertEqual(len(probes.hits()), 1)
        self.guest.qmp.command("cont")
        probes.wait_hits(2)
        time.sleep(0.3)
        self.check_consecutive(probes.values(), 2)
        probes.kill()
        self.wait_watchdog()
        self.assertNotEqual(self.guest.qmp.status(), "running")
        self.guest.qmp.command("cont")
        self.check_runs()

    def test_reset(self):
        probes = self.probes([self.visit])
        probes.wait_hits(10)
        for _ in range(3):
            self.guest.qmp.command("system_reset")
            hits = len(probes.hits())
            wait_for(lambda: probes.values()[-1] < 10000 and len(probes.hits()) > hits + 5,
                     "hits after the reset")
        probes.end()
        self.check_runs()

    def test_migration(self):
        probes = self.probes([self.visit])
        probes.wait_hits(3)
        self.guest.qmp.command("migrate-set-parameters", max_bandwidth=1 << 20)
        self.guest.qmp.command("migrate", uri=f"file:{self.guest.directory}/state")
        line = probes.wait_line("taken")
        self.assertEqual(line["error"], NOT_NOW)
        self.assertIn("migration", line["message"])
        probes.end()
        self.guest.qmp.command("migrate-set-parameters", max_bandwidth=0)
        wait_for(lambda: self.guest.qmp.command("query-migrate")["status"] == "completed",
                 "the migration to end")
        self.assertEqual(self.guest.qmp.status(), "postmigrate")
        self.guest.qmp.command("cont")
        self.check_runs()


class Moments:
    def test_owner_stops_and_resumes(self):
        probes = self.probes([self.visit])
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
        probes = self.probes([self.visit])
        probes.wait_hits(3)
        probes.kill(signal.SIGSTOP)
        try:
            wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run", 20)
            self.check_runs()
        finally:
            probes.kill(signal.SIGCONT)
        probes.wait_line("taken", 0)
        probes.end()
        self.check_runs()

    def test_others_hold_meanwhile(self):
        probes = self.probes([self.visit])
        for _ in range(20):
            probes.do("hold")
        probes.wait_hits(50)
        probes.end()
        self.assertFalse([line for line in probes.lines if "error" in line])
        self.check_consecutive(probes.values(), 50)
        self.check_runs()

    def test_killed_at_any_moment(self):
        sets = ([self.visit], [self.at("counted_nop", "after", "rdi"),
                               self.at("repeated_stos", "before", "rcx", "[rdi]16")])
        for _ in range(20):
            probes = Probes(self.guest, *sets)
            if random.random() < 0.7:
                probes.wait_hits(random.randrange(1, 8))
            time.sleep(random.uniform(0, 0.1))
            probes.kill()
            # It stops the guest once more where there is nothing but breakpoints.
            self.wait_watchdog()
            self.check_runs()
        self.assertNotIn("vmscope-", self.guest.qmp.hmp("info chardev").replace("vmscope-test", ""))

    def test_killed_while_its_owner_has_paused_it(self):
        probes = self.probes([self.visit])
        probes.wait_hits(3)
        self.guest.qmp.command("stop")
        while not self.stays_paused():  # it stood at a hit, or by a hold
            self.guest.qmp.command("stop")
        probes.kill()
        self.wait_watchdog()
        self.assertEqual(self.guest.qmp.status(), "paused")
        self.guest.qmp.command("cont")
        self.check_runs()

    def stays_paused(self):
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            if self.guest.qmp.status() != "paused":
                return False
        return True


class Tcg(Hits, Moments, CounterGuest):
    pass


@unittest.skipUnless(have_kvm(), "there is no /dev/kvm")
class Kvm(Hits, Moments, test_stop_probes.Hits):
    options = {"accel": "kvm"}
    progress = 20

    def test_more_places_than_debug_registers(self):
        nop = self.symbols["counted_nop"]
        probes = Probes(self.guest, [f"{nop + i:#x}:before" for i in range(5)])
        self.addCleanup(probes.end)
        self.assertIn("4 addresses at most", probes.wait_line("armed")["message"])
        self.check_runs()


class Linux(unittest.TestCase):
    """System calls of a program, by their arguments."""

    def check(self, guest, register):
        self.addCleanup(guest.stop)
        va = next(symbol.va for symbol in guest.kallsyms() if symbol.name == "ksys_write")
        place = f"{va:#x}:before:{register}=777:{register}"
        with Probes(guest, [place]) as probes:
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
            with Probes(guest, [f"{va:#x}:before:rdi", f"max={limit}"]) as probes:
                probes.wait_hits(limit)
                time.sleep(0.3)
                self.assertEqual(probes.counts()["hits"], limit)
                self.assertEqual(len(probes.hits()), limit)
        self.assertGreater(len({hit["vcpu"] for hit in probes.hits()}), 1)
        self.assertEqual(guest.qmp.status(), "running")
        guest.run("killall sh", check=False)
