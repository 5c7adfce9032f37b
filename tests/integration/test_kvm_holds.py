# SPDX-License-Identifier: MIT
"""vCPUs of any KVM monitor, held one by one: whatever they do, and whatever becomes of vmscope, its
holder, the monitor and its threads."""
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import unittest

import kvm_monitor
from kvm_case import KNOWN, Case, counts_on, holders, tool_for, traced
from kvm_monitor import CALLS, COUNTS, EXITS, HALTS, NOT_STARTED, SLEEPS, SPINS
from machine_tool import BUSY, CLOSED, INVALID_STATE, error_code, registers
from testbed import ANSWER_SECONDS, wait_for
from vmscope_command import start_vmscope, vmscope

# Takes a descriptor of another process: pidfd_getfd(2). Tells where it has a page of its own.
RECEIVER = """import ctypes, os, sys
pid, fd = map(int, sys.argv[1:])
page = ctypes.create_string_buffer(1 << 13)
print(ctypes.CDLL(None).syscall(438, os.pidfd_open(pid), fd, 0),
      (ctypes.addressof(page) + 4095) & ~4095, flush=True)
sys.stdin.read()"""
LIBC = ctypes.CDLL(None)
PR_CAPBSET_DROP = 24  # linux/prctl.h


def drop_capabilities():
    """What this process starts has none."""
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability)


