# SPDX-License-Identifier: MIT
"""Looking and sampling through the agent: it tells what QMP and the gdb stub tell, stops nobody."""
import json
import pathlib
import re
import signal
import socket
import tempfile
import unittest

import agent_client
import linux_guest
from long_tests import takes_long
import qemu_machine
import testbed
import vmscope_command
from vmscope_command import vmscope
import machine_tool
import test_attach
import test_sample
from test_errors import Case as Errors
from test_runs import Killed
from sample_report import Report, folded


class WithAgent:
    """A machine with the agent, reached through it, and with several QMP sockets."""
    beside = "extra"  # by which QEMU gets options that the guest does not see

    def __init__(self, *arguments, sockets=3, **options):
        self._sockets = tempfile.TemporaryDirectory(prefix="vmscope-agent-")
        directory = pathlib.Path(self._sockets.name)
        self.agent_path = directory / "agent"
        monitors = [word for i in range(sockets - 1)
                    for word in ("-qmp", f"unix:{directory}/qmp{i},server=on,wait=off")]
        options[self.beside] = (*agent_client.options(self.agent_path), *monitors,
                                *options.get(self.beside, ()))
        super().__init__(*arguments, **options)

    def stop(self):
        super().stop()
        self._sockets.cleanup()

    @property
    def target(self):
        return ("--agent", self.agent_path)

    @property
    def by_qmp(self):
        return ("--qmp", self.qmp_path)


class LinuxGuest(WithAgent, linux_guest.LinuxGuest):
    beside = "beside"


class BareGuest(WithAgent, qemu_machine.BareGuest):
    pass


class PluggedMemory(test_attach.PluggedMemory):
    bare, linux = BareGuest, LinuxGuest

    def open(self, machine):
        tool = machine_tool.Tool("pid", machine.pid)
        self.addCleanup(tool.end)
        self.assertIn("engine=agent", tool.do("facts"))
        return tool


class Same:
    """A guest that stands still in many places, seen through the agent and through the stub."""
    arch, series = "x86_64", "6.1"
    only_ours = set()
    commands = (("ps",), ("modules",), ("dmesg",), ("symbol", "schedule"), ("info",), ("info", "memory"),
                ("info", "status"))
    commands_on_vcpus = (("stack",), ("info", "cpus"), ("info", "mappings"))

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest(cls.series, arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)

    def work(self):
        self.guest.start_workload("mix")
        self.addCleanup(self.guest.stop_workload)

    def check_paused(self, commands):
        """The registers, and what these commands say."""
        self.guest.run("sleep 0.2")
        self.guest.qmp.command("stop")
        try:
            for command in commands:
                self.check(*command)
            self.check_registers()
            self.assertEqual(self.guest.qmp.status(), "paused")
        finally:
            self.guest.qmp.command("cont")

    def test_all_commands(self):
        self.work()
        self.check_paused(self.commands + self.commands_on_vcpus)
        for _ in range(2):
            self.check_paused(self.commands_on_vcpus)

    def check(self, *command):
        with self.subTest(command=command):
            ours, theirs = (vmscope(*command, *target).out
                            for target in (self.guest.target, self.guest.by_qmp))
            self.assertGreater(len(ours.splitlines()), 0)
            self.assertEqual(ours, theirs)

    def check_registers(self):
        """The agent knows more of them."""
        ours, theirs = ({(row["vcpu"], row["register"]): row["value"] for row in
                         json.loads(vmscope("regs", *target, "--json").out)}
                        for target in (self.guest.target, self.guest.by_qmp))
        self.assertEqual({key: ours.get(key) for key in theirs}, theirs)
        self.assertEqual({name for _, name in set(ours) - set(theirs)}, self.only_ours)

    def test_memory(self):
        symbol = next(symbol for symbol in self.guest.kallsyms() if symbol.name == "schedule")
        for command in ("mem", "disas"):
            self.check(command, hex(symbol.va))

    def test_nothing_stops(self):
        """Neither to attach nor to look, by whatever names the machine, as long as somebody does."""
        self.work()
        watcher = agent_client.Agent(self.guest.agent_path)
        self.addCleanup(watcher.close)
        self.guest.qmp.event_names()
        self.guest.qmp.events.clear()
        for target in (self.guest.target, ("-p", self.guest.pid)):
            for command in ("stack", "regs", "ps"):
                vmscope(command, *target)
            report = Report(vmscope("sample", "-t", "1", *target, timeout=60).out)
            self.assertGreater(min(report.samples.values()), 0)
            self.assertEqual(sum(report.failed.values()), 0)
        self.assertEqual([name for name in self.guest.qmp.event_names()
                          if name in ("STOP", "RESUME")], [])


