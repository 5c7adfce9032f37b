#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what crash and drgn read from core files with what vmscope and the guest say.

    tests/gdb/compare_tools.py SERIES

Of one paused guest with Debian's kernel SERIES there is a file per layout of ours, and, as a second
opinion, QEMU's own dump: what a tool cannot do with that is no fault of our files. For 6.1 there is
also what the kernel saves of itself when it crashes. The limits of the tools in Debian 12:

- crash 8.0.2 cannot open 6.12. In 6.1.192 it finds only the idle tasks and those on a vCPU, because
  it reads `struct pid` too short (fixed in 8.0.4). It finds no stacks of vCPUs that run, `bt -a`,
  because this kernel has no stack for machine checks, which crash wants to search (fixed in 9.0.0);
  the kernel's own dump of a crash does not lead it there. Told where a stack begins, it
  shows stale frames between those that are right.
- drgn 0.0.22 does not know 6.12's ORC entries of the way in from user mode. Stacks end where they
  reach a module, the debug symbols of which are not here. It takes registers for those of a thread
  only where a file has the thread's id, not the vCPU's number. Frames of inlined functions, which
  vmscope does not show, and of user programs, which drgn does not follow, are left out.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from stacks import debug_vmlinux, is_equal, names_by_address, vmscope_stacks
import linux_guest
import testbed
from test_core_tools import Machine
from test_vmcore import Vmcore

from vmscope_command import vmscope

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = 1 << 63
BY_VCPU = "elf with the numbers of vCPUs"
LAYOUTS = {
    "elf": (),
    BY_VCPU: ("--thread-ids", "vcpu"),
    "zlib": ("--compress", "zlib"),
    "zstd": ("--compress", "zstd"),
}
OF_QEMU = "QEMU's"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=True, timeout=testbed.BOOT_SECONDS, **options).stdout


def crash(series, core, *commands):
    """What each command of crash writes about a core file."""
    with tempfile.TemporaryDirectory(prefix="vmscope-crash-") as directory:
        outputs = [pathlib.Path(directory, str(i)) for i in range(len(commands))]
        script = pathlib.Path(directory, "script")
        script.write_text("".join(f"{command} > {output}\n"
                                  for command, output in zip(commands, outputs)) + "quit\n")
        log = run("crash", "-s", debug_vmlinux(series), core, "-i", script, cwd=directory)
        missing = [output for output in outputs if not output.exists()]
        if missing:
            raise AssertionError(f"crash on {core}: {log}")
        return [output.read_text(errors="replace") for output in outputs]


def crash_frames(text):
    """(name, address) of the frames of a `bt`."""
    return [(name, int(address, 16)) for name, address in
            re.findall(r"^ *#\d+ \[[0-9a-f]+\] (\S+) at ([0-9a-f]+)", text, re.M)]


def is_within(part, whole):
    """Is `part` in `whole`, in that order, perhaps with others in between?"""
    rest = iter(whole)
    return all(item in rest for item in part)


def tasks_of(guest):
    """By thread id: the name. Of kernel workers, to which /proc adds what they work on: none."""
    lines = guest.run("cat /proc/[0-9]*/task/[0-9]*/stat; true").splitlines()
    matches = filter(None, (re.match(r"(\d+) \((.*)\) \S \d+ ", line) for line in lines))
    return {int(match[1]): match[2][:15] for match in matches
            if not match[2].startswith("kworker/")}


class Moment:
    """A guest that was paused: files of that moment, and what is known about it otherwise."""

    def __init__(self, series, directory):
        guest = linux_guest.LinuxGuest(series)
        try:
            self.names = names_by_address(guest)
            self.in_modules = {symbol.va for symbol in guest.kallsyms() if symbol.module}
            self.log = guest.run("dmesg")
            self.modules = guest.run("cat /proc/modules").splitlines()
            self.hostname = guest.run("hostname").strip()
            self.release = guest.run("uname -r").strip()
            self.present = sum(map(int, re.findall(r"present +(\d+)",
                                                   guest.run("cat /proc/zoneinfo"))))
            guest.start_workload("mix")
            before = tasks_of(guest)
            self.paths = {name: pathlib.Path(directory, f"core{i}")
                          for i, name in enumerate((*LAYOUTS, OF_QEMU))}
            self.pause(guest)
            self.registers = [Machine.parse(text) for text in
                              guest.qmp.hmp("info registers -a").split("CPU#")[1:]]
            for name, options in LAYOUTS.items():
                vmscope("core", *guest.target, "-o", self.paths[name], *options)
            guest.qmp.command("dump-guest-memory", paging=False,
                              protocol=f"file:{self.paths[OF_QEMU]}")
            guest.qmp.command("cont")
            after = tasks_of(guest)
        finally:
            guest.stop()
        self.tasks = dict(before.items() & after.items())  # there at the moment, too

    def pause(self, guest):
        """Where every vCPU is in a system call of a thread, neither interrupted nor switching."""
        for _ in range(1000):
            guest.qmp.command("stop")
            self.on_vcpus = vmscope_stacks(*guest.target)
            names = [[frame[1] for frame in stack] for stack in self.on_vcpus.values()]
            if len(names) == 2 and all(
                    stack[-1:] == ["entry_SYSCALL_64_after_hwframe"] and
                    not any(re.match("asm_|__schedule$", name) for name in stack)
                    for stack in names):
                return
            guest.qmp.command("cont")
        raise AssertionError("the guest never has both vCPUs in system calls")

    def ask(self, *command):
        return json.loads(vmscope(*command, "-c", self.paths["elf"], "--json").out)


