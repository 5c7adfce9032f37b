# SPDX-License-Identifier: MIT
"""The agent inside QEMU: its socket, and holding vCPUs, seen by a client that is not vmscope's."""
import contextlib
import itertools
import mmap
import os
import pathlib
import random
import re
import resource
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
import agent_protocol
import linux_guest
from long_tests import takes_long
import qemu_machine
import testbed
import vmscope_command
from agent_client import ABSENT, HALTED, RUNNING, Agent, AgentError

# On each its own: where one vCPU stands still, the kernel gives none of its work to the other.
BUSY = "for i in 1 2; do taskset $i sh -c 'while :; do :; done' >/dev/null 2>&1 & done"


class Case(unittest.TestCase):
    arch = "x86_64"
    qemu = None  # the system's
    internals = True  # of QEMU are used, if it has them

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-agent-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.path = cls.directory / "agent"
        qemu = cls.qemu or qemu_machine.ARCHS[cls.arch].qemu
        cls.plugin = agent_client.options(cls.path, agent_client.api_of(qemu[0]), cls.internals)

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
        cls.guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch, beside=cls.plugin, **cls.options)
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
        testbed.wait_for(lambda: self.cpu_ns(thread) >= end, "a vCPU to work")


class Holding:
    """On every architecture."""
    def test_hello(self):
        agent = self.agent()
        self.assertEqual((agent.version, agent.pid, agent.arch, agent.max_vcpus, agent.one_thread,
                          agent.features),
                         (agent_protocol.VERSION, self.guest.pid, self.arch, 2, 0,
                          agent_protocol.FEATURES))
        self.assertEqual(len(set(agent.names)), agent.n_regs)
        self.assertGreaterEqual(agent.memory_size,
                                agent_client.SLOTS + 2 * agent_client.SLOT)

    def looks(self, features, until):
        """How often the agent asks a client of these features to look, until a condition on the
        looks and the bytes recorded holds."""
        agent = self.agent(features=features)
        memory, woken = agent.trace()
        os.close(woken)
        with mmap.mmap(memory, os.fstat(memory).st_size) as shared:
            os.close(memory)
            looks = lambda: struct.unpack_from("=I", shared, agent_client.LOOKS)[0]
            head = lambda: struct.unpack_from("=Q", shared, agent_client.RING_HEADS)[0]
            testbed.wait_for(lambda: until(looks(), head()), "vCPU 0 to call functions")
            agent.end_trace()
            return looks()

    def test_looks(self):
        """Only a client that says so is asked for looks."""
        self.busy()
        can_all = agent_protocol.FEATURES
        self.guest.run("while :; do true; busybox true; done >/dev/null 2>&1 &")  # new programs
        self.assertGreater(self.looks(can_all, lambda looks, _: looks > 0), 0)
        can_not = can_all & ~agent_protocol.CAN_LOOK
        self.assertEqual(self.looks(can_not, lambda _, recorded: recorded > 4096), 0)

    def test_older_client(self):
        """A client from before there were features: it holds vCPUs, and is asked for nothing."""
        agent = self.agent(features=None)
        self.assertIsNone(agent.features)
        with agent.held(0) as registers:
            self.assertIn("rip" if self.arch == "x86_64" else "pc", registers)

    def test_newer_client(self):
        agent = self.agent(features=2**64 - 1)
        self.assertEqual(agent.features, agent_protocol.FEATURES)
        with agent.held(1):
            pass

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
            testbed.wait_for(lambda: agent.state(0) == HALTED, "a vCPU to halt")
            with agent.held(0) as registers:
                pc = registers["rip" if self.arch == "x86_64" else "pc"]
                inside += any(va <= pc < va + 128 for va in idle)
            return inside >= 5
        testbed.wait_for(hold, "holds of a halted vCPU")
        self.goes_on()

    def test_halted_and_woken(self):
        """What is held while it halts is held on when it wakes up, and goes on when it is let go."""
        agent = self.agent()
        testbed.wait_for(lambda: agent.state(0) == HALTED, "a vCPU to halt")
        agent.hold(0)
        testbed.wait_for(lambda: agent.state(0) == RUNNING, "the vCPU to wake up")
        before = self.cpu_ns(agent.thread(0))
        time.sleep(0.3)
        self.assertTrue(agent.has(0))
        self.assertLess(self.cpu_ns(agent.thread(0)) - before, 100_000_000)
        agent.release(0)
        self.goes_on()

    def test_brief_hold(self):
        """It ends by itself, and counts as no broken hold."""
        agent = self.agent()
        self.busy()
        seen = {tuple(agent.hold_briefly(0).values()) for _ in range(50)}
        self.assertGreater(len(seen), 10)  # the loop is a short one
        self.assertEqual(agent.broken(0), 0)
        self.goes_on()

    def test_pin(self):
        agent = self.agent()
        self.busy()
        self.guest.qmp.command("stop")
        for vcpu in range(2):
            agent.ask(vcpu, flags=0)
            testbed.wait_for(lambda: agent.wanted(vcpu) == agent.word(vcpu, agent_client.HELD),
                             "a vCPU that waits to be held")
        agent.pin(1)
        self.guest.qmp.command("cont")
        testbed.wait_for(lambda: not agent.wanted(0), "the brief hold to end")
        before = self.cpu_ns(agent.thread(1))
        self.work_until(agent.thread(0), 50_000_000)
        self.assertLess(self.cpu_ns(agent.thread(1)) - before, 20_000_000)
        self.assertTrue(agent.has(1))
        agent.release(1)
        self.goes_on()

    def address_in_qemu(self, symbol):
        """Where QEMU has the memory of a kernel's symbol, by its own account."""
        va = next(found.va for found in self.guest.kallsyms() if found.name == symbol)
        # vCPU 0 has to be in the kernel, as one that idles is most of the time.
        pa = testbed.wait_for(lambda: re.search(r"gpa: (0x[0-9a-f]+)",
                                                self.guest.qmp.hmp(f"gva2gpa {va:#x}")),
                              "the kernel's memory")[1]
        return int(re.search(r" is (0x[0-9a-f]+)", self.guest.qmp.hmp(f"gpa2hva {pa}"))[1], 16)

    def test_prefetch(self):
        agent = self.agent()
        banner = self.address_in_qemu("linux_banner")
        self.busy()
        maps = pathlib.Path(f"/proc/{self.guest.pid}/maps").read_text()
        heap = int(re.search(r"^([0-9a-f]+)-.*\[heap\]", maps, re.M)[1], 16)
        addresses = [banner, 0, heap, 2**64 - 1, 2**64 - agent_client.PREFETCH_SIZE, banner + 3]
        agent.ask_for_prefetch(0, addresses)

        def prefetch():
            with agent.held(0):
                return agent.prefetched(0, len(addresses))
        if not self.internals:
            self.assertEqual(prefetch(), [None] * len(addresses))
            return
        testbed.wait_for(lambda: prefetch()[0], "a vCPU that comes by itself")
        prefetched = prefetch()
        with open(f"/proc/{self.guest.pid}/mem", "rb") as memory:
            memory.seek(banner)
            content = memory.read(agent_client.PREFETCH_SIZE + 3)
        self.assertIn(b"Linux version", content)
        self.assertEqual(prefetched, [content[:-3], None, None, None, None, content[3:]])

    def test_malformed_prefetch(self):
        agent = self.agent()
        self.busy()
        for n in (agent_client.MAX_PREFETCH + 1, 2**31, 2**32 - 1):
            agent.ask_for_prefetch(0, [2**63 + i for i in range(agent_client.MAX_PREFETCH)], n)
            agent.hold_briefly(0)
            self.assertEqual(agent.prefetched(0, agent_client.MAX_PREFETCH),
                             [None] * agent_client.MAX_PREFETCH)
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
                signal.alarm(testbed.ANSWER_SECONDS)  # nobody else ends it
                null = os.open(os.devnull, os.O_RDWR)
                for number in range(3):
                    os.dup2(null, number)
                signal.pause()
            return agent.hold(0)
        self.busy()
        child = Child(self, hold)
        child.kill(signal.SIGKILL)
        self.goes_on()

    @takes_long
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


