# SPDX-License-Identifier: MIT
"""Probes whose hits are read as they come (tests/tools/probes.c), and bare guests to put them on."""
import json
import random
import signal
import threading
import unittest

import probes_tool
from machine_tool import guards
from qemu_machine import BareGuest
from testbed import ANSWER_SECONDS, wait_for


class Probes:
    """Sets of places that are armed, each a list of arguments. A thread reads what is hit."""

    def __init__(self, guest, *sets, path=None):
        self.process = probes_tool.start("qmp", path or guest.qmp_path, sets)
        self.lines = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def wait_line(self, key, value=None):
        """The first line with that key, of that value."""
        return wait_for(lambda: next((line for line in list(self.lines) if key in line and
                                      value in (None, line[key])), None), f"a line with {key}")

    def wait_hits(self, n, number=0):
        def come():
            errors = [line for line in list(self.lines) if "error" in line]
            if errors:
                raise RuntimeError(f"{errors[0]}")
            return len(self.hits(number)) >= n and self.hits(number)
        return wait_for(come, f"{n} hits")

    def hits(self, number=0):
        """Of a set, in the order of their coming."""
        return [line for line in list(self.lines) if line.get("set") == number and "values" in line]

    def values(self, number=0, index=0, place=None):
        """A value of every hit, as a number; None where it could not be read."""
        return [probes_tool.number(hit["values"][index]) for hit in self.hits(number)
                if place in (None, hit["place"])]

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask_counts(self, number=0):
        """The set's counts as of now."""
        n = len(self.lines)
        self.do(f"counts {number}")
        return wait_for(lambda: next((line for line in self.lines[n:] if "rejected" in line), None),
                        "counts")

    def counts(self, number=0):
        """The set's counts as of its end."""
        self.end()
        return [line for line in self.lines if "rejected" in line and line["set"] == number][-1]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(ANSWER_SECONDS)
            self.end()

    def end(self):
        """An orderly end; again, nothing."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.wait(ANSWER_SECONDS)
            self._reader.join()
            self.process.stdout.close()
            self.process.stderr.close()


class ProbedGuest(unittest.TestCase):
    """A guest that probes are armed in, by their places' names."""
    program, options = "counter", {"accel": "tcg,thread=multi"}

    def setUp(self):
        self.guest = BareGuest(self.program, **self.options)
        self.addCleanup(self.guest.stop)
        self.symbols = probes_tool.symbols("x86_64", f"{self.program}.elf")

    def at(self, symbol, moment, *items):
        return ":".join([hex(self.symbols[symbol]), moment, *items])

    def probes(self, *sets):
        probes = Probes(self.guest, *sets)
        self.addCleanup(probes.end)
        for number in range(len(sets)):
            probes.wait_line("armed", number)
        return probes

    def wait_watchdog(self):
        wait_for(lambda: not guards(str(self.guest.qmp_path)), "the watchdog to end")


class CounterGuest(ProbedGuest):
    """Every visit of a place is known by its number."""
    progress = 1000  # in well below a second

    def setUp(self):
        super().setUp()
        self.visit = self.at("counted_nop", "before", "rdi")

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


class TickingGuest(ProbedGuest):
    """Both vCPUs come to the place, by their timers; under TCG QEMU has a list of breakpoints for
    each."""
    program, options = "ticker", {"smp": 2}

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
        """Probes that were hit at least so often."""
        probes = self.probes([self.at("count_tick", "before", "rip")])
        probes.wait_hits(random.randrange(4, 20))
        return probes
