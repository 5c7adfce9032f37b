# SPDX-License-Identifier: MIT
"""Probes by breakpoints of QEMU's gdb stub: what is hit, and what is left of it in the machine."""
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest

from machine_tool import guards
from stop_probes_tool import Probes
from qemu_machine import BareGuest
from testbed import wait_for
from vmscope_command import vmscope

NOT_NOW = 14  # enum vms_error


def symbols_of(guest):
    output = subprocess.run(["nm", guest.elf], check=True, capture_output=True, text=True).stdout
    return {line.split()[2]: int(line.split()[0], 16) for line in output.splitlines()
            if len(line.split()) == 3}


class CounterGuest(unittest.TestCase):
    """A guest that counts: every visit of a place is known by its number."""
    accel = "tcg,thread=multi"
    progress = 1000  # in well below a second

    def setUp(self):
        self.guest = BareGuest("counter", accel=self.accel)
        self.addCleanup(self.guest.stop)
        self.symbols = symbols_of(self.guest)
        self.nop = f"{self.symbols['counted_nop']:#x}"
        self.stos = f"{self.symbols['repeated_stos']:#x}"

    def probes(self, *sets):
        probes = Probes("qmp", self.guest.qmp_path, *sets)
        self.addCleanup(probes.end)
        for number in range(len(sets)):
            probes.wait_line("armed", number)
        return probes

    def number(self):
        """To which the guest has counted."""
        address = self.symbols["counts"] + 8
        text = self.guest.qmp.hmp(f"xp /1gx {address:#x}")
        return int(text.split(":")[1], 16)

    def check_runs(self):
        """It counts on, and nothing stops it."""
        wait_for(self.runs_on, "the guest to run on", 20)

    def runs_on(self):
        """Counts for a while without a stop. The watchdog stops it once more to clean up."""
        if self.guest.qmp.status() != "running":
            return False
        stops = self.guest.qmp.event_names().count("STOP")
        before = self.number()
        wait_for(lambda: self.number() > before + self.progress or
                 self.guest.qmp.status() != "running", "the guest to count")
        return self.guest.qmp.status() == "running" and \
            self.guest.qmp.event_names().count("STOP") == stops

    def check_consecutive(self, numbers, least):
        self.assertGreaterEqual(len(numbers), least)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))


class Counter(CounterGuest):
    def test_every_visit_is_a_hit(self):
        probes = self.probes(f"{self.nop}:rdi:mem=rsi+0/16")
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

    def test_before_and_after(self):
        probes = self.probes(f"{self.nop}:rip:rdi,{self.nop}:after:rip:rdi")
        probes.wait_hits(60)
        probes.end()
        hits = probes.hits()
        self.assertEqual([hit["place"] for hit in hits[:60]], [0, 1] * 30)
        self.assertEqual(set(probes.values(place=0)), {self.symbols["counted_nop"]})
        self.assertEqual(set(probes.values(place=1)), {self.symbols["counted_nop"] + 1})
        self.check_consecutive(probes.values(index=1, place=1), 30)
        self.check_runs()

    def test_instruction_that_repeats_itself(self):
        probes = self.probes(f"{self.stos}:rcx:after,{self.stos}:rcx;max=10")
        probes.wait_hits(10)
        probes.end()
        self.assertEqual(probes.values(), [40, 0] * 5)
        self.check_runs()

    def test_two_sets_at_one_place(self):
        probes = self.probes(f"{self.nop}:rdi", f"{self.nop}:rdi;max=7")
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
        probes = self.probes(f"{self.nop}:rdi;max=5")
        probes.wait_hits(5)
        self.check_runs()
        probes.do("counts 0")
        line = probes.wait_line("counts")
        self.assertEqual((line["hits"], line["is_armed"]), (5, 0))
        self.assertEqual(len(probes.hits()), 5)

    def test_condition(self):
        first = self.number() + 10 ** 9
        probes = self.probes(f"{self.nop}:if=rdi/{first}:rdi", f"{self.nop}:rdi:if=rsi/1")
        wait_for(lambda: probes.ask_counts()["rejected"] > 5, "hits that are rejected")
        self.assertEqual(probes.counts()["hits"], 0)
        self.check_runs()

    def test_memory_that_is_not_there(self):
        probes = self.probes(f"{self.nop}:mem=0x7fffffff0000/8:rdi;max=3")
        probes.wait_hits(3)
        self.assertEqual(probes.values(), [None] * 3)
        self.check_consecutive(probes.values(index=1), 3)

    def test_a_hit_that_halts(self):
        probes = self.probes(f"{self.nop}:halts:rdi")
        probes.wait_hits(1)
        wait_for(lambda: self.guest.qmp.status() != "running", "the guest to stop")
        time.sleep(0.5)
        self.assertEqual(len(probes.hits()), 1)
        self.guest.qmp.command("cont")
        probes.wait_hits(2)
        time.sleep(0.3)
        self.check_consecutive(probes.values(), 2)
        probes.kill()
        wait_for(lambda: not guards(str(self.guest.qmp_path)), "the watchdog to end")
        self.assertNotEqual(self.guest.qmp.status(), "running")
        self.guest.qmp.command("cont")
        self.check_runs()

    def test_reset(self):
        probes = self.probes(f"{self.nop}:rdi")
        probes.wait_hits(10)
        for _ in range(3):
            self.guest.qmp.command("system_reset")
            hits = len(probes.hits())
            wait_for(lambda: probes.values()[-1] < 10000 and len(probes.hits()) > hits + 5,
                     "hits after the reset")
        probes.end()
        self.check_runs()

    def test_migration(self):
        probes = self.probes(f"{self.nop}:rdi")
        probes.wait_hits(3)
        self.guest.qmp.command("migrate-set-parameters", max_bandwidth=1 << 20)
        self.guest.qmp.command("migrate", uri=f"file:{self.guest.directory}/state")
        line = probes.wait_line("take")
        self.assertEqual(line["error"], NOT_NOW)
        self.assertIn("migration", line["message"])
        probes.end()
        self.guest.qmp.command("migrate-set-parameters", max_bandwidth=0)
        wait_for(lambda: self.guest.qmp.command("query-migrate")["status"] == "completed",
                 "the migration to end")
        self.assertEqual(self.guest.qmp.status(), "postmigrate")
        self.guest.qmp.command("cont")
        self.check_runs()