class Flags(X86):
    """In a QEMU that exports nothing but its interface for plugins."""
    internals = False
    # A vCPU may wait for the other in QEMU itself, for as long as that is held.
    test_one_is_held_and_the_other_goes_on = test_two_clients_hold_the_same = None
    test_pin = None
    test_reset_while_held = None  # takes long


@unittest.skipUnless(testbed.QEMU_NEW.exists(), "scripts/setup could not get QEMU 11.1 or newer")
class New(X86):
    """A QEMU whose plugins read registers in callbacks of code alone."""
    qemu = (str(testbed.QEMU_NEW),)
    options = {"qemu": qemu}
    test_reset_while_held = None  # takes long

    def test_registers_of_the_state(self):
        """Those that have no handle are found: their tables have changed between versions."""
        with self.agent().held(0) as registers:
            self.assertLessEqual({"star", "lstar", "sfmask", "pat", "apic_base"}, set(registers))
            self.assertEqual(registers["pat"], 0x407050600070106)  # as Linux sets it
            self.assertEqual(registers["lstar"] >> 48, 0xffff)


class Booting(Case):
    """Machines that run a few instructions of ours."""

    def boot(self, code, *extra, plugin=None, **options):
        """A machine that runs the code from its boot sector, at 0x7c00, in real mode."""
        image = self.directory / "boot"
        image.write_bytes(bytes.fromhex(code).ljust(510, b"\0") + b"\x55\xaa")
        machine = qemu_machine.Machine("-drive", f"file={image},format=raw,if=ide",
                                  *(self.plugin if plugin is None else plugin),
                                  *extra, memory=64, qemu=self.qemu, **options)
        self.addCleanup(machine.stop)
        machine.wait_until(lambda: "EIP=00007c" in machine.qmp.hmp("info registers"),
                           "the code to be reached")
        return machine


