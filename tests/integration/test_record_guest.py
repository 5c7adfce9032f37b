# SPDX-License-Identifier: MIT
"""Recordings of a guest's threads: what a report shows, by what the guest's program is known to do, and by
what it says of its threads and processes."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import test_agent_engine
import testbed
from test_record import samples_of, start_recording
from vmscope_command import vmscope

HERTZ = 499


def report_stats(file):
    rows = json.loads(vmscope("report", "--stats", "--json", file).out)
    return {row["statistic"]: row["value"] for row in rows}


def folded(file):
    """(stack, count) of each line."""
    lines = vmscope("report", "--format", "folded", file).out.splitlines()
    return [(stack, int(count)) for stack, count in
            (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))]


def count_of(stacks, name):
    return sum(count for stack, count in stacks if re.search(rf"\b{name}\b", stack))


class RecordGuest(unittest.TestCase):
    """By the agent. What the guest does while it is recorded is its own shell's output."""

    make = test_agent_engine.LinuxGuest
    hertz = HERTZ
    seconds = 1

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.guest = cls.make()
        cls.addClassCleanup(cls.guest.stop)
        # Waits for a line, so that it is there before it is recorded.
        cls.guest.run("mkfifo /tmp/go; echo 'read line </tmp/go; eval \"$line\"' >/tmp/wait")

    def start_waiting(self):
        """A shell in the guest that runs what `run_waiting` gives it; its process id."""
        return int(self.guest.run("sh /tmp/wait >/tmp/out 2>&1 & echo $!"))

    def record_while(self, command, file, *options):
        """Records while the guest's shell runs a command, until the recording ends."""
        process = start_recording(*self.guest.target, "-F", self.hertz, "-o", file, *options)
        try:
            self.guest.run(command)
            _, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 0, err)

    def run_waiting(self, command, file, *options):
        """Runs a command in a process of the guest, which is recorded until it has ended; the command's
        output."""
        pid = self.start_waiting()
        self.record_while(f"echo '{command}' >/tmp/go", file, "--job", pid, *options)
        return self.guest.run("cat /tmp/out")

    def test_shares(self):
        """burn_long does three times the work of burn_short. What the guest measures of both is no truth on
        a busy host, which takes its processors away meanwhile."""
        file = self.folder / "shares"
        self.run_waiting(f"record_program shares {self.seconds}", file)
        stacks = folded(file)
        whole = count_of(stacks, "burn_long") + count_of(stacks, "burn_short")
        self.assertAlmostEqual(count_of(stacks, "burn_long") / whole, 3 / 4, delta=0.1)
        self.assertGreater(whole / sum(count for _, count in stacks), 0.5)  # the rest is its start
        self.assertEqual({stack.split(";")[0].split(" (")[0] for stack, _ in stacks} -
                         {"sh", "record_program"}, set())
        stats = report_stats(file)
        self.assertEqual(stats["collected"], stats["samples"])
        self.assertEqual(stats["samples"], len(list(samples_of(file.read_bytes()))))

    def test_births(self):
        """Threads and processes that a shell's program starts and ends: all are found."""
        file = self.folder / "births"
        born = {tuple(map(int, line.split())) for line in
                self.run_waiting("record_program births 6", file).splitlines()}
        found = {(tid, pid) for pid, tid, _, _ in samples_of(file.read_bytes())}
        self.assertEqual(len(born), 12)
        self.assertEqual(born - found, set())
        stacks = folded(file)
        self.assertGreater(count_of(stacks, "burn_short") / sum(count for _, count in stacks), 0.1)

    def test_name(self):
        """A program that begins later, by its name; the recording ends with it."""
        file = self.folder / "name"
        with start_recording(*self.guest.target, "-F", self.hertz, "--name", "record_program",
                             "-o", file) as recorder:
            born = self.guest.run("record_program births 3")
            self.assertEqual(recorder.wait(testbed.ANSWER_SECONDS), 0)
        found = {(tid, pid) for pid, tid, _, _ in samples_of(file.read_bytes())}
        self.assertEqual({tuple(map(int, line.split())) for line in born.splitlines()} - found, set())
        for stack, _ in folded(file):
            if "exec" not in stack:  # in the midst of which it has the name of before
                self.assertEqual(stack.split(" (")[0], "record_program")

    def test_wall(self):
        """What a program does and waits for, by the time that it measures itself."""
        file = self.folder / "wall"
        pid, *times = map(int, self.run_waiting("record_program waits 2", file, "--wall").split())
        self.assertEqual(len(times), 4)
        stacks = [(stack, count) for stack, count in folded(file)
                  if stack.startswith(f"record_program ({pid})")]
        phases = ("run_for_a_while", "wait_in_sleep", "wait_in_futex", "wait_in_read")
        # Of the time that it runs a busy host misses more; so of what it waits, and not of all.
        waits, waited = sum(count_of(stacks, name) for name in phases[1:]), sum(times[1:])
        for name, time in zip(phases[1:], times[1:]):
            self.assertAlmostEqual(count_of(stacks, name) / waits, time / waited, delta=0.1, msg=name)
        self.assertGreater(waits / self.hertz, 0.6 * waited / 1e9)
        # The clock of a guest that is stopped for samples of its vCPUs is behind.
        self.assertLess(waits / self.hertz, 1.3 * waited / 1e9)
        self.assertGreater(count_of(stacks, phases[0]), 0)
        for name, function in zip(phases[1:], (r"hrtimer_nanosleep|do_nanosleep", r"futex_wait\w*",
                                               r"(anon_)?pipe_read")):
            waits = sum(count for stack, count in stacks if name in stack and
                        re.search(rf";\[waiting: S ({function})\];.*;{name}\b.*;({function})\b", stack))
            self.assertGreater(waits / count_of(stacks, name), 0.8, name)
        stats = report_stats(file)
        self.assertGreater(stats["waiting samples"], 0.4 * stats["samples"])
        self.assertEqual(stats["collected"], len(list(samples_of(file.read_bytes()))))

    def test_wait_channels(self):
        """Where all threads sleep, kernel threads too, is what their own kernel says of it."""
        file = self.folder / "all"
        command = "for p in /proc/[0-9]*; do echo ${p#/proc/} $(cat $p/wchan); done"
        before = set(self.guest.run(command).splitlines())
        vmscope("record", *self.guest.target, "--wall", "-F", 20, "-t", 0.3, "-o", file)
        same = dict(line.split() for line in before & set(self.guest.run(command).splitlines())
                    if len(line.split()) == 2)
        found = {}
        for stack, _ in folded(file):
            match = re.match(r".* \((\d+)\);\[waiting: [SDI] (\w+)\]", stack)
            if match:
                found.setdefault(match[1], set()).add(match[2])
        told = {pid: name for pid, name in same.items() if pid in found
                and not name.startswith(("0", "rcu_"))}  # those of RCU sleep in turn in several places
        self.assertGreater(len(told), 20)
        self.assertEqual({pid: name for pid, name in told.items() if name not in found[pid]}, {})

    def test_overflow(self):
        """Everything of the guest, in buffers that are too small: collected, lost and missed are all
        ticks, and one sample more of each vCPU."""
        file = self.folder / "overflow"
        pid = self.guest.start_workload("deep")
        run = vmscope("record", *self.guest.target, "-F", 2000, "-t", 1, "--buffer", "4K",
                      "-o", file)
        self.guest.run(f"kill {pid}")
        stats = report_stats(file)
        self.assertGreater(stats["lost"], 0)
        self.assertIn(f"{stats['lost']} samples were lost: a buffer was full", run.err)
        self.assertEqual(stats["collected"], len(list(samples_of(file.read_bytes()))))
        ticks = 2 * (1 + stats["elapsed ns"] // stats["period ns"])
        self.assertLessEqual(stats["collected"] + stats["lost"] + stats["missed"], ticks)
        self.assertGreater(stats["collected"] + stats["lost"] + stats["missed"], 0.9 * ticks)

    def test_thread(self):
        """A thread alone; another process is not in the recording."""
        file = self.folder / "thread"
        pids = [self.guest.start_workload("deep") for _ in range(2)]
        vmscope("record", *self.guest.target, "--tid", pids[0], "-t", 0.4, "-o", file)
        self.guest.run(f"kill {pids[0]} {pids[1]}")
        self.assertEqual({(pid, tid) for pid, tid, _, _ in samples_of(file.read_bytes())},
                         {(pids[0], pids[0])})

    def test_cgroup(self):
        """Who is in a control group or below it, and who moves into it meanwhile; nobody else."""
        file = self.folder / "cgroup"
        self.guest.run("mkdir /cg && mount -t cgroup2 none /cg && mkdir -p /cg/chosen/inner /cg/chosen-not")
        there, other, later = [self.guest.start_workload("deep") for _ in range(3)]
        self.guest.run(f"echo {there} >/cg/chosen/inner/cgroup.procs; "
                       f"echo {other} >/cg/chosen-not/cgroup.procs")
        self.record_while(f"echo {later} >/cg/chosen/cgroup.procs", file, "--cgroup", "/chosen", "-t", 2)
        self.guest.run(f"kill {there} {other} {later}")
        self.assertEqual({pid for pid, _, _, _ in samples_of(file.read_bytes())}, {there, later})

    def test_errors(self):
        file = self.folder / "nothing"
        for arguments, status, message in (
                (("--pid", 4000000), 1, "the guest has no process 4000000"),
                (("--tid", 4000000), 1, "the guest has no thread 4000000"),
                (("--cgroup", "/no/such"), 1, "the guest has no process in control group /no/such: ps --with"),
                (("--", "true"), 2, "more than one target")):
            run = vmscope("record", *self.guest.target, "-o", file, *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)
        self.assertFalse(file.exists())


if __name__ == "__main__":
    unittest.main()