class Crash(unittest.TestCase):
    """What crash shows of our files is what the guest says, and what crash shows of QEMU's."""

    @classmethod
    def setUpClass(cls):
        cls.threads = {row["vcpu"]: row["tid"] for row in cls.moment.ask("stack")}
        addresses = {task["tid"]: task["task"] for task in cls.moment.ask("ps")}
        commands = {name: name for name in ("sys", "log", "mod", "ps")}
        commands.update({"idle": "bt 0", "running": "bt -a", "registers": "help -r"})
        for vcpu, own in enumerate(cls.moment.registers):
            commands[vcpu] = (f"bt -S {own['RSP']:x} -I {own['RIP']:x} "
                              f"{addresses[cls.threads[vcpu]]}")
        cls.outputs = {file: dict(zip(commands, crash(cls.series, path, *commands.values())))
                       for file, path in cls.moment.paths.items()}

    def check(self, what, check):
        """Calls `check` with a command's output on every file."""
        for file, outputs in self.outputs.items():
            with self.subTest(file=file):
                check(outputs[what])

    def test_system(self):
        def check(text):
            facts = dict(re.findall(r"^ *([A-Z ]+): (.*)$", text, re.M))
            self.assertEqual(facts["RELEASE"], self.moment.release)
            self.assertEqual(facts["NODENAME"], self.moment.hostname)
            self.assertEqual(int(facts["CPUS"]), len(self.moment.registers))
            mib = self.moment.present * 4096 / 2**20
            self.assertIn(facts["MEMORY"], (f"{mib:.1f} MB", f"{mib:.0f} MB"))
        self.check("sys", check)

    def test_log(self):
        def check(text):
            # Lines after a record's first have the time before them in dmesg only.
            own, theirs = (re.sub(r"^(\[ *[\d.]+\] | {15})", "", log, flags=re.M)
                           for log in (self.moment.log, text))
            self.assertGreater(len(own), 10000)
            self.assertEqual(theirs[:len(own)], own)
        self.check("log", check)

    def test_modules(self):
        own = {line.split()[0]: (int(line.split()[5], 16), int(line.split()[1]))
               for line in self.moment.modules}
        self.assertGreater(len(own), 5)

        def check(text):
            rows = re.findall(r"^[0-9a-f]{16} +(\S+) +([0-9a-f]{16}) +(\d+)", text, re.M)
            self.assertEqual({name: (int(base, 16), int(size)) for name, base, size in rows}, own)
        self.check("mod", check)

    def test_tasks(self):
        """All that it lists are right, and every vCPU's is among them."""
        own = {(task["tid"], task["comm"]) for task in self.moment.ask("ps")}
        own |= {(0, f"[swapper/{vcpu}]") for vcpu in self.threads}

        def check(text):
            rows = re.findall(r"^(>)? +(\d+) +-?\d+ +(\d+) +[0-9a-f]{16} .* (\S+)$", text, re.M)
            self.assertLessEqual({(int(tid), comm) for _, tid, _, comm in rows}, own)
            self.assertEqual({int(cpu): int(tid) for mark, tid, cpu, _ in rows if mark},
                             self.threads)
        self.check("ps", check)

    def test_registers(self):
        def check(text):
            vcpus = re.split(r"^CPU \d+:", text, flags=re.M)[1:]
            self.assertEqual(len(vcpus), len(self.moment.registers))
            for theirs, own in zip(vcpus, self.moment.registers):
                theirs = {name.replace("RFLAGS", "RFL"): int(value, 16) for name, value in
                          re.findall(r"\b(R[A-Z0-9]+): *([0-9a-f]+)\b", theirs)}
                self.assertEqual(len(theirs), 18)
                self.assertEqual(theirs, {name: own[name] for name in theirs})
        self.check("registers", check)

    def test_stack_of_an_idle_task(self):
        """Which does not run: where it waits is in its memory alone."""
        def check(text):
            names = [name for name, _ in crash_frames(text)]
            self.assertEqual(names[:2], ["__schedule", "schedule_idle"])
            self.assertTrue(is_within(["do_idle", "cpu_startup_entry", "rest_init",
                                       "start_kernel"], names), names)
        self.check("idle", check)

    def test_stacks_of_vcpus(self):
        for vcpu, stack in self.moment.on_vcpus.items():
            def check(text, own=stack):
                self.assertTrue(is_within([address for address, _, _ in own[1:]],
                                          [address for _, address in crash_frames(text)]),
                                f"{own}\n{text}")
            self.check(vcpu, check)

    def test_files_are_as_good_as_that_of_qemu(self):
        expected = self.without_path(self.outputs[OF_QEMU])
        for file, outputs in self.outputs.items():
            with self.subTest(file=file):
                self.assertEqual(self.without_path(outputs), expected)

    @staticmethod
    def without_path(outputs):
        """`registers`, which crash shows in another form of compressed files, aside."""
        return {what: re.sub(r"^ *DUMPFILE: .*\n", "", text, flags=re.M)
                for what, text in outputs.items() if what != "registers"}


