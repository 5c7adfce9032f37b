# SPDX-License-Identifier: MIT
"""Tables of vmscope flow: counts, sums and histograms that are known by what the guest did."""
import collections
import json
import pathlib
import signal
import unittest

import probes_tool
import testbed
from test_agent_engine import BareGuest, LinuxGuest
from vmscope_command import start_vmscope, vmscope

STEPS, THREADS = 5000, 4
STEP_SUM = THREADS * STEPS * (STEPS - 1) // 2
TALLIES = "vmscope-tallies"  # the name of the agent's memory


class Tables:
    """A process that aggregates. Starts when the probes are armed."""

    def __init__(self, target, *arguments):
        self.process = start_vmscope("flow", "-v", "--json", *target, *arguments)
        self.log = ""
        for line in self.process.stderr:
            if "armed" in line:
                break
            self.log += line

    def end(self, status=0):
        """As by Ctrl-C. `rows`: the last table."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.wait(status)

    def wait(self, status=0):
        out, log = self.process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.log += log
        assert self.process.returncode == status, self.log
        self.tables = [line for line in map(json.loads, out.splitlines()) if "rows" in line]
        self.summary = json.loads(out.splitlines()[-1])
        self.rows, self.unfit = self.tables[-1]["rows"], self.tables[-1]["unfit"]
        return self

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def counts(self):
        """By key. Numbers are numbers."""
        return {tuple(self.value(value) for value in row["key"]): row["count"] for row in self.rows}

    @staticmethod
    def value(value):
        text = value["value"]
        return int(text, 16) if text and text.startswith("0x") else text


def log2_cells(numbers):
    """How many numbers each cell of a histogram has, by its least number."""
    return dict(collections.Counter(1 << number.bit_length() - 1 if number else 0
                                    for number in numbers))


class Linux:
    """On a guest of 4 vCPUs."""
    arch, second = None, None

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest("6.1", arch=cls.arch, smp=4)
        cls.addClassCleanup(cls.guest.stop)
        symbols = probes_tool.symbols(cls.arch)
        cls.step, cls.call = hex(symbols["the_step"]), hex(symbols["the_call"])

    def aggregate(self, *arguments, run):
        tables = Tables(("-p", self.guest.pid), *arguments)
        self.addCleanup(tables.kill)
        self.guest.run(run)
        return tables.end()

    def only(self, *arguments, run):
        """The only row, and its numbers."""
        found = self.aggregate(*arguments, run=run)
        self.assertEqual(len(found.rows), 1, found.rows)
        self.assertEqual((found.unfit, found.summary["lost"]), (0, 0))
        return found.rows[0], {number["name"]: number for number in found.rows[0]["numbers"]}

    def test_exact(self):
        """Four threads on four vCPUs at once: nothing is missing, nothing is there twice."""
        row, numbers = self.only(self.step, "--count", "--hist", self.second, "--lhist",
                                 f"{self.second} - 100:0:1000:250",
                                 run=f"probed threads {STEPS} {THREADS}")
        self.assertEqual((row["key"], row["count"]), ([], THREADS * STEPS))
        found = numbers[self.second]
        self.assertEqual((found["sum"], found["min"], found["max"]), (STEP_SUM, 0, STEPS - 1))
        self.assertAlmostEqual(found["average"], (STEPS - 1) / 2)
        self.assertEqual({cell["first"]: cell["count"] for cell in found["cells"]},
                         log2_cells(list(range(STEPS)) * THREADS))
        low, high = -2 ** 63, 2 ** 63 - 1
        self.assertEqual([(cell["first"], cell["last"], cell["count"] // THREADS)
                          for cell in numbers[f"{self.second} - 100"]["cells"]],
                         [(low, -1, 100), (0, 249, 250), (250, 499, 250), (500, 749, 250),
                          (750, 999, 250), (1000, high, STEPS - 1100)])

    def test_keys(self):
        found = self.aggregate(self.step, "--count-by", f"{self.second} % 7,{self.second} % 2",
                               run=f"probed threads {STEPS} {THREADS}")
        self.assertEqual(found.counts(),
                         {(i % 7, i % 2): THREADS * len(range(i, STEPS, 14)) for i in range(14)})
        self.assertEqual(found.rows, sorted(found.rows, key=lambda row: -row["count"]))

    def test_vcpus(self):
        found = self.aggregate(self.step, "--count-by", "cpu",
                               run=f"probed threads {20 * STEPS} {THREADS}")
        self.assertEqual(sum(found.counts().values()), THREADS * 20 * STEPS)
        self.assertLessEqual(set(found.counts()), {(cpu,) for cpu in range(4)})
        self.assertGreater(len(found.rows), 1)

    def test_too_small(self):
        """Each vCPU's table holds so many; all others are counted."""
        found = self.aggregate(self.step, "--sum", self.second, "--by", self.second, "--max-keys",
                               "10", run=f"probed threads {STEPS} {THREADS}")
        counted = sum(found.counts().values())
        self.assertEqual(counted + found.unfit, THREADS * STEPS)
        self.assertEqual((found.summary["counted"], found.summary["unfit"]), (counted, found.unfit))
        self.assertGreaterEqual(len(found.rows), 10)
        self.assertLessEqual(len(found.rows), 40)
        for row in found.rows:
            number, = row["numbers"]
            self.assertEqual(number["sum"], row["count"] * self.value(row))

    @staticmethod
    def value(row):
        return Tables.value(row["key"][0])

    def test_writes(self):
        """System calls of known sizes, in the kernel, by the process that does them."""
        found = self.aggregate("vfs_write", "vfs_read", "--sum", "arg2", "--by",
                               "function,pid,comm,arg2", "--if", 'comm == "dd"',
                               run="for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=${i}00 "
                                   "count=1$i 2>&- & done; wait")
        by_size = collections.defaultdict(set)
        for row in found.rows:
            function, pid, comm, size = (value["value"] for value in row["key"])
            if int(size, 16) in (100, 200, 300):
                by_size[function, int(size, 16)].add((row["count"], row["numbers"][0]["sum"]))
        self.assertEqual(by_size, {(function, 100 * i): {(10 + i, 100 * i * (10 + i))}
                                   for function in ("vfs_write", "vfs_read") for i in (1, 2, 3)})
        self.assertGreater(found.summary["rejected"], 0)

    def test_calls(self):
        """Calls count when they return, with their arguments, results and durations."""
        found = self.aggregate("vfs_write:call", "--hist", "duration", "--sum", "retval", "--by",
                               "function,comm,retval,arg2", "--if", 'comm == "dd"',
                               run="for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=${i}00 "
                                   "count=1$i 2>&- & done; wait")
        self.assertEqual(found.counts(), {("vfs_write", "dd", 100 * i, 100 * i): 10 + i for i in (1, 2, 3)})
        for row in found.rows:
            duration, result = row["numbers"]
            self.assertEqual((duration["name"], result["name"]), ("duration", "retval"))
            self.assertEqual(result["sum"], row["count"] * result["max"])
            self.assertEqual(sum(cell["count"] for cell in duration["cells"]), row["count"])
            self.assertGreater(duration["min"], 0)
            self.assertLessEqual(duration["min"] * row["count"], duration["sum"])

    def test_types(self):
        """Files of the same name are one key, wherever their names lie; numbers keep their sign."""
        name, negative = "((struct file *)arg0)->f_path.dentry->d_name.name", "(int)(0 - arg2)"
        self.addCleanup(self.guest.run, "rm -r /one /two")
        found = self.aggregate("vfs_write", "--sum", negative, "--by", f"{name},(int)(arg2 - 101)",
                               "--if", "count == 100 && file->f_mode & 2 && comm == \"dd\"",
                               run="mkdir /one /two; for i in one two; do dd if=/dev/zero "
                                   "of=/$i/of_this_name bs=100 count=10 2>&-; done")
        row, = found.rows
        text, number = row["key"]
        self.assertEqual((text["value"], text["text"]), ("of_this_name", '"of_this_name"'))
        self.assertEqual((number["value"], number["type"], number["text"]),
                         ("0xffffffff", "int", "-1"))
        sums, = row["numbers"]
        self.assertEqual((row["count"], sums["sum"], sums["max"]), (20, -2000, -100))

    def test_live(self):
        """Tables come meanwhile, too, and only grow."""
        tables = Tables(("-p", self.guest.pid), self.step, "--count", "--interval", "0.1")
        self.addCleanup(tables.kill)
        lines = []
        while len(lines) < 3:
            self.guest.run("probed steps 100")
            lines.append(json.loads(tables.process.stdout.readline()))
        counts = [sum(row["count"] for row in line["rows"]) for line in lines]
        self.assertEqual(counts, sorted(counts))
        rows = tables.end().rows
        self.assertEqual([row["count"] for row in rows], [300])
        self.assertGreaterEqual(len(tables.tables), 1)

    def test_text(self):
        process = start_vmscope("flow", "-v", "-p", self.guest.pid, self.step, "--max",
                                self.second, "--hist", f"{self.second}/100", "--by",
                                f"{self.second} % 2")
        self.addCleanup(process.kill)
        while "armed" not in process.stderr.readline():
            pass
        self.guest.run("probed steps 200")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=testbed.ANSWER_SECONDS)
        key, half = f"{self.second} % 2", "@" * 40
        width = len(f"max({self.second})")
        self.assertEqual(out.splitlines(), [
            f"{key}  max({self.second})  count",
            f"1{' ' * len(key)} {'199':>{width}}    100",
            f"0{' ' * len(key)} {'198':>{width}}    100",
            "", f"hist({self.second}/100) of {key}=1:",
            f"[0]                            50 |{half}|", f"[1]                            50 |{half}|",
            "", f"hist({self.second}/100) of {key}=0:",
            f"[0]                            50 |{half}|", f"[1]                            50 |{half}|",
            "", "200 in the table"])

    def test_killed_client(self):
        """Nothing stays in QEMU, and the guest goes on."""
        tables = Tables(("-p", self.guest.pid), self.step, "--count-by", self.second)
        self.guest.run("probed steps 1000")
        self.assertIn(TALLIES, self.maps())
        self.guest.run("probed steps 1000000000 >/dev/null 2>&1 & echo $! >/busy")
        self.addCleanup(self.guest.run, "kill $(cat /busy)")
        tables.kill()
        testbed.wait_for(lambda: TALLIES not in self.maps(), "the agent to free its tables")
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")
        self.assertEqual(vmscope("flow", "-p", self.guest.pid, self.step, "--count", "--hits",
                                 "5").out.splitlines()[-1], "5 in the table")

    def maps(self):
        return pathlib.Path(f"/proc/{self.guest.pid}/maps").read_text()

    def test_wrong_words(self):
        for arguments, message in (
                (["--by", "comm"], "need one of"),
                (["--count-by", "comm,,pid"], "an entry is empty"),
                (["--count-by", "nothing_like_it"], "is not known"),
                (["--sum", "comm"], "not a number"),
                (["--lhist", "arg2:0:10"], "EXPRESSION:MIN:MAX:STEP"),
                (["--lhist", "arg2:0:10000:1"], "1024 cells"),
                (["--hist", "arg2", "--interval", "0"], "--interval"),
                (["--count", "--max-keys", "0"], "--max-keys"),
                (["--count", "--records", "3"], "--records"),
                (["--count", "--common", "arg0"], "--common"),
                (["--count", "--break"], "--break"),
                (["--count-by", "break"], "part of a key"),
                (["--count-by", "mem(arg1,4000)", "--max-keys", "100000"], "too large")):
            with self.subTest(arguments=arguments):
                run = vmscope("flow", "-p", self.guest.pid, "vfs_read", *arguments, check=False)
                self.assertEqual(run.status, 2, run.err)
                self.assertIn(message, run.err)
                self.assertEqual((run.out, len(run.err.splitlines())), ("", 1))
        run = vmscope("flow", "-p", self.guest.pid, "vfs_read=arg2", "--count", check=False)
        self.assertEqual(run.status, 2)
        self.assertIn("cannot collect values", run.err)


