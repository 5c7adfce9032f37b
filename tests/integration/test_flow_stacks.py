# SPDX-License-Identifier: MIT
"""Stacks at hits on Linux guests: the truth is what the guest's own kernel says of its stacks."""
import collections
import json
import pathlib
import re
import tempfile
import unittest

from test_agent_engine import LinuxGuest
import testbed
from test_flow import Tracer
from vmscope_command import vmscope

TRACING = "/sys/kernel/tracing"


class Stacks(Tracer):
    """Of one kernel."""

    def stacks(self, records):
        """The frames of each record's stack in the kernel."""
        for record in records:
            *_, value = record["values"]
            self.assertEqual((value["name"], value["status"]), ("stack", "known"))
            frames = value["text"].split(";")
            if frames[-1].startswith("["):  # busybox has no unwind tables
                self.assertTrue(frames[-2].endswith("user)"), frames)
                frames.pop()
            self.assertEqual(len(frames), len(value["value"]), frames)
            yield [frame for frame in frames if not frame.endswith("user)")]

    def test_sleeping(self):
        """Where a program waits: the kernel tells the same offsets, but for its scheduler's."""
        records = self.records("schedule=pid,stack", "--if", 'comm == "sleep"',
                               run="sleep 1000 & p=$!; until grep -q '^State:.S' /proc/$p/status;"
                                   "do :; done; cat /proc/$p/stack; kill $p; echo $p")
        *lines, pid = self.output.splitlines()
        truth = [re.match(r"\[<0>\] ([^/]+)", line)[1] for line in lines]
        self.assertGreater(len(truth), 3)
        ours = [record for record in records if int(record["values"][0]["value"], 16) == int(pid)]
        found = list(self.stacks(ours))
        self.assertIn(truth, [stack[-len(truth):] for stack in found], found)
        for stack in found:
            self.assertEqual(stack[0], "schedule+0x0")
        # The program's frames come last.
        for record in ours:
            self.assertIn("user)", record["values"][1]["text"])

    def probed(self):
        """A function that the program "probed" comes to, and the condition that it is that."""
        return (self.one_of("__fdget_pos", "fdget_pos"), "--if",
                'comm == "probed" && arg0 == 77')

    def one_of(self, *functions):
        """The one that the kernel has."""
        names = {symbol.name for symbol in self.guest.kallsyms()}
        return next(function for function in functions if function in names)

    def test_counted(self):
        """Hits by stack: as many as the program has made calls, in one row."""
        function, *condition = self.probed()
        traced = self.trace("--json", function, "--count-by", "stack", *condition,
                            run="probed calls 40")
        self.assertEqual(traced.status, 0, traced.err)
        table, summary = map(json.loads, traced.out.splitlines())
        self.assertEqual([row["count"] for row in table["rows"]], [40])
        self.assertEqual((summary["counted"], summary["lost"], summary["unfit"]), (40, 0, 0))
        frames = table["rows"][0]["key"][0]["text"].split(";")
        self.assertEqual(frames[0], f"{function}+0x0")
        self.assertGreater(len(frames), 3)

    def test_room(self):
        """Stacks that find no room in the table are counted, and so are lost hits."""
        traced = self.trace("--json", "vfs_read", "schedule", "--count-by", "stack", "--max-keys",
                            "1", run="cat /proc/self/maps > /dev/null; sleep 0.01")
        table, summary = map(json.loads, traced.out.splitlines())
        self.assertEqual(len(table["rows"]), 1)
        self.assertEqual(table["rows"][0]["count"], summary["counted"])
        self.assertGreater(summary["unfit"], 0)

    def test_exported(self):
        """In the formats of samples, with the numbers of the table."""
        function, *condition = self.probed()
        with tempfile.TemporaryDirectory() as folder:
            svg, folded = (pathlib.Path(folder) / name for name in ("hits.svg", "hits.folded"))
            traced = self.trace(function, "--count-by", "comm,stack", *condition, "-o", svg, "-o",
                                folded, "-o", "-", run="probed calls 40")
            self.assertEqual(traced.status, 0, traced.err)
            frames = [line.split("+")[0].strip() for line in traced.out.splitlines()
                      if line.startswith(" " * 17)]
            path = re.escape(";".join(reversed(frames)))
            self.assertRegex(folded.read_text(), rf"^probed \(\d+\);{path} 40\n$")
            self.assertIn(f">{function} (40 samples, 100.00 %)<", svg.read_text())
        traced = self.trace(function, "--count-by", "stack", *condition, "--format", "folded",
                            run="probed calls 3")
        self.assertRegex(traced.out, rf"^probed \(\d+\);{path} 3\n$")
        self.assertIn("3 in the table", traced.err)

    def test_wrong_export(self):
        """What cannot be exported is said before anything is armed."""
        for arguments in (("--count", "-o", "/tmp/x.svg"), ("--format", "folded"),
                          ("--count-by", "stack", "-o", "/tmp/x.data"),
                          ("--count-by", "stack", "--format", "text"),
                          ("--count-by", "stack", "--format", "wrong")):
            run = self.flow("schedule", *arguments, check=False)
            self.assertNotEqual(run.status, 0, arguments)
            self.assertIn("vmscope: ", run.err)
            self.assertFalse(run.out)

    def test_text(self):
        """The frames stand below the hit; a saved report has them, without the guest."""
        function, *condition = self.probed()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "hits"
            traced = self.trace(f"{function}=stack", *condition, "-o", path, "-o", "-",
                                run="probed calls 2")
            self.assertEqual(traced.status, 0, traced.err)
            lines = traced.out.splitlines()
            self.assertRegex(lines[0], rf"probed \d+/\d+  {function}$")
            self.assertEqual(lines[1], " " * 17 + f"{function}+0x0")
            shown = vmscope("flow", "report", path)
            self.assertEqual(shown.out.splitlines()[:len(lines) - 1], lines[:-1])