class CrashedKernel(unittest.TestCase):
    """A kernel's own dump, and files that `core convert` makes of it."""

    def test_stacks(self):
        self.addClassCleanup(Vmcore.tearDownClass)
        Vmcore.setUpClass()
        expected, = crash(self.series, Vmcore.path, "bt -a")
        stacks = [crash_frames(text) for text in expected.split("PID: ")[1:]]
        own = vmscope_stacks("-c", Vmcore.path)
        self.assertEqual(len(stacks), 2)
        self.assertTrue(is_within([at for at, _, _ in own[0]][1:], [at for _, at in stacks[0]]),
                        f"{own[0]}\n{expected}")
        # From user mode the kernel has gone to where it stopped the vCPU; the note is of before.
        self.assertNotIn(1, own)
        self.assertEqual(stacks[1][0][0], "crash_nmi_callback")
        rows = json.loads(vmscope("stack", "--cpu", "1", "-c", Vmcore.path, "--json").out)
        self.assertIn(int(rows[0]["address"], 16),
                      [int(rip, 16) for rip in re.findall(r"RIP: ([0-9a-f]+)", expected)])
        for options in ((), ("--compress", "zlib"), ("--compress", "zstd")):
            with self.subTest(options=options):
                made = pathlib.Path(Vmcore.directory.name, "made")
                made.unlink(missing_ok=True)
                vmscope("core", "convert", Vmcore.path, made, *options)
                self.assertEqual(crash(self.series, made, "bt -a"), [expected])


class Drgn(unittest.TestCase):
    UNKNOWN_ORC = "unknown ORC entry type"

    @classmethod
    def setUpClass(cls):
        cls.tasks = {}
        for name, path in cls.moment.paths.items():
            if name != OF_QEMU:  # has no VMCOREINFO unless the guest helps QEMU: drgn refuses it
                output = run(sys.executable, HERE / "drgn_tasks.py", debug_vmlinux(cls.series),
                             path)
                cls.tasks[name] = {int(tid): task for tid, task in json.loads(output).items()}

    def test_tasks(self):
        own = {task["tid"]: task["comm"] for task in self.moment.ask("ps")}
        self.assertGreater(len(self.moment.tasks), 20)
        for name, tasks in self.tasks.items():
            with self.subTest(file=name):
                theirs = {tid: comm for tid, (comm, _) in tasks.items()}
                self.assertEqual(theirs, own)
                self.assertLessEqual(self.moment.tasks.items(), theirs.items())

    def test_stacks(self):
        """Of those that run and of those that wait: address by address."""
        path = self.moment.paths["elf"]
        self.assertEqual(vmscope_stacks("-c", path), self.moment.on_vcpus)
        running = vmscope_stacks("-c", path, by="tid")
        own = {tid: running[tid] if tid in running else
               vmscope_stacks("-c", path, "--task", str(tid), by="tid")[tid]
               for tid in self.tasks["elf"]}
        self.assertEqual(len(running), 2)
        for name, tasks in self.tasks.items():
            # This drgn takes a number for the thread's, whose registers it then shows.
            misled = {*running, 1, 2} if name == BY_VCPU else ()
            with self.subTest(file=name):
                outcomes = collections.Counter(
                    self.compare(own[tid], stack) for tid, (_, stack) in tasks.items()
                    if tid not in misled)
                print(f"{self.moment.release}: drgn on {name}: {dict(outcomes)}")
                self.assertGreater(outcomes["equal"], 30)
                if self.series == "6.1":
                    self.assertEqual(outcomes[self.UNKNOWN_ORC], 0)

    def compare(self, ours, theirs):
        """How they agree; it is a failure when they do not."""
        if isinstance(theirs, str):
            self.assertIn(self.UNKNOWN_ORC, theirs)
            return self.UNKNOWN_ORC
        until = next((i + 1 for i, (pc, _, offset) in enumerate(ours)
                      if pc - offset in self.moment.in_modules), len(ours))
        self.assertTrue(is_equal(ours[:until], theirs, self.moment.names), f"{ours}\n{theirs}")
        return "equal" if until == len(ours) else "equal up to a module"


CASES = {"6.1": (Crash, CrashedKernel, Drgn), "6.12": (Drgn,)}


def main():
    series, = sys.argv[1:]
    suite = unittest.TestSuite()
    with tempfile.TemporaryDirectory(prefix="vmscope-compare-") as directory:
        moment = Moment(series, directory)
        for case in CASES[series]:
            case.series, case.moment = series, moment
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
        return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
