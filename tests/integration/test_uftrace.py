# SPDX-License-Identifier: MIT
"""What uftrace makes of data directories: calls that this test made up, with addresses that collide.

The environment's UFTRACE is another uftrace than the installed one.
"""
import collections
import json
import os
import pathlib
import pty
import random
import re
import resource
import select
import subprocess
import tempfile
import unittest

import testbed
import uftrace_data

TOOL = testbed.BUILD / "tests" / "tools" / "calls-directory"
UFTRACE = os.environ.get("UFTRACE", "uftrace")
KERNEL, MODULE = 0xffffffff9a000000, 0xffffffffc0a00000  # as KASLR may have it
ARM_KERNEL = 0xffffb2d4c8e00000
FUNCTION = 0x40  # bytes of every function


def uftrace(*command, directory):
    run = subprocess.run([UFTRACE, *command, "--no-pager", "-d", directory], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        raise AssertionError(f"uftrace {' '.join(command)}: {run.returncode} {run.stderr}")
    return run.stdout


class Image:
    def __init__(self, writer, path, key, functions, text=0x1000, symbols=True):
        self.id = writer.next_image()
        self.functions = functions
        self.text = text  # the offset where code begins
        writer.say(f"image {self.id} {key:x} {path}")
        if symbols:
            for i, name in enumerate(functions):
                writer.say(f"symbol {self.id} {text + i * FUNCTION:x} {FUNCTION:x} t {name}")
            writer.say(f"symbols {self.id} 0")

    @property
    def size(self):
        return -(-len(self.functions) * FUNCTION // 0x1000) * 0x1000


class Writer:
    """The lines that the tool is told, and what calls they are."""

    def __init__(self):
        self.lines = []
        self.images = self.spaces = 0
        self.time = 1000
        self.where = {0: {}}  # space: function: address
        self.stacks = collections.defaultdict(list)  # stream: open calls, as (function, address)
        self.calls = collections.Counter()  # function: times that it returned
        self.paths = collections.Counter()  # (function, …): times that it was entered
        self.events = collections.defaultdict(list)  # stream: (B or E, function)

    def say(self, line):
        self.lines.append(line)

    def next_image(self):
        self.images += 1
        return self.images

    def map(self, space, image, address):
        self.say(f"map {space} {address:x} {address + image.size:x} {image.text:x} {image.id}")
        for i, function in enumerate(image.functions):
            self.where[space][function] = address + i * FUNCTION

    def space(self):
        self.spaces += 1
        self.where[self.spaces] = dict(self.where[0])
        return self.spaces

    def stream(self, tid, pid, name):
        self.say(f"stream {tid} {pid} 1000 {name}")

    def _record(self, kind, tid, address):
        self.say(f"{kind} {tid} {self.time} {len(self.stacks[tid])} {address:x}")
        self.time += 10

    def enter(self, tid, space, function):
        self._record("entry", tid, self.where[space][function])
        self.stacks[tid].append((function, self.where[space][function]))
        self.paths[tuple(name for name, _ in self.stacks[tid])] += 1
        self.events[tid].append(("B", function))

    def leave(self, tid):
        function, address = self.stacks[tid].pop()
        self._record("exit", tid, address)
        self.calls[function] += 1
        self.events[tid].append(("E", function))

    def leave_all(self, tid):
        while self.stacks[tid]:
            self.leave(tid)

    def wander(self, tid, space, steps, seed):
        """Calls at random, all of them returned from in the end."""
        choose = random.Random(seed)
        for _ in range(steps):
            if self.stacks[tid] and (choose.random() < 0.45 or len(self.stacks[tid]) > 30):
                self.leave(tid)
            else:
                self.enter(tid, space, choose.choice(sorted(self.where[space])))
        self.leave_all(tid)

    def run(self, directory):
        run = subprocess.run([TOOL, directory], input="\n".join(self.lines) + "\n", text=True,
                             stderr=subprocess.PIPE)
        return run.returncode


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vmscope-uftrace-")
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name) / "trace"

    def report(self, *options):
        text = uftrace("report", "-f", "call", *options, directory=self.directory)
        return {match[2]: int(match[1]) for match in
                re.finditer(r"^ *(\d+)  (.*\S) *$", text, re.MULTILINE)}

    def chrome(self, *options):
        """Streams' events, by the number that uftrace shows."""
        dump = json.loads(uftrace("dump", "--chrome", *options, directory=self.directory))
        events = collections.defaultdict(list)
        for event in dump["traceEvents"]:
            if event["ph"] in "BE":
                events[event.get("tid", event["pid"])].append((event["ph"], event["name"]))
        return events

    def flames(self):
        lines = uftrace("dump", "--flame-graph", directory=self.directory).splitlines()
        return {tuple(line.rpartition(" ")[0].split(";")): int(line.rpartition(" ")[2])
                for line in lines}

    def check_reader(self):
        """The tests' own reader finds nothing wrong either."""
        self.assertEqual(uftrace_data.Trace(self.directory).check(), [])

    def check_all(self, writer):
        self.assertEqual(self.report(), dict(writer.calls))
        self.assertEqual(self.chrome(), dict(writer.events))
        self.assertEqual(self.flames(), dict(writer.paths))
        replay = uftrace("replay", "--no-merge", directory=self.directory)
        shown = collections.Counter(re.findall(r"\| *(\S.*)\(\) \{$", replay, re.MULTILINE))
        self.assertEqual(shown, writer.calls)
        self.check_reader()


class Names(TestCase):
    def kernel(self, writer, kernel=KERNEL, module=MODULE):
        image = Image(writer, "vmlinux", 0, ["do_syscall_64", "vfs_read", "schedule"], text=0)
        writer.map(0, image, kernel)
        # Called as a library is.
        image = Image(writer, "libc", 0, ["ext4_file_read_iter", "ext4_map_blocks"], text=0)
        writer.map(0, image, module)

    def processes(self, writer):
        """Programs at one address, two files of one name, a library that is elsewhere in each."""
        library = Image(writer, "/usr/lib/libc.so.6", 10, ["malloc", "free", "memcpy"], text=0x26000)
        same_name = Image(writer, "/opt/lib/libc", 11, ["other_malloc"])
        spaces = []
        for i, path in enumerate(("/bin/app", "/bin/app", "/sbin/init", "/home/my own/program")):
            program = Image(writer, path, i, [f"main{i}", f"work{i}", f"operator{i} new"],
                            text=0x1000 * (1 + i))
            space = writer.space()
            writer.map(space, program, 0x401000)
            writer.map(space, library, 0x7f0000026000 + 0x3000 * i)
            writer.map(space, same_name, 0x7e0000001000)
            spaces.append(space)
        return spaces

    def test_vcpus(self):
        """Two vCPUs that change between processes all the time."""
        writer = Writer()
        self.kernel(writer)
        spaces = self.processes(writer)
        writer.stream(100, 0, "cpu0")
        writer.stream(200, 0, "cpu1")
        for i in range(120):
            tid, space = 100 * (1 + i % 2), spaces[i * 7 % 4]
            writer.say(f"switch {tid} {space}")
            writer.wander(tid, space, 30, i)
        self.assertEqual(writer.run(self.directory), 0)
        self.check_all(writer)

        dump = uftrace("dump", "--chrome", directory=self.directory)
        for name in ("cpu0", "cpu1"):
            self.assertIn(name, dump)

    def test_aarch64(self):
        """48 bits of the kernel's addresses look like those of processes."""
        writer = Writer()
        self.kernel(writer, ARM_KERNEL, ARM_KERNEL - 0x4000000)
        program = Image(writer, "/bin/busybox", 1, ["main", "usage"])
        space = writer.space()
        writer.map(space, program, ARM_KERNEL & 0xffffffffffff)
        writer.stream(101, 0, "cpu0 kernel")
        writer.stream(100, 0, "cpu0 user")
        for i in range(20):
            writer.wander(101, 0, 40, i)
        self.assertEqual(writer.run(self.directory), 0)
        self.check_all(writer)

    def test_without_symbols(self):
        """Functions are told by their file and the offset in it."""
        writer = Writer()
        stripped = Image(writer, "/bin/stripped", 1, ["stripped+0x5000", "stripped+0x5040"],
                         text=0x5000, symbols=False)
        space = writer.space()
        writer.map(space, stripped, 0x560000005000)
        writer.stream(100, 0, "cpu0")
        writer.say(f"switch 100 {space}")
        writer.wander(100, space, 200, 1)
        self.assertEqual(writer.run(self.directory), 0)
        self.check_all(writer)

    def test_not_the_hosts(self):
        """A file of the host that is called as one of the guest lends it no names."""
        writer = Writer()
        host = pathlib.Path("/bin/sh").resolve()
        image = Image(writer, host, 1, ["guest_function"], text=0)
        space = writer.space()
        writer.map(space, image, 0x560000000000)
        writer.stream(100, 0, "cpu0")
        writer.say(f"switch 100 {space}")
        writer.wander(100, space, 10, 1)
        writer.say("update")
        for address in range(0x560000000100, 0x560000001000, 0x100):
            writer.where[space][f"{host.name}+{address & 0xfff:#x}"] = address
        writer.wander(100, space, 300, 2)
        self.assertEqual(writer.run(self.directory), 0)
        self.assertEqual(self.report(), dict(writer.calls))

    def test_odd_names(self):
        writer = Writer()
        names = {"two words": "two words", 'quo"te\\': "quo:te:", "semi;colon": "semi:colon",
                 "operator()(int, char*)": "operator()(int, char*)", "longjmp": "longjmp.0",
                 "execve": "execve.0", "setjmp": "setjmp", "_Z3fooi": "foo"}
        odd = Image(writer, "odd", 0, list(names), text=0)
        writer.map(0, odd, KERNEL)
        writer.stream(100, 0, 'cpu "0"/\\x')
        writer.wander(100, 0, 500, 3)
        self.assertEqual(writer.run(self.directory), 0)
        self.assertEqual(self.report(), {names[name]: n for name, n in writer.calls.items()})
        self.assertEqual(self.flames(),
                         {tuple(names[name] for name in path): n for path, n in writer.paths.items()})
        self.assertEqual(self.chrome()[100], [(kind, names[name]) for kind, name in writer.events[100]])

    def test_jumps_do_not_confuse(self):
        """Calls that are open at a longjmp and at an exec are still the callers of what follows."""
        writer = Writer()
        image = Image(writer, "/bin/app", 1, ["main", "setjmp", "longjmp", "execve", "f"])
        space = writer.space()
        writer.map(space, image, 0x401000)
        writer.stream(100, 0, "cpu0")
        writer.say(f"switch 100 {space}")
        writer.enter(100, space, "main")
        for name in ("setjmp", "longjmp", "execve") * 3:
            writer.enter(100, space, name)
            writer.leave(100)
            writer.enter(100, space, "f")
            writer.leave(100)
        begin = 1000
        writer.leave_all(100)
        total = (writer.time - 10 - begin) / 1000
        self.assertEqual(writer.run(self.directory), 0)
        report = uftrace("report", "-f", "total,call", directory=self.directory)
        self.assertRegex(report, rf"{total:.3f} us +1  main")
        self.assertEqual(self.report()["f"], 9)


class Tasks(TestCase):
    def test_thousand(self):
        """More threads than the writer keeps files open, with names of their own."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        writer = Writer()
        image = Image(writer, "vmlinux", 0, ["f", "g"], text=0)
        writer.map(0, image, KERNEL)
        names, shown = {}, collections.Counter()
        for i in range(1000):
            tid, pid = 5000 + i, 5000 + i // 4 * 4
            names[tid] = f"main{pid}" if i % 2 == 0 else f"thread/{tid}"
            writer.stream(tid, pid, names[tid])
        for _ in range(2):
            for tid in names:
                writer.wander(tid, 0, tid % 7 + 1, tid)
        for tid, events in writer.events.items():
            shown[tid, names[tid].replace("/", ":")] = len(events) // 2
        self.assertEqual(writer.run(self.directory), 0)
        report = uftrace("report", "--task", directory=self.directory)
        self.assertEqual({(int(match[1]), match[3]): int(match[2]) for match in
                          re.finditer(r"s +(\d+) +(\d+)  (\S+) *$", report, re.MULTILINE)},
                         dict(shown))
        self.assertEqual(self.report(), dict(writer.calls))
        self.assertEqual(self.chrome().keys(), writer.events.keys())
        self.check_reader()


class Depth(TestCase):
    def test_recursion(self):
        """3000 deep: a record's depth ends at 1023, and uftrace looks 1024 deep unless told."""
        writer = Writer()
        image = Image(writer, "/bin/app", 1, ["main", "recurse", "after"])
        space = writer.space()
        writer.map(space, image, 0x401000)
        writer.stream(100, 0, "cpu0")
        writer.say(f"switch 100 {space}")
        for _ in range(2):
            writer.enter(100, space, "main")
            for _ in range(3000):
                writer.enter(100, space, "recurse")
            writer.leave_all(100)
        writer.enter(100, space, "after")
        writer.leave(100)
        self.assertEqual(writer.run(self.directory), 0)
        deep = ("-D", "60000", "--max-stack", "60000")
        self.assertEqual(self.report(*deep), dict(writer.calls))
        # main runs from its own entry to its own exit.
        report = uftrace("report", "-f", "total,call", *deep, directory=self.directory)
        self.assertRegex(report, rf"{2 * 6001 * 10 / 1000:.3f} us +2  main")
        self.assertEqual(self.chrome(*deep), dict(writer.events))
        self.assertEqual(self.report(), {"main": 2, "recurse": 2 * 1023, "after": 1})
        self.check_reader()


class Faults(TestCase):
    def writer(self):
        writer = Writer()
        writer.map(0, Image(writer, "vmlinux", 0, ["f", "g", "h"], text=0), KERNEL)
        writer.stream(100, 0, "cpu0")
        return writer

    def test_killed(self):
        """A writer that is killed: what had been told to it before is there, with names."""
        writer = self.writer()
        writer.wander(100, 0, 500, 5)
        writer.enter(100, 0, "h")
        writer.say("update")
        writer.say("kill")
        self.assertEqual(writer.run(self.directory), -9)
        self.assertEqual(self.report(), dict(writer.calls + collections.Counter("h")))
        self.assertIn("remaining functions", uftrace("replay", directory=self.directory))
        self.check_reader()

    def test_being_written(self):
        writer = self.writer()
        with subprocess.Popen([TOOL, self.directory], stdin=subprocess.PIPE, text=True) as tool:
            for i in range(3):
                writer.wander(100, 0, 100, i)
                writer.say("update")
                tool.stdin.write("\n".join(writer.lines) + "\n")
                tool.stdin.flush()
                writer.lines.clear()
                testbed.wait_for(lambda: (self.directory / "info").exists() and
                                 (self.directory / "100.dat").exists() and
                                 self.report() == dict(writer.calls), "the records")
            tool.stdin.close()
            self.assertEqual(tool.wait(), 0)
        self.check_all(writer)

    def test_lost(self):
        """Calls that nobody saw the begin or the end of."""
        writer = self.writer()
        address = writer.where[0]
        writer.say(f"exit 100 900 3 {address['h']:x}")  # met in the middle
        writer.say(f"exit 100 910 2 {address['g']:x}")
        writer.say(f"exit 100 920 1 {address['f']:x}")
        writer.say(f"exit 100 930 0 {address['f']:x}")
        writer.wander(100, 0, 100, 1)
        writer.enter(100, 0, "f")
        writer.enter(100, 0, "g")
        writer._record("lost", 100, 77)
        writer.stacks[100].clear()
        writer.wander(100, 0, 100, 2)
        self.assertEqual(writer.run(self.directory), 0)
        # A call that is open where records are lost counts when it returns, here never.
        seen = writer.calls + collections.Counter(f=2, g=1, h=1)
        self.assertEqual(self.report(), dict(seen))
        self.assertIn("LOST 77 records", uftrace("replay", directory=self.directory))


class Interactive(TestCase):
    def test_tui(self):
        writer = Writer()
        writer.map(0, Image(writer, "vmlinux", 0, ["do_syscall_64", "vfs_read"], text=0), KERNEL)
        writer.stream(100, 0, "cpu0")
        writer.wander(100, 0, 100, 1)
        self.assertEqual(writer.run(self.directory), 0)
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm", LINES="24", COLUMNS="80")
            os.execvp(UFTRACE, [UFTRACE, "tui", "-d", str(self.directory)])
        shown = b""
        while b"vfs_read" not in shown:
            self.assertTrue(select.select([terminal], [], [], testbed.ANSWER_SECONDS)[0], shown)
            shown += os.read(terminal, 4096)
        os.write(terminal, b"q")
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        os.close(terminal)


if __name__ == "__main__":
    unittest.main()
