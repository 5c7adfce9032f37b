# SPDX-License-Identifier: MIT
"""Tasks, modules, memory areas, timers and the log of a guest, against what it says itself."""
import collections
import json
import re
import subprocess
import unittest

import linux_guest
from long_tests import takes_long
import testbed
from vmscope_command import vmscope

Task = collections.namedtuple("Task", "pid tid ppid state comm")
COMM_BYTES = 15  # the kernel keeps no more of a name; /proc adds to those of its own threads
FAR_NS = 10**14  # a timer that will not expire while the test runs


class Guest:
    """The tests; subclasses say which kernel."""
    series = ""
    scheduler = ["__schedule", "schedule"]  # innermost on the stack of a task that sleeps
    marks = 0

    @classmethod
    def start_guest(cls):
        return linux_guest.LinuxGuest(cls.series)

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()
        # A program on another file system than the root.
        cls.guest.run("mkdir -p /mnt/a && mount -t tmpfs none /mnt/a && mkdir /mnt/a/c && "
                      "cp /bin/busybox /mnt/a/c/sleep")
        cls.guest.run("/mnt/a/c/sleep 100000 >/dev/null 2>&1 &")
        cls.guest.run("sleep 200000 >/dev/null 2>&1 &")
        cls.guest.run("{ cat /dev/zero | sleep 300000; } >/dev/null 2>&1 &")

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def ask(self, *arguments):
        return json.loads(vmscope(*arguments, "--qmp", self.guest.qmp_path, "--json").out)

    # ---- tasks

    def own_tasks(self):
        """Every thread by its id, as the guest's /proc has them."""
        tasks = {}
        for line in self.guest.run("cat /proc/[0-9]*/task/[0-9]*/stat; true").splitlines():
            match = re.fullmatch(r"(\d+) \((.*)\) (\S) (\d+) (.*)", line)
            if match:
                tid = int(match[1])
                tasks[tid] = Task(0, tid, int(match[4]), match[3], match[2][:COMM_BYTES])
        return tasks

    def test_tasks(self):
        before = self.own_tasks()
        ours = {task["tid"]: task for task in self.ask("ps")}
        after = self.own_tasks()
        lasting = before.keys() & after.keys()
        self.assertGreater(len(lasting), 40)
        self.assertLessEqual(lasting, ours.keys())
        for tid in lasting:
            if not ours[tid]["comm"].startswith("kworker/"):  # /proc adds what they work on
                self.assertEqual(ours[tid]["comm"], before[tid].comm)
            self.assertEqual(ours[tid]["ppid"], before[tid].ppid)
        # States of those that sleep for good.
        sleeping = [tid for tid in lasting if before[tid].state == after[tid].state == "S"
                    and before[tid].comm in ("sleep", "cat")]
        self.assertGreaterEqual(len(sleeping), 3)
        for tid in sleeping:
            self.assertEqual(ours[tid]["state"], "S")
        idle = [tid for tid in lasting if before[tid].state == after[tid].state == "I"]
        self.assertGreater(len(idle), 5)
        self.assertTrue(any(ours[tid]["state"] == "I" for tid in idle))

    def test_tasks_are_those_of_now(self):
        pid = int(self.guest.run("sleep 400000 >/dev/null 2>&1 & echo $!"))
        self.assertIn(pid, [task["pid"] for task in self.ask("ps")])
        # The agent is its parent's parent and collects it.
        self.guest.run(f"kill -9 {pid}")
        gone = [task for task in self.ask("ps") if task["pid"] == pid and task["state"] != "Z"]
        self.assertEqual(gone, [])

    def test_current_task(self):
        """A process that is bound to a vCPU and never sleeps is seen on it, and on no other."""
        pids = [int(self.guest.run(f"taskset {1 << vcpu:x} workload deep >/dev/null 2>&1 & echo $!"))
                for vcpu in range(2)]
        try:
            seen = [set(), set()]
            for _ in range(40):
                for cpu in self.ask("info", "cpus")["cpus"]:
                    self.assertIsNotNone(cpu["pid"])
                    seen[cpu["vcpu"]].add(cpu["pid"])
                if all(pids[vcpu] in seen[vcpu] for vcpu in range(2)):
                    break
            for vcpu in range(2):
                self.assertIn(pids[vcpu], seen[vcpu])
                self.assertNotIn(pids[1 - vcpu], seen[vcpu])
        finally:
            self.guest.run(f"kill -9 {pids[0]} {pids[1]}")

    def test_stack_of_sleeping_task(self):
        """Against /proc/PID/stack, which leaves out the scheduler's own functions."""
        for task in self.ask("ps"):
            if task["comm"] not in ("sleep", "cat"):
                continue
            said = re.findall(r"^\[<0>\] (\w[\w.]*)\+", self.guest.run(
                f"cat /proc/{task['tid']}/stack"), re.MULTILINE)
            self.assertGreater(len(said), 2)
            ours = [frame["symbol"] for frame in self.ask("stack", "--task", task["tid"])
                    if frame["mode"] == "kernel"]
            self.assertEqual(ours[:len(self.scheduler)], self.scheduler)
            said = [name for name in said if name not in self.scheduler]
            self.assertEqual(ours[-len(said):], said)

    # ---- memory areas

    def own_areas(self):
        """(pid, start, end, file offset, name) of all areas of processes that will not change."""
        areas = []
        text = self.guest.run("for p in $(pidof sleep cat); do echo pid $p; cat /proc/$p/maps; "
                              "done")
        for line in text.splitlines():
            if line.startswith("pid "):
                pid = int(line[4:])
                continue
            match = re.fullmatch(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s*(.*)", line)
            areas.append((pid, int(match[1], 16), int(match[2], 16), int(match[3], 16), match[4]))
        return areas

    def test_areas(self):
        asked, expected = [], []
        for pid, start, end, offset, name in self.own_areas():
            if start >> 63:
                continue  # the vsyscall page is no area
            for va in (start, (start + end) // 2, end - 1):
                asked.append(f"{pid} {va:x}\n")
                in_file = offset if name.startswith("/") else 0
                expected.append(f"{name or '[anon]'}\t{va - start + in_file:#x}")
            asked.append(f"{pid} {0x10:x}\n")
            expected.append("-")
        run = subprocess.run([testbed.BUILD / "tests" / "tools" / "areas", self.guest.qmp_path],
                             input="".join(asked), text=True, check=True, timeout=120,
                             stdout=subprocess.PIPE)
        self.assertEqual(run.stdout.splitlines(), expected)
        self.assertTrue(any("/mnt/a/c/sleep" in line for line in expected))
        for kind in ("[heap]", "[stack]", "[vdso]"):
            self.assertTrue(any(kind in line for line in expected), kind)

    # ---- modules

    def own_modules(self):
        """(name, size, address of the text)"""
        fields = map(str.split, self.guest.run("cat /proc/modules").splitlines())
        return [(words[0], int(words[1]), int(words[5], 16)) for words in fields]

    def assert_modules(self):
        ours = [(module["name"], module["size"], int(module["text"], 16))
                for module in self.ask("modules")]
        self.assertEqual(ours, self.own_modules())

    def test_modules(self):
        self.assert_modules()
        self.guest.run("rmmod loop")
        try:
            self.assertNotIn("loop", [name for name, *_ in self.own_modules()])
            self.assert_modules()
        finally:
            self.guest.run("modprobe loop")
        self.assert_modules()

    def test_module_symbols(self):
        """All of them, with the types that tell which ones are exported. Not what only marks a
        place in a function: the kernel lists that, but calls nothing by it."""
        names = {name for name, *_ in self.own_modules()}
        text = self.guest.run("grep '\\[' /proc/kallsyms")
        own = [symbol for symbol in map(linux_guest.Symbol.parse, text.splitlines())
               if symbol.module in names and not symbol.name.startswith(("$", ".L", "L0"))]
        ours = [linux_guest.Symbol.parse(line) for line in vmscope(
            "symbol", "--qmp", self.guest.qmp_path).out.splitlines() if "\t[" in line]
        self.assertGreater(len(own), 100)
        self.assertEqual(sorted(ours, key=str), sorted(own, key=str))

    # ---- timers

    def test_timers(self):
        own = sorted((match[1], int(match[2])) for match in re.finditer(
            r"#\d+: <[0-9a-f]+>, (\w+),.*\n # expires at \d+-(\d+) nsecs",
            self.guest.run("cat /proc/timer_list")) if int(match[2]) > FAR_NS)
        ours = sorted((timer["function"], timer["expires_ns"])
                      for timer in self.ask("info", "activetimers")["activetimers"]
                      if timer["expires_ns"] > FAR_NS)
        self.assertGreaterEqual(len(own), 2)
        self.assertEqual(ours, own)

    def test_clocks(self):
        source = self.guest.run(
            "cat /sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
        devices = re.findall(r"Per CPU device: (\d+)\nClock Event Device: (.*)",
                             self.guest.run("cat /proc/timer_list"))
        self.assertEqual(len(devices), 2)
        own = {("clock source", None, source)} | {("event device", int(cpu), name) for cpu, name in devices}
        ours = {(row["kind"], row["cpu"], row["name"])
                for row in self.ask("info", "timers")["timers"]}
        self.assertEqual(ours, own)
        # A source expires never, and a device that is not to interrupt has no time.
        self.assertEqual({row["next_ns"] for row in self.ask("info", "timers")["timers"]
                          if row["kind"] == "clock source"}, {None})

    # ---- log

    def own_log(self):
        """(microseconds, level, text) of every record of /dev/kmsg."""
        records = []
        # Reading would wait for more at the end: a record of our own ends it, and one more is for
        # sed, which reads ahead.
        self.marks += 1
        mark = f"end of log {self.marks}"
        raw = self.guest.run_bytes(f"echo '{mark}' > /dev/kmsg; echo > /dev/kmsg; "
                                   f"sed '/;{mark}$/q' /dev/kmsg")
        for line in raw.split(b"\n"):
            match = re.fullmatch(rb"(\d+),\d+,(\d+),[^;]*;(.*)", line)
            if match:  # not the properties that may follow
                text = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), match[3])
                records.append((int(match[2]), int(match[1]) & 7, text))
        return records

    def assert_log(self):
        own = [(us, level, "".join(c if c.isprintable() or c in "\n\t" else "?"
                                   for c in text.decode()))
               for us, level, text in self.own_log()]
        ours = [(record["time_ns"] // 1000, record["level"], record["text"])
                for record in self.ask("dmesg")]
        # The log may have grown, and lost its oldest records, in between.
        common = [record for record in own if record in ours]
        self.assertGreater(len(common), 50)
        self.assertGreaterEqual(len(common), len(own) - 20)
        begin = ours.index(common[0])
        self.assertEqual(ours[begin:begin + len(common)], common)

    def test_log(self):
        self.guest.run(r"printf '<3>one\ttab \033[31m and \001 then \303\244' > /dev/kmsg")
        self.assert_log()
        texts = [record["text"] for record in self.ask("dmesg")]
        self.assertIn("one\ttab ?[31m and ? then ä", texts)

    def test_log_that_has_wrapped(self):
        """More than the ring holds, in records of many sizes."""
        self.guest.run("echo on > /proc/sys/kernel/printk_devkmsg")
        self.guest.run("i=0; while [ $i -lt 2500 ]; do printf '<6>%s%0*d' $i $((i % 190 + 1)) 0 "
                       "> /dev/kmsg; i=$((i + 1)); done")
        self.assertNotIn("Linux version", self.own_log()[0][2].decode())
        self.assert_log()


class Linux61(Guest, unittest.TestCase):
    series = "6.1"


@takes_long
@testbed.needs_newest
class LinuxNewest(Guest, unittest.TestCase):
    series = testbed.NEWEST

    def test_attach_while_processes_end(self):
        """All of the kernel is found, though the process that a vCPU ran may end at once."""
        pids = self.guest.run("for i in 1 2 3 4; do while :; do /bin/true; done >/dev/null 2>&1 & "
                              "echo $!; done").split()
        try:
            for _ in range(8):
                run = vmscope("info", *self.guest.target, "--json", "os")
                os = json.loads(run.out)["os"]
                self.assertEqual(run.err, "")
                self.assertIn(["types", "BTF"], [list(row.values()) for row in os])
                self.assertIn(["stacks by", "ORC"], [list(row.values()) for row in os])
        finally:
            self.guest.run(f"kill -9 {' '.join(pids)}")


if __name__ == "__main__":
    unittest.main()
