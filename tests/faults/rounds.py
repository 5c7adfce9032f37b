# SPDX-License-Identifier: MIT
"""One round: a command beside a guest, what happens to both, and what must be true then."""
import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import commands
import guest
import history
from testbed import wait_for

MARK = "VMSCOPE_FAULTS_ROUND"  # a variable by which all processes of a round are known
HOLD_SECONDS = 10  # how long to wait for a command to hold the machine, where that moment is wanted
END_SECONDS = 120  # a command that nobody disturbs any more has ended by then

# What must be true of a machine in the end. `status`: QEMU's, or None for one that has gone, with
# `code` as QEMU's exit status.
Expected = collections.namedtuple("Expected", "machine status code")


class Wrong(Exception):
    """Something is not as it would have been without vmscope."""


class Round:
    """The machine is another round's later unless the fault uses it up."""

    def __init__(self, command, fault, seed, machine):
        self.command = command
        self.rng = random.Random(f"{seed}/{command.name}/{fault.name}")
        self.guest = machine
        self._trace_begin = machine.trace_path.stat().st_size
        self.qmp = machine.qmp  # its owner's
        self.others = []  # machines of this round alone
        self.undetectable = False
        self.longest = 0.0  # seconds for which a tick of a guest that should run was waited for
        self.story = []  # what happened, with seconds since the round began
        self.mark = uuid.uuid4().hex
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-round-"))
        self.out = self.directory / "out"
        self.out.mkdir()
        self.processes = []
        self.writers = set()  # those that run the round's own command
        self.signals = collections.defaultdict(set)  # by process, those that were sent to it
        self.expected = {}
        self.cleanups = contextlib.ExitStack()  # at the end of the round
        self._began = time.monotonic()
        self.expect(machine, "running")

    def tell(self, text):
        self.story.append(f"{time.monotonic() - self._began:8.3f}  {text}")

    # ---- machines

    def expect(self, machine, status, code=None):
        self.expected[machine] = Expected(machine, status, code)

    def add(self, *arguments, kind=guest.Ticker, **options):
        """Another machine, for this round alone."""
        machine = kind(self.guest.engine, *arguments, **options)
        self.others.append(machine)
        return machine

    def owner(self, name, machine=None, **arguments):
        """A command of the owner's."""
        self.tell(f"owner: {name} {arguments or ''}")
        return (machine or self.guest).qmp.command(name, **arguments)

    def let_sleep(self):
        """The guest goes to sleep (S3)."""
        self.tell("the guest goes to sleep")
        self.guest.fall_asleep()
        self.wait("the guest to sleep", lambda: self.qmp.status() == "suspended")

    def history(self, machine=None):
        """What QEMU wrote down in this round."""
        if machine in (None, self.guest):
            return history.read(self.guest.trace_path, self._trace_begin)
        return history.read(machine.trace_path)

    # ---- vmscope

    def start(self, machine=None, command=None, words=None, **options):
        """The command beside its guest, unless others are named."""
        writes = not words and command in (None, self.command)
        words = words or commands.argv(command or self.command, machine or self.guest, self.out)
        number = len(self.processes)
        options.setdefault("stdout", open(self.directory / f"stdout{number}", "wb"))
        options.setdefault("stderr", open(self.directory / f"stderr{number}", "wb"))
        self.tell(f"start: {' '.join(words[1:])}")
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                   env={**os.environ, MARK: self.mark}, start_new_session=True,
                                   **options)
        for stream in ("stdout", "stderr"):
            if hasattr(options[stream], "close"):
                options[stream].close()
        self.processes.append(process)
        if writes:
            self.writers.add(process)
        return process

    @property
    def process(self):
        return self.processes[-1]

    def signal(self, number, process=None):
        process = process or self.process
        self.tell(f"{signal.Signals(number).name} to vmscope"
                  f"{'' if process.poll() is None else ' (it has ended)'}")
        self.signals[process].add(number)
        process.send_signal(number)

    def kill(self, process=None):
        self.signal(signal.SIGKILL, process)

    def finish(self):
        """Lets the command come to its end, or asks it to, as Ctrl-C does."""
        for process in self.processes:
            if process.poll() is None and self.command.seconds > 2 and self.rng.random() < 0.6:
                self.sleep(0.3)
                self.signal(signal.SIGINT, process)

    def wait_ended(self):
        for process in self.processes:
            try:
                status = process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                raise Wrong(f"vmscope does not end in {END_SECONDS} s") from None
            self.tell(f"vmscope has ended: status {status}")

    def living(self):
        """All processes that vmscope has started in this round and that live."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    state = (path / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found.append(int(path.name))
            except OSError:
                continue
        return found

    def died(self, process):
        """The signal of which it died, other than one of ours; None where there is none."""
        number = -(process.returncode or 0)
        return number if number > 0 and number not in self.signals[process] else None

    def output(self):
        """What the processes wrote, as far as it went to files."""
        return "".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}\n"
                       for path in sorted(self.directory.glob("std*")) if path.stat().st_size)

    # ---- moments

    def sleep(self, most, least=0.0):
        time.sleep(self.rng.uniform(least, most))

    def wait(self, what, condition, seconds=60):
        """Something that must come true."""
        try:
            return wait_for(condition, what, seconds)
        except TimeoutError as error:
            raise Wrong(str(error)) from None

    def wait_moment(self, running=True):
        """A random moment of the command: while it attaches, while it holds a machine that was
        `running`, or any."""
        kind = self.rng.random()
        if kind < 0.25:
            what = "while it attaches"
            self.sleep(0.08)
        elif kind < 0.6 and running and self.command.engine in guest.STOPPING:
            what = "in a hold"
            self._wait_hold()
        else:
            what = "any"
            self.sleep(self.command.seconds)
        self.tell(f"moment: {what}")

    def _wait_hold(self):
        """Until the machine is stopped for the n-th time, or the command ends."""
        deadline = time.monotonic() + HOLD_SECONDS
        for _ in range(self.rng.choice((1, 1, 2, 3, 10))):
            while not self.qmp.wait_event("STOP", 0.02):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    return
        self.sleep(0.002 if self.rng.random() < 0.7 else 0.05)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.cleanups.close()
        for machine in self.others:
            machine.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