class Loops(Booting):
    """Code in which nothing but the loop itself is there to be held at."""

    BOOTS = {
        "backward jump": "eb fe",
        "long backward jump": "90 e9 fc ff",
        "backward jump on a condition": "b9 02 00  49  31 c0  74 fb",
        "loop instruction": "66 b9 ff ff ff 7f  e2 fe  eb f6",
        "call and return": "e8 02 00  eb fb  c3",
        "jump through a register": "b8 03 7c  ff e0",
        "jump through memory": "ff 26 04 7c  00 7c",
        "far jump": "ea 00 7c 00 00",
        "string instruction": "b9 ff ff  f3 ac  eb f9",
        "backward jump over memory": "ff 06 00 7e  eb fa",
        "interrupt and return": "c7 06 04 02 10 7c  c7 06 06 02 00 00  cd 81  eb fc  cf",
        "halt": "fb  f4  eb fd",
    }

    @staticmethod
    def is_held_there(agent):
        """Not in the firmware, which the timer interrupts it for."""
        with agent.held(0) as registers:
            return registers["rip"] & ~0xff == 0x7c00

    def check_each_is_held(self, plugin):
        for name, code in self.BOOTS.items():
            with self.subTest(name):
                machine = self.boot(code, smp=1, plugin=plugin)
                with Agent(self.path) as agent:
                    for _ in range(3):
                        testbed.wait_for(lambda: self.is_held_there(agent), "a hold in the loop")
                    machine.qmp.quit()
                    machine.process.wait(testbed.ANSWER_SECONDS)

    def test_each_is_held(self):
        self.check_each_is_held(self.plugin)

    def test_each_is_held_by_flags(self):
        self.check_each_is_held(agent_client.options(self.path, internals=False))

    @staticmethod
    def jit(machine, name):
        """A number that QEMU gives of its translated code."""
        return int(re.search(rf"{name}\s+(\d+)", machine.qmp.hmp("info jit"))[1])

    def flushes(self, machine):
        """How often QEMU has begun to translate all code anew."""
        return self.jit(machine, "TB flush count")

    def host_code(self, code, plugin, use):
        """How many bytes of host code QEMU makes of a loop, each time, by its own account."""
        log = self.directory / "log"
        log.unlink(missing_ok=True)
        machine = self.boot(code, "-d", "out_asm", "-dfilter", "0x7c00+0x200", "-D", log, smp=1,
                            plugin=plugin)
        use(machine)
        machine.qmp.quit()
        machine.process.wait(testbed.ANSWER_SECONDS)
        return re.findall(r"OUT: \[size=(\d+)\]", log.read_text())

    def test_costs_nothing(self):
        """Loops are the same code as without a plugin, while a client is there, too."""
        def hold(machine):
            with Agent(self.path) as agent:
                testbed.wait_for(lambda: self.is_held_there(agent), "a hold in the loop")
        for name in ("backward jump", "backward jump over memory", "call and return"):
            plain = self.host_code(self.BOOTS[name], (), lambda _: None)
            self.assertGreaterEqual(len(plain), 1)
            self.assertIn(self.host_code(self.BOOTS[name], self.plugin, hold)[-1], plain, name)

    def test_fault_ends_translation(self):
        """
        In 32-bit mode with paging (the tables are at 0x8000 and 0x9000): reads memory and jumps to
        an instruction whose end is in a page that is not there; the handler goes back. So the last
        translation is always one that was given up, and QEMU up to 11.1 crashes in the next one if
        nobody sees that any more.
        """
        machine = self.boot(
            "fa 31c0 8ed8 8ec0 8ed0 bc007c bf0080 b90008 f3ab 66c706008083000000 c7067090817c "
            "66c706729008000000 c7067490008e c70676900000 0f0116a47c 0f011eaa7c 66b800800000 0f22d8 "
            "0f20e0 0c10 0f22e0 0f20c0 660d01000080 0f22c0 ea647c0800 "
            "66b81000 8ed8 8ed0 bc007c0000 b8ffff3f00 c600b8 8b0d007e0000 ffe0 "  # the loop: 8b…e0
            "83c404 c70424797c0000 cf "
            "0000000000000000 ffff0000009acf00 ffff00000092cf00 1700 8c7c0000 ff07 00900000", smp=1)
        with Agent(self.path) as agent:
            for _ in range(3):
                for fd in agent.trace():
                    os.close(fd)
                time.sleep(0.05)
                agent.end_trace()
                testbed.wait_for(lambda: agent.hold_briefly(0)["rip"] in (0x7c79, 0x3fffff),
                                 "the loop")
        self.assertEqual(machine.qmp.status(), "running")

    def test_busy(self):
        """Held without a stop of the machine, and nothing is translated anew."""
        machine = self.boot("fa  eb fe", smp=1)
        flushes = self.flushes(machine)
        self.assertRegex(vmscope_command.vmscope("regs", "--agent", self.path).out,
                         r"(?m)^ +0 +rip +0x7c01$")
        self.assertEqual(self.flushes(machine), flushes)
        self.assertNotIn("STOP", machine.qmp.event_names())


