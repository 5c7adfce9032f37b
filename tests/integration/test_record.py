# SPDX-License-Identifier: MIT
"""Recordings of host processes: what is in the file by a second decoder, what a report shows by the
processor time that the program itself has measured, and what is left of damaged files."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import fxt_format
import test_debug_files
import testbed
from vmscope_command import vmscope

PARANOID = int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())
MAY = os.geteuid() == 0 or PARANOID < 3
TRACEPOINT = pathlib.Path("/sys/kernel/tracing/events/sched/sched_switch/format")
# Where version 2 of control groups is, or None.
UNIFIED = next((folder for folder in map(pathlib.Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"))
                if (folder / "cgroup.procs").exists() and (folder / "cgroup.controllers").exists()), None)
HERTZ = 1999
PERIOD_NS = 1e9 / HERTZ


def is_sample(item):
    """Of a record that fxt_format has decoded."""
    return item[0] == fxt_format.LARGE and item[1] == 0 and not item[10][1] and not item[11][1]


def samples_of(data):
    """(pid, tid, kernel frames, program counters) of each sample."""
    for item in fxt_format.decode(data):
        if is_sample(item):
            arguments = {name[1]: value for _, name, value in item[12]}
            yield item[8], item[9], arguments.get(b"kernel", 0), len(item[13]) // 8


def start_recording(*arguments):
    """A `vmscope record` that has begun."""
    process = subprocess.Popen([str(word) for word in (testbed.VMSCOPE, "record", "-v", *arguments)],
                               stderr=subprocess.PIPE, text=True)
    for line in iter(process.stderr.readline, ""):
        if "recording has begun" in line:
            break
    return process


def has_jail(pid):
    """True if the process has begun to have names read."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return any(pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "vms-jail"
               for child in children.read_text().split())


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Record(unittest.TestCase):
    OFTEN = ("-F", 9999)  # which fills a file soon

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.program = cls.build("program")
        cls.file = cls.folder / "shares"
        cls.run_shares = cls.record(cls.file, "shares", "1.5")

    @classmethod
    def build(cls, name, *options):
        program = cls.folder / name
        subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-pthread", *options, "-o", program,
                        testbed.ROOT / "tests" / "guests" / "record_program.c"], check=True)
        return program

    @classmethod
    def record(cls, file, *arguments, options=(), program=None):
        return vmscope("record", "-F", HERTZ, *options, "-o", file, "--", program or cls.program,
                       *arguments)

    def stats(self, file):
        rows = json.loads(vmscope("report", "--stats", "--json", file).out)
        return {row["statistic"]: row["value"] for row in rows}

    def test_stats_into_files(self):
        """Statistics go where --output says, in either form."""
        text, rows = (self.folder / name for name in ("stats.txt", "stats.json"))
        self.assertEqual(vmscope("report", "--stats", "-o", text, self.file).out, "")
        self.assertEqual(text.read_text(), vmscope("report", "--stats", self.file).out)
        vmscope("report", "--stats", "--json", "-o", rows, self.file)
        self.assertEqual({row["statistic"]: row["value"] for row in json.loads(rows.read_text())},
                         self.stats(self.file))

    def folded(self, file, status=0):
        """Samples of each function as the leaf among the program's own, and of all."""
        run = vmscope("report", "--format", "folded", file, check=False)
        self.assertEqual(run.status, status, run.err)
        counts, whole = {"burn_long": 0, "burn_short": 0}, 0
        for line in run.out.splitlines():
            if line.startswith("#"):
                continue
            stack, count = line.rsplit(" ", 1)
            whole += int(count)
            for name in counts:
                counts[name] += int(count) if re.search(rf"\b{name}\b", stack) else 0
        return counts, whole

    def test_shares(self):
        """Within 4 % of all, by the time that the program has measured; every sample is shown."""
        long_ns, short_ns = map(int, self.run_shares.out.split())
        counts, whole = self.folded(self.file)
        for name, truth in (("burn_long", long_ns), ("burn_short", short_ns)):
            self.assertAlmostEqual(counts[name] / whole, truth / (long_ns + short_ns), delta=0.04)
        self.assertEqual(whole, len(list(samples_of(self.file.read_bytes()))))

    @unittest.skipUnless(os.geteuid() == 0 and TRACEPOINT.exists(), "needs root, and tracefs")
    def test_wall(self):
        """What a program does and waits for, by the time that it measures itself: each switch is known, so
        a wait is right by a sample or two of each, however busy the host is."""
        file = self.folder / "wall"
        run = self.record(file, "waits", "0.6", options=("--wall", "-F", 999))
        pid, *times = map(int, run.out.split())
        lines = [line.rsplit(" ", 1) for line in vmscope("report", "--format", "folded", file).out.splitlines()]
        stacks = [(stack, int(count)) for stack, count in lines if f" ({pid});" in stack]
        for call, time in (("nanosleep", times[1]), ("futex", times[2]), ("read", times[3])):
            found = sum(count for stack, count in stacks
                        if re.search(rf";\[waiting: S \w+\];.*;__x64_sys_\w*{call}\b|ksys_{call}\b", stack))
            self.assertAlmostEqual(found / 999, time / 1e9, delta=0.03 + 0.05 * time / 1e9, msg=call)
        self.assertTrue(any(re.search(r"\[waiting: S (\w*pipe_read)\];.*;\1;", stack) for stack, _ in stacks))
        # It is running, or waits for a CPU, as long as it is in no call.
        ready = sum(count for stack, count in stacks if "[waiting: S" not in stack)
        self.assertAlmostEqual(ready / 999, times[0] / 1e9, delta=0.05 + 0.1 * times[0] / 1e9)
        stats = self.stats(file)
        self.assertEqual(stats["collected"], len(list(samples_of(file.read_bytes()))))
        self.assertGreater(stats["waiting samples"], 0.5 * stats["samples"])

    @unittest.skipUnless(os.geteuid() == 0 and TRACEPOINT.exists(), "needs root, and tracefs")
    def test_sleeper(self):
        """A thread that sleeps from before the recording to its end is in it, with its state."""
        file = self.folder / "sleeper"
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            testbed.wait_for(lambda: " (sleep) S " in pathlib.Path(f"/proc/{sleeper.pid}/stat").read_text(),
                             "the sleep")
            vmscope("record", "--wall", "-F", 99, "--pid", sleeper.pid, "-t", "0.5", "-o", file)
            sleeper.kill()
        text = vmscope("report", "--format", "folded", file).out
        self.assertRegex(text, rf"sleep \({sleeper.pid}\);\[waiting: S[^;]*\]")
        self.assertAlmostEqual(self.stats(file)["samples"], 50, delta=5)

    @unittest.skipUnless(os.geteuid() == 0 and UNIFIED, "needs root, and control groups of version 2")
    def test_containers(self):
        """Of a process that is there, and of a program that begins in the group of another."""
        group = UNIFIED / f"docker-{'0123456789abcdef' * 4}.scope"
        group.mkdir()
        self.addCleanup(group.rmdir)
        script = f"echo $$ >{group}/cgroup.procs; exec md5sum /dev/zero"
        for options in (), ("--pid",):
            file = self.folder / "container"
            program = ["sh", "-c", script]
            process = options and subprocess.Popen(program)
            if process:
                time.sleep(0.1)
                vmscope("record", "--pid", process.pid, "-t", "0.3", "-o", file)
            else:
                vmscope("record", "-t", "0.3", "-o", file, "--", "timeout", "0.3", *program)
            text = vmscope("report", "--processes", "container", file).out
            self.assertRegex(text, r"(?m)^\d+ +[\d.]+% docker-0123456789ab$")
            if process:
                process.kill()
                process.wait()
        testbed.wait_for(lambda: not (group / "cgroup.procs").read_text(), "the end of the programs")

    def test_counts(self):
        """Collected, lost and missed add up to the time that the program has run. The kernel counts
        interrupts, and what a hypervisor takes, as time between two samples, but not as the
        program's: there are more of them on a busy host, up to all the time that has passed."""
        stats = self.stats(self.file)
        self.assertEqual(stats["collected"], stats["samples"])
        self.assertEqual(stats["processes"], 1)
        self.assertEqual(stats["processes without mappings"], 0)
        due = sum(map(int, self.run_shares.out.split())) / PERIOD_NS
        found = stats["collected"] + stats["lost"] + stats["missed"]
        self.assertGreater(found / due, 0.9)
        self.assertLess(found * stats["period ns"], 1.05 * stats["elapsed ns"])

    def test_overflow(self):
        """A buffer that is too small drops and counts: nothing is hidden."""
        file = self.folder / "overflow"
        # So many that a buffer is full even where the program gets a tenth of a processor.
        run = self.record(file, "shares", "0.5", options=("--buffer", "4K", "-F", 20000))
        stats = self.stats(file)
        self.assertGreater(stats["lost"], 100)
        self.assertEqual(stats["collected"], len(list(samples_of(file.read_bytes()))))
        self.assertIn(f"{stats['lost']} samples were lost: a buffer was full", run.err)
        due = sum(map(int, run.out.split())) / stats["period ns"]
        found = stats["collected"] + stats["lost"] + stats["missed"]
        self.assertGreater(found / due, 0.9)
        self.assertLess(found * stats["period ns"], 1.05 * stats["elapsed ns"])

    def test_births(self):
        """Threads and processes that start while it runs, in all of which the names are found."""
        file = self.folder / "births"
        run = self.record(file, "births", "6")
        born = {tuple(map(int, line.split())) for line in run.out.splitlines()}
        found = {(tid, pid) for pid, tid, _, _ in samples_of(file.read_bytes())}
        self.assertEqual(len(born), 12)
        self.assertEqual(born - found, set())
        counts, whole = self.folded(file)
        self.assertGreater(counts["burn_short"] / whole, 0.6)

    def test_process(self):
        """Threads that are there when it starts; a job that a shell has started; the time limit."""
        with subprocess.Popen(["sh", "-c", f"{self.program} shares 60; true"],
                              stdout=subprocess.DEVNULL) as shell:
            child = testbed.wait_for(lambda: pathlib.Path(
                f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split(), "the program")
            try:
                for option, number in (("--pid", child[0]), ("--tid", child[0]), ("--job", shell.pid)):
                    file = self.folder / "running"
                    vmscope("record", option, number, "-t", "0.3", "-o", file)
                    self.assertEqual({pid for pid, _, _, _ in samples_of(file.read_bytes())},
                                     {int(child[0])})
                    counts, whole = self.folded(file)
                    self.assertGreater(sum(counts.values()) / whole, 0.8)
            finally:
                os.kill(int(child[0]), signal.SIGKILL)

    def test_name(self):
        """A program that begins later, by its name, with what it starts; the recording ends with it. The
        file system's name of it is longer than what the kernel keeps. Nobody else is in the recording."""
        file, program = self.folder / "name", self.build("program-that-is-waited-for")
        with subprocess.Popen([self.program, "shares", "60"], stdout=subprocess.DEVNULL) as other:
            with subprocess.Popen([testbed.VMSCOPE, "record", "-v", "-F", str(HERTZ), "--name", program,
                                   "-o", file], stderr=subprocess.PIPE, text=True) as recorder:
                for line in iter(recorder.stderr.readline, ""):
                    if "recording has begun" in line:
                        break
                born = subprocess.run([program, "births", "4"], stdout=subprocess.PIPE, text=True,
                                      check=True).stdout
                self.assertEqual(recorder.wait(testbed.ANSWER_SECONDS), 0)
                other.kill()
        found = {(tid, pid) for pid, tid, _, _ in samples_of(file.read_bytes())}
        self.assertEqual({tuple(map(int, line.split())) for line in born.splitlines()} - found, set())
        self.assertNotIn(other.pid, {pid for _, pid in found})
        counts, whole = self.folded(file)
        self.assertEqual(counts["burn_long"], 0)
        self.assertGreater(counts["burn_short"] / whole, 0.4)

    def test_begin(self):
        """The first instructions of a program that is waited for: those that load it."""
        file, program = self.folder / "begin", self.build("begins")
        with start_recording("--period", "100", "--name", program, "-o", file) as recorder:
            subprocess.run([program, "rounds", "1"], check=True)
            recorder.wait(testbed.ANSWER_SECONDS)
        self.assertRegex(vmscope("report", "--format", "folded", file).out, r"ld-linux|execve|_dl_|elf")

    def test_goes_on(self):
        """A command that goes on when the time is over: it is said, and not ended."""
        file, mark = self.folder / "goes-on", self.folder / "mark"
        run = vmscope("record", "-t", "0.2", "-o", file, "--", "sh", "-c", f"sleep 1; echo > {mark}")
        self.assertIn("sh goes on: the recording has ended before it", run.err)
        testbed.wait_for(mark.exists, "the command")

    def build_large(self, name, functions):
        """Makes a program that computes in hot(), beside functions of these names."""
        code = self.folder / f"{name}.s"
        code.write_text(".text\n" + "".join(f'.globl {name}\n.type {name},@function\n{name}: ret\n.size {name},1\n'
                                            for name in functions)
                        + ".globl main\n.type main,@function\nmain: call hot\n.size main,.-main\n"
                        + ".globl hot\n.type hot,@function\nhot: jmp hot\n.size hot,.-hot\n"
                        + '.section .note.GNU-stack,"",@progbits\n')
        program = self.folder / name
        subprocess.run(["gcc", "-o", program, code], check=True)
        code.unlink()
        return program

    def test_many_functions(self):
        """An honest program with 150,000 functions of Rust, whose names are long, has all of them."""
        module = "".join(f"9module_{i:02}" for i in range(14))
        program = self.build_large("rusty", (f"_ZN{module}7f{i:06}17h{i:016x}E" for i in range(150_000)))
        file = self.folder / "rusty.vms"
        run = vmscope("record", "-F", "199", "-o", file, "--", "timeout", "1", program)
        self.assertNotIn("left out", run.err)
        self.assertIn(";hot", vmscope("report", "--format", "folded", file).out)

    def test_hurried_names(self):
        """A signal while names are read ends that soon. The recording is whole, and says what it lacks."""
        program = self.build_large("slow", (f"f{i:06}" + "x" * 200 for i in range(150_000)))
        file = self.folder / "slow.vms"
        for before in (), (signal.SIGINT,):
            with self.subTest(before), subprocess.Popen([program]) as work:
                recorder = start_recording("-p", work.pid, "-F", "199", "-o", file)
                time.sleep(0.5)
                for number in before:
                    recorder.send_signal(number)
                if not before:
                    work.kill()
                testbed.wait_for(lambda: has_jail(recorder.pid), "the reading of names")
                recorder.send_signal(signal.SIGINT)
                err = recorder.communicate(timeout=testbed.ANSWER_SECONDS)[1]
                work.kill()
                self.assertEqual(recorder.returncode, 0, err)
                self.assertIn("left out", err)
                self.assertIn(f"{program.name}+0x", vmscope("report", "--format", "folded", file).out)

    def test_many_files(self):
        """The names of one file after another have room, though those of all together have not."""
        program = self.build_large("long", (f"f{i:06}" + "x" * 2000 for i in range(10_000)))
        programs = [program.with_name(f"long{i}") for i in range(14)]
        for copy in programs:
            shutil.copy(program, copy)
        file = self.folder / "long.vms"
        run = vmscope("record", "-F", "499", "-o", file, "--", "sh", "-c",
                      f"for i in {' '.join(map(str, programs))}; do timeout 0.3 $i; done; :")
        self.assertNotIn("left out", run.err)
        out = vmscope("report", "--format", "folded", file).out
        for copy in programs:
            self.assertRegex(out, rf"(?m)^{copy.name} \(\d+\);.*hot")

    def test_no_program(self):
        """Why a command could not be started; what it is called is one line."""
        text = self.folder / "no\nprogram"
        text.write_bytes(b"\x7fELF")
        text.chmod(0o755)
        file = self.folder / "nothing"
        run = vmscope("record", "-o", file, "--", text, check=False)
        self.assertEqual(run.status, 1)
        self.assertEqual(len(run.err.splitlines()), 1)
        self.assertIn("no\\nprogram: Exec format error (ENOEXEC)", run.err)
        run = vmscope("record", "-o", file, "--", "/no/such\x1b[31m\n", check=False)
        self.assertEqual(run.err.splitlines(), ["vmscope: there is no program /no/such\\x1b[31m\\n"])
        self.assertFalse(file.exists())

    def test_no_files(self):
        """More threads than files: the message names the limit."""
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (13, 13))
        with subprocess.Popen([self.program, "births", "100000"], stdout=subprocess.DEVNULL) as many:
            run = vmscope("record", "--pid", many.pid, "--tid", os.getpid(), "-t", "0.2", "-o",
                          self.folder / "nothing", check=False, preexec_fn=limit)
            many.kill()
        self.assertEqual(run.status, 1, run.err)
        self.assertRegex(run.err, r"RLIMIT_NOFILE \(ulimit -n\)")

    def test_elsewhere(self):
        """The program is gone when its recording is shown."""
        file, program = self.folder / "gone", self.build("short-lived")
        self.record(file, "shares", "0.2", program=program)
        program.unlink()
        counts, whole = self.folded(file)
        self.assertGreater(sum(counts.values()) / whole, 0.8)

    def test_debug_files(self):
        """A stripped program, whose names are in a folder, or on a server."""
        program, whole = self.folder / "stripped", self.build("with-names")
        by_id = test_debug_files.build_id_of(whole)
        debug = self.folder / f"debug/.build-id/{by_id[:2]}/{by_id[2:]}.debug"
        debug.parent.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
        subprocess.run(["strip", "-o", program, whole], check=True)
        file = self.folder / "of-stripped"
        paths = {f"/buildid/{by_id}/debuginfo": debug.read_bytes()}
        with test_debug_files.serve(paths.get) as (url, _asked):
            ways = [((), {}, False), (("--debug-dir", self.folder / "debug"), {}, True)]
            if shutil.which("debuginfod-find"):
                ways.append(((), {"DEBUGINFOD_URLS": url,
                                  "DEBUGINFOD_CACHE_PATH": str(self.folder / "cache")}, True))
            for options, environment, named in ways:
                with self.subTest(options=options, environment=environment):
                    vmscope("record", "-F", HERTZ, *options, "-o", file, "--", program, "shares", "0.2",
                            env={**os.environ, "DEBUGINFOD_URLS": "", **environment})
                    counts, _ = self.folded(file)
                    self.assertEqual(sum(counts.values()) > 0, named)

    def test_no_build_id(self):
        """A program that has none, as those in Go, has names unless its file has changed meanwhile."""
        file, program = self.folder / "no-id", self.build("no-id-program", "-Wl,--build-id=none")
        for after, named in (("true", True), (f"touch {program}", False)):
            self.record(file, "-c", f"{program} shares 0.2; {after}", program="/bin/sh")
            counts, whole = self.folded(file)
            if named:
                self.assertGreater(sum(counts.values()) / whole, 0.6)
            else:
                self.assertEqual(sum(counts.values()), 0)

    def test_truncated(self):
        """Cut anywhere: the report tells it, and shows what is left."""
        data, file = self.file.read_bytes(), self.folder / "cut"
        last = None
        for size in (100, len(data) // 3, len(data) // 2 + 3, len(data) - 1):
            file.write_bytes(data[:size])
            run = vmscope("report", "--format", "folded", file, check=False)
            self.assertEqual(run.status, 1)
            self.assertRegex(run.err, "truncated at byte|lacks its end")
            whole = sum(int(line.rsplit(" ", 1)[1]) for line in run.out.splitlines()
                        if not line.startswith("#"))
            self.assertGreaterEqual(whole, last or 0)
            last = whole
        self.assertGreater(last, 1000)

    def test_damaged(self):
        """Bytes in the middle: the samples before and behind are kept, the place is told."""
        data, file = bytearray(self.file.read_bytes()), self.folder / "damaged"
        at = len(data) // 3 // 8 * 8
        data[at:at + 64] = bytes(64)
        file.write_bytes(data)
        _, whole = self.folded(file, status=1)
        count = len(list(samples_of(self.file.read_bytes())))
        self.assertLess(whole, count)
        self.assertGreater(whole, 0.5 * count)
        error = vmscope("report", file, check=False).err
        place = int(re.search(r"damaged at byte (\d+) \(", error)[1])
        self.assertLessEqual(at - 600, place)
        self.assertLess(place, at + 64)

    def names_size(self, file):
        """Bytes of a recording behind its last sample."""
        decoder, end = fxt_format.Decoder(file.read_bytes()), 0
        for item in decoder.records():
            if is_sample(item):
                end = decoder.at
        return len(decoder.data) - end

    def record_into(self, file, size):
        """A recording into a file that may have so many bytes, which are too few."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        run = vmscope("record", *self.OFTEN, "-o", file, "--", self.program, "shares", "0.7", check=False,
                      preexec_fn=limit)
        self.assertEqual(run.status, 1, run.err)
        self.assertIn("File too large", run.err)
        return run

    def test_full_disk(self):
        """What was written until then is kept, with the names of functions if there is room, and the
        report says that it is not all."""
        file = self.folder / "full"
        self.record(file, "shares", "0.4", options=self.OFTEN)
        # Samples make room for names and 16 KiB up to half of the file: here, a quarter would do. How
        # many names there are depends on the host's kernel, and grows with the time.
        roomy = 4 * (self.names_size(file) + 16384)
        for size, names in ((roomy, True), (12000, False)):
            run = self.record_into(file, size)
            self.assertIn("recording ended early: cannot write", run.err)
            self.assertEqual("no room for the names" in run.err, not names, run.err)
            self.assertLessEqual(file.stat().st_size, size)
            counts, whole = self.folded(file, status=1)
            self.assertEqual(whole, len(list(samples_of(file.read_bytes()))))
            self.assertGreater(whole, 20)
            self.assertEqual(counts["burn_long"] > 0, names)
            self.assertIn("lacks its end", vmscope("report", "--stats", file, check=False).err)
        file.unlink()
        self.record_into(file, 500)
        self.assertFalse(file.exists())

    def test_short_lives(self):
        """Programs that end within a period: what has their samples is named."""
        loop = ("timeout", "2", "sh", "-c", "while :; do /bin/true; done")
        run = vmscope("record", "-F", 199, "-o", self.folder / "short", "--", *loop)
        stats = self.stats(self.folder / "short")
        self.assertGreater(stats["missed"], stats["samples"])
        self.assertIn(f"most samples were missed, {stats['missed']} of {stats['missed'] + stats['samples']}", run.err)
        run = vmscope("record", "-F", 199, "-o", self.folder / "long", "--", self.program, "shares", "0.5")
        self.assertNotIn("most samples", run.err)

    def test_errors(self):
        file = self.folder / "nothing"
        gone = subprocess.Popen(["true"])
        gone.wait()
        for arguments, status, message in (
                (("-o", file), 2, "nothing to sample"),
                (("--pid", 1), 2, "--output FILE is missing"),
                (("-o", file, "--pid", gone.pid), 1, f"no process or thread {gone.pid}"),
                (("-o", file, "--", "/no/such"), 1, "there is no program /no/such"),
                (("-o", file, "-a", "--period", "9"), 2, "from 10 to"),
                (("-o", file, "-a", "--buffer", "1"), 2, "from 4 KiB to 1 GiB"),
                (("-o", file, "-a", "--name", "it"), 1, "can only be combined with other names"),
                (("-o", file, "-a", "-F", "9", "--period", "20"), 2, "exclude each other"),
                (("-o", file, "-a", "--wall", "--user"), 2, "exclude each other"),
                (("-o", file, "--cgroup", "/no/such"), 1, "cannot open control group"),
                (("-o", file, "--cgroup", self.folder), 1, "is not the folder of a control group"),
                (("-o", file, "-o", self.folder / "other", "-a", "-t", "0.1"), 2, "only once"),
                (("-o", self.folder, "-a"), 1, "it is a directory")):
            run = vmscope("record", *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)
        self.assertFalse(file.exists())
        self.assertIn("not a recording", vmscope("report", self.program, check=False).err)
        self.assertIn("No such file", vmscope("report", file, check=False).err)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become somebody else")
    def test_no_right(self):
        """The message names the limit of the kernel."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        os.chmod(place.name, 0o777)
        run = vmscope("record", "-a", "-t", "0.1", "-o", f"{place.name}/file", check=False,
                      user=65534, group=65534, extra_groups=[])
        self.assertEqual(run.status, 1)
        self.assertIn(f"kernel.perf_event_paranoid is {PARANOID}", run.err)
        run = vmscope("record", "-a", "--wall", "-t", "0.1", "-o", f"{place.name}/file", check=False,
                      user=65534, group=65534, extra_groups=[])
        self.assertIn("cannot read the tracepoint sched:sched_switch", run.err)
        self.assertIn("takes root", run.err)
        run = vmscope("record", "--name", "true", "-t", "0.1", "-o", f"{place.name}/file", check=False,
                      user=65534, group=65534, extra_groups=[])
        self.assertIn(f"kernel.perf_event_paranoid is {PARANOID}", run.err)

    def own(self, **options):
        """A recording by an ordinary user of a program of his own."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        os.chmod(place.name, 0o777)
        program = pathlib.Path(place.name, "program")
        program.write_bytes(self.program.read_bytes())
        program.chmod(0o755)
        file = pathlib.Path(place.name, "file")
        run = vmscope("record", "-F", HERTZ, "-o", file, "--", program, "shares", "0.3", check=False,
                      user=65534, group=65534, extra_groups=[], **options)
        return run, file

    @unittest.skipUnless(os.geteuid() == 0 and PARANOID == 2,
                         "needs root, to become somebody else, and kernel.perf_event_paranoid=2")
    def test_user_alone(self):
        """Without the right to see the kernel: the user's part, which is said."""
        run, file = self.own()
        self.assertIn("without the kernel's part: the sysctl kernel.perf_event_paranoid", run.err)
        samples = list(samples_of(file.read_bytes()))
        self.assertGreater(len(samples), 100)
        self.assertEqual({kernel for _, _, kernel, _ in samples}, {0})

    @unittest.skipUnless(os.geteuid() == 0 and PARANOID == 2,
                         "needs root, to become somebody else, and kernel.perf_event_paranoid=2")
    def test_no_memory(self):
        """No memory for rings beyond the kernel's own share: smaller ones, or the message names the
        limits. What is used of the share by others of that user is not ours to know."""
        def limit():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        run, file = self.own(preexec_fn=limit)
        if run.status:
            self.assertRegex(run.err, "kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK")
        else:
            self.assertGreater(len(list(samples_of(file.read_bytes()))), 100)


if __name__ == "__main__":
    unittest.main()
