# SPDX-License-Identifier: MIT
"""Call traces that begin and end while a Linux guest runs: filters, clocks, faults."""
import json
import os
import re
import signal
import time
import unittest

import calls
import linux_guest
from long_tests import takes_long
import testbed
import vmscope_command
import uftrace_data
from test_calls import KERNEL, Symbols, wrong

AGENT = (testbed.VMSCOPE, "run", "--")
INIT = {"init_module", "raid6_select_algo"}  # of raid6_pq, until it has returned
WAIT = 3  # seconds for which a machine stands still


def records(trace):
    """Every record as (time, whether it is an entry, address, open calls with its own)."""
    for stream in trace.streams():
        stack = []
        for time_ns, word in zip(stream.times, stream.words):
            entry = word & 3 == uftrace_data.ENTRY
            if entry:
                stack.append((time_ns, word >> 16))
            yield time_ns, entry, word >> 16, stack
            if not entry:
                stack.pop()


class Running:
    """On a guest that all tests of a class share."""
    series = "6.1"
    arch = "x86_64"

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch, launcher=AGENT)
        cls.addClassCleanup(cls.guest.stop)
        cls.symbols = Symbols(cls.guest)
        cls.prefix = {"x86_64": "__x64_sys_", "aarch64": "__arm64_sys_"}[cls.arch]
        cls.getppid = cls.symbols.addresses[f"{cls.prefix}getppid"]

    def record(self, command, *options, by="task"):
        """Traces what the guest does while it runs a command. Where the trace is."""
        path = calls.directory(self)
        with calls.tracing(self.guest, path, "--by", by, *calls.symbols(self.arch), *options):
            self.output = self.guest.run(command)
        return path

    def trace(self, command, *options, by="task"):
        """The same as a trace that is right."""
        return self.checked(self.record(command, *options, by=by))

    def getppids(self, trace):
        """How often the program that was run asked for its parent."""
        pid = int(re.search(r"^PID (\d+)", self.output, re.MULTILINE)[1])
        return trace.entries(trace.tids_of({pid}))[self.getppid]

    def checked(self, path):
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual((trace.open, trace.lost), ({}, 0))
        return trace

    def test_program(self):
        for program in calls.PROGRAMS:
            trace = self.trace(f"{program} && true")
            counted = calls.counts(self.output)[0]
            self.assertEqual(wrong(trace, program, counted), {})
            right, total, others = self.symbols.first_instructions(trace.entries())
            self.assertGreaterEqual(right / total, 0.995, others)

    def test_modules(self):
        """A module that comes to where another one was has names of its own, from its begin on."""
        self.guest.run("modprobe loop")
        self.addCleanup(self.guest.run, "rmmod raid6_pq && modprobe loop", check=False)
        trace = self.trace("rmmod loop; modprobe raid6_pq", "--kernel")
        listed = self.guest.run("grep raid6_pq /proc/kallsyms")
        own = {line.split()[2] for line in listed.splitlines()} | INIT
        parts = {image: trace.calls(image=image) for image in ("raid6_pq", "raid6_pq.init")}
        for image, called in parts.items():
            self.assertTrue(called, image)
            self.assertLessEqual({name.partition("+")[0] for name in called}, own, image)
        self.assertGreater(sum(n for name, n in parts["raid6_pq"].items() if "gen" in name), 100)
        self.assertTrue(INIT & set(parts["raid6_pq.init"]))
        # On aarch64, code that leads to far functions lies behind the last one, and has no name.
        if self.arch == "x86_64":
            self.assertEqual([name for name in trace.calls(image="loop") if "+" in name], [])


