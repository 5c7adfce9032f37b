# SPDX-License-Identifier: MIT
"""Call traces of a guest of our own, which counts how often each of its functions is entered."""
import collections
import subprocess
import unittest

import calls
from callgrind_file import Callgrind
import qemu_machine
import testbed
import uftrace_data
from vmscope_command import vmscope

# The guest switches between three stacks, and a vCPU's file has one. A stack that is new lies on the
# one that it was come from; one that is come back to from above ends what is above for as long: it
# gets exits, and entries again later. So it goes for the second coroutine of calls_bare.c's
# play_coroutines(): it is come back to with 1 to 51 calls of step() open.
PASSES = range(1, 52)
RESUMED = {
    "coroutine": len(PASSES),
    "step": sum(PASSES),
    "pass_on": len(PASSES),
    "switch_stack": len(PASSES),
}
# The processor comes to these by itself, unnoticed: nothing tells that they are functions.
VECTORS = {"vector_call", "vector_undefined", "vector_fault", "vector_tick"}


def expected(counted, before=None, scenes=1):
    """What a trace has to show of what the guest has counted between two parts."""
    return {name: n - (before or {}).get(name, 0) + RESUMED.get(name, 0) * scenes
            for name, n in counted.items() if name not in VECTORS}


class Bare:
    """From the first instruction to the last, with a deep wait in between."""

    by = "vcpu"
    qemu = None

    @classmethod
    def setUpClass(cls):
        cls.path = calls.directory(cls)
        testbed.build_guests()
        cls.elf = qemu_machine.ARCHS[cls.arch].programs / "calls-waits.elf"
        guest = qemu_machine.BareGuest(
            "calls-waits", arch=cls.arch, qemu=cls.qemu, has_input=True,
            launcher=calls.launcher(cls.path, "--by", cls.by, "--symbols", cls.elf))
        cls.addClassCleanup(guest.stop)
        guest.send_byte()
        guest.wait_until(lambda: "AGAIN" in guest.serial(), "the second part")
        guest.send_byte()
        cls.status = guest.process.wait(testbed.BOOT_SECONDS)
        cls.counted = calls.counts(guest.serial())
        cls.log = guest.log()
        cls.trace = uftrace_data.Trace(cls.path)
        cls.functions = calls.functions_of(cls.elf, cls.arch)

    def shown(self):
        """Calls by name, of the functions that count themselves."""
        entries = self.trace.entries()
        return {name: entries[self.functions[name]] for name in self.counted[3]
                if name not in VECTORS}

    def test_guest_counts(self):
        """The truth itself: what is known from the program's text."""
        self.assertEqual(self.status, 0, self.log)
        counted = self.counted[3]
        for name, calls_of_it in (("recurse", 2 * 3001), ("climb", 20 * 51), ("jump_back", 20),
                                  ("tail_end", 200), ("pointed", 200), ("step", 102),
                                  ("handle_call", 20 * 4 + 2 * 3), ("handle_fault", 20)):
            self.assertEqual(counted[name], 3 * calls_of_it, name)

    def test_records(self):
        self.assertEqual(self.trace.check(), [])
        self.assertEqual(self.trace.open, {})
        self.assertEqual(self.trace.lost, 0)

    def test_counts(self):
        self.assertEqual(self.shown(), expected(self.counted[3], scenes=3))

    def test_callgrind(self):
        """The call graph has the same calls and callers."""
        graph = Callgrind(vmscope("report", "--callgrind", self.path).out)
        shown = self.shown()
        self.assertEqual({name: graph.costs[name][1] for name in shown if shown[name]},
                         {name: n for name, n in shown.items() if n})
        names = {address: name for name, address in self.functions.items()}
        edges = collections.Counter()
        for stream in self.trace.streams():
            for (caller, callee), n in stream.edges().items():
                if caller in names and callee in names:
                    edges[names[caller], names[callee]] += n
        self.assertEqual({pair: graph.edges[pair][0] for pair in edges}, dict(edges))

    def test_callers(self):
        """Who calls whom, where there is no choice."""
        counted = self.counted[3]
        edges = collections.Counter()
        for stream in self.trace.streams():
            edges.update(stream.edges())
        for caller, callee, n in (("outer", "middle", 2 * counted["outer"]),
                                  ("outer", "leaf", counted["outer"]),
                                  ("middle", "leaf", 2 * counted["middle"]),
                                  ("recurse", "recurse", 6 * 3000),
                                  ("climb", "climb", 60 * 50),
                                  ("climb", "jump_back", 60),
                                  ("handle_tick", "below_handler", counted["handle_tick"]),
                                  ("come_back", "leaf", 60)):
            self.assertEqual(edges[self.functions[caller], self.functions[callee]], n,
                             f"{caller} > {callee}")

    def test_names(self):
        """Of every function, in our reader and in uftrace itself."""
        shown = self.trace.calls()
        self.assertEqual({name: shown[name] for name in self.shown()}, self.shown())
        report = calls.uftrace("report", self.path)
        for name in ("climb", "tail_end", "handle_tick"):  # no deeper than uftrace looks
            self.assertRegex(report, rf"\s{self.shown()[name]}\s+{name}\n")


