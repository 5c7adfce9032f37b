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
from qmp_client import Qmp
from qemu_machine import BareGuest, monitor_registers
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
        """A machine until the test ends."""
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
            self.assertIn("ran on while", vmscope("core", "info", f"{folder}/core").out)
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


class TestMap(Case):
    """Where memory lies, found out: compared with where the monitor has it."""

    def ranges(self, monitor):
        with Tool("pid", monitor.pid) as tool:
            return tool.opened, [tuple(int(word, 0) for word in range_.split(":")[:2])
                                 for range_ in tool.do("ranges").split()[1:]]

    def test_layouts(self):
        for options in ({}, {"high": 0}, {"memfd": True}, {"one": True, "low": 2048, "high": 64},
                        {"reversed": True, "low": 3072, "high": 64},
                        {"one": True, "memfd": True, "low": 3328, "high": 64}):
            with self.subTest(**options):
                monitor = self.start(CALLS, CALLS, HALTS, **options)
                places = [tuple(int(number, 0) for number in re.split("[:@]", place))
                          for place in monitor.do("places")]
                _, ranges = self.ranges(monitor)
                self.assertEqual(ranges, [place[:2] for place in places])
                for pa, _, va in places:
                    at = 0x100000  # code in low memory, stacks in high memory
                    shown = subprocess.run(
                        [VMSCOPE, "mem", "--pid", str(monitor.pid), "--physical", "--raw",
                         hex(pa + at), "0x100"], stdout=subprocess.PIPE, check=True).stdout
                    self.assertEqual(shown, read_mem(monitor, va + at, 0x100))

    def test_refused(self):
        """A vCPU whose registers are not known proves nothing."""
        monitor = self.start(SPINS)
        monitor.do("pause")
        run = vmscope("regs", "--pid", monitor.pid, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("no vCPU has page tables, or all are paused", run.err)
        self.assertIn("--memory PA:SIZE@VA", run.err)

    def test_wrong_places(self):
        monitor = self.start(SPINS)
        for memory, said in (("0:1M", "PA:SIZE@VA"), ("0:1M@0x1000", "no memory at 0x1000"),
                             ("0:0@0x1000", "PA:SIZE@VA")):
            run = vmscope("regs", "--pid", monitor.pid, "--memory", memory, check=False)
            self.assertNotEqual(run.status, 0)
            self.assertIn(said, run.err)
        run = vmscope("regs", "--pid", monitor.pid, "--memory", "0:2M@0x200000", "--memory",
                      "1M:1M@0x900000", check=False)
        self.assertNotEqual(run.status, 0)

    def test_list(self):
        monitor = self.start(SPINS, HALTS, duplicate=True)
        rows = [row for row in json.loads(vmscope("list", "--json").out)
                if row["pid"] == monitor.pid]
        self.assertEqual([(row["vcpus"], row["accel"], row["obstacle"]) for row in rows],
                         [(2, "kvm", None)])


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
        for name in ("work", "[idle]", "write_port"):
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
            tracer.stdin.close()
            self.assertEqual(run.status, 1)
            self.assertIn(f"traced by process {tracer.pid} (python", run.err)


@unittest.skipUnless(have_kvm(), "there is no /dev/kvm")
class TestQemu(unittest.TestCase):
    """QEMU with QMP: compared with its own monitor, which a pause makes exact."""

    @classmethod
    def setUpClass(cls):
        cls.guest = BareGuest(accel="kvm", smp=2, extra=(
            "-name", f"guest=vmscope-{os.getpid()},debug-threads=on"))
        cls.addClassCleanup(cls.guest.stop)
        cls.target = ("--pid", cls.guest.pid)

    def setUp(self):
        self.guest.qmp.command("cont")
        self.guest.qmp.events.clear()

    def events(self):
        return [event["event"] for event in self.guest.qmp.events]

    def test_nobody_sees_it(self):
        """No stop, no event, no stub: what the machine's owner sees of hundreds of samples."""
        self.guest.qmp.command("query-status")
        run = vmscope("sample", "-F", 500, "-t", 1, "--symbols", self.guest.elf, *self.target)
        self.assertRegex(run.out, "engine +kvm")
        self.assertIn("work", run.out)
        self.assertEqual(self.guest.qmp.command("query-status")["status"], "running")
        self.assertEqual(self.events(), [])
        self.assertNotIn("'vmscope-", str(self.guest.qmp.command("query-chardev")))

    def test_without_qmp(self):
        """By its name, while another client uses its QMP socket, as libvirt does."""
        with contextlib.closing(Qmp.connect(self.guest.qmp_path)):
            run = vmscope("stack", "-v", "--symbols", self.guest.elf, "--domain",
                          f"vmscope-{os.getpid()}")
        self.assertIn("proved by page tables", run.err)
        self.assertEqual(stacks(run.out)[0][:2], ["start64", "guest_main"])
        self.assertEqual(self.events(), [])
        missing = vmscope("stack", "--domain", "no-such-machine", check=False)
        self.assertEqual(missing.status, 1)
        self.assertIn("no machine of that name", missing.err)

    def test_paused(self):
        self.guest.qmp.command("stop")
        shown = {}
        for row in json.loads(vmscope("regs", "--json", *self.target).out):
            shown.setdefault(row["vcpu"], {})[row["register"]] = int(row["value"], 16)
        told = monitor_registers(self.guest, 0)
        self.assertGreater(len(told.keys() & shown[0].keys()), 50)
        for name in told.keys() & shown[0].keys():
            self.assertEqual((name, shown[0][name]), (name, told[name]))
        self.assertEqual(self.guest.qmp.command("query-status")["status"], "paused")

    def test_resumed(self):
        """A machine that its owner pauses and resumes beside a sampler runs on."""
        with start_vmscope("sample", "-F", 500, "-t", 2, *map(str, self.target)) as run:
            for _ in range(20):
                self.guest.qmp.command("stop")
                self.assertEqual(self.guest.qmp.command("query-status")["status"], "paused")
                self.guest.qmp.command("cont")
            out, err = run.communicate(timeout=ANSWER_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(self.guest.qmp.command("query-status")["status"], "running")


if __name__ == "__main__":
    unittest.main()
