# SPDX-License-Identifier: MIT
"""The agent inside QEMU: its socket, and holding vCPUs, seen by a client that is not vmscope's."""
import contextlib
import functools
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
import unittest

import agent_client
import harness
from agent_client import ABSENT, HALTED, RUNNING, Agent, AgentError

BUSY = "for i in 1 2; do while :; do :; done >/dev/null 2>&1 & done"


@functools.cache
def api_of(qemu):
    """The version of the agent that a QEMU takes."""
    text = subprocess.run([qemu, "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout
    version = tuple(map(int, re.search(r"version (\d+)\.(\d+)", text).groups()))
    return 7 if version >= (11, 1) else 4


class Case(unittest.TestCase):
    arch = "x86_64"

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-agent-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.path = cls.directory / "agent"
        cls.plugin = agent_client.options(cls.path, api_of(harness.ARCHS[cls.arch].qemu[0]))

    def agent(self, **options):
        agent = Agent(self.path, **options)
        self.addCleanup(agent.close)
        return agent


class Guest(Case):
    """One Linux guest with two vCPUs for all tests of the class."""
    series = "6.1"
    options = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guest = harness.LinuxGuest(cls.series, arch=cls.arch, extra=cls.plugin, **cls.options)
        cls.addClassCleanup(cls.guest.stop)

    def busy(self):
        """Both vCPUs of the guest run shells that never wait."""
        self.guest.run(BUSY)
        self.addCleanup(self.calm)

    def calm(self):
        self.guest.run("killall -9 sh; for p in /proc/[0-9]*; do "
                       "grep -qs '^State:.R' $p/status && kill -9 ${p#/proc/}; done", check=False)

    def goes_on(self):
        self.assertEqual(self.guest.run("echo on").strip(), "on")

    def cpu_ns(self, thread):
        """What a thread of QEMU has run so far."""
        path = f"/proc/{self.guest.pid}/task/{thread}/schedstat"
        return int(pathlib.Path(path).read_text().split()[0])

    def work_until(self, thread, ns):
        """Waits until a thread has run for so long."""
        end = self.cpu_ns(thread) + ns
        harness.wait_for(lambda: self.cpu_ns(thread) >= end, "a vCPU to work")


class Holding:
    """On every architecture."""
    def test_hello(self):
        agent = self.agent()
        self.assertEqual((agent.version, agent.pid, agent.arch, agent.max_vcpus, agent.one_thread),
                         (1, self.guest.pid, self.arch, 2, 0))
        self.assertEqual(len(set(agent.names)), agent.n_regs)
        self.assertGreaterEqual(agent.memory_size,
                                agent_client.SLOTS + 2 * agent_client.SLOT)

    def test_threads(self):
        agent = self.agent()
        threads = {cpu["cpu-index"]: cpu["thread-id"]
                   for cpu in self.guest.qmp.command("query-cpus-fast")}
        self.assertEqual({vcpu: agent.thread(vcpu) for vcpu in range(2)}, threads)

    def test_registers_of_a_paused_machine(self):
        """Equal to those that QEMU itself prints."""
        agent = self.agent()
        self.busy()
        for _ in range(5):
            time.sleep(0.02)
            self.guest.qmp.command("stop")
            for vcpu in range(2):
                text = self.guest.qmp.command("human-monitor-command", cpu_index=vcpu,
                                              command_line="info registers")
                self.assertEqual(agent.state(vcpu), HALTED)
                with agent.held(vcpu) as registers:
                    qemu = self.registers_printed(text)
                    self.assertGreater(len(qemu), 20)
                    self.assertEqual({name: registers.get(name) for name in qemu}, qemu)
            self.guest.qmp.command("cont")
        self.goes_on()

    def test_one_is_held_and_the_other_goes_on(self):
        agent, other = self.agent(), self.agent()
        self.busy()
        ran, seen = 0, set()
        for held, running in [(0, 1), (1, 0)] * 10:
            with agent.held(held):
                before = self.cpu_ns(agent.thread(held))
                self.work_until(agent.thread(running), 5_000_000)
                with other.held(running) as registers:
                    seen.add(tuple(registers.values()))
                ran += self.cpu_ns(agent.thread(held)) - before
        self.assertGreater(len(seen), 10)  # now and then the kernel of one waits for the other's
        self.assertLess(ran, 20_000_000)  # while others ran for 100 ms
        self.goes_on()

    def test_two_clients_hold_the_same(self):
        first, second = self.agent(), self.agent()
        self.busy()
        with first.held(0) as registers:
            self.assertEqual(second.hold(0), registers)
        before = self.cpu_ns(first.thread(0))
        self.work_until(first.thread(1), 50_000_000)
        self.assertLess(self.cpu_ns(first.thread(0)) - before, 20_000_000)
        self.assertTrue(second.has(0))
        second.release(0)
        self.work_until(first.thread(0), 50_000_000)
        self.goes_on()

    def test_many_short_holds(self):
        agent = self.agent()
        self.busy()
        seen = set()
        for i in range(200):
            agent.ask(i % 2)
            while not agent.has(i % 2):
                time.sleep(0)
            seen.add(tuple(agent.registers(i % 2).values()))
            agent.release(i % 2)
        self.assertGreater(len(seen), 20)
        self.assertEqual([agent.broken(vcpu) for vcpu in range(2)], [0, 0])

    def test_halted(self):
        """One that waits for interrupts is held at once, where the kernel lets it wait."""
        agent = self.agent()
        idle = [symbol.va for symbol in self.guest.kallsyms()
                if re.fullmatch(r"(default_idle|arch_cpu_idle|cpu_do_idle|(pv_)?native_safe_halt"
                                r"|acpi_safe_halt|acpi_idle_do_entry|mwait_idle)", symbol.name)]
        inside = 0

        def hold():
            nonlocal inside
            harness.wait_for(lambda: agent.state(0) == HALTED, "a vCPU to halt")
            with agent.held(0) as registers:
                pc = registers["rip" if self.arch == "x86_64" else "pc"]
                inside += any(va <= pc < va + 128 for va in idle)
            return inside >= 5
        harness.wait_for(hold, "holds of a halted vCPU")
        self.goes_on()

    def test_halted_and_woken(self):
        """What holds it longer than it halts loses it, and is told so; the guest goes on."""
        agent = self.agent()
        for vcpu in range(2):
            agent.ask(vcpu)
        self.goes_on_despite(agent)

    def goes_on_despite(self, agent):
        """vCPUs that halt are lost; what is held while it runs is to be let go."""
        def lost():
            for vcpu in range(2):
                if agent.state(vcpu) == RUNNING and agent.has(vcpu):
                    agent.release(vcpu)
            return agent.broken(0) + agent.broken(1) > 0 or not (agent.wanted(0) or
                                                                 agent.wanted(1))
        harness.wait_for(lost, "a hold to be broken")
        for vcpu in range(2):
            agent.release(vcpu)
        self.goes_on()

    def test_client_is_killed(self):
        self.busy()
        child = Child(self, lambda agent: [agent.hold(vcpu) for vcpu in range(2)])
        child.kill(signal.SIGKILL)
        self.goes_on()

    def test_client_is_stopped(self):
        self.busy()
        child = Child(self, lambda agent: [agent.hold(vcpu) for vcpu in range(2)],
                      lambda agent: [agent.broken(vcpu) for vcpu in range(2)])
        child.kill(signal.SIGSTOP)
        self.goes_on()
        child.kill(signal.SIGCONT)
        self.assertEqual(child.result(), [1, 1])
        self.goes_on()

    def test_client_dies_and_leaves_its_socket_to_another(self):
        def hold(agent):
            if os.fork() == 0:
                signal.alarm(harness.ANSWER_SECONDS)  # nobody else ends it
                null = os.open(os.devnull, os.O_RDWR)
                for number in range(3):
                    os.dup2(null, number)
                signal.pause()
            return agent.hold(0)
        self.busy()
        child = Child(self, hold)
        child.kill(signal.SIGKILL)
        self.goes_on()

    def test_reset_while_held(self):
        agent = self.agent()
        boots = self.guest.serial().count("READY")
        self.busy()
        for vcpu in range(2):
            agent.hold(vcpu)
        self.guest.qmp.send("system_reset")
        time.sleep(0.05)  # it waits for the vCPUs
        for vcpu in range(2):
            agent.release(vcpu)
        self.guest.qmp.answer("system_reset")
        ready = lambda: self.guest.serial().count("READY") > boots

        def hold_until_ready():
            for vcpu in range(2):
                agent.ask(vcpu)
                deadline = time.monotonic() + 0.05
                while not agent.has(vcpu) and time.monotonic() < deadline:
                    time.sleep(0)
                agent.release(vcpu)
            return ready()
        self.guest.wait_until(hold_until_ready, "the guest to boot again")


class Child:
    """A client in a process of its own: does the first thing, waits for SIGCONT, then the second."""

    def __init__(self, case, first, second=lambda agent: None):
        read, write = os.pipe()
        self._pipe = os.fdopen(read)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._run(case.path, write, first, second)
            finally:
                os._exit(0)
        os.close(write)
        case.addCleanup(self._end)
        case.assertEqual(self._pipe.readline(), "done\n")

    @staticmethod
    def _run(path, write, first, second):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
        agent = Agent(path)
        first(agent)
        os.write(write, b"done\n")
        signal.sigwait({signal.SIGCONT})
        os.write(write, f"{second(agent)!r}\n".encode())

    def kill(self, number):
        os.kill(self._pid, number)

    def result(self):
        return eval(self._pipe.readline())

    def _end(self):
        self._pipe.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


class X86(Holding, Guest):
    @staticmethod
    def registers_printed(text):
        qemu = {name.lower(): int(value, 16) for name, value in
                re.findall(r"\b(R[A-Z0-9]{1,2}) ?=([0-9a-f]{16})\b", text)}
        qemu.update((name.lower(), int(value, 16)) for name, value in
                    re.findall(r"\b(CR[0234]|EFER)=([0-9a-f]+)", text))
        qemu["eflags"] = int(re.search(r"RFL=([0-9a-f]+)", text)[1], 16)
        for name, selector, base in re.findall(r"^(\w\w) ?=(\w{4}) (\w+) \w{8} \w{8}", text, re.M):
            if name != "TR":
                qemu[name.lower()] = int(selector, 16)
            if name in ("FS", "GS"):
                qemu[f"{name.lower()}_base"] = int(base, 16)
        return qemu


class Aarch64(Holding, Guest):
    arch = "aarch64"
    series = "6.12"
    test_reset_while_held = None  # takes long, and is nothing of the processor's

    @staticmethod
    def registers_printed(text):
        qemu = {f"x{int(number)}": int(value, 16) for number, value in
                re.findall(r"\bX(\d\d)=([0-9a-f]{16})\b", text)}
        qemu["pc"] = int(re.search(r"\bPC=([0-9a-f]+)", text)[1], 16)
        qemu["sp"] = int(re.search(r"\bSP=([0-9a-f]+)", text)[1], 16)
        qemu["cpsr"] = int(re.search(r"\bPSTATE=([0-9a-f]+)", text)[1], 16)
        return qemu


if __name__ == "__main__":
    unittest.main()
