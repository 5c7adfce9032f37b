# SPDX-License-Identifier: MIT
"""vmscope flow on Linux guests: the truth is what the guest's programs did."""
import collections
import errno
import json
import re
import pathlib
import signal
import tempfile
import unittest

from long_tests import takes_long
import testbed
from test_agent_engine import LinuxGuest
from vmscope_command import Run, start_vmscope, vmscope

CALLS = 60
# A function of the kernel that gets a struct filename *, which begins with the path's address.
OPEN, ADDRESS, PATH = "do_filp_open", "u64(arg1)", "str(u64(arg1))"


class Tracer:
    """Traces a guest that the class starts."""

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()
        cls.addClassCleanup(cls.guest.stop)

    def target(self):
        return "-p", self.guest.pid

    def flow(self, *arguments, **options):
        return vmscope("flow", *self.target(), *arguments, **options)

    def start(self, *arguments):
        """Returns when the probes are armed."""
        process = start_vmscope("flow", "-v", *self.target(), *arguments)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if "armed" in line:
                break
        return process

    def trace(self, *arguments, run):
        """Traces while the guest runs a command; ended as by Ctrl-C. Returns what both wrote."""
        process = self.start(*arguments)
        self.output = self.guest.run(run)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        return Run(process.returncode, out, err)

    def records(self, *arguments, run):
        traced = self.trace("--json", *arguments, run=run)
        self.assertEqual(traced.status, 0, traced.err)
        *records, summary = map(json.loads, traced.out.splitlines())
        self.assertEqual((summary["records"], summary["lost"], summary["dropped"]),
                         (len(records), 0, 0))
        self.assertEqual([record["sequence"] for record in records],
                         list(range(1, len(records) + 1)))
        self.summary = summary
        return records