class SameOnX86(Same, unittest.TestCase):
    only_ours = {"apic_base"}

    def expected_msrs(self, vcpu):
        """What Linux 6.1 has written (syscall_init), by its own symbols and messages."""
        symbols = {symbol.name: symbol.va for symbol in self.guest.kallsyms()}
        features = re.search(r"Enabled xstate features (0x\w+),", self.guest.run("dmesg"))
        return {
            "star": 0x23 << 48 | 0x10 << 32, "sfmask": 0x257FD5, "pat": 0x0407050600070106,
            "lstar": symbols["entry_SYSCALL_64"], "cstar": symbols["entry_SYSCALL_compat"],
            "sysenter_cs": 0x10, "sysenter_eip": symbols["entry_SYSENTER_compat"],
            "tsc_aux": vcpu, "apic_base": 0xFEE00800 | (0 if vcpu else 0x100),
            "xcr0": int(features[1], 16)}

    def check_msrs(self, rows):
        for vcpu in range(2):
            ours = {row["register"]: int(row["value"], 16) for row in rows if row["vcpu"] == vcpu}
            expected = self.expected_msrs(vcpu)
            self.assertEqual({name: ours.get(name) for name in expected}, expected)

    def test_msrs(self):
        self.check_msrs(json.loads(vmscope("regs", "--json", *self.guest.target).out))

    def test_msrs_without_the_agent(self):
        """Read from QEMU's memory, all but one."""
        rows = json.loads(vmscope("regs", "--json", *self.guest.by_qmp, "--allow-stop").out)
        self.check_msrs(rows + [
            {"vcpu": vcpu, "register": name, "value": hex(self.expected_msrs(vcpu)[name])}
            for vcpu in range(2) for name in self.only_ours])

    @takes_long
    def test_msrs_in_core_files(self):
        """Through every layout; nothing is unknown."""
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            source = None
            for layout in ("vbox", "kdump", "elf"):
                path = pathlib.Path(directory) / layout
                options = ("convert", source, path) if source else (
                    "-o", path, *self.guest.target)
                told = json.loads(vmscope("core", *options, "--format", layout, "--json").out)
                self.assertEqual(told["unknown"], [])
                self.check_msrs(json.loads(vmscope("regs", "--json", "-c", path).out))
                source = path

    def test_list(self):
        rows = {row["pid"]: row for row in json.loads(vmscope("list", "--json").out)}
        self.assertEqual(rows[self.guest.pid]["agent"], str(self.guest.agent_path))
        self.assertIsNone(rows[self.guest.pid]["obstacle"])

    def test_core_file(self):
        """All vCPUs are held for as long as it takes, and are what is written."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "core"
            vmscope("core", "-o", path, *self.guest.target, timeout=120)
            self.assertEqual(len(vmscope("ps", "--core", path).out.splitlines()) > 50, True)
            self.assertEqual(vmscope("stack", "--core", path).out.count("vCPU"), 2)
        self.assertEqual(self.guest.run("echo alive").strip(), "alive")


class Split(test_sample.Bare):
    """Who works how much is seen, as through the stub."""

    guest_class = BareGuest
    test_kvm = test_without_symbols = None
    test_missed = test_facts = None  # nothing of the engine's: tests/long/test_again.py has them


class Work(unittest.TestCase):
    """What a guest's processes do on two vCPUs, by the guest's own account."""

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest("6.1")
        cls.addClassCleanup(cls.guest.stop)

    def ticks(self, pids):
        """Time that the guest has given to its processes so far."""
        stats = [self.guest.run(f"cat /proc/{pid}/stat").rsplit(")", 1)[1].split() for pid in pids]
        return [int(stat[11]) + int(stat[12]) for stat in stats]

    def test_shares(self):
        """Three processes on vCPU 1, one of them with a larger share; nothing on vCPU 0."""
        self.addCleanup(self.guest.stop_workload)
        pids = [int(self.guest.run("taskset 2 workload deep >/dev/null 2>&1 & echo $!"))
                for _ in range(3)]
        self.guest.run(f"renice -n 5 {pids[2]}")
        self.guest.run("sleep 1")
        before = self.ticks(pids)
        sampled = [0] * len(pids)
        for _ in range(5):  # a busy host may have kept either from its work: that evens out
            stacks = folded(self.guest, "-F", "499")
            sampled = [n + self.samples_of(pid, stacks) for n, pid in zip(sampled, pids)]
            spent = [now - then for now, then in zip(self.ticks(pids), before)]
            shares = [(ours / max(sum(sampled), 1), theirs / max(sum(spent), 1))
                      for ours, theirs in zip(sampled, spent)]
            if max(abs(ours - theirs) for ours, theirs in shares) < 0.08:
                break
        self.assertGreater(sum(sampled), 200)
        for ours, theirs in shares:
            self.assertAlmostEqual(ours, theirs, delta=0.08)

    @staticmethod
    def samples_of(pid, stacks):
        """Of a workload, on vCPU 1."""
        return sum(count for frames, count in stacks
                   if frames[0].endswith("1") and frames[1] == f"workload ({pid})")

    def test_user_stacks(self):
        """Whatever is sampled of a chain of calls, its callers are the right ones."""
        self.addCleanup(self.guest.stop_workload)
        self.guest.start_workload("deep")
        stacks = folded(self.guest, "-F", "499", "--symbols",
                        self.guest.arch.programs / "workload", seconds=2)
        chain = ["main", "work_deep", *(f"deep_{i}" for i in range(1, 9)), "burn"]
        whole = other = 0
        for frames, count in stacks:
            names = [name for name in frames if name in chain]
            if names and names == chain[:len(names)]:
                whole += count
            elif names:
                other += count
        self.assertGreater(whole, 200)
        # In a prologue the caller is not found by frame pointers.
        self.assertLess(other, 0.1 * whole)


class Runs(unittest.TestCase):
    guest = None

    def start(self, *arguments, vcpus=2):
        """A run that is sampling when this returns."""
        process = vmscope_command.start_vmscope("sample", "-F", "499", *self.guest.target, *arguments)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

        def waits(thread):
            status = (thread / "status").read_text()
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])

        def samples():
            self.assertIsNone(process.poll(), "vmscope has ended")
            threads = [thread for thread in pathlib.Path(f"/proc/{process.pid}/task").iterdir()
                       if (thread / "comm").read_text() == "vms-sampler\n"]
            return len(threads) == vcpus and min(map(waits, threads)) > 100
        testbed.wait_for(samples, "a thread per vCPU to sample")
        return process

    def finish(self, process):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return Report(out)

    def works(self):
        """The guest gets something done, on both vCPUs, and can be held by the next one."""
        for vcpu in range(2):
            mask = 1 << vcpu
            self.assertEqual(self.guest.run(f"taskset {mask} echo alive").strip(), "alive")
        self.assertEqual(vmscope("stack", *self.guest.target).out.count("vCPU"), 2)


class Ends(Killed, Runs):
    """However a run through the agent ends, the guest runs on; meanwhile it never stops."""

    def setUp(self):
        self.guest = LinuxGuest("6.1")
        self.addCleanup(self.guest.stop)
        self.guest.start_workload("count")

    def test_interrupt(self):
        report = self.finish(self.start())
        self.assertGreater(min(report.samples.values()), 10)
        self.assertEqual(sum(report.failed.values()), 0)
        self.works()

    def test_kill(self):
        """kill -9 at any moment. tests/faults/ has it many times."""
        for _ in range(2):
            process = self.start()
            process.kill()
            process.communicate()
            self.works()

    @takes_long
    def test_freeze(self):
        """A vmscope that is stopped (Ctrl-Z) holds nothing."""
        for _ in range(2):
            process = self.start()
            process.send_signal(signal.SIGSTOP)
            self.works()
            process.send_signal(signal.SIGCONT)
            self.assertGreater(min(self.finish(process).samples.values()), 10)
            self.works()

    def test_two_at_once(self):
        first, second = self.start(), self.start()
        for process in (first, second):
            report = self.finish(process)
            self.assertGreater(min(report.samples.values()), 10)
            self.assertEqual(sum(report.failed.values()), 0)
        self.works()

    @takes_long
    def test_as_many_as_there_are_sockets(self):
        for _ in range(3):
            self.start()
        run = vmscope("stack", *self.guest.target, check=False)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, r"process \d+ \(vmscope\) is using it")

    def test_paused_by_its_user(self):
        self.guest.qmp.command("stop")
        vmscope("sample", "-t", "1", *self.guest.target, check=False)
        vmscope("stack", *self.guest.target)
        self.assertEqual(self.guest.qmp.status(), "paused")
        self.guest.qmp.command("cont")
        self.works()

    @takes_long
    def test_paused_and_resumed_while_sampled(self):
        process = self.start()
        for _ in range(5):
            self.guest.qmp.command("stop")
            self.assertEqual(self.guest.qmp.status(), "paused")
            self.guest.qmp.command("cont")
            self.works()
        self.assertGreater(min(self.finish(process).samples.values()), 10)


class Unplugged(Runs):
    """A vCPU that goes while it is sampled fails; the others are sampled on."""

    def setUp(self):
        self.guest = LinuxGuest("6.1", **linux_guest.PLUGGABLE)
        self.addCleanup(self.guest.stop)
        place = [cpu for cpu in self.guest.qmp.command("query-hotpluggable-cpus")
                 if "qom-path" not in cpu][-1]  # the first: they are listed backwards
        self.guest.qmp.command("device_add", driver=place["type"], id="added", **place["props"])
        self.guest.run("until echo 1 >/sys/devices/system/cpu/cpu2/online; do sleep 0.1; done")

    def test_unplugged(self):
        process = self.start(vcpus=3)
        self.guest.qmp.command("device_del", id="added")
        self.guest.wait_unplugged(2)
        self.guest.run("sleep 1")
        report = self.finish(process)
        self.assertGreater(report.failed[2], 0)
        self.assertEqual(report.failed[0] + report.failed[1], 0)
        self.works()


class Refused(Errors):
    def test_no_such_socket(self):
        self.fails("stack", "--agent", "/nowhere/agent", says="/nowhere/agent")

    def test_two_targets(self):
        self.fails("stack", "-p", "1", "--agent", "/nowhere/agent", status=2)

    def test_no_agent(self):
        """What listens there is something else."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "socket"
            for kind, says in ((socket.SOCK_STREAM, str(path)), (socket.SOCK_SEQPACKET, "agent")):
                with socket.socket(socket.AF_UNIX, kind) as listener:
                    listener.bind(str(path))
                    listener.listen()
                    self.fails("stack", "--agent", path, says=says)
                path.unlink()

    def test_without_qmp(self):
        guest = BareGuest(qmp=False, sockets=1)
        self.addCleanup(guest.stop)
        self.fails("stack", "--agent", guest.agent_path, says='QMP.*"vmscope run".*-qmp')

    def test_one_thread_for_all(self):
        """What the agent must not touch: QEMU's stub holds all of them, and the guest is sound."""
        guest = LinuxGuest("6.1", accel="tcg,thread=single")
        self.addCleanup(guest.stop)
        self.assertEqual(vmscope("stack", *guest.target).out.count("vCPU"), 2)
        self.assertEqual(guest.qmp.status(), "running")
        self.assertNotRegex(guest.run("dmesg"), "BUG:|wrong result|Oops")


if __name__ == "__main__":
    unittest.main()