def user_names(value):
    """The functions of a stack's user frames, the innermost first; "?" for those without a name."""
    names = [re.match(r"_*([^+]+)\+|0x", frame)[1] for frame in value["text"].split(";")
             if frame.endswith("user)")]
    return [name or "?" for name in names]


class Programs(Tracer):
    """The frames of programs without frame pointers (tests/guests/frames.c): its source is the truth."""
    programs = ("frames", "frames-static")  # with libraries, and without .eh_frame_hdr

    def check(self, value, wanted):
        """The innermost functions; the outermost is _start."""
        self.assertEqual(value["status"], "known")
        names = user_names(value)
        self.assertEqual(names[:len(wanted)], wanted, value)
        self.assertEqual(names[-1], "start", value)

    def test_in_the_kernel(self):
        """Where a program has called the kernel to sleep, several calls deep."""
        wanted = ["pause", "wait_inner", *["wait_middle"] * 3, "wait_outer", "main"]
        for program, entry in zip(self.programs, ("stack", "ustack")):
            records = self.records(f"schedule={entry}", "--if", f'comm == "{program}"', run=f"{program} wait & "
                                   "p=$!; until grep -q '^State:.S' /proc/$p/status; do :; done; sleep 0.1;"
                                   "kill -9 $p")
            # The guest's clock may interrupt it elsewhere, as while ld.so looks for pause().
            last = [record["values"][0] for record in records
                    if {"pause", "wait_inner"} <= set(user_names(record["values"][0]))]
            self.assertTrue(last, records)
            for value in last:
                self.check(value, wanted)
                self.assertEqual(value["text"].startswith("schedule+0x0;"), entry == "stack")

    def test_in_the_program(self):
        """At a function of the program; counted by stack, and exported with its names."""
        pid = int(self.guest.run("frames spin >/dev/null 2>&1 & echo $!"))
        self.addCleanup(self.guest.run, f"kill -9 {pid}")
        testbed.wait_for(lambda: "frames" in self.guest.run(f"readlink /proc/{pid}/exe"), "frames")
        ways = collections.Counter()
        for entry in "stack", "ustack":
            run = self.flow("--json", "--task", pid, f"burn={entry}", "--hits", "4")
            *records, _ = map(json.loads, run.out.splitlines())
            for record in records:
                value, = record["values"]
                way = user_names(value)[1]
                self.check(value, ["burn", way, "spin", "main"])
                ways[way] += 1
        self.assertEqual(ways, {"seldom": 2, "often": 6})
        run = self.flow("--task", pid, "burn", "--count-by", "stack", "--hits", "8", "--format", "folded")
        found = {tuple(line.rsplit(" ", 1)[0].split(";")[-4:]): int(line.rsplit(" ", 1)[1])
                 for line in run.out.splitlines()}
        self.assertEqual(found, {("main", "spin", "seldom", "burn"): 2,
                                 ("main", "spin", "often", "burn"): 6}, run.out)