class Running61(Running, unittest.TestCase):
    @takes_long
    def test_busy(self):
        """Begins and ends in the middle of whatever processes, threads and interrupts do."""
        self.guest.start_workload("mix")
        self.addCleanup(self.guest.stop_workload)
        path = self.record("sleep 0.2")
        self.guest.stop_workload()
        trace = self.checked(path)
        right, total, others = self.symbols.first_instructions(trace.entries())
        self.assertGreater(total, 10000)
        self.assertGreaterEqual(right / total, 0.995, others)

    @takes_long
    def test_uftrace(self):
        """Every reader of uftrace shows the names of kernel, module and program."""
        trace = self.trace("calls && true")
        pid = int(self.output.split("PID ")[1].split()[0])
        tid = f"--tid={pid}"
        for command, options in (("report", (tid,)), ("graph", (tid,)), ("replay", (tid,)),
                                 ("dump", (tid, "--chrome"))):
            text = calls.uftrace(command, trace.directory, *options)
            for name in ("getppid", "climb", "handle_and_leave"):
                self.assertIn(name, text, command)
        modules = {symbol.name for symbol in self.guest.kallsyms() if symbol.module}
        self.assertTrue(modules & set(trace.calls()))

    @takes_long
    def test_by_vcpu(self):
        trace = self.trace("calls && true", by="vcpu")
        self.assertEqual([(tid, trace.name_of_task(tid)) for tid in trace.ids],
                         [(100, "cpu0"), (200, "cpu1")])

    def test_by_level(self):
        trace = self.trace("calls && true", by="level")
        names = {tid: trace.name_of_task(tid) for tid in trace.ids}
        self.assertEqual(names, {100: "cpu0 kernel", 103: "cpu0 user", 200: "cpu1 kernel",
                                 203: "cpu1 user"})
        for tid, name in names.items():
            in_kernel = {bool(address & KERNEL) for address in trace.entries_of(tid)}
            self.assertEqual(in_kernel, {name.endswith("kernel")}, name)

    # ---- filters --------------------------------------------------------------

    def test_only(self):
        for options in ((), ("--kernel",)):
            trace = self.trace("calls && true", "--only", f"{self.prefix}getppid", *options)
            outermost = {address for _, entry, address, stack in records(trace)
                         if entry and len(stack) == 1}
            self.assertEqual(outermost, {self.getppid})
            self.assertEqual(self.getppids(trace), 1010)

    @takes_long
    def test_not(self):
        trace = self.trace("calls && true", "--not", f"{self.prefix}futex")
        entries = trace.entries()
        self.assertEqual(self.getppids(trace), 1010)
        self.assertEqual(entries[self.symbols.addresses[f"{self.prefix}futex"]], 0)

    def test_depth(self):
        trace = self.trace("calls && true", "--depth", "3")
        depths = {len(stack) for _, _, _, stack in records(trace)}
        self.assertEqual(depths, {1, 2, 3})

    @takes_long
    def test_min_time(self):
        trace = self.trace("calls && true", "--min-time", "20us")
        short = [time_ns - stack[-1][0] for time_ns, entry, _, stack in records(trace)
                 if not entry and time_ns - stack[-1][0] < 20000]
        self.assertEqual(short, [])
        self.assertGreater(len(trace.entries()), 10)

    def test_kernel(self):
        trace = self.trace("calls && true", "--kernel")
        self.assertEqual({bool(address & KERNEL) for address in trace.entries()}, {True})
        self.assertEqual(self.getppids(trace), 1010)

    @takes_long
    def test_user(self):
        trace = self.trace("calls && true", "--user")
        self.assertEqual({bool(address & KERNEL) for address in trace.entries()}, {False})
        counted = calls.counts(self.output)[0]
        self.assertEqual(wrong(trace, "calls", counted), {})

    @takes_long
    def test_process(self):
        pid = self.guest.start_workload("syscall")
        self.addCleanup(self.guest.stop_workload)
        path = self.record("calls && true", "--process", pid)
        self.guest.stop_workload()
        trace = self.checked(path)
        self.assertEqual({trace.tasks[tid].pid for tid in trace.ids}, {pid})
        self.assertGreater(len(trace.entries()), 10)

    @takes_long
    def test_start_at(self):
        trace = self.trace("calls && true", "--start-at", f"{self.prefix}getppid", "--kernel")
        self.assertEqual(self.getppids(trace), 1010)
        first = min(records(trace), key=lambda record: record[0])[0]
        begun = {address for time_ns, _, address, _ in records(trace) if time_ns == first}
        self.assertIn(self.getppid, begun)

    def test_stop_at(self):
        path = calls.directory(self)
        tracer = calls.Tracer(self.guest, path, "--stop-at", f"{self.prefix}getppid")
        self.addCleanup(tracer.kill)
        self.guest.run("calls && true")
        tracer.wait()
        trace = self.checked(path)
        self.assertLessEqual(trace.entries()[self.getppid], 1)

    def test_time(self):
        path = calls.directory(self)
        tracer = calls.Tracer(self.guest, path, "--time", "1")
        self.addCleanup(tracer.kill)
        tracer.wait()
        self.checked(path)

    # ---- clocks ---------------------------------------------------------------

    def test_guest_clock(self):
        """It stands while the machine is paused."""
        path = calls.directory(self)
        began = time.monotonic()
        with calls.tracing(self.guest, path, "--clock", "guest"):
            self.guest.run("true")
            self.guest.qmp.command("stop")
            paused = time.monotonic()
            time.sleep(WAIT)
            paused = time.monotonic() - paused
            self.guest.qmp.command("cont")
            self.guest.run("true")
        took = time.monotonic() - began
        times = [time_ns for time_ns, *_ in records(self.checked(path))]
        self.assertLess((max(times) - min(times)) / 1e9, took - paused)

    def test_host_clock(self):
        began = time.monotonic_ns()
        trace = self.trace("true", "--clock", "host")
        ended = time.monotonic_ns()
        times = [time_ns for time_ns, *_ in records(trace)]
        self.assertGreaterEqual(min(times), began)
        self.assertLessEqual(max(times), ended)

    # ---- faults ---------------------------------------------------------------

    def refused(self, word, *options):
        run = vmscope_command.vmscope("calls", "-p", self.guest.pid, *options, check=False)
        self.assertEqual(run.status, 1, run)
        self.assertIn(word, run.err)
        self.assertEqual(len(run.err.splitlines()), 1, run.err)

    def test_max_size(self):
        """The trace ends where it has reached its limit; the guest goes on."""
        path = calls.directory(self)
        self.guest.start_workload("mix")
        self.addCleanup(self.guest.stop_workload)
        run = vmscope_command.vmscope("calls", "-p", self.guest.pid, "-o", path, "--max-size", "2M",
                              "--json", timeout=testbed.BOOT_SECONDS)
        self.guest.stop_workload()
        self.assertRegex(run.err, r"warning: the trace has reached 2 MiB .*--max-size")
        [told] = json.loads(run.out)
        self.assertEqual(told["end"], "full")
        self.assertGreaterEqual(told["bytes"], 2 << 20)
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual(sum(map(len, trace.streams())), told["records"])
        self.assertIn("DONE", self.guest.run("calls"))

    def test_cost(self):
        """Who does not say how long is told what a second takes, and when the trace ends."""
        for limit, expected in (("3G", r"ends at 3 GiB \(--max-size\), after some \d+ s"),
                                ("none", "has no limit")):
            with calls.tracing(self.guest, calls.directory(self), "--max-size", limit) as tracer:
                line = testbed.wait_for(
                    lambda: [line for line in tracer.said().splitlines() if calls.COST in line],
                    "the cost to be told")
                self.assertRegex(line[0], f"warning: {calls.COST} [0-9.]+ .iB.*{expected}")

    def test_no_function(self):
        self.refused("no_such_function", "-o", calls.directory(self), "--only",
                     "no_such_function")

    def test_no_sysroot(self):
        path = calls.directory(self)
        self.refused("--sysroot /nowhere", "-o", path, "--sysroot", "/nowhere")
        self.assertFalse(path.exists())

    def test_no_process(self):
        run = vmscope_command.vmscope("calls", "-p", self.guest.pid, "-o", calls.directory(self),
                              "--time", "0.2", "--process", 4194304)
        self.assertIn("nothing was recorded: no process", run.err)

    def test_directory_in_use(self):
        path = calls.directory(self)
        path.mkdir()
        (path / "precious").write_text("data")
        self.refused(str(path), "-o", path)
        self.assertEqual([file.name for file in path.iterdir()], ["precious"])

    def test_two_at_once(self):
        """The second is told so, the first is not harmed; others can look at the guest."""
        path = calls.directory(self)
        with calls.tracing(self.guest, path, "--by", "task", *calls.symbols(self.arch)):
            self.refused("trace", "-o", calls.directory(self))
            vmscope_command.vmscope("stack", "-p", self.guest.pid)
            counted = calls.counts(self.guest.run("calls && true"))[0]
        self.assertEqual(wrong(self.checked(path), "calls", counted), {})

    @takes_long
    def test_client_killed(self):
        """The guest runs on, what was written can be read, the next one can trace."""
        path = calls.directory(self)
        tracer = calls.Tracer(self.guest, path, "--by", "task")
        self.guest.run("calls && true")
        tracer.kill()
        trace = uftrace_data.Trace(path)
        # Of a task that had just begun the file may be there already, and nothing else.
        self.assertEqual([error for error in trace.check() if "does not know" not in error], [])
        self.assertGreater(len(trace.entries()), 100)
        calls.uftrace("report", path)
        trace = self.trace("calls && true")
        self.assertEqual(wrong(trace, "calls", calls.counts(self.output)[0]), {})

    def test_client_stopped(self):
        """Its ring fills: the guest goes on, and what was lost is told."""
        path = calls.directory(self)
        tracer = calls.Tracer(self.guest, path, "--by", "task")
        self.addCleanup(tracer.kill)
        self.guest.start_workload("mix")
        self.addCleanup(self.guest.stop_workload)
        tracer.process.send_signal(signal.SIGSTOP)
        testbed.wait_for(lambda: calls.has_lost(self.guest), "records that find no room")
        self.guest.stop_workload()
        tracer.process.send_signal(signal.SIGCONT)
        self.guest.run("true")
        self.assertIn("lost", tracer.stop().lower())
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(lost_some=True), [])
        self.assertGreater(trace.lost, 0)

    @takes_long
    def test_qemu_stopped(self):
        """A trace of it ends, the next one says why it does not begin; then the guest goes on."""
        pid, path = self.guest.pid, calls.directory(self)
        tracer = calls.Tracer(self.guest, path, "--by", "task")
        self.guest.run("calls && true")
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertIn("the end of the trace may be missing", tracer.stop())
            self.refused(f"kill -CONT {pid}", "-o", calls.directory(self))
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertGreater(len(uftrace_data.Trace(path).entries()), 100)
        self.guest.run("true")
        with calls.tracing(self.guest, calls.directory(self)):
            self.guest.run("true")

    def test_quit_by_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            path = calls.directory(self)
            tracer = calls.Tracer(self.guest, path)
            tracer.process.send_signal(number)
            tracer.wait()
            self.checked(path)


