# SPDX-License-Identifier: MIT
"""What the tests of call traces share: traced guests, and what these counted themselves."""
import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import agent_client
import qemu_machine
import testbed
import uftrace_data

PROGRAMS = ("calls", "calls-fp")  # that count themselves, in Linux guests
BEGUN = "every call is recorded from now on"
COST = "a second of this takes"  # is told of a trace without -t


def directory(test):
    """A path that is not there yet; removed after the test (case or class)."""
    parent = tempfile.TemporaryDirectory(prefix="vmscope-calls-")
    (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(parent.cleanup)
    return pathlib.Path(parent.name) / "trace"


def launcher(path, *options):
    """The words that start a guest with all its calls traced."""
    return (testbed.VMSCOPE, "run", "--calls", path, *options, "--")


def symbols(arch="x86_64"):
    """The options that tell vmscope where these programs have symbols."""
    return [word for program in PROGRAMS
            for word in ("--symbols", qemu_machine.ARCHS[arch].programs / program)]


def counts(text):
    """{part: {function: calls}} from the COUNT lines of a guest."""
    parts = collections.defaultdict(dict)
    for part, name, number in re.findall(r"^COUNT (?:(\d+) )?(\w+) (\d+)", text, re.MULTILINE):
        parts[int(part or 0)][name] = int(number)
    return parts


def functions_of(program, arch="x86_64"):
    """{name: address} of a program's functions."""
    listing = subprocess.run([qemu_machine.ARCHS[arch].nm, program], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return {name: int(va, 16)
            for va, name in re.findall(r"^([0-9a-f]+) [tTwW] (\S+)$", listing, re.MULTILINE)}


class Tracer:
    """`vmscope calls` on a guest, as a process that has begun to trace."""

    def __init__(self, guest, path, *options):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(testbed.VMSCOPE), "calls", "-v", "-p", str(guest.pid), "-o", str(path),
             *map(str, options)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.errors)
        try:
            testbed.wait_for(lambda: self.process.poll() is not None or BEGUN in self.said(),
                             "the trace to begin", testbed.BOOT_SECONDS)
            if self.process.poll() is not None:
                raise RuntimeError(f"vmscope calls did not begin: {self.said()}")
        except BaseException:
            self.kill()
            raise

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def stop(self):
        """Ends the trace as Ctrl-C does; what it said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self, expected=0):
        """Until it ends by itself, with this status; what it said."""
        status = self.process.wait(testbed.BOOT_SECONDS)
        said = self.said()
        self.errors.close()
        if status != expected:
            raise RuntimeError(f"vmscope calls: status {status}: {said}")
        return said

    def kill(self):
        """As hard as can be."""
        self.process.kill()
        self.process.wait()
        self.errors.close()


@contextlib.contextmanager
def tracing(guest, path, *options, warning=None):
    """The guest is traced while the block runs; this is all that there is to warn of."""
    tracer = Tracer(guest, path, *options)
    try:
        yield tracer
        said = tracer.stop()
        wrong = [line for line in said.splitlines()
                 if ("warning:" in line or "lost" in line) and COST not in line]
        if [line for line in wrong if not warning or warning not in line]:
            raise RuntimeError(f"vmscope calls: {wrong}")
    finally:
        if tracer.process.poll() is None:
            tracer.kill()


def has_lost(guest):
    """Has the agent lost a record of vCPU 0 in the trace that goes on? As its memory says."""
    for path in pathlib.Path(f"/proc/{guest.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if "memfd:vmscope-calls" in os.readlink(path):
                with open(path, "rb") as memory:
                    memory.seek(agent_client.RING_LOST)
                    return memory.read(8) != bytes(8)
    return False


def trace_for(guest, path, command, *options):
    """The trace of what a guest does while it runs a command; and the command's output."""
    with tracing(guest, path, *options):
        output = guest.run(command)
    return uftrace_data.Trace(path), output


def uftrace(command, path, *options):
    """What the real uftrace makes of a directory."""
    run = subprocess.run(["uftrace", command, "-d", str(path), "--no-pager", "--color=no",
                          *map(str, options)], stdin=subprocess.DEVNULL, text=True,
                         errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=testbed.BOOT_SECONDS)
    if run.returncode or "WARN" in run.stderr:
        raise RuntimeError(f"uftrace {command}: status {run.returncode}: {run.stderr}")
    return run.stdout