class X86(Linux, unittest.TestCase):
    arch, second = "x86_64", "rsi"

    def test_killed_machine(self):
        """What was added up is shown before the error."""
        guest = LinuxGuest("6.1")
        self.addCleanup(guest.stop)
        tables = Tables(("-p", guest.pid), self.step, "--sum", "rsi")
        guest.run("probed steps 100")
        guest.process.kill()
        guest.process.wait()
        out, log = tables.process.communicate(timeout=testbed.ANSWER_SECONDS)
        table, = map(json.loads, out.splitlines())
        self.assertEqual([(row["count"], row["numbers"][0]["sum"]) for row in table["rows"]],
                         [(100, 4950)])
        self.assertEqual((tables.process.returncode, len(log.splitlines())), (1, 1), log)


class Bare(unittest.TestCase):
    """On a guest that does nothing but come to the probe, with numbers that follow each other."""

    def setUp(self):
        self.guest = BareGuest("counter", accel="tcg,thread=multi")
        self.addCleanup(self.guest.stop)
        self.place = hex(probes_tool.symbols("x86_64", "counter.elf")["counted_nop"])

    def test_limit(self):
        """Exactly so many, each of which counts once."""
        found = Tables(self.guest.target, self.place, "--sum", "rdi", "--hits", "1000").wait()
        row, = found.rows
        number, = row["numbers"]
        self.assertEqual((row["count"], number["max"] - number["min"]), (1000, 999))
        self.assertEqual(number["sum"], 1000 * (number["min"] + number["max"]) // 2)

    def test_limit_and_too_small(self):
        found = Tables(self.guest.target, self.place, "--count-by", "rdi % 100", "--max-keys", "30",
                       "--hits", "1000").wait()
        self.assertEqual(set(found.counts().values()), {10})
        self.assertEqual((len(found.rows), found.unfit), (30, 700))

    def test_reset(self):
        """The guest begins again, and the table goes on."""
        tables = Tables(self.guest.target, self.place, "--min", "rdi", "--interval", "0.1")
        self.addCleanup(tables.kill)

        def read():
            row, = json.loads(tables.process.stdout.readline())["rows"] or [None]
            return row["count"], row["numbers"][0]["min"]
        before, least = read()
        self.assertGreater(least, 1)
        self.guest.qmp.command("system_reset")
        while least > 1:
            count, least = read()
        self.assertGreater(count, before)
        tables.end()


if __name__ == "__main__":
    unittest.main()