class Ends(unittest.TestCase):
    """Guests that do not outlive their test, or not as they were."""

    def test_qemu_killed_by_run(self):
        """What QEMU had written is complete up to then; `vmscope run --calls` ends as QEMU does."""
        path = calls.directory(self)
        guest = linux_guest.LinuxGuest("6.1", launcher=calls.launcher(path, "--by", "task",
                                                          *calls.symbols()))
        self.addCleanup(guest.stop)
        counted = calls.counts(guest.run("calls"))[0]
        os.kill(guest.pid, signal.SIGKILL)
        self.assertEqual(guest.process.wait(testbed.BOOT_SECONDS), 128 + signal.SIGKILL)
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual(wrong(trace, "calls", counted), {})

    @takes_long
    def test_run_killed(self):
        """`vmscope run --calls` killed: QEMU and the guest run on."""
        path = calls.directory(self)
        guest = linux_guest.LinuxGuest("6.1", launcher=calls.launcher(path, "--by", "task",
                                                          *calls.symbols()))
        self.addCleanup(guest.stop)
        guest.run("calls")
        guest.process.kill()
        guest.process.wait()
        self.assertIn("DONE", guest.run("calls"))
        self.assertEqual([error for error in uftrace_data.Trace(path).check()
                          if "does not know" not in error], [])


if __name__ == "__main__":
    unittest.main()
