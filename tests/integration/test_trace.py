# SPDX-License-Identifier: MIT
"""vmscope trace: the truth is what the guest's programs were told to do, and what they printed."""
import errno
import json
import pathlib
import re
import signal
import tempfile
import unittest

import testbed
from test_agent_engine import LinuxGuest
from vmscope_command import Run, start_vmscope, vmscope

CALLS = 40


def lines_of_strace(text):
    """What strace -f says of each thread: its calls, those in two parts put together."""
    threads, begun = {}, {}
    for line in text.splitlines():
        tid, said = re.fullmatch(r"(\d+) +(.*)", line).groups()
        unfinished = re.fullmatch(r"(.*) <unfinished \.\.\.>", said)
        resumed = re.fullmatch(r"<\.\.\. \w+ resumed>(.*)", said)
        if unfinished:
            begun[tid] = unfinished[1]
        elif not said.startswith(("---", "+++", "[ Process")):
            threads.setdefault(int(tid), []).append(begun.pop(tid) + resumed[1] if resumed else said)
    return threads


def lines_of_trace(text):
    """What vmscope trace says of each thread, without times."""
    threads = {}
    for line in text.splitlines():
        tid, said = re.fullmatch(r" *[\d.]+  .*? \d+/(\d+)  (.*?)(?: <[\d.]+>)?", line).groups()
        threads.setdefault(int(tid), []).append(said)
    return threads


class Trace:
    """Of one architecture."""
    series, options, loader = "6.1", {}, "ld-linux-x86-64.so.2"

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest(cls.series, **cls.options)
        cls.addClassCleanup(cls.guest.stop)

    def trace(self, *arguments, run):
        """Traces while the guest runs a command; ended as by Ctrl-C."""
        process = start_vmscope("trace", "-v", "-p", self.guest.pid, *arguments)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if "armed" in line:
                break
        self.output = self.guest.run(run)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        return Run(process.returncode, out, err)

    def calls(self, *arguments, run):
        traced = self.trace("--json", *arguments, run=run)
        self.assertEqual((traced.status, traced.err), (0, ""))
        return [json.loads(line) for line in traced.out.splitlines()]

    def test_arguments_and_results(self):
        calls = [call for call in self.calls("-e", "lseek", run=f"probed calls {CALLS}")
                 if call["comm"] == "probed" and self.first(call) == 77]
        self.assertEqual([call["result"] for call in calls], [-errno.EBADF] * CALLS)
        self.assertEqual([self.numbers(call) for call in calls],
                         [(77, 1000 + i, 2000 + i) for i in range(CALLS)])
        self.assertEqual(len({call["pid"] for call in calls}), 1)

    def numbers(self, call):
        inner = re.fullmatch(r"\w+\((.*)\)", call["text"])[1]
        return tuple(int(word, 0) for word in inner.split(", "))

    def first(self, call):
        return self.numbers(call)[0]

    def test_all_of_a_program(self):
        """Every call of one process comes, in its order, with one that does not return."""
        calls = self.calls(run="sh -c 'echo $$; exec sleep 0.3'")
        pid = int(self.output)
        mine = [call for call in calls if call["pid"] == pid]
        names = [call["name"] for call in mine]
        self.assertEqual((names[-1], mine[-1]["result"]), ("exit_group", None))
        self.assertGreaterEqual(names.count("execve"), 2)  # the shell, and sleep
        sleep, = (call for call in mine if call["name"].endswith("nanosleep"))
        self.assertEqual(sleep["result"], 0)
        self.assertGreaterEqual(sleep["duration_ns"], 300_000_000)
        begins = [call["time_ns"] for call in mine]
        self.assertEqual(begins, sorted(begins))

    def assert_as_strace(self, command):
        """Line by line what strace says inside the guest, of the same processes at the same time."""
        strace = f"{self.loader} --library-path /bin /bin/strace -f -a1 -o /tmp/strace"
        traced = self.trace(run=f"{strace} {command} >/dev/null; cat /tmp/strace")
        self.assertEqual((traced.status, traced.err), (0, ""))
        theirs, ours = lines_of_strace(self.output), lines_of_trace(traced.out)
        first = True
        for tid, lines in theirs.items():
            with self.subTest(tid=tid):
                mine = [line for line in ours[tid] if line != "exit_group(0) = ?"]
                if first:  # what strace has its child do before
                    mine = mine[next(i for i, line in enumerate(mine) if line.startswith("execve(")):]
                first = False
                self.assertEqual(mine, [line for line in lines if line != "exit_group(0) = ?"])
        return theirs

    def test_as_strace(self):
        """Structures, lists, sockets, messages, sets: of a program that makes many kinds of calls."""
        theirs = self.assert_as_strace("many_calls /tmp")
        self.assertGreater(max(map(len, theirs.values())), 150)

    def test_failed(self):
        calls = self.calls("--failed", run=f"probed calls {CALLS}; cat /nowhere 2>&1; true")
        self.assertTrue(all(call["result"] < 0 for call in calls))
        self.assertEqual(sum(call["name"] == "lseek" and call["comm"] == "probed"
                             for call in calls), CALLS)
        self.assertIn(-errno.ENOENT, {call["result"] for call in calls if call["comm"] == "cat"})

    def test_task(self):
        pid = int(self.guest.run("sh -c 'while :; do sleep 0.05; done' >/dev/null 2>&1 & echo $!"))
        self.addCleanup(self.guest.run, f"kill {pid}")
        calls = self.calls("--task", str(pid), run="sleep 0.5; cat /proc/uptime")
        self.assertGreater(len(calls), 1)
        self.assertEqual({call["pid"] for call in calls}, {pid})

    def test_output(self):
        """A file gets the calls, and nothing else; both do if both are asked for."""
        with tempfile.TemporaryDirectory() as folder:
            for also, options in ((False, ()), (True, ("-o", "-"))):
                path = pathlib.Path(folder, str(also))
                traced = self.trace("-e", "lseek", "-o", path, *options, run=f"probed calls {CALLS}")
                self.assertEqual((traced.status, traced.err), (0, ""))
                text = path.read_text()
                self.assertEqual(len(re.findall(r"lseek\((77|0x4d), ", text)), CALLS)
                self.assertEqual(traced.out, text if also else "")

    def test_end(self):
        busy = self.guest.run("(while :; do cat /proc/uptime; done) >/dev/null 2>&1 & echo $!")
        self.addCleanup(self.guest.run, f"kill {busy}")
        run = vmscope("trace", "-p", self.guest.pid, "--calls", 25)
        self.assertEqual(len(run.out.splitlines()), 25)

    def test_wrong_words(self):
        for arguments, status, message in (
                (["-e", "no_such_*"], 2, "no system call"),
                (["--task", "me"], 2, "--task"),
                (["--calls", "0"], 2, "from 1"),
                (["-s", "0"], 2, "from 1 to 1024"),
                (["more"], 2, "too many arguments")):
            with self.subTest(arguments=arguments):
                run = vmscope("trace", "-p", self.guest.pid, *arguments, check=False)
                self.assertEqual((run.status, run.out), (status, ""), run.err)
                self.assertIn(message, run.err)
        warned = vmscope("trace", "-p", self.guest.pid, "-e", "getpid,no_such_*", "-t", "0.1").err
        self.assertIn("warning: -e no_such_*: no system call of this guest has such a name", warned)
        self.assertNotIn("getpid", warned)
        # All was taken away again.
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")


