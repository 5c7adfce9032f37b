# SPDX-License-Identifier: MIT
"""What tests of machines in the tests' own KVM monitor share: the guest as it is known to be, and
ways to look at it beside vmscope."""
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import unittest

import kvm_monitor
from kvm_monitor import Monitor
from machine_tool import Tool
from testbed import VMSCOPE, have_kvm, wait_for
from vmscope_command import vmscope

KNOWN = {f"r{n}": n * 0x1111111111111111 for n in range(8, 16)}
KNOWN |= {name: (n + 1) * 0x1111111111111111
          for n, name in enumerate(("rax", "rbx", "rcx", "rdx", "rsi", "rdi"))}
# Traces a thread until it is killed, and lets it get its signals.
TRACER = """import ctypes, os, pathlib, sys, time
ptrace_seize, ptrace_cont, wall = 0x4206, 7, 0x40000000
ptrace = ctypes.CDLL(None).ptrace
pathlib.Path("/proc/self/comm").write_text(sys.argv[2])
# A sampler has the thread now and then, for some microseconds.
for _ in range(1000):
    failed = ptrace(ptrace_seize, int(sys.argv[1]), None, None)
    if not failed:
        break
    time.sleep(0.001)
print(failed, flush=True)
while True:
    thread, status = os.waitpid(-1, wall)
    ptrace(ptrace_cont, thread, None, os.WSTOPSIG(status) if status >> 16 == 0 else 0)"""


@contextlib.contextmanager
def traced(thread, name="tracer"):
    """Another program traces the thread meanwhile: its process."""
    with subprocess.Popen([sys.executable, "-c", TRACER, str(thread), name], stdout=subprocess.PIPE,
                          text=True) as tracer:
        try:
            assert tracer.stdout.readline() == "0\n"
            yield tracer
        finally:
            tracer.kill()


def tool_for(monitor, **options):
    return Tool("kvm", ",".join([str(monitor.pid), *monitor.do("places")]), **options)


def holders(monitor):
    """Processes that hold vCPUs of this machine: they have the command line of whoever started them."""
    found = []
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_bytes() == b"vms-holder\n":
                command = (comm.parent / "cmdline").read_text(errors="replace")
                if str(monitor.pid) in re.split(r"[\0,]", command):
                    found.append(int(comm.parent.name))
    return found


def shown_memory(pa, size, *target):
    """Bytes of guest-physical memory, as vmscope shows them."""
    return subprocess.run([VMSCOPE, "mem", *target, "--physical", "--raw", hex(pa), hex(size)],
                          stdout=subprocess.PIPE, check=True).stdout


def read_mem(monitor, va, size):
    with open(f"/proc/{monitor.pid}/mem", "rb") as mem:
        mem.seek(va)
        return mem.read(size)


def counts_on(monitor, vcpu):
    before = monitor.numbers("rounds")[vcpu]
    wait_for(lambda: monitor.numbers("rounds")[vcpu] > before + 2, f"vCPU {vcpu} to count")


def stacks(text):
    """Names, outermost first, by vCPU, of what `stack` shows."""
    by_vcpu = {}
    for line in text.splitlines():
        if heading := re.match(r"vCPU (\d+)", line):
            frames = by_vcpu.setdefault(int(heading[1]), [])
        elif frame := re.match(r" *#\d+ +0x[0-9a-f]+ +(\w+)", line):
            frames.insert(0, frame[1])
    return by_vcpu


@unittest.skipUnless(have_kvm() and kvm_monitor.PROGRAM.exists(), "there is no /dev/kvm")
class Case(unittest.TestCase):
    def start(self, *modes, **options):
        """A machine until the test ends."""
        monitor = Monitor(*modes, **options)
        self.addCleanup(monitor.stop)
        return monitor

    def vmscope(self, command, monitor, *arguments, **options):
        return vmscope(command, *monitor.target, *arguments, **options)

    def regs(self, monitor):
        """Values by register, by vCPU."""
        by_vcpu = {}
        for row in json.loads(self.vmscope("regs", monitor, "--json").out):
            by_vcpu.setdefault(row["vcpu"], {})[row["register"]] = int(row["value"], 16)
        return by_vcpu