class Snapshot(unittest.TestCase):
    """QEMU may abort where a snapshot is loaded at a hit: there are no breakpoints beside one."""

    def setUp(self):
        disk = tempfile.NamedTemporaryFile(prefix="vmscope-disk-")
        self.addCleanup(disk.close)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk.name, "64M"], check=True)
        self.guest = BareGuest("counter", accel="tcg,thread=multi", extra=[
            "-blockdev", f"driver=qcow2,node-name=disk,file.driver=file,file.filename={disk.name}",
            "-device", "virtio-blk-pci,drive=disk"])
        self.addCleanup(self.guest.stop)
        self.place = f"{symbols_of(self.guest)['counted_nop']:#x}:rdi"

    def test_saved_by_a_job(self):
        """It may have ended before vmscope looks."""
        probes = Probes("qmp", self.guest.qmp_path, self.place)
        self.addCleanup(probes.end)
        probes.wait_hits(10)
        self.guest.qmp.command("snapshot-save", job_id="job", tag="snapshot", vmstate="disk",
                               devices=["disk"])
        self.assertEqual(probes.wait_line("take")["error"], NOT_NOW)
        probes.end()
        wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")
        again = Probes("qmp", self.guest.qmp_path, self.place)
        self.addCleanup(again.end)
        self.assertIn("snapshot", again.wait_line("armed")["message"])


class TwoVcpus(unittest.TestCase):
    """Both come to the place, by their timers; QEMU has a list of breakpoints for each under TCG."""

    def setUp(self):
        self.guest = BareGuest("ticker", smp=2)
        self.addCleanup(self.guest.stop)
        self.place = f"{symbols_of(self.guest)['count_tick']:#x}:rip"
        self.guest.qmp.hmp("gdbserver none")  # QEMU keeps a monitor for the stub from then on
        self.chardevs = len(self.guest.qmp.command("query-chardev"))

    def ticks(self):
        shown = self.guest.qmp.hmp("xp /2gx 0x9000").split(":")[1]
        return [int(word, 16) for word in shown.split()]

    def check_ticks(self):
        """Each goes on by itself, for longer than a breakpoint that is left would allow."""
        before = self.ticks()
        wait_for(lambda: all(now > then + 50 for now, then in zip(self.ticks(), before)),
                 "both vCPUs to tick", 20)
        self.assertEqual(self.guest.qmp.status(), "running")

    def arm(self):
        probes = Probes("qmp", self.guest.qmp_path, self.place)
        self.addCleanup(probes.end)
        probes.wait_line("armed")
        probes.wait_hits(random.randrange(4, 20))
        return probes

    def test_killed(self):
        for _ in range(3):
            self.arm().kill()
            wait_for(lambda: not guards(str(self.guest.qmp_path)), "the watchdog to end")
            self.check_ticks()

    def test_killed_with_the_watchdog(self):
        probes = self.arm()
        for pid in [*guards(str(self.guest.qmp_path)), probes.process.pid]:
            os.kill(pid, signal.SIGKILL)
        probes.process.wait()
        probes.end()
        vmscope("info", "--qmp", self.guest.qmp_path, "--allow-stop")
        self.check_ticks()

    def test_stub_is_removed(self):
        """By somebody else, maybe within a step: the probes are gone, and said to be."""
        for _ in range(3):
            probes = self.arm()
            self.guest.qmp.hmp("gdbserver none")
            self.assertIn("taken away", probes.wait_line("take")["message"])
            self.check_ticks()
            probes.end()

    def test_killed_without_the_stub(self):
        """The watchdog adds one of its own."""
        for _ in range(3):
            probes = self.arm()
            probes.kill(signal.SIGSTOP)
            self.guest.qmp.hmp("gdbserver none")
            probes.kill()
            wait_for(lambda: not guards(str(self.guest.qmp_path)), "the watchdog to end")
            self.check_ticks()
            self.assertEqual(len(self.guest.qmp.command("query-chardev")), self.chardevs)


if __name__ == "__main__":
    unittest.main()
