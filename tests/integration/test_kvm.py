# SPDX-License-Identifier: MIT
"""Machines of any KVM monitor, by pid: vCPUs held one by one, without the monitor's knowledge.

The monitor is the tests' own (tests/tools/kvm_monitor.c), since a stock kernel does not boot under every
host's KVM. What vmscope shows is compared with what the guest's code is known to have in its
registers, and with the monitor's memory as /proc/PID/mem has it.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import kvm_monitor
from kvm_monitor import CALLS, COUNTS, EXITS, HALTS, NOT_STARTED, SLEEPS, SPINS, Monitor
from machine_tool import BUSY, CLOSED, INVALID_STATE, Tool, error_code, registers
from testbed import ANSWER_SECONDS, VMSCOPE, have_kvm, wait_for
from vmscope_command import start_vmscope, vmscope

KNOWN = {f"r{n}": n * 0x1111111111111111 for n in range(8, 16)}
KNOWN |= {name: (n + 1) * 0x1111111111111111
          for n, name in enumerate(("rax", "rbx", "rcx", "rdx", "rsi", "rdi"))}
LOW_STACKS, HIGH_STACKS, STACK_SIZE = 0x80000, 0x1_0010_0000, 0x4000
# Paths of the call tree, outermost first, and where one may be between two calls.
TREE = [("run_vcpu", "major", "work"), ("run_vcpu", "minor", "helper", "work")]
PATHS = {path[:n] for path in TREE for n in range(1, 5)}

TRACER = """import ctypes, sys
ptrace_seize = 0x4206
print(ctypes.CDLL(None).ptrace(ptrace_seize, int(sys.argv[1]), None, None), flush=True)
sys.stdin.read()"""


def tool_for(monitor, **options):
    return Tool("kvm", ",".join([str(monitor.pid), *monitor.do("places")]), **options)


def holders(monitor):
    """Processes that hold vCPUs: of this machine, as one test runs at a time here; by who traces it,
    or by name."""
    found = []
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text() == "vms-holder\n":
                command = (comm.parent / "cmdline").read_bytes().decode()
                if str(monitor.pid) in re.split(r"[\0,]", command):
                    found.append(int(comm.parent.name))
    return found


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
        monitor = Monitor(*modes, **options)
        self.addCleanup(monitor.stop)
        return monitor

    def vmscope(self, command, monitor, *arguments, **options):
        return vmscope(command, *monitor.target, *arguments, **options)


class TestReading(Case):
    def regs(self, monitor):
        by_vcpu = {}
        for row in json.loads(self.vmscope("regs", monitor, "--json").out):
            by_vcpu.setdefault(row["vcpu"], {})[row["register"]] = int(row["value"], 16)
        return by_vcpu

    def test_registers(self):
        monitor = self.start(SPINS, HALTS, SPINS, HALTS, high=8)
        names = kvm_monitor.symbols()
        for vcpu, regs in self.regs(monitor).items():
            self.assertEqual({name: regs[name] for name in KNOWN}, KNOWN)
            self.assertEqual(regs["rip"], names["known_halt" if vcpu % 2 else "known_spin"])
            end = HIGH_STACKS if vcpu % 2 else LOW_STACKS
            # Two calls, and a frame of 16 bytes with the frame pointer.
            self.assertEqual(regs["rsp"], end - vcpu * STACK_SIZE - 8 - 8 - 16 - 8)
            self.assertEqual((regs["cr0"], regs["cr3"], regs["cr4"], regs["efer"], regs["cs"]),
                             (0x80000011, 0x1000, 0x20, 0x500, 8))
        self.assertEqual(monitor.numbers("valid"), [0] * 4)

    def check_memory(self, **options):
        monitor = self.start(SPINS, high=8, **options)
        spin = kvm_monitor.symbols()["known_spin"]
        wait_for(lambda: self.regs(monitor)[0]["rip"] == spin, "the guest to come to its spin")
        for pa, size, va in (map(lambda text: int(text, 0), re.split("[:@]", place))
                             for place in monitor.do("places")):
            expected = read_mem(monitor, va, size)
            shown = subprocess.run(
                [VMSCOPE, "mem", *monitor.target, "--physical", "--raw", hex(pa), hex(size)],
                stdout=subprocess.PIPE, check=True).stdout
            tables = slice(0x1000, 0x8000)  # the processor writes into them
            if pa == 0:
                shown, expected = (all_bytes[:tables.start] + all_bytes[tables.stop:]
                                   for all_bytes in (shown, expected))
            self.assertTrue(shown == expected)
            self.assertEqual(len(shown) % (1 << 20), -0x7000 % (1 << 20) if pa == 0 else 0)

    def test_memory(self):
        for options in ({}, {"memfd": True}, {"one": True}, {"reversed": True, "memfd": True}):
            with self.subTest(**options):
                self.check_memory(**options)

    def test_stacks(self):
        monitor = self.start(CALLS, CALLS, HALTS)
        for _ in range(5):
            shown = stacks(self.vmscope("stack", monitor, "--symbols", kvm_monitor.ELF).out)
            for vcpu in (0, 1):
                self.assertEqual(shown[vcpu][0], "start")
                self.assertIn(tuple(shown[vcpu][1:]), PATHS)
            self.assertEqual(shown[2][-1], "known_halt")

    def test_holes(self):
        """Memory that nobody has used stays unused when all of it is read."""
        monitor = self.start(SPINS, memfd=True, low=64, high=64)
        file, = (path for path in pathlib.Path(f"/proc/{monitor.pid}/fd").iterdir()
                 if "guest_mem" in os.readlink(path))
        before = os.stat(file).st_blocks
        with tempfile.TemporaryDirectory() as folder:
            self.vmscope("core", monitor, "-o", f"{folder}/core")
        for place in monitor.do("places"):
            pa, size, _ = re.split("[:@]", place)
            self.vmscope("mem", monitor, "--physical", "--raw", pa, size)
        self.assertEqual(os.stat(file).st_blocks, before)

    def test_fetched_pages(self):
        """Pages that a userfaultfd would have to bring are not waited for."""
        monitor = self.start(SPINS, userfaultfd=True)
        names = kvm_monitor.symbols()
        regs = self.regs(monitor)[0]
        self.assertEqual(regs["rip"], names["known_spin"])
        missing = self.vmscope("mem", monitor, "--physical", hex(12 << 20), check=False)
        self.assertEqual(missing.status, 1)
        self.assertIn("0xc00000", missing.err)


class TestHolding(Case):
    def check_after(self, monitor):
        """Nothing is left behind, and the guest runs."""
        wait_for(lambda: not holders(monitor), "the holder to end")
        self.assertEqual(set(monitor.numbers("valid")), {0})

    def test_each_by_itself(self):
        monitor = self.start(COUNTS, COUNTS)
        with tool_for(monitor) as tool:
            self.assertEqual(tool.do("hold 0"), "ok")
            before = monitor.numbers("rounds")[0]
            counts_on(monitor, 1)
            self.assertEqual(monitor.numbers("rounds")[0], before)
            first = tool.do("regs 0")
            self.assertEqual(tool.do("regs 0"), first)
            self.assertEqual(tool.do("release 0"), "ok")
            counts_on(monitor, 0)
        self.check_after(monitor)

    def test_all_kinds(self):
        """Halted, not started, in its monitor's code, asleep there, under a filter that kills."""
        monitor = self.start(CALLS, HALTS, EXITS, SLEEPS, NOT_STARTED, seccomp=True, duplicate=True)
        run = self.vmscope("sample", monitor, "-F", 500, "-t", 1, "--symbols", kvm_monitor.ELF)
        # On a busy host a thread may stay in its monitor for as long as a hold is tried.
        taken = [int(n) for n in re.findall(r"^vCPU \d+: (\d+) samples", run.out, re.MULTILINE)]
        self.assertEqual(len(taken), 5)
        self.assertNotIn(0, taken)
        for name in ("work", "known_halt", "write_port"):
            self.assertIn(name, run.out)
        for vcpu in (0, 2, 3):
            counts_on(monitor, vcpu)
        self.check_after(monitor)

    def test_halted_in_its_monitor(self):
        """Since before vmscope came: then nobody has its registers but KVM."""
        monitor = self.start(HALTS, user_halt=True)
        run = self.vmscope("regs", monitor, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("when it has run again", run.err)

    def test_kicks(self):
        """A monitor that pauses its vCPUs, while they are sampled, and resumes them."""
        monitor = self.start(CALLS, HALTS, COUNTS)
        with tool_for(monitor) as tool:
            self.assertEqual(tool.do("hold"), "ok")
            self.assertEqual(tool.do("release"), "ok")
            tool.send("sample 1000")
            for _ in range(20):
                monitor.do("pause")
                counted = monitor.numbers("rounds")
                time.sleep(0.01)
                self.assertEqual(monitor.numbers("rounds"), counted)
                monitor.do("resume")
            counts_on(monitor, 0)
            self.assertRegex(tool.read(), "^ok samples=[1-9].* end=complete")
        self.check_after(monitor)

    def test_paused(self):
        """A vCPU that has been paused since it was seen is where it was."""
        monitor = self.start(SPINS, COUNTS)
        with tool_for(monitor) as tool:
            tool.do("hold")
            tool.do("release")
            monitor.do("pause")
            self.assertEqual(tool.do("hold"), "ok")
            regs = registers(tool.do("regs 0"))
            self.assertEqual({name: int(regs[name], 16) for name in KNOWN}, KNOWN)
            self.assertEqual(tool.do("release"), "ok")
            monitor.do("resume")
            counts_on(monitor, 1)

    def test_tool_killed(self):
        monitor = self.start(COUNTS, COUNTS)
        tool = tool_for(monitor)
        self.assertEqual(tool.do("hold"), "ok")
        tool.kill()
        for vcpu in (0, 1):
            counts_on(monitor, vcpu)
        self.check_after(monitor)
        tool.end()

    def test_tool_stopped(self):
        monitor = self.start(COUNTS, COUNTS)
        with tool_for(monitor) as tool:
            self.assertEqual(tool.do("hold"), "ok")
            tool.process.send_signal(signal.SIGSTOP)
            counts_on(monitor, 0)
            counts_on(monitor, 1)
            tool.process.send_signal(signal.SIGCONT)
            self.assertEqual(error_code(tool.do("release")), INVALID_STATE)
            self.assertEqual(tool.do("hold"), "ok")
            self.assertEqual(tool.do("release"), "ok")

    def test_limit(self):
        monitor = self.start(COUNTS)
        with tool_for(monitor) as tool:
            tool.do("limit 50000000")
            self.assertEqual(tool.do("hold"), "ok")
            counts_on(monitor, 0)
            self.assertEqual(error_code(tool.do("regs 0")), INVALID_STATE)
            self.assertEqual(error_code(tool.do("release")), INVALID_STATE)

    def test_holder_killed_and_stopped(self):
        monitor = self.start(COUNTS)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(number), tool_for(monitor) as tool:
                self.assertEqual(tool.do("hold"), "ok")
                holder, = holders(monitor)
                os.kill(holder, number)
                if number == signal.SIGKILL:
                    counts_on(monitor, 0)
                released = error_code(tool.do("release"))
                self.assertEqual(released, INVALID_STATE if number == signal.SIGKILL else None)
                counts_on(monitor, 0)
                self.assertEqual(tool.do("hold"), "ok")
                self.assertEqual(tool.do("release"), "ok")
                counts_on(monitor, 0)
            self.check_after(monitor)

    def test_monitor_ends(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            monitor = self.start(CALLS, HALTS)
            with tool_for(monitor) as tool:
                self.assertEqual(tool.do("hold"), "ok")
                monitor.process.send_signal(number)
                monitor.process.wait(ANSWER_SECONDS)
                self.assertEqual(error_code(tool.do("release")), INVALID_STATE)
                self.assertEqual(error_code(tool.do("hold")), CLOSED)
            self.assertEqual(holders(monitor), [])

    def test_sample_to_the_end(self):
        monitor = self.start(CALLS, HALTS)
        with start_vmscope("sample", *monitor.target, "-F", 999, "-t", 60) as run:
            wait_for(lambda: holders(monitor), "the holder")
            time.sleep(0.3)
            monitor.process.kill()
            out, err = run.communicate(timeout=ANSWER_SECONDS)
        self.assertIn("the machine went away", out + err)

    def test_thread_ends(self):
        """A vCPU that is unplugged while it is held, and after."""
        monitor = self.start(CALLS, COUNTS)
        with tool_for(monitor) as tool:
            monitor.do("end 1")
            self.assertIsNotNone(error_code(tool.do("hold 1")))
            self.assertEqual(tool.do("hold 0"), "ok")
            self.assertEqual(tool.do("release 0"), "ok")
            monitor.do(f"add {COUNTS}")
            self.assertEqual(tool.do("hold 0"), "ok")
            self.assertEqual(tool.do("release 0"), "ok")

    def test_two_tools(self):
        """Both hold, by turns: nothing is traced between two holds."""
        monitor = self.start(SPINS, COUNTS)
        with tool_for(monitor) as one, tool_for(monitor) as two:
            for _ in range(20):
                for tool in (one, two):
                    self.assertEqual(tool.do("hold"), "ok")
                    self.assertEqual(int(registers(tool.do("regs 0"))["rax"], 16), KNOWN["rax"])
                    self.assertEqual(tool.do("release"), "ok")
            one.do("hold")
            self.assertEqual(error_code(two.do("hold")), BUSY)
            one.do("release")
        self.check_after(monitor)

    def test_other_tracer(self):
        monitor = self.start(SPINS)
        thread, = monitor.numbers("threads")
        with subprocess.Popen([sys.executable, "-c", TRACER, str(thread)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as tracer:
            self.assertEqual(tracer.stdout.readline(), "0\n")
            run = self.vmscope("regs", monitor, check=False)
            self.assertEqual(run.status, 1)
            self.assertIn(f"traced by process {tracer.pid} (python", run.err)


if __name__ == "__main__":
    unittest.main()