@unittest.skipUnless(testbed.QEMU_NEW.exists(), "scripts/setup could not get QEMU 11.1 or newer")
class NewLoops(Loops):
    qemu = (str(testbed.QEMU_NEW),)
    # Nothing of QEMU's version.
    test_each_is_held_by_flags = test_busy = None


class Threads(Booting):
    """QEMU runs all vCPUs in one thread."""

    def check_one_vcpu(self):
        """With counted instructions, a test of its own of how a vCPU halts and wakes up."""
        for name in ("halt", "backward jump"):
            machine = self.boot(Loops.BOOTS[name], "-icount", "2", smp=1, accel="tcg")
            ticks = lambda: machine.qmp.hmp("xp /1wx 0x46c")  # which the firmware counts
            with self.subTest(name), Agent(self.path) as agent:
                for _ in range(10):
                    with agent.held(0) as registers:
                        self.assertIn("rip", registers)
                before = ticks()
                testbed.wait_for(lambda: ticks() != before, "the guest to go on")
            machine.qmp.quit()
            machine.process.wait(testbed.ANSWER_SECONDS)

    def test_one_vcpu(self):
        self.check_one_vcpu()

    def test_one_vcpu_by_flags(self):
        self.plugin = agent_client.options(self.path, internals=False)
        self.check_one_vcpu()

    def test_several(self):
        """QEMU mixes them up: clients are told so, and the guest is left alone."""
        machine = linux_guest.LinuxGuest(beside=self.plugin, accel="tcg,thread=single")
        self.addCleanup(machine.stop)
        self.assertEqual(self.agent().one_thread, 1)
        self.assertEqual(machine.run("echo on").strip(), "on")


