#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What becomes of a libvirt domain that vmscope looks at while its owner works on it.

    tests/libvirt/run.py [--rounds N] [--only WORD] [--way WAY] [--seed N] [--table FILE]

Runs every operation of operations.py beside every command, N times, at random moments, and first by
itself: what libvirt believes then, and the lifecycle events that it sends, are what they have to be
beside vmscope, too. After each round libvirt's view is QEMU's, the guest's clock goes on, and QEMU
has no more character devices than before.

vmscope reaches the domain in three ways: through the agent in its QEMU, through the gdb stub, for
which it must refuse to stop a machine that libvirt watches, and with --allow-stop. With the last, there
are events, and in the very moment of a hold libvirt and vmscope may mistake one's stop for the other's:
a suspend is undone, a domain is saved as one that was paused. That is counted, and not wrong as long as
libvirt knows which state the domain is in.

Needs root and what scripts/setup --libvirt installs. The last line is `N passed, N failed`: a pair of
operation and command counts once.
"""
import argparse
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import daemons
import testbed
import vmscope_command
from domain import Domain
from operations import OPERATIONS, resume_if_paused

END_SECONDS = 60  # in which an interrupted command has to be done
DELAY_SECONDS = 1.5  # until the operation, at most: while vmscope attaches, or works, or leaves
PAUSE_SECONDS = 0.05  # between two runs of a command

COMMANDS = {
    "sample": ("sample", "-F", "199", "-t", "600"),
    "core": ("core",),
    "stack": ("stack",),
}
# What needs no hold, and must work without leave to stop the machine.
QUIET = {
    "ps": ("ps",),
    "dmesg": ("dmesg",),
    "info": ("info",),
    "mem": ("mem", "linux_banner", "64"),
    "symbol": ("symbol", "schedule"),
    "modules": ("modules",),
}

# How vmscope reaches the domain. `stops`: it may stop the machine. `works`: the commands do not refuse.
Way = collections.namedtuple("Way", "name agent stops works options")
WAYS = (
    Way("agent", agent=True, stops=False, works=True, options=()),
    Way("stub", agent=False, stops=False, works=False, options=()),
    Way("allow-stop", agent=False, stops=True, works=True, options=("--allow-stop",)),
)


def target(domain, way):
    return (("--agent", domain.directory / "agent") if way.agent else ("--qmp", domain.qmp_path))


def start_vmscope(*words):
    """The tests' own function allows stops."""
    return subprocess.Popen([str(word) for word in (testbed.VMSCOPE, *words)], text=True,
                            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


class Beside(threading.Thread):
    """Runs a command again and again until it is stopped. `runs` are those that ended by themselves or,
    interrupted, with what they had found."""

    def __init__(self, words, output):
        super().__init__()
        self.runs = []
        self.faults = []
        self._words = words
        self._output = output
        self._lock = threading.Lock()
        self._process = None
        self._ended = False
        self.start()

    def _begin(self):
        with self._lock:
            if not self._ended:
                self._output.unlink(missing_ok=True)
                self._process = start_vmscope(*self._words)
            return not self._ended

    def run(self):
        while self._begin():
            out, err = self._process.communicate()
            status = self._process.returncode
            if status < 0 and not (self._ended and status == -signal.SIGINT):
                self.faults.append(f"vmscope ended by signal {-status}: {err.strip()[-300:]}")
            elif status == 0 or not self._ended:
                self.runs.append(vmscope_command.Run(status, out, err))
            time.sleep(PAUSE_SECONDS)

    def stop(self):
        with self._lock:
            self._ended = True
            if self._process and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
        self.join(END_SECONDS)
        if self.is_alive():
            self.faults.append(f"vmscope does not end within {END_SECONDS} s")
            self._process.kill()
            self.join()
        self._output.unlink(missing_ok=True)


# The state, why libvirt thinks that the domain does not run, and lifecycle events "Suspended".
Outcome = collections.namedtuple("Outcome", "state believed stops")


class Cell:
    """The rounds of an operation beside a command."""

    def __init__(self):
        self.rounds = self.mistaken = self.stops = self.worked = self.ended = 0
        self.wrong = []

    def __str__(self):
        mistaken = f", {self.mistaken} mistaken" if self.mistaken else ""
        return f"{self.rounds} / {len(self.wrong)}{mistaken}"


class Matrix:
    """All cells, by way, command and operation."""

    def __init__(self, domain, random_):
        self.domain = domain
        self.random = random_
        self.cells = collections.defaultdict(Cell)
        self.expected = {}

    # ---- one round -------------------------------------------------------------

    def observe(self, operation, beside):
        """Does the operation; what came of it."""
        domain = self.domain
        known = len(domain.events.names())
        try:
            if beside:
                time.sleep(self.random.uniform(0, DELAY_SECONDS))
            operation.act(domain)
            if beside:
                time.sleep(self.random.uniform(0, 0.5))
        finally:
            if beside:
                beside.stop()
        state = domain.settled_state()
        believed = domain.virsh("domstate", "--reason") if state != "running" else state
        return Outcome(state, believed, domain.events.settled_names(known).count("Suspended"))

    def end(self, operation):
        """Brings the domain back to where it runs. False: it had to be resumed."""
        operation.after(self.domain)
        was_paused = self.domain.settled_state() == "paused"
        resume_if_paused(self.domain)
        return not was_paused

    def check_afterwards(self):
        domain = self.domain
        if (state := domain.settled_state()) != "running":
            raise AssertionError(f"the domain is '{state}' in the end")
        domain.disconnect()
        domain.check_ticks()
        if (chardevs := domain.query_chardevs()) != domain.chardevs:
            raise AssertionError(f"left behind in QEMU: {set(chardevs) - set(domain.chardevs)}")

    def judge(self, cell, way, operation, outcome):
        """Raises where the outcome is not what it is without vmscope."""
        expected = self.expected[operation.name]
        cell.stops += max(outcome.stops - expected.stops, 0)
        if way.stops:
            if operation.mistakable and {expected.state, outcome.state} == {"paused", "running"}:
                cell.mistaken += 1
                return
            expected = expected._replace(believed=outcome.believed, stops=outcome.stops)
        if outcome != expected:
            raise AssertionError(f"{outcome}, without vmscope {expected}")

    def check_runs(self, way, operation, beside):
        """Only where nothing else happens every run has to work, or be refused."""
        if beside.faults:
            raise AssertionError("; ".join(beside.faults))
        if operation.name != "nothing":
            return
        for run in beside.runs:
            if way.works and run.status:
                raise AssertionError(f"vmscope fails: {run.err.strip()[-300:]}")
            if not way.works and not is_refusal(run):
                raise AssertionError(f"vmscope does not refuse: status {run.status}, {run.err!r}")

    def run_round(self, way, operation, name, words):
        cell = self.cells[way.name, name, operation.name]
        cell.rounds += 1
        domain = self.domain
        try:
            operation.prepare(domain)
            beside = Beside((*words, *target(domain, way), *way.options),
                            domain.directory / "output")
            outcome = self.observe(operation, beside)
            cell.worked += sum(run.status == 0 for run in beside.runs)
            cell.ended += len(beside.runs)
            self.judge(cell, way, operation, outcome)
            if not self.end(operation):
                if not (way.stops and operation.mistakable):
                    raise AssertionError("the domain was paused in the end")
                cell.mistaken += outcome.state == self.expected[operation.name].state
            self.check_afterwards()
            self.check_runs(way, operation, beside)
        except Exception as error:  # whatever it is, it belongs to this round alone
            cell.wrong.append(str(error))
            print(f"WRONG: {operation.name} beside {name} ({way.name}): {error}", flush=True)
            if not isinstance(error, (AssertionError, RuntimeError)):
                traceback.print_exc(file=sys.stdout)
            domain.start()

    # ---- all of them -------------------------------------------------------------

    def expect(self, operations):
        """What comes of the operations without vmscope."""
        for operation in operations:
            operation.prepare(self.domain)
            outcome = self.expected[operation.name] = self.observe(operation, None)
            if not self.end(operation):
                raise RuntimeError(f"{operation.name} leaves the domain paused without vmscope")
            self.check_afterwards()

    def run(self, way, operations, rounds):
        output = self.domain.directory / "output"
        for i in range(rounds):
            for operation in operations:
                print(f"{way.name}, round {i + 1}: {operation.name}", flush=True)
                for name, words in COMMANDS.items():
                    if name != "stack":
                        words = (*words, "-o", output)
                    self.run_round(way, operation, name, words)

    def check_quiet(self, way):
        """Commands that need no hold stop nothing."""
        for name, words in QUIET.items():
            cell = self.cells[way.name, name, "nothing"]
            cell.rounds += 1
            known = len(self.domain.events.names())
            process = start_vmscope(*words, *target(self.domain, way))
            out, err = process.communicate(timeout=END_SECONDS)
            events = self.domain.events.settled_names(known)
            if process.returncode or events or not out:
                cell.wrong.append(f"status {process.returncode}, events {events}: {err.strip()}")
                print(f"WRONG: {name} ({way.name}): {cell.wrong[-1][-500:]}", flush=True)


    def check_commands(self, way):
        """A command that never did its work was not tested; one that must refuse has to be asked."""
        for name in COMMANDS:
            cells = [cell for key, cell in self.cells.items() if key[:2] == (way.name, name)]
            worked, ended = (sum(getattr(cell, what) for cell in cells) for what in ("worked", "ended"))
            print(f"{name} ({way.name}): worked {worked} times, failed or refused {ended - worked}")
            if (worked if way.works else ended - worked) == 0:
                self.cells[way.name, name, "all"].wrong.append("never")
                print(f"WRONG: {name} ({way.name}) never {'worked' if way.works else 'refused'}")


def is_refusal(run):
    """One line that says what helps."""
    return run.status and len(run.err.strip().splitlines()) == 1 and "--allow-stop" in run.err


def table(cells, ways, operations):
    """In Markdown: rounds / wrong."""
    columns = [(way.name, name) for way in ways for name in COMMANDS]
    lines = ["| beside: rounds / wrong | " +
             " | ".join(f"`{name}`, {way}" for way, name in columns) + " |",
             "|---" * (len(columns) + 1) + "|"]
    for operation in operations:
        lines.append(f"| {operation.name} | " + " | ".join(
            str(cells[way, name, operation.name]) for way, name in columns) + " |")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="operations whose names have this in them")
    parser.add_argument("--way", choices=[way.name for way in WAYS], help="this one alone")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--table", type=pathlib.Path, help="write the table there, too")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    operations = [operation for operation in OPERATIONS if arguments.only in operation.name]
    ways = [way for way in WAYS if arguments.way in (None, way.name)]
    if os.geteuid() != 0 or daemons.missing():
        reason = f"not installed: {', '.join(daemons.missing())}" if daemons.missing() else "not root"
        print(f"libvirt: {reason}; scripts/setup --libvirt installs it\n0 passed, 1 failed")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the daemons end, too
    testbed.build_guests()
    print(f"seed {arguments.seed}", flush=True)
    libvirt = daemons.Libvirt()
    print(libvirt.virsh("version"), flush=True)
    cells = {}
    for agent in (True, False):
        chosen = [way for way in ways if way.agent == agent]
        if not chosen:
            continue
        domain = Domain(libvirt, agent)
        matrix = Matrix(domain, random.Random(arguments.seed))
        matrix.expect(operations)
        for way in chosen:
            matrix.run(way, operations, arguments.rounds)
            matrix.check_commands(way)
            if not way.stops:
                matrix.check_quiet(way)
        domain.stop()
        cells.update(matrix.cells)
    text = table(collections.defaultdict(Cell, cells), ways, operations)
    print(text)
    if arguments.table:
        arguments.table.write_text(text + "\n")
    for way in ways:
        stops = sum(cell.stops for key, cell in cells.items() if key[0] == way.name)
        print(f"{way.name}: stops that libvirt was told of, without its own: {stops}")
    failed = sum(bool(cell.wrong) for cell in cells.values())
    print(f"{len(cells) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