class X86(Trace, unittest.TestCase):
    def test_text(self):
        """Types and strings, as this kernel describes them."""
        traced = self.trace("-e", "openat,write", run="cat '/no\"where' 2>&1; "
                                                      "printf 'a\\tb' >/dev/null; true")
        self.assertRegex(traced.out, r'(?m)^ +\d+\.\d{6}  cat \d+/\d+  openat\(AT_FDCWD, '
                                     r'"/no\\"where", O_RDONLY\) = -1 ENOENT '
                                     r'\(No such file or directory\) <\d\.\d{6}>$')
        self.assertRegex(traced.out, r'write\(1, "a\\tb", 3\) = 3 <')

    def test_names(self):
        """Numbers are shown as programs write them."""
        traced = self.trace(run="dd if=/dev/null of=/named seek=3 bs=1 conv=notrunc 2>&1; kill -0 1; "
                                "sleep 0.01; sh -c 'kill -TERM $$'; rm /named; true")
        for text in (r'openat\(AT_FDCWD, "/named", O_WRONLY\|O_CREAT, 0666\) = ',
                     r"lseek\(1, 3, SEEK_CUR\) = 3 ", r"kill\(1, 0\) = 0 ",
                     r"kill\(\d+, SIGTERM\)", r"clock_nanosleep\(CLOCK_REALTIME, 0, ",
                     r"clone\(child_stack=NULL, flags=(CLONE_\w+\|)+SIGCHLD, ",
                     r'unlink\("/named"\) = 0 ', r"mprotect\(0x[0-9a-f]+, \d+, PROT_READ\) = 0 "):
            with self.subTest(text=text):
                self.assertRegex(traced.out, text)

    def test_memory(self):
        """What a program writes and reads, with bytes that are no text, and what it asks for."""
        self.addCleanup(self.guest.run, "rm /bytes")
        traced = self.trace("-e", "read,write,readlink", run=(
            "printf 'a\\0001\\n\\377' >/bytes; dd if=/bytes of=/dev/null bs=100 2>/dev/null; "
            "printf %040d 7 >/dev/null; readlink /proc/self/exe"))
        self.assertRegex(traced.out, r'dd \d+/\d+  read\(0, "a\\0001\\n\\377", 100\) = 5 <')
        self.assertRegex(traced.out, r'dd \d+/\d+  write\(1, "a\\0001\\n\\377", 5\) = 5 <')
        self.assertRegex(traced.out, r'dd \d+/\d+  read\(0, "", 100\) = 0 <')
        self.assertRegex(traced.out, r'write\(1, "0{32}"\.\.\., 40\) = 40 <')
        # The name was in no memory of the program when it asked: its page is read from the disk then.
        self.assertRegex(traced.out, rf'readlink\("/proc/self/exe", "{self.output.strip()}", \d+\) = ')


    def test_narrow(self):
        """Calls of a 32-bit program, by int 0x80 and by the vDSO: names and structures of its own."""
        theirs = self.assert_as_strace("calls32")
        self.assertTrue(any(line.startswith("_llseek(") for line in theirs.popitem()[1]))

    def test_string_size(self):
        traced = self.trace("-e", "write", "-s", "5", run="printf %040d 7 >/dev/null")
        self.assertRegex(traced.out, r'write\(1, "0{5}"\.\.\., 40\) = 40 <')


