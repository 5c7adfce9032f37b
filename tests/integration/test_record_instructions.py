# SPDX-License-Identifier: MIT
"""Recordings of a guest at every so many instructions: the same in every run; the truth about which
instruction that is, is QEMU's own log of all that it executes."""
import contextlib
import pathlib
import re
import struct
import tempfile
import unittest

import agent_client
import coverage
import fxt_format
import qemu_machine
import testbed
from test_record_guest import report_stats, start_recording
from vmscope_command import vmscope

PERIOD = 10007


# Timers that count instructions: what the firmware waits for comes in every run at the same one.
STEADY = ("-icount", "shift=3,sleep=off")


def stacks_of(data):
    """The program counters of each sample, in order."""
    for item in fxt_format.decode(data):
        if item[0] == fxt_format.LARGE and item[1] == 0 and not item[10][1] and not item[11][1]:
            yield struct.unpack(f"<{len(item[13]) // 8}Q", item[13])


class RecordInstructions(unittest.TestCase):
    """From the first instruction of the firmware on; the guest's program follows it."""

    arch = "x86_64"
    program = testbed.GUESTS / "counter.elf"

    @classmethod
    def setUpClass(cls):
        testbed.build_guests()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def start(self, name, *extra, accel="tcg,thread=multi"):
        self.agent = self.folder / f"agent-{name}"
        machine = qemu_machine.Machine("-S", "-kernel", self.program, *agent_client.options(self.agent), *extra,
                                       smp=1, memory=64, accel=accel, arch=self.arch)
        stopping = contextlib.ExitStack()
        stopping.callback(machine.stop)
        self.addCleanup(stopping.close)
        return machine, stopping.close

    def record(self, name, period, *extra, **options):
        """What is recorded within a moment, and how often it was lost."""
        (machine, stop), file = self.start(name, *extra, **options), self.folder / name
        with start_recording("--agent", self.agent, "--instructions", period, "-t", 0.7, "-o", file) as recorder:
            machine.qmp.command("cont")
            _, err = recorder.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(recorder.returncode, 0, err)
        self.assertEqual(machine.qmp.status(), "running")
        stop()
        stats = report_stats(file)
        stacks = list(stacks_of(file.read_bytes()))
        self.assertEqual((stats["collected"], stats["lost"], stats["missed"], stats["period instructions"]),
                         (len(stacks), 0, 0, period))
        return stacks

    def test_repeatable(self):
        """Two runs differ in how far they come, and in nothing else; another period gives others."""
        first, second = (self.record(name, 10 * PERIOD, *STEADY, accel="tcg,thread=single") for name in ("first", "second"))
        n = min(len(first), len(second))
        self.assertGreater(n, 20)
        self.assertEqual(first[:n], second[:n])
        self.assertNotEqual(first[:20], self.record("third", 10 * PERIOD + 1)[:20])

    def test_truth(self):
        """Sample n is of instruction n * PERIOD."""
        log = self.folder / "log"
        stacks = self.record("truth", PERIOD, "-d", "exec,nochain", "-D", log,
                             accel="tcg,thread=multi,one-insn-per-tb=on")
        executed = coverage.ExecLog(log).blocks
        self.assertGreater(len(stacks), 3)
        self.assertIn(f"every {PERIOD} instructions", vmscope("report", self.folder / "truth").out)
        weights = re.findall(r" (\d+) (\S+):", vmscope("report", "--format", "perf", self.folder / "truth").out)
        self.assertEqual(weights, [(str(PERIOD), "instructions")] * len(stacks))
        self.assertEqual([stack[0] for stack in stacks],
                         [executed[n * PERIOD - 1] for n in range(1, len(stacks) + 1)])

    def test_killed(self):
        """A recorder that is killed while the vCPU waits for it: the guest goes on, and another one records."""
        machine, _ = self.start("killed")
        with start_recording("--agent", self.agent, "--instructions", 1000, "-o", self.folder / "killed") as recorder:
            machine.qmp.command("cont")
            recorder.kill()
            recorder.wait(testbed.ANSWER_SECONDS)
        machine.wait_until(lambda: "READY" in machine.serial(), "the guest to go on")
        run = vmscope("record", "--agent", self.agent, "--instructions", PERIOD, "-t", 0.2, "-o", self.folder / "next")
        self.assertRegex(run.err, r"[1-9]\d* samples")

    def test_errors(self):
        machine, _ = self.start("errors")
        for options, status, message in (
                (("--agent", self.agent, "--instructions", "999"), 2, "1000"),
                (("--agent", self.agent, "--instructions", "5000", "--wall"), 2, "execute no instructions"),
                (("--agent", self.agent, "--instructions", "5000", "-F", "9"), 2, "exclude each other"),
                (("-a", "--instructions", "5000"), 2, "for a guest instructions"),
                (("--qmp", machine.qmp_path, "--allow-stop", "--instructions", "5000"), 1, "that takes the agent")):
            with self.subTest(options):
                run = vmscope("record", *options, "-t", 0.1, "-o", self.folder / "nothing", check=False)
                self.assertEqual(run.status, status, run.err)
                self.assertIn(message, run.err)


if __name__ == "__main__":
    unittest.main()