class Vcpu86(Bare, unittest.TestCase):
    arch = "x86_64"


@unittest.skipUnless(testbed.QEMU_NEW.exists(), "scripts/setup could not get QEMU 11.1 or newer")
class New86(Vcpu86):
    """In a QEMU of the other plugin interface."""
    qemu = (testbed.QEMU_NEW,)


class Vcpu64(Bare, unittest.TestCase):
    arch = "aarch64"


class Level86(Bare, unittest.TestCase):
    arch = "x86_64"
    by = "level"

    def test_streams(self):
        self.assertEqual([self.trace.name_of_task(tid) for tid in self.trace.ids],
                         ["cpu0 kernel"])


class Task64(Bare, unittest.TestCase):
    """Where there are no tasks, each vCPU has one."""
    arch = "aarch64"
    by = "task"


class Running:
    """A trace that begins and ends in the middle of deep stacks."""

    @classmethod
    def setUpClass(cls):
        testbed.build_guests()

    def test_part(self):
        path = calls.directory(self)
        guest = qemu_machine.BareGuest("calls-waits", arch=self.arch, has_input=True,
                                  launcher=(testbed.VMSCOPE, "run", "--"))
        self.addCleanup(guest.stop)
        with calls.tracing(guest, path, "--symbols", guest.elf):
            guest.send_byte()
            guest.wait_until(lambda: "AGAIN" in guest.serial(), "the second part")
        counted = calls.counts(guest.serial())
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual(trace.open, {})
        entries = trace.entries()
        functions = calls.functions_of(guest.elf, self.arch)
        for name, n in expected(counted[2], counted[1]).items():
            if name not in ("deep_wait", "await_word", "guest_main", "scenes"):
                self.assertEqual(entries[functions[name]], n, name)
        # 201 are open as the trace begins, 201 are called in it, and no more.
        self.assertIn(entries[functions["deep_wait"]], (201, 402))
        guest.send_byte()
        guest.process.wait(testbed.BOOT_SECONDS)
        self.assertIn("DONE", guest.serial())


class Running86(Running, unittest.TestCase):
    arch = "x86_64"


class Running64(Running, unittest.TestCase):
    arch = "aarch64"


class Instructions(unittest.TestCase):
    """The clock of instructions: the same guest gives the same records, to the last bit."""

    def records(self, arch, program):
        path = calls.directory(self)
        run = subprocess.run(
            [*map(str, calls.launcher(path, "--by", "vcpu", "--clock", "instructions",
                                      "--symbols", program)), *qemu_machine.ARCHS[arch].qemu,
             "-accel", "tcg", "-icount", "shift=3,sleep=off", "-cpu", "max", "-smp", "1",
             "-m", "64", "-nodefaults", "-no-user-config", "-display", "none", "-serial", "null",
             "-rtc", "clock=vm,base=2026-01-01", "-kernel", str(program)],
            stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=testbed.BOOT_SECONDS)
        self.assertEqual(run.returncode, 0, run.stdout)
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        return [(stream.tid, word, time_ns) for stream in trace.streams()
                for time_ns, word in zip(stream.times, stream.words)]

    def check(self, arch):
        testbed.build_guests()
        program = qemu_machine.ARCHS[arch].programs / "calls.elf"
        first = self.records(arch, program)
        second = self.records(arch, program)
        self.assertGreater(len(first), 50000)
        # All but when guest_main() ends: QEMU goes on a little after the guest has turned it off.
        self.assertTrue(first[:-1] == second[:-1], "other records")
        self.assertEqual(first[-1][1], second[-1][1])

    def test_x86_64(self):
        self.check("x86_64")

    def test_aarch64(self):
        self.check("aarch64")


if __name__ == "__main__":
    unittest.main()