class Plug(Case):
    """vCPUs come and go; QEMU gives their numbers again."""

    def test_plug_and_unplug(self):
        guest = linux_guest.LinuxGuest("6.1", beside=self.plugin, **linux_guest.PLUGGABLE)
        self.addCleanup(guest.stop)
        agent = self.agent()
        self.assertEqual([agent.state(vcpu) for vcpu in (2, 3)], [ABSENT, ABSENT])
        place = [cpu for cpu in guest.qmp.command("query-hotpluggable-cpus")
                 if "qom-path" not in cpu][-1]  # the first: they are listed backwards
        for name in ("first", "second"):
            guest.qmp.command("device_add", driver=place["type"], id=name, **place["props"])
            testbed.wait_for(lambda: agent.state(2) != ABSENT, "the vCPU to be there")
            guest.run("until [ -d /sys/devices/system/cpu/cpu2 ]; do sleep 0.1; done; "
                      "echo 1 >/sys/devices/system/cpu/cpu2/online")
            guest.run("while :; do :; done >/dev/null 2>&1 & taskset -p 4 $!")
            with agent.held(2) as registers:
                self.assertIn("rip", registers)
            agent.ask(2)
            guest.qmp.command("device_del", id=name)
            agent.release(2)
            guest.wait_unplugged(2)
            testbed.wait_for(lambda: agent.state(2) == ABSENT, "the agent to hear of it")
            agent.ask(2)
            with agent.held(0):
                self.assertFalse(agent.has(2))
            agent.release(2)
        self.assertEqual(guest.run("echo on").strip(), "on")


