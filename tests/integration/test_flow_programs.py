# SPDX-License-Identifier: MIT
"""vmscope flow on functions of a process's programs: the truth is what the program did, and nm."""
import json
import pathlib
import signal
import tempfile
import unittest

import testbed
from probes_tool import symbols
from test_agent_engine import LinuxGuest
from test_flow import Tracer
from vmscope_command import vmscope

STEPS = 30


class Programs(Tracer):
    """Of one architecture."""

    def start_program(self, *arguments):
        """Starts a program that stops itself. Returns its process ID."""
        pid = int(self.guest.run(f"probed-pie stopped {' '.join(arguments)} >/tmp/out 2>&1 & echo $!"))
        testbed.wait_for(lambda: "State:\tT" in self.guest.run(f"cat /proc/{pid}/status"),
                         "the program to stop")
        return pid

    def let_end(self, pid):
        self.guest.run(f"kill -CONT {pid}; "
                       f"while grep -qs 'State:.[RSDT]' /proc/{pid}/status; do sleep 0.1; done")

    def trace_program(self, pid, *arguments):
        """Traces a stopped program until it has ended. Returns the lines of the output."""
        process = self.start("--json", "--task", str(pid), *arguments)
        self.let_end(pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 0, err)
        return [json.loads(line) for line in out.splitlines()]

    def test_function(self):
        """Of one process of two, which have their program at different addresses."""
        pid, other = (self.start_program("steps", str(STEPS)) for _ in range(2))
        base = int(self.guest.run(f"grep probed-pie /proc/{pid}/maps").split("-")[0], 16)
        process = self.start("--json", "--task", str(pid), "step=arg1", "probed-pie:leaf")
        for one in (other, pid):
            self.let_end(one)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=testbed.ANSWER_SECONDS)
        *records, _ = map(json.loads, out.splitlines())
        steps = [record for record in records if record["where"] == "step"]
        leaves = [record for record in records if record["where"] == "leaf"]
        self.assertEqual([int(record["values"][0]["value"], 16) for record in steps],
                         list(range(STEPS)))
        self.assertEqual(len(leaves), STEPS)
        self.assertEqual({(record["pid"], record["comm"]) for record in records},
                         {(pid, "probed-pie")})
        self.assertEqual({int(record["address"], 16) - base for record in steps},
                         {symbols(self.arch, "probed-pie")["step"]})

    def test_calls(self):
        """With what they return, which the program checks, too."""
        pid = self.start_program("steps", str(STEPS))
        *records, _ = self.trace_program(pid, "step:call=arg1;retval")
        self.assertEqual(self.guest.run("cat /tmp/out"), f"sum {3 * STEPS} returned {STEPS}\n")
        values = [[int(value["value"], 16) for value in record[key]]
                  for record in records for key in ("values", "returned")]
        self.assertEqual([call + returned for call, returned in zip(values[::2], values[1::2])],
                         [[i, i + 7] for i in range(STEPS)])

    def test_library(self):
        """A program that sorts 4096 numbers of 4 bytes, by an order of its own."""
        pid = int(self.guest.run("sorts >/dev/null 2>&1 & echo $!"))
        self.addCleanup(self.guest.run, f"kill {pid}", check=False)
        testbed.wait_for(lambda: "libc.so.6" in self.guest.run(f"cat /proc/{pid}/maps"), "its libc")
        run = self.flow("--json", "--task", pid, "libc.so.6:qsort=arg1,arg2", "--hits", 2)
        *records, _ = map(json.loads, run.out.splitlines())
        self.assertEqual([[int(value["value"], 16) for value in record["values"]]
                          for record in records], [[4096, 4]] * 2)
        run = self.flow("--json", "--task", pid, "sorts:compare_*:call", "--hits", 4)
        *records, _ = map(json.loads, run.out.splitlines())
        self.assertEqual({record["where"] for record in records}, {"compare_numbers"})
        self.assertLessEqual({record["returned"][0]["value"] for record in records},
                             {"0x0", "0x1", "0xffffffff"})

    def test_saved(self):
        """A file keeps the names when the process has gone."""
        pid = self.start_program("steps", str(STEPS))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "flow")
            self.trace_program(pid, "-o", path, "step")
            run = vmscope("flow", "report", "--json", path)
            *records, _, _ = map(json.loads, run.out.splitlines())
            self.assertEqual([record["where"] for record in records], ["step"] * STEPS)

    def test_table(self):
        """Hits that are added up have the names of the process's functions, too."""
        pid = self.start_program("steps", str(STEPS))
        table = self.trace_program(pid, "step", "leaf", "--count", "--by", "function")[0]
        self.assertEqual([(row["key"][0]["value"], row["count"]) for row in table["rows"]],
                         [("step", STEPS), ("leaf", STEPS)])

    def log_until(self, process, text):
        log = ""
        while text not in log:
            line = process.stderr.readline()
            self.assertTrue(line, log)
            log += line
        return log

    def test_begins_later(self):
        """A process by its name, that is not there yet; then the next one of that name."""
        process = self.start("--json", "--pending", "--task", "probed-pie", "step=arg1", "do_exit")
        pids = []
        for _ in range(2):
            pids.append(self.start_program("steps", str(STEPS)))
            log = self.log_until(process, "the probes are armed")
            self.assertIn("step=arg1 is there now: 1 place", log)
            self.let_end(pids[-1])
            self.log_until(process, "step=arg1 is not there any more: its process has ended")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 0, err)
        *records, _ = map(json.loads, out.splitlines())
        self.assertEqual([(record["where"], record["pid"]) for record in records],
                         [(where, pid) for pid in pids for where in ["step"] * STEPS + ["do_exit"]])
        self.assertEqual([int(record["values"][0]["value"], 16) for record in records
                          if record["where"] == "step"], [*range(STEPS)] * 2)

    def test_other_program(self):
        """A process that executes another program later, with a library that it did not have."""
        pid = int(self.guest.run("sh -c 'kill -STOP $$; exec sorts' >/dev/null 2>&1 & echo $!"))
        self.addCleanup(self.guest.run, f"kill -9 {pid}", check=False)
        process = self.start("--json", "--pending", "--task", str(pid), "libc.so.6:qsort=arg1", "--hits", "2")
        self.guest.run(f"kill -CONT {pid}")
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        *records, _ = map(json.loads, out.splitlines())
        self.assertEqual([(record["where"], record["pid"], int(record["values"][0]["value"], 16))
                          for record in records], [("qsort", pid, 4096)] * 2, err)

    def test_wrong_words(self):
        pid = self.start_program("steps", "1")
        for words, message in (
                (("--task", str(pid), "no_such_function"), "no function \"no_such_function\""),
                (("--task", str(pid), "no.so:step"), "no.so"),
                (("--task", "2", "no_such_function"), "of the kernel"),
                (("probed-pie:step",), "--task"),
                (("--task", "nobody", "step"), "no process of this guest is called \"nobody\""),
                (("--task", "12x", "step"), "a pid, or the name")):
            with self.subTest(words=words):
                run = self.flow(*words, check=False)
                self.assertNotEqual(run.status, 0)
                self.assertIn(message, run.err)
                self.assertEqual(run.err.count("\n"), 1, run.err)
        self.let_end(pid)


class ProgramsX86(Programs, unittest.TestCase):
    arch = "x86_64"

    @staticmethod
    def start_guest():
        return LinuxGuest("6.1")