class Flow(Tracer):
    """Of one architecture."""
    too_many = 2, "the maximum is 65536 and"  # places, with what they collect

    def values(self, record):
        return {value["name"]: int(value["value"], 16) for value in record["values"]}

    def test_condition(self):
        """One program's calls among all others', with its name, its process and its arguments."""
        records = self.records("__fdget_pos=arg0,pid", "--if", 'arg0 == 77 && comm == "probed"',
                               run=f"sh -c 'echo $$; exec probed calls {CALLS}'")
        pid = int(self.output.split()[0])
        self.assertEqual(len(records), CALLS)
        for record in records:
            self.assertEqual((record["pid"], record["tid"], record["comm"], record["moment"]),
                             (pid, pid, "probed", "before"))
            self.assertEqual(self.values(record), {"arg0": 77, "pid": pid})
            self.assertEqual(record["where"], "__fdget_pos")
        self.assertGreater(self.summary["rejected"], 0)

    def test_conditions(self):
        """Of several all must hold, each as a whole."""
        for conditions, count in ((['comm == "probed" || 0', "0 || arg0 == 77", 'comm != ")"'], CALLS),
                                  (["arg0 == 78", 'comm == "probed"'], 0)):
            words = [word for text in conditions for word in ("--if", text)]
            with self.subTest(conditions=conditions):
                self.assertEqual(len(self.records("__fdget_pos=arg0", *words, run=f"probed calls {CALLS}")),
                                 count)

    def test_task(self):
        """Only the hits of one process: others end, too."""
        pid = int(self.guest.run("sleep 1000 >/dev/null 2>&1 & echo $!"))
        wait = f"while grep -qs '^State:.[RS]' /proc/{pid}/status; do sleep 0.1; done"
        records = self.records("do_exit", "--task", str(pid), run=f"sh -c :; kill {pid}; {wait}")
        self.assertEqual([(record["pid"], record["comm"]) for record in records], [(pid, "sleep")])
        self.assertGreater(self.summary["rejected"], 0)

    def test_lost_beside_a_file(self):
        """Hits that a stopped vmscope could not take: the file counts them, and the user is told."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "flow")
            process = self.start("--no-tasks", "--if", "arg0 == 77", "__fdget_pos", "-o", path)
            process.send_signal(signal.SIGSTOP)
            self.guest.run("probed calls 400000")
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
            self.assertEqual((process.returncode, out), (0, ""))
            saved = vmscope("flow", "report", "--json", path).out.splitlines()
            counts = json.loads(saved[-1])
            self.assertEqual(counts["records"] + counts["lost"], 400000)
            self.assertIn(f"{counts['lost']} hits were lost", err)

    def test_before_and_after(self):
        """The first instruction of a function moves the program counter."""
        entry = next(s.va for s in self.guest.kallsyms() if s.name == "__fdget_pos")
        records = self.records(f"__fdget_pos:both={self.pc}", "--if", 'comm == "probed"',
                               run="probed calls 5")
        befores = [record for record in records if record["moment"] == "before"]
        afters = [record for record in records if record["moment"] == "after"]
        self.assertEqual(len(befores), len(afters))
        self.assertGreaterEqual(len(befores), 5)
        self.assertEqual({self.values(record)[self.pc] for record in befores}, {entry})
        self.assertEqual({self.values(record)[self.pc] for record in afters},
                         {entry + self.first_size})

    def test_string(self):
        """A string, bytes, and memory that is not there."""
        records = self.records(f"{OPEN}={PATH},mem({ADDRESS},6),mem(0,4)", "--if",
                               f'{PATH} == "/proc/uptime"', run="cat /proc/uptime")
        self.assertEqual(len(records), 1)
        name, begin, nothing = records[0]["values"]
        self.assertEqual((name["status"], name["value"]), ("known", "/proc/uptime"))
        self.assertEqual(bytes.fromhex(begin["value"]), b"/proc/")
        self.assertEqual((nothing["status"], nothing["value"]), ("unreadable", None))

    def test_text(self):
        """Numbers are in decimal, addresses are not."""
        entry = next(s.va for s in self.guest.kallsyms() if s.name == OPEN)
        traced = self.trace(f"{OPEN}=str({ADDRESS},5),cpu,{OPEN},-4096", "--common", "arg0", "--if",
                            f'{PATH} == "/proc/uptime"', run="cat /proc/uptime")
        line, summary = traced.out.splitlines()
        self.assertRegex(line, r'^ +\d+\.\d{6}  cpu \d  cat \d+/\d+  do_filp_open  '
                               r'str\(.*,5\)="/proc"…  cpu=\d  '
                               rf'{OPEN}=0x{entry:x}  -4096=-4096  arg0=(-100|0xffffff9c)$')  # AT_FDCWD
        self.assertRegex(summary, r"^1 hit(, \d+ whose condition did not hold)?$")

    def test_pattern(self):
        """All functions that match, each under its own name."""
        names = {s.name for s in self.guest.kallsyms()
                 if s.type in "tTwW" and s.name.startswith("proc_pid_")}
        records = self.records("proc_pid_*", run="ls /proc/self/ >/dev/null; cat /proc/self/status")
        seen = {record["where"] for record in records}
        self.assertIn("proc_pid_status", seen)
        self.assertLessEqual(seen, names)

    def test_hits(self):
        """It ends by itself after exactly so many."""
        self.guest.run("(while :; do cat /proc/uptime; done) >/dev/null 2>&1 & echo $! >/busy")
        self.addCleanup(self.guest.run, "kill $(cat /busy)")
        *lines, summary = self.flow("do_sys_openat2", "--hits", 7).out.splitlines()
        self.assertEqual((len(lines), summary), (7, "7 hits"))
        *lines, summary = self.flow("do_sys_openat2", "--hits", 9, "--records", 4).out.splitlines()
        self.assertEqual((len(lines), summary), (4, "9 hits, 5 dropped by --records"))

    def test_output_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "hits"
            traced = self.trace(OPEN, "-o", str(path), "--if", f'{PATH} == "/proc/uptime"',
                                run="cat /proc/uptime")
            self.assertEqual(traced.out, "")
            line, counts, _ = vmscope("flow", "report", path).out.splitlines()
            self.assertIn("  do_filp_open", line)
            self.assertRegex(counts, "^1 of 1 records")

    def test_closed_pipe(self):
        """Whoever reads has enough: the probes are gone, and the guest goes on."""
        process = self.start("do_sys_openat2")
        self.guest.run("(while :; do cat /proc/uptime; done) >/dev/null 2>&1 & echo $! >/busy")
        self.addCleanup(self.guest.run, "kill $(cat /busy)")
        process.stdout.readline()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(testbed.ANSWER_SECONDS), -signal.SIGPIPE)
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")
        self.flow("do_sys_openat2", "--hits", 1)

    def test_ambiguous(self):
        """A name that several functions have: all addresses are offered."""
        places = collections.defaultdict(set)
        for symbol in self.guest.kallsyms():
            places[symbol.name].add(symbol.va)
        name = next(name for name, vas in places.items() if len(vas) == 2 and name.isidentifier())
        run = self.flow("vfs_read", "--if", f"{name} == 0", check=False)
        self.assertEqual((run.status, len(run.err.splitlines())), (2, 1))
        self.assertIn(f'2 symbols are called "{name}"', run.err)
        for va in places[name]:
            self.assertIn(f"{va:#x}", run.err)


class Words(Tracer):
    """What a user writes wrongly."""

    def refuses(self, *cases):
        """Of each, (arguments, status, message)."""
        for arguments, status, message in cases:
            with self.subTest(arguments=arguments):
                run = self.flow(*arguments, check=False)
                self.assertEqual(run.status, status, run.err)
                self.assertIn(message, run.err)
                self.assertEqual((run.out, len(run.err.splitlines())), ("", 1))

    def test_wrong_words(self):
        self.refuses(
                (["do_sys_openat3"], 1, "did you mean do_sys_openat2"),
                (["vfs_read=raxx"], 2, "is not known"),
                ([""], 2, '"": the place is missing: write a symbol'),
                (["**=" + ",".join(["cpu"] * 40)], *self.too_many),
                (["vfs_read", "--if", "arg0 =="], 2, "character 8"),
                (["vfs_read", "vfs_read"], 1, "already"),
                ([], 2, "argument"))

    @takes_long
    def test_more_wrong_words(self):
        self.refuses(
                (["nothing_like_*"], 1, "no function matches"),
                ([" "], 2, "the place is missing"),
                ([":call"], 2, '":call": the place is missing'),
                (["=arg0"], 2, '"=arg0": the place is missing'),
                (["+8"], 2, '"+8" is no address: write a symbol'),
                (["vfs_read:"], 2, '"vfs_read:": ":" must be followed by before, after'),
                (["vfs_read:call:before"], 2, '"vfs_read:call:before": ":" must be followed by'),
                (["vfs_read="], 2, '"vfs_read=": an entry is empty: write'),
                (["vfs_read:call="], 2, '"vfs_read:call=": an entry is empty: write'),
                (["vfs_read=arg0;arg1"], 2, 'after ";" are for returns: write WHERE:call='),
                (["vfs_read", "--common", ""], 2, "--common is empty: write entries"),
                (["vfs_read", "--if", ""], 2, "the expression is empty"),
                (["vfs_read", "--if", "1", "--if", ""], 2, '--if "": the expression is empty'),
                (["vfs_read", "--if", "0) || (1", "--if", "1"], 2, "has no partner"),
                (["vfs_read", "--if", '"a', "--task", "1"], 2, "has no partner"),
                (["vfs_read=arg0,,arg1"], 2, "an entry is empty"),
                (["vfs_read=mem(arg0)"], 2, "the number of bytes is missing"),
                (["vfs_read=mem(arg0,5000)"], 2, "4096"),
                (["vfs_read=str(arg0"], 2, '")" is missing'),
                (["vfs_read:later"], 2, "before"),
                (["vfs_read", "--hits", "0"], 2, "from 1"),
                (["vfs_read", "--task", "12x"], 2, "--task"),
                (["vfs_read", "--cpu", "9"], 2, "vCPU"),
                (["vfs_read:call", "vfs_read:call"], 1, "already"),
                (["vfs_read", "--if-return", "retval < 0"], 2, "WHERE:call"),
                (["vfs_read:call=;retvall"], 2, "is not known"))


class Calls:
    """Calls that are followed until they return, which only the agent can."""

    def test_conditions_at_return(self):
        """The same of what must hold at the return."""
        function = self.lseek[0]
        self.assertEqual(self.records(f"{function}:call", "--if", 'comm == "probed"', "--if-return",
                                      "duration == 0", "--if-return", "duration > 0",
                                      run=f"probed calls {CALLS}"), [])

    def test_calls(self):
        """Calls until they return: arguments and results, one record each."""
        function, *arguments = self.lseek
        records = self.records(f"{function}:call={','.join(arguments)}", "--if",
                               'comm == "probed"', run=f"probed calls {CALLS}")
        collected = [tuple(self.values(record)[argument] for argument in arguments)
                     for record in records]
        self.assertEqual([offset for file, offset in collected if file == 77],
                         [1000 + i for i in range(CALLS)])
        for record, (file, _) in zip(records, collected):
            if file != 77:
                continue
            self.assertEqual((record["moment"], record["where"]), ("call", function))
            self.assertEqual(self.returned(record), {"retval": 2**64 - errno.EBADF})

    def returned(self, record):
        return {value["name"]: int(value["value"], 16) for value in record["returned"]}

    def test_calls_that_sleep(self):
        """Tasks that sleep in one function at the same time, and come back elsewhere."""
        sleeps = range(1, 9)
        records = self.records(
            "hrtimer_nanosleep:call=arg0;arg0,retval,duration", "--if", 'comm == "sleep"',
            run="".join(f"sleep 0.{i} & " for i in sleeps) + "wait")
        self.assertEqual(len({record["pid"] for record in records}), len(sleeps))
        for record in records:
            nanoseconds = self.values(record)["arg0"]  # a ktime_t: how long to sleep
            self.assertGreaterEqual(record["duration_ns"], nanoseconds)
            # Arguments are what they were at the call, also when it returns.
            self.assertEqual(self.returned(record), {"arg0": nanoseconds, "retval": 0,
                                                     "duration": record["duration_ns"]})
        self.assertEqual({self.values(record)["arg0"] for record in records},
                         {i * 10**8 for i in sleeps})

    def test_calls_in_calls(self):
        """Each is longer than what it calls, and ends after it."""
        records = self.records("ksys_read:call", "vfs_read:call", "--if", 'comm == "md5sum"',
                               run="md5sum /proc/uptime")
        outer = [record for record in records if record["where"] == "ksys_read"]
        inner = [record for record in records if record["where"] == "vfs_read"]
        self.assertEqual(len(outer), len(inner))
        self.assertGreater(len(outer), 1)
        for one, other in zip(inner, outer):
            self.assertLess(one["sequence"], other["sequence"])
            self.assertLess(one["duration_ns"], other["duration_ns"])
            self.assertEqual(self.returned(one), self.returned(other))

    def test_duration_at_a_call(self):
        """Nothing has taken any time yet: that is said, and 0 is not shown for it."""
        for arguments in (["vfs_read=duration"], ["vfs_read:call", "--if", "duration > 100"],
                          ["vfs_read", "--count-by", "duration"], ["vfs_read:call=duration"]):
            with self.subTest(arguments=arguments):
                run = vmscope("flow", "-p", self.guest.pid, "-t", 1, *arguments, check=False)
                self.assertEqual((run.status, run.out), (2, ""), run.err)
                self.assertIn("\"duration\" is only known at the return", run.err)

    def test_places_without_instructions(self):
        """Nobody comes there, which is said; and nothing of a place that is right."""
        function = "vfs_read"
        listed = vmscope("disas", "-p", self.guest.pid, function).out.splitlines()[1:]
        disas = [int(re.search("[0-9a-f]{16}", line)[0], 16) for line in listed]
        begins = [va - disas[0] for va in disas[:8]]
        sizes = [end - begin for begin, end in zip(begins, begins[1:])]
        within = next(begin + 1 for begin, size in zip(begins, sizes) if size > 1)
        for where, warning in ((f"{function}+{within}", f"lies inside the instruction at {function}+0x{within - 1:x}:"),
                               (f"{function}+{begins[3]}", ""), *self.data_places,
                               ("0xfff0000000001000", "no memory is mapped")):
            with self.subTest(where=where):
                run = vmscope("flow", "-p", self.guest.pid, "-t", "0.1", where)
                self.assertIn(warning, run.err)
                self.assertEqual("be hit" in run.err, bool(warning))

    def test_calls_by_result(self):
        """Only those that fail; and one that never returns is not told."""
        records = self.records(f"{self.lseek[0]}:call", "do_exit:call", "--if-return", "s32(0) < 0",
                               run="probed calls 2")
        self.assertEqual(records, [])
        self.assertGreater(self.summary["unknown"], 0)
        records = self.records(f"{self.lseek[0]}:call", "--if", 'comm == "probed"', "--if-return",
                               f"retval == -{errno.EBADF}", run="probed calls 2")
        self.assertEqual(len(records), 2)


class X86(Flow, Calls, Words, unittest.TestCase):
    pc, first_size = "rip", 5
    data_places = (("init_task+8", "is in init_task, which is data:"),)
    lseek = "ksys_lseek", "arg0", "arg1"

    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1")

    def test_memory_of_programs(self):
        """Inside the kernel, a string of a user program."""
        records = self.records("do_sys_openat2=str(arg1)", "--if", 'str(arg1) == "/proc/uptime"',
                               run="cat /proc/uptime")
        self.assertEqual([record["values"][0]["value"] for record in records], ["/proc/uptime"])


class Modules(Tracer, unittest.TestCase):
    """The module `loop` comes and goes. `losetup -f` asks it for a free device, once."""
    GET_FREE = 0x4C82  # LOOP_CTL_GET_FREE of linux/loop.h

    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1")

    def setUp(self):
        self.guest.run("rmmod loop", check=False)

    def log_until(self, process, *texts):
        """The log up to a line that has one of the texts."""
        lines = []
        for line in process.stderr:
            lines.append(line)
            if any(text in line for text in texts):
                return "".join(lines)
        self.fail("".join(lines))

    def end(self, process):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        *records, summary = map(json.loads, out.splitlines())
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(summary["records"], len(records))
        return records, err

    def test_comes_and_goes(self):
        process = self.start("--json", "--pending", "loop_control_ioctl=arg1", "vfs_statx")
        for _ in range(2):
            self.guest.run("modprobe loop")
            log = self.log_until(process, "no probe was armed for")
            self.assertIn("loop_control_ioctl=arg1 is there now: 1 place", log)
            self.guest.run("losetup -f")
            self.guest.run("rmmod loop")
            log = self.log_until(process, "no probe was armed for")
            self.assertIn("loop_control_ioctl=arg1 is not there any more", log)
        records, _ = self.end(process)
        self.assertEqual([int(record["values"][0]["value"], 16) for record in records
                          if record["where"] == "loop_control_ioctl"], [self.GET_FREE] * 2)
        self.assertIn("vfs_statx", {record["where"] for record in records})

    def test_unloaded(self):
        """What was there at the beginning is not waited for, but it is told that it has gone."""
        self.guest.run("modprobe loop")
        process = self.start("--json", "loop_control_ioctl=arg1")
        self.guest.run("losetup -f")
        self.guest.run("rmmod loop")
        self.log_until(process, "loop_control_ioctl=arg1 is not there any more: its module was unloaded")
        records, _ = self.end(process)
        self.assertEqual(len(records), 1)

    def test_limit(self):
        """Hits before and after a change count together."""
        process = self.start("--json", "--pending", "--hits", "3", "loop_control_ioctl=arg1")
        for calls in ("losetup -f; rmmod loop", "losetup -f; losetup -f; losetup -f"):
            self.guest.run("modprobe loop")
            self.log_until(process, "is there now")
            self.guest.run(calls)
        out, _ = process.communicate(timeout=testbed.ANSWER_SECONDS)
        *records, summary = map(json.loads, out.splitlines())
        self.assertEqual((len(records), summary["records"]), (3, 3))

    def test_never(self):
        run = self.flow("--pending", "never_there", "-t", "0.3")
        self.assertEqual((run.status, run.out), (0, "0 hits\n"))
        self.assertIn("never_there was not probed: its code was never loaded", run.err)
        run = self.flow("--pending", "vfs_read=never_there", "-t", "0.3", check=False)
        self.assertNotEqual(run.status, 0)


class Reset(Tracer, unittest.TestCase):
    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1")

    def test_reset(self):
        """The next kernel lies elsewhere: that is said, once."""
        process = self.start("vfs_read", "--count")
        self.guest.qmp.command("system_reset")
        warning = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertIn("the guest was reset: the probes remain at the addresses", warning)
        self.assertEqual((process.returncode, err), (0, ""))