class Socket(Case):
    """What comes through the socket, and how it is made."""

    def machine(self, *extra, plugin=None, **options):
        machine = qemu_machine.Machine("-S", *(plugin or self.plugin), *extra, smp=1, memory=64,
                                  **options)
        self.addCleanup(machine.stop)
        return machine

    def agent_if_free(self):
        with contextlib.suppress(AgentError):
            return self.agent()

    def refused(self, *plugin):
        """What QEMU says when it does not start with these arguments."""
        with self.assertRaises(RuntimeError) as refusal:
            self.machine(plugin=plugin)
        return str(refusal.exception)

    def plugin_with(self, arguments):
        file = self.plugin[1].rsplit(",", 1)[0]
        return "-plugin", f"{file}{arguments}"

    def test_only_its_user_can_connect(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.machine()
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)

    def test_arguments(self):
        self.assertIn("unknown argument 'colour=red'",
                      self.refused(*self.plugin_with(f",socket={self.path},colour=red")))
        self.assertIn("socket=PATH is missing", self.refused(*self.plugin_with("")))
        self.assertFalse(self.path.exists())

    def test_places(self):
        self.assertIn("cannot listen on the socket '/nowhere/agent': No such file",
                      self.refused(*self.plugin_with(",socket=/nowhere/agent")))
        self.assertIn("name too long", self.refused(*self.plugin_with(f",socket=/{'x' * 200}")))
        file = self.directory / "file"
        file.write_text("precious")
        self.assertIn("in use", self.refused(*self.plugin_with(f",socket={file}")))
        self.assertEqual(file.read_text(), "precious")

    def test_in_use(self):
        self.machine()
        self.assertIn("in use", self.refused(*self.plugin))
        self.agent()  # of the first still

    def test_stale(self):
        machine = self.machine()
        machine.process.kill()
        machine.process.wait()
        self.assertTrue(self.path.exists())
        self.machine()
        self.agent()

    def test_is_removed_at_the_end(self):
        machine = self.machine()
        agent = self.agent()
        machine.qmp.quit()
        machine.process.wait(testbed.ANSWER_SECONDS)
        self.assertEqual(machine.process.returncode, 0)
        self.assertFalse(self.path.exists())
        with self.assertRaises(EOFError):
            agent.receive()

    def test_another_version_of_the_interface(self):
        """QEMU itself says no."""
        other = 11 - agent_client.api_of("qemu-system-x86_64")
        self.assertIn(f"plugin requires API version {other}",
                      self.refused(*agent_client.options(self.path, other)))

    def test_another_processor(self):
        qemu = shutil.which("qemu-system-i386")
        if not qemu:
            self.skipTest("there is no other emulator here")
        plugin = agent_client.options(self.path, agent_client.api_of(qemu))
        run = subprocess.run([qemu, "-S", "-display", "none", *plugin], text=True,
                             stderr=subprocess.PIPE, timeout=testbed.ANSWER_SECONDS)
        self.assertIn("i386 is not supported", run.stderr)

    def test_clients_beyond_the_fourth(self):
        self.machine()
        agents = [self.agent() for _ in range(agent_client.MAX_CLIENTS)]
        with self.assertRaisesRegex(AgentError, "already has 4 clients"):
            self.agent()
        agents[1].close()
        testbed.wait_for(self.agent_if_free, "the place of one that left")

    def test_no_descriptor_for_a_client(self):
        """QEMU has as many open as it may: who comes waits, and costs nothing meanwhile."""
        machine = self.machine()
        thread, = (task for task in pathlib.Path(f"/proc/{machine.pid}/task").iterdir()
                   if (task / "comm").read_text() == "vmscope-agent\n")
        limits = resource.prlimit(machine.pid, resource.RLIMIT_NOFILE)
        used = {int(fd) for fd in os.listdir(f"/proc/{machine.pid}/fd")}
        first_free = next(fd for fd in itertools.count() if fd not in used)
        resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, (first_free, limits[1]))
        agent = self.agent(greet=False)
        runs = 0
        for _ in range(100):
            time.sleep(0.005)
            runs += (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
        self.assertLess(runs, 50, "the agent does not rest")
        resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, limits)
        agent.hello()

    def test_refusals(self):
        self.machine()
        agent = self.agent()
        no_memory = self.agent(greet=False)
        for sender, kind, body, words in (
                (agent, agent_client.HELLO, b"", "second hello"),
                (agent, agent_client.HOLD, struct.pack("=I", 1), "malformed"),
                (agent, agent_client.HOLD, struct.pack("=I", 2**32 - 1), "malformed"),
                (agent, agent_client.HOLD, b"", "malformed"),
                (agent, agent_client.HOLD, bytes(5), "malformed"),
                (no_memory, agent_client.HOLD, bytes(4), "before hello"),
                (agent, agent_client.OK, b"", "not support requests of kind"),
                (agent, agent_client.TASKS, bytes(4), "above 64 KiB"),
                (agent, agent_client.TASKS, struct.pack("=4I2Q", 0, 1 << 17, 0, 0, 0, 0),
                 "above 64 KiB"),
                (agent, 2**32 - 1, b"", "not support requests of kind")):
            sender.send(kind, body)
            with self.assertRaisesRegex(AgentError, words):
                sender.receive()
        agent.socket.send(b"short")
        with self.assertRaisesRegex(AgentError, "not from vmscope"):
            agent.receive()
        with agent.held(0) as registers:
            self.assertIn("rip", registers)

    def test_garbage(self):
        """Nothing that is sent harms QEMU, or costs it descriptors or memory."""
        machine = self.machine()
        chosen = random.Random(4)
        with Agent(self.path):
            pass
        descriptors = lambda: len(os.listdir(f"/proc/{machine.pid}/fd"))
        testbed.wait_for(lambda: self._gone(machine), "the client to be gone")
        before = descriptors()
        for _ in range(300):
            # Those before may not be gone yet.
            with contextlib.suppress(AgentError, OSError), \
                    Agent(self.path, greet=chosen.random() < 0.5) as agent:
                for _ in range(chosen.randrange(20)):
                    self._send_garbage(agent.socket, chosen)
        agent = testbed.wait_for(self.agent_if_free, "a place for a client")
        with agent.held(0) as registers:
            self.assertIn("rip", registers)
        agent.close()
        testbed.wait_for(lambda: descriptors() <= before, "the descriptors to be closed")
        self.assertEqual(machine.qmp.status(), "prelaunch")

    @staticmethod
    def _gone(machine):
        return not any("vmscope-agent" in os.readlink(f"/proc/{machine.pid}/fd/{fd}")
                       for fd in os.listdir(f"/proc/{machine.pid}/fd")
                       if os.path.lexists(f"/proc/{machine.pid}/fd/{fd}"))

    @staticmethod
    def _send_garbage(connection, chosen):
        kind = chosen.choice((chosen.randrange(10), chosen.getrandbits(32)))
        magic = agent_client.MAGIC if chosen.random() < 0.9 else chosen.getrandbits(32)
        size = chosen.choice((0, 4, 8, 12, 16, 80, 352, 400, 4087, 4088, 4089, 60000))
        body = struct.pack("=II", magic, kind) + chosen.randbytes(size)
        with tempfile.TemporaryFile() as file:
            file.write(chosen.randbytes(chosen.choice((0, 16, 160))))
            fds = [file.fileno()] * chosen.choice((0, 0, 1, 2, 20))
            socket.send_fds(connection, [body[:chosen.choice((len(body), 3, 7, 8, 12))]], fds,
                            socket.MSG_DONTWAIT)


if __name__ == "__main__":
    unittest.main()