def is_sampling(run):
    for path in pathlib.Path(f"/proc/{run.pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # a thread that has ended
            if path.read_text() == "vms-sampler\n":
                return True
    return False


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

    def test_asleep(self):
        """A vCPU that may not be stopped where it is, and runs before the hold is over."""
        monitor = self.start(SLEEPS)
        with tool_for(monitor) as tool:
            for _ in range(50):  # it may be found in the guest
                self.assertEqual(tool.do("hold 0"), "ok")
                time.sleep(0.02)
                released = tool.do("release 0")
                if released != "ok":
                    break
        self.assertIn("slept in its monitor's code", released)
        self.check_after(monitor)

    def test_two_machines(self):
        """Nothing tells whose a vCPU is, also if no number is there twice."""
        monitor = self.start(COUNTS, second=True)
        run = self.vmscope("regs", monitor, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("runs several machines", run.err)
        self.check_after(monitor)

    def test_passed_descriptors(self):
        """A process that got descriptors of vCPUs from their monitor, and cannot run them."""
        monitor = self.start(COUNTS)
        files = pathlib.Path(f"/proc/{monitor.pid}/fd").iterdir()
        vcpu, = (int(file.name) for file in files if "kvm-vcpu" in os.readlink(file))
        with subprocess.Popen([sys.executable, "-c", RECEIVER, str(monitor.pid), str(vcpu)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as receiver:
            _, place = receiver.stdout.readline().split()
            for options in ((), ("--memory", f"0:4096@{place}")):
                run = vmscope("regs", "--pid", receiver.pid, *options, check=False)
                self.assertEqual(run.status, 1)
                self.assertIn("does not run any", run.err)
            receiver.stdin.close()

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

    def test_tool_killed_beside_a_stopped_holder(self):
        monitor = self.start(COUNTS)
        tool = tool_for(monitor)
        self.assertEqual(tool.do("hold"), "ok")
        holder, = holders(monitor)
        os.kill(holder, signal.SIGSTOP)
        tool.kill()
        counts_on(monitor, 0)
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

    def test_executes_another_program(self):
        """That waits for the ends of all threads, and vmscope for those that it holds."""
        monitor = self.start(*[CALLS] * 6)
        with start_vmscope("sample", *monitor.target, "-F", 999, "-t", 600) as run:
            wait_for(lambda: is_sampling(run), "vmscope to sample")
            time.sleep(0.1)
            monitor.do("exec")
            wait_for(lambda: pathlib.Path(f"/proc/{monitor.pid}/comm").read_text() == "sleep\n",
                     "the other program")
            out, err = run.communicate(timeout=ANSWER_SECONDS)
        monitor.process.kill()
        self.assertIn("the machine went away", out + err)

    def test_not_to_be_traced_any_more(self):
        """A monitor that forbids that meanwhile: nothing is left in it all the same."""
        monitor = self.start(CALLS, COUNTS, no_capabilities=True)
        with start_vmscope("sample", *monitor.target, "-F", 100, "-t", 2,
                           preexec_fn=drop_capabilities) as run:
            wait_for(lambda: holders(monitor), "the holder")
            wait_for(lambda: set(monitor.numbers("valid")) != {0}, "vmscope to hold a vCPU")
            monitor.do("undump")
            _, err = run.communicate(timeout=ANSWER_SECONDS)
        self.assertIn("may not be traced by this user", err)
        self.check_after(monitor)

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

    def test_attach_beside_a_hold(self):
        """A vCPU that another vmscope has for a moment while this one attaches."""
        monitor = self.start(SPINS, COUNTS)
        with traced(monitor.numbers("threads")[1], "vms-holder"):
            run = start_vmscope("regs", *monitor.target)
            time.sleep(0.3)
        _, err = run.communicate(timeout=ANSWER_SECONDS)
        self.assertEqual((run.returncode, err), (0, ""))
        self.check_after(monitor)

    def test_other_tool_ends(self):
        """It puts back which registers KVM stores at any moment, also in that of a hold."""
        monitor = self.start(COUNTS)
        with tool_for(monitor) as tool:
            monitor.do("forget")
            for _ in range(500):
                self.assertEqual(tool.do("hold 0"), "ok")
                counted, = monitor.numbers("rounds")
                counting = int(registers(tool.do("regs 0"))["r12"], 16)
                self.assertIn(counting - counted, (0, 1))
                self.assertEqual(tool.do("release 0"), "ok")

    def test_few_files(self):
        """A vCPU's thread takes two open files."""
        monitor = self.start(*[SPINS] * 8)
        for hard in (1024, 18):
            with self.subTest(hard=hard):
                run = self.vmscope("regs", monitor, check=False, preexec_fn=lambda limit=hard:
                                   resource.setrlimit(resource.RLIMIT_NOFILE, (18, limit)))
                self.assertEqual(run.status, int(hard == 18), run.err)
                self.assertEqual("ulimit -n" in run.err, hard == 18, run.err)

    def freeze(self, monitor):
        """Freezes it, by each kind of control groups that this host has, until the next."""
        for place, name, frozen, thawed in (
                ("freezer", "freezer.state", "FROZEN", "THAWED"),
                ("unified", "cgroup.freeze", "1", "0"), ("", "cgroup.freeze", "1", "0")):
            top = pathlib.Path("/sys/fs/cgroup", place)
            group = top / f"vmscope-{monitor.pid}"
            if not (top / "cgroup.procs").exists() or not os.access(top, os.W_OK):
                continue
            group.mkdir()
            (group / "cgroup.procs").write_text(str(monitor.pid))
            try:
                (group / name).write_text(frozen)
                yield group
            finally:
                (group / name).write_text(thawed)
                (top / "cgroup.procs").write_text(str(monitor.pid))
                group.rmdir()

    def test_frozen(self):
        monitor = self.start(COUNTS)
        target = monitor.target
        tried = 0
        for group in self.freeze(monitor):
            with self.subTest(group=group):
                wait_for(lambda: vmscope("regs", *target, check=False).status == 1, "the freezer")
                self.assertIn("frozen with its control group",
                              vmscope("regs", *target, check=False).err)
            tried += 1
        if not tried:
            self.skipTest("no control group may be made here")
        counts_on(monitor, 0)
        self.check_after(monitor)

    def test_other_tracer_meanwhile(self):
        """A debugger of a vCPU for a moment: its samples are missing, and sampling goes on."""
        monitor = self.start(CALLS, CALLS)
        run = start_vmscope("sample", *monitor.target, "-F", 100, "-t", 2)
        wait_for(lambda: holders(monitor), "vmscope to attach")
        time.sleep(0.5)
        with traced(monitor.numbers("threads")[1]) as tracer:
            time.sleep(0.5)
        out, err = run.communicate(timeout=ANSWER_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn(f"traced by process {tracer.pid} (tracer", err)
        self.assertIn("complete after 2.", out)
        self.check_after(monitor)

    def test_other_tracer(self):
        monitor = self.start(SPINS)
        thread, = monitor.numbers("threads")
        with traced(thread) as tracer:
            run = self.vmscope("regs", monitor, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn(f"traced by process {tracer.pid} (tracer", run.err)


if __name__ == "__main__":
    unittest.main()