class ProgramsX86(Programs, unittest.TestCase):
    @staticmethod
    def start_guest():
        return LinuxGuest()


class Traced(Stacks):
    """Of a kernel that traces its functions, with their stacks."""

    def ftrace(self, function, command):
        """A command that has the guest's kernel trace a function with its stacks, and prints it."""
        return (f"cd {TRACING} 2>/dev/null && test -e trace || mount -t tracefs t {TRACING};"
                f"cd {TRACING}; echo {function} > set_ftrace_filter;"
                "echo 1 > options/func_stack_trace; echo function > current_tracer; echo > trace;"
                f"{command}; echo 0 > tracing_on; cat trace;"
                "echo nop > current_tracer; echo 0 > options/func_stack_trace;"
                "echo > set_ftrace_filter; echo 1 > tracing_on; cd /")

    def ftraced(self, function):
        """Stacks of what such a command has printed, by the names of their functions."""
        stacks = collections.Counter()
        for part in self.output.split("<stack trace>")[1:]:
            names = re.findall(r"^ => ([\w.]+)$", part, re.M)
            if function in names:
                stacks[tuple(names[names.index(function):])] += 1
        return stacks

    def compare(self, function, command, *more):
        """Each stack that the kernel has traced is one of ours. Returns them."""
        records = self.records(f"{function}=stack", *more, run=self.ftrace(function, command))
        ours = collections.Counter(tuple(frame.split("+")[0] for frame in stack)
                                   for stack in self.stacks(records))
        truth = self.ftraced(function)
        self.assertFalse(truth - ours, (truth - ours, ours))
        return truth

    def test_files(self):
        """Of system calls, some deep."""
        truth = self.compare("security_file_permission",
                             "for i in 1 2 3; do cat /proc/self/maps /proc/uptime > /dev/null;"
                             "done")
        self.assertGreater(sum(truth.values()), 6)
        truth = self.compare(self.one_of("__alloc_pages", "__alloc_pages_noprof"),
                             "ls -lR /sys/module > /dev/null; sh -c :")
        self.assertGreater(max(map(len, truth)), 10)

    def test_interrupts(self):
        """Through an interrupt's own stack to the task that it has interrupted."""
        sleep = "for i in 1 2 3 4 5 6; do sleep 0.02; done;"
        work = "while kill -0 $$; do :; done & "
        truth = self.compare("hrtimer_wakeup",  # of idle vCPUs, then of busy ones
                             f"{sleep} jobs=; for i in 1 2; do {work} jobs=\"$jobs $!\"; done;"
                             f"{sleep} kill $jobs")
        self.assertGreater(len(truth), 1)


class X86(Traced, unittest.TestCase):
    @staticmethod
    def start_guest():
        return LinuxGuest()


if __name__ == "__main__":
    unittest.main()
