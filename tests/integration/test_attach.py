# SPDX-License-Identifier: MIT
"""Attaching to QEMU, and what becomes of the guest whatever happens to the one who attached.

The guest is QEMU's firmware, which needs no kernel. What QEMU does is asked of QEMU, on a
monitor of the test's own.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from linux_guest import PLUGGABLE, LinuxGuest
from machine_tool import (BUSY, CLOSED, INVALID_STATE, NOT_FOUND, PERMISSION, PROTOCOL, TOOL, UNSUPPORTED,
                          Tool, error_code, guards, registers)
from qemu_machine import BareGuest, Machine
from testbed import ANSWER_SECONDS, GUESTS, VMSCOPE, build_guests, wait_for


class Attached(unittest.TestCase):
    """With a guest of its own for every test."""
    options = {}

    def setUp(self):
        self.machine = Machine(**self.options)
        self.addCleanup(self.machine.stop)

    def labels(self):
        return [chardev["label"] for chardev in self.machine.qmp.command("query-chardev")]

    def leftovers(self):
        return guards(str(self.machine.qmp_path)) + [
            label for label in self.labels() if label == "gdb" or label.startswith("vmscope-")]

    def assert_untouched(self, status="running"):
        wait_for(lambda: not self.leftovers(), "the stub and the guard to go")
        self.assertEqual(self.machine.qmp.status(), status)

    def open(self, how="qmp", address=None, **options):
        tool = Tool(how, address or self.machine.qmp_path, **options)
        self.addCleanup(tool.end)
        self.assertTrue(tool.opened.startswith("ok"), tool.opened)
        return tool


class Orderly(Attached):
    def test_hold_and_release(self):
        tool = self.open()
        self.assertEqual(self.machine.qmp.status(), "running")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(self.machine.qmp.status(), "paused")
        self.assertEqual(tool.do("release"), "ok")
        self.assertEqual(self.machine.qmp.status(), "running")
        tool.end()
        self.assert_untouched()

    def test_holds_nest(self):
        tool = self.open()
        tool.do("hold")
        tool.do("hold")
        tool.do("release")
        self.assertEqual(self.machine.qmp.status(), "paused")
        tool.do("release")
        self.assertEqual(self.machine.qmp.status(), "running")
        self.assertEqual(error_code(tool.do("release")), INVALID_STATE)

    def test_end_while_holding(self):
        tool = self.open()
        tool.do("hold")
        tool.end()
        self.assert_untouched()

    def test_by_pid(self):
        tool = self.open("pid", self.machine.pid)
        self.assertIn(f"pid={self.machine.pid} ", tool.do("facts"))

    def test_registers_are_qemus(self):
        tool = self.open()
        tool.do("hold")
        for cpu in range(2):
            text = self.machine.qmp.command("human-monitor-command", cpu_index=cpu,
                                            command_line="info registers")
            known = dict(word.split("=", 1) for word in text.replace("= ", "=").split()
                         if "=" in word)
            ours = registers(tool.do(f"regs {cpu}"))
            for name, theirs in (("eflags", "EFL"), ("cr0", "CR0"), ("cr3", "CR3"),
                                 ("cr4", "CR4"), ("efer", "EFER")):
                self.assertEqual(int(ours[name], 16), int(known[theirs], 16), name)
            rip, rsp = ("RIP", "RSP") if "RIP" in known else ("EIP", "ESP")
            self.assertEqual(int(ours["rip"], 16), int(known[rip], 16))
            self.assertEqual(int(ours["rsp"], 16), int(known[rsp], 16))

    def memory_by_qemu(self, pa, size):
        path = self.machine.directory / "memory"
        self.machine.qmp.command("pmemsave", val=pa, size=size, filename=str(path))
        return path.read_bytes().hex()

    def check_memory(self, tool):
        for pa, size in ((0, 4096), (0x9f000, 8192), (1 << 20, 65536), (0xfffc0000, 4096)):
            self.assertEqual(tool.do(f"read {pa:#x} {size}"), "ok " + self.memory_by_qemu(pa, size))
        end = 512 << 20
        for pa in (end - 8, end, 0xfee00000, 2**64 - 1):  # beyond, a device, around zero
            self.assertEqual(tool.do(f"read {pa:#x} 16"), "ok unreadable")

    def test_memory_is_qemus(self):
        tool = self.open()
        tool.do("hold")
        self.check_memory(tool)
        self.assertNotIn("slow", tool.end())

    def test_user_paused(self):
        self.machine.qmp.command("stop")
        tool = self.open()
        self.assertEqual(tool.do("paused"), "ok 1")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertIn("rip", registers(tool.do("regs 0")))
        self.assertEqual(tool.do("release"), "ok")
        self.assertEqual(self.machine.qmp.status(), "paused")
        tool.end()
        self.assert_untouched("paused")

    def test_user_pauses_and_resumes_meanwhile(self):
        tool = self.open()
        for _ in range(3):
            self.machine.qmp.command("stop")
            self.assertEqual(tool.do("paused"), "ok 1")
            self.assertEqual(tool.do("hold"), "ok")
            self.assertEqual(tool.do("release"), "ok")
            self.assertEqual(self.machine.qmp.status(), "paused")
            self.machine.qmp.command("cont")
            self.assertEqual(tool.do("paused"), "ok 0")
            self.assertEqual(tool.do("hold"), "ok")
            self.assertIn("rip", registers(tool.do("regs 1")))
            self.assertEqual(tool.do("release"), "ok")
            self.assertEqual(self.machine.qmp.status(), "running")

    def test_user_resumes_during_hold(self):
        self.machine.qmp.command("stop")
        tool = self.open()
        tool.do("hold")
        self.machine.qmp.command("cont")
        self.assertEqual(error_code(tool.do("regs 0")), INVALID_STATE)
        self.assertEqual(error_code(tool.do("release")), INVALID_STATE)
        self.assertEqual(self.machine.qmp.status(), "running")
        self.assertEqual(tool.do("paused"), "ok 0")
        tool.end()
        self.assert_untouched()

    def test_reset_is_noticed(self):
        """It is no end of the machine."""
        tool = self.open()
        self.assertEqual(tool.do("resets"), "ok 0")
        self.machine.qmp.command("system_reset")
        wait_for(lambda: tool.do("resets") == "ok 1", "the reset to be noticed")
        self.assertEqual(tool.do("ended"), "ok 0")

    def test_exit_is_noticed(self):
        tool = self.open()
        self.machine.process.kill()
        wait_for(lambda: tool.do("ended") == "ok 1", "the exit to be noticed")
        self.assertEqual(error_code(tool.do("hold")), CLOSED)
        self.assertEqual(tool.do("read 0 16"), "ok unreadable")
        tool.end()
        wait_for(lambda: not guards(str(self.machine.qmp_path)), "the guard to end")

    def test_exit_during_hold(self):
        tool = self.open()
        tool.do("hold")
        self.machine.process.kill()
        self.assertEqual(error_code(tool.do("regs 0")), CLOSED)
        self.assertEqual(error_code(tool.do("release")), CLOSED)

    def test_items(self):
        tool = self.open()
        self.assertIn("bytes", tool.do("item mtree"))
        self.assertEqual(error_code(tool.do("item nothing")), NOT_FOUND)


class PluggedMemory(unittest.TestCase):
    """Memory that comes and goes while the machine is open."""
    SIZE = 128 << 20
    PA = 1 << 32  # where QEMU puts the first module
    MARK = PA + SIZE // 2
    options = {"memory": "128,slots=1,maxmem=1G"}
    bare, linux = BareGuest, LinuxGuest

    def open(self, machine):
        tool = Tool("qmp", machine.qmp_path)
        self.addCleanup(tool.end)
        return tool

    def plug(self, machine):
        with open(machine.directory / "module", "wb") as file:
            file.truncate(self.SIZE)
            file.seek(self.MARK - self.PA)
            file.write(b"plugged!")
        machine.qmp.command("object-add", qom_type="memory-backend-file", id="backend",
                            size=self.SIZE, mem_path=file.name, share=True)
        machine.qmp.command("device_add", driver="pc-dimm", id="module", memdev="backend")

    def read(self, tool):
        """Of the mark, in a hold."""
        self.assertEqual(tool.do("ended"), "ok 0")  # as whoever holds often asks now and then
        self.assertEqual(tool.do("hold"), "ok")
        answer = tool.do(f"read {self.MARK:#x} 8")
        self.assertEqual(tool.do("release"), "ok")
        return answer

    def test_dump(self):
        """Of a guest that takes no notice, so that QEMU says nothing either."""
        machine = self.bare(**self.options)
        self.addCleanup(machine.stop)
        tool = self.open(machine)
        path = machine.directory / "core"
        before = int(tool.do(f"dump {path}").split()[1])
        self.plug(machine)
        self.assertEqual(self.read(tool), "ok unreadable")
        self.assertEqual(tool.do(f"dump {path}"), f"ok {before + self.SIZE} bytes")
        self.assertEqual(self.read(tool), f"ok {b'plugged!'.hex()}")
        self.assertIn(b"plugged!", subprocess.run(
            [VMSCOPE, "mem", "--physical", hex(self.MARK), "8", "--raw", "-c", path],
            check=True, stdout=subprocess.PIPE).stdout)

    def test_holds(self):
        """They see it as soon as the guest does."""
        machine = self.linux("6.1", **PLUGGABLE)
        self.addCleanup(machine.stop)
        tool = self.open(machine)
        self.assertEqual(self.read(tool), "ok unreadable")
        self.plug(machine)
        wait_for(lambda: self.read(tool) == f"ok {b'plugged!'.hex()}", "plugged memory")
        machine.qmp.command("device_del", id="module")
        wait_for(lambda: self.read(tool) == "ok unreadable", "memory to go")


class BackedMemory(unittest.TestCase):
    """Memory however QEMU has it: what is read is right, and reading it costs the host nothing."""
    SIZE = 64 << 20

    def start(self, backend=None):
        options = ("-object", f"{backend},id=m,size={self.SIZE}", "-machine",
                   "memory-backend=m") if backend else ()
        build_guests()
        self.machine = Machine("-kernel", GUESTS / "bare.elf", *options, smp=1,
                               memory=self.SIZE >> 20)
        self.addCleanup(self.machine.stop)
        self.machine.wait_ready()  # the firmware, which changes the memory map, has ended

    def allocated(self):
        """Bytes of memory that the process and its files occupy."""
        status = pathlib.Path(f"/proc/{self.machine.pid}/status").read_text()
        total = 1024 * sum(int(size) for size in
                           re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", status, re.M))
        files = {}
        for fd in pathlib.Path(f"/proc/{self.machine.pid}/fd").iterdir():
            stat = fd.stat()
            files[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
        return total + sum(files.values())

    def check(self, backend=None):
        self.start(backend)
        tool = Tool("qmp", self.machine.qmp_path)
        self.addCleanup(tool.end)
        self.assertEqual(tool.do("hold"), "ok")
        before = self.allocated()
        data = dict(word.split("=") for word in tool.do("data").split()[1:])
        ours = self.machine.directory / "ours"
        self.assertEqual(tool.do(f"save {ours}"), "ok")
        ranges = [word.split(":") for word in tool.do("ranges").split()[1:]]
        self.assertLess(self.allocated() - before, self.SIZE // 16)
        self.assertLess(int(data["bytes"]), self.SIZE // 4)
        theirs = self.machine.directory / "theirs"
        with open(ours, "rb") as saved:
            for pa, size, kind in ((int(pa, 16), int(size, 16), kind)
                                   for pa, size, kind, _ in ranges if kind != "2"):
                self.machine.qmp.command("pmemsave", val=pa, size=size, filename=str(theirs))
                saved.seek(pa)
                self.assertTrue(saved.read(size).ljust(size, b"\0") == theirs.read_bytes(),
                                f"memory from {pa:#x}, {size:#x} bytes")

    def test_default(self):
        self.check()

    def test_memfd(self):
        self.check("memory-backend-memfd,share=on")

    def test_shared_file(self):
        self.check_file("share=on")

    def test_private_file(self):
        self.check_file("share=off")

    def check_file(self, share):
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="vmscope-test-") as file:
            self.check(f"memory-backend-file,mem-path={file.name},{share}")

    def test_shared_without_a_name(self):
        self.check("memory-backend-ram,share=on")


class Killed(Attached):
    def check_killed(self, tool, status="running"):
        tool.process.wait(ANSWER_SECONDS)
        wait_for(lambda: self.machine.qmp.status() == status, f"the guest to be {status}")
        self.assert_untouched(status)
        Tool("qmp", self.machine.qmp_path).end()  # the next one finds it free
        self.assert_untouched(status)

    def test_killed_while_holding(self):
        tool = self.open()
        tool.do("hold")
        self.assertEqual(self.machine.qmp.status(), "paused")
        tool.kill()
        self.check_killed(tool)

    def test_killed_with_its_process_group(self):
        tool = self.open(start_new_session=True)
        tool.do("hold")
        os.killpg(tool.process.pid, signal.SIGKILL)
        self.check_killed(tool)

    def test_killed_while_not_holding(self):
        tool = self.open()
        tool.kill()
        self.check_killed(tool)

    def test_other_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGSEGV):
            tool = self.open(start_new_session=True)
            tool.do("hold")
            os.killpg(tool.process.pid, number)
            self.check_killed(tool)

    def test_killed_on_a_paused_guest(self):
        self.machine.qmp.command("stop")
        tool = self.open()
        tool.do("hold")
        tool.kill()
        self.check_killed(tool, "paused")

    def test_killed_at_any_moment(self):
        for step in range(12):
            tool = Tool.__new__(Tool)
            tool.process = subprocess.Popen([TOOL, "qmp", str(self.machine.qmp_path)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
            tool.process.stdin.write("hold\nregs 0\nrelease\n" * 1000)
            tool.process.stdin.flush()
            time.sleep(0.004 * step)
            tool.kill()
            for stream in (tool.process.stdin, tool.process.stdout, tool.process.stderr):
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
            self.assert_untouched()

    def test_guard_killed_too_early(self):
        """Its death alone does no harm: the next hold has a guard again."""
        tool = self.open()
        tool.do("hold")
        tool.do("release")
        os.kill(wait_for(lambda: guards(str(self.machine.qmp_path)), "the guard")[-1],
                signal.SIGKILL)
        wait_for(lambda: len(guards(str(self.machine.qmp_path))) == 0, "the guard to die")
        self.assertEqual(tool.do("hold"), "ok")
        tool.kill()
        self.check_killed(tool)

    def test_no_output_is_held_open(self):
        tool = self.open()
        tool.do("hold")
        os.kill(self.machine.pid, signal.SIGSTOP)  # the guard has to wait
        try:
            tool.kill()
            self.assertEqual(tool.process.stdout.read(), "")  # an end of file
        finally:
            os.kill(self.machine.pid, signal.SIGCONT)
        self.check_killed(tool)


class OthersStub(Attached):
    """A stub that another vmscope has added, or left."""

    @staticmethod
    def label_of(pid):
        """As src/base/owner.h tells it: pid, start time, PID namespace, boot."""
        start = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        namespace = re.search(r"\d+", os.readlink(f"/proc/{pid}/ns/pid"))[0]
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().split("-")[0]
        return f"vmscope-{pid}-{start}-{namespace}-{boot}"

    def add_stub(self, label):
        address = {"type": "unix", "data": {"path": str(self.machine.directory / "gdb")}}
        self.machine.qmp.command("chardev-add", id=label, backend={
            "type": "socket", "data": {"addr": address, "server": True, "wait": False}})
        self.machine.qmp.hmp(f"gdbserver chardev:{label}")

    def check_removed(self, label):
        self.add_stub(label)
        tool = self.open()
        self.assertEqual(tool.do("hold"), "ok")
        tool.end()
        self.assert_untouched()

    def check_respected(self, label, says):
        self.add_stub(label)
        tool = self.open()
        answer = tool.do("hold")
        self.assertEqual(error_code(answer), BUSY)
        self.assertIn(says, answer)
        tool.end()
        self.assertIn(label, self.labels())
        self.assertEqual(self.machine.qmp.status(), "running")

    def test_of_the_dead(self):
        dead = subprocess.Popen(["sleep", "1000"])
        label = self.label_of(dead.pid)
        dead.kill()
        dead.wait()
        self.check_removed(label)

    def test_of_the_dead_whose_pid_is_used_again(self):
        words = self.label_of(os.getpid()).split("-")
        words[2] = str(int(words[2]) - 1)
        self.check_removed("-".join(words))

    def test_of_the_living(self):
        self.check_respected(self.label_of(os.getpid()), str(os.getpid()))

    def test_of_another_container(self):
        words = self.label_of(os.getpid()).split("-")
        words[3] = "1"
        self.check_respected("-".join(words), "container")


class Stopped(Attached):
    def test_stopped_while_holding(self):
        tool = self.open()
        tool.do("hold")
        tool.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.machine.qmp.status() == "running", "the guest to run on")
        tool.process.send_signal(signal.SIGCONT)
        self.assertEqual(error_code(tool.do("regs 0")), INVALID_STATE)
        self.assertEqual(error_code(tool.do("release")), INVALID_STATE)
        self.assertEqual(tool.do("paused"), "ok 0")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertIn("rip", registers(tool.do("regs 0")))
        self.assertEqual(tool.do("release"), "ok")
        self.assertEqual(self.machine.qmp.status(), "running")
        tool.end()
        self.assert_untouched()

    def test_killed_while_stopped(self):
        tool = self.open()
        tool.do("hold")
        tool.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.machine.qmp.status() == "running", "the guest to run on")
        tool.kill()
        self.assert_untouched()

    def test_stopped_while_not_holding(self):
        tool = self.open()
        tool.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        self.assertEqual(self.machine.qmp.status(), "running")
        tool.process.send_signal(signal.SIGCONT)
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(tool.do("release"), "ok")


class BareStub(Attached):
    """--gdb alone."""

    def setUp(self):
        super().setUp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % probe.getsockname()[1]
        self.machine.qmp.hmp(f"gdbserver tcp:{self.address}")

    def assert_runs(self):
        wait_for(lambda: self.machine.qmp.status() == "running", "the guest to run")

    def test_hold_and_release(self):
        tool = self.open("gdb", self.address)
        self.assert_runs()
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(self.machine.qmp.status(), "paused")
        self.assertIn("cr3", registers(tool.do("regs 1")))
        self.assertEqual(len(tool.do("read 0xf0000 10000")), 3 + 20000)
        self.assertEqual(tool.do("release"), "ok")
        self.assert_runs()
        self.assertEqual(len(tool.do("read 0xf0000 16")), 3 + 32)
        self.assert_runs()
        tool.end()
        self.assert_runs()
        for _ in range(4):
            self.open("gdb", self.address).end()
            self.assert_runs()

    def test_runs_between(self):
        """A long read stops the machine once for each piece of it, not for all; held, not at all."""
        tool = self.open("gdb", self.address)
        size = 1 << 20
        events = self.machine.qmp.event_names
        before = events().count("STOP")
        self.assertEqual(len(tool.do(f"read 0x0 {size}")), 3 + 2 * size)
        self.assertGreaterEqual(events().count("STOP") - before, 16)
        self.assertEqual(tool.do("hold"), "ok")
        before = events().count("STOP")
        self.assertEqual(len(tool.do(f"read 0x0 {size}")), 3 + 2 * size)
        self.assertEqual(events().count("STOP"), before)
        self.assertEqual(tool.do("release"), "ok")

    def test_memory_mode_is_put_back(self):
        tool = self.open("gdb", self.address)
        tool.do("read 0xf0000 16")
        tool.do("hold")
        tool.do("read 0xf0000 16")
        tool.end()
        with socket.create_connection(tuple(self.address.split(":"))) as stub:
            stub.sendall(b"$qqemu.PhyMemMode#%02x" % (sum(b"qqemu.PhyMemMode") & 255))
            answer = b""
            while b"#" not in answer:
                answer += stub.recv(100)
            self.assertIn(b"$0#", answer)
            stub.sendall(b"+$D#44")
            stub.recv(100)

    def test_killed_while_holding(self):
        tool = self.open("gdb", self.address)
        tool.do("hold")
        tool.kill()
        self.assert_runs()

    def test_stopped_while_holding(self):
        tool = self.open("gdb", self.address)
        tool.do("hold")
        tool.process.send_signal(signal.SIGSTOP)
        self.assert_runs()
        tool.process.send_signal(signal.SIGCONT)
        self.assertEqual(error_code(tool.do("release")), INVALID_STATE)
        for _ in range(2):
            self.assertEqual(tool.do("hold"), "ok")
            self.assertIn("rip", registers(tool.do("regs 0")))
            self.assertEqual(tool.do("release"), "ok")
        self.assert_runs()

    def test_stopped_in_the_middle_of_reading(self):
        """What is asked after the watchdog's release stops the guest again, but not for good."""
        tool = self.open("gdb", self.address)
        tool.do("hold")
        for _ in range(3):
            tool.send(f"read 0x100000 {8 << 20}")
            tool.process.send_signal(signal.SIGSTOP)
            self.assert_runs()
            tool.process.send_signal(signal.SIGCONT)
            tool.read()
            self.assertEqual(error_code(tool.do("release")), INVALID_STATE)
            self.assertEqual(self.machine.qmp.status(), "running")
            self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(tool.do("release"), "ok")
        self.assert_runs()

    def test_stopped_again_and_again(self):
        """A hold that the watchdog has ended can be meant to go on: that one is watched, too."""
        tool = self.open("gdb", self.address)
        for number in range(10):
            self.assertEqual(tool.do("hold"), "ok")
            tool.send(f"read 0x100000 {8 << 20}")
            for _ in range(3):
                tool.process.send_signal(signal.SIGSTOP)
                self.assert_runs()
                tool.process.send_signal(signal.SIGCONT)
                time.sleep(0.001 * number)
            tool.read()
            self.assertIn(error_code(tool.do("release")), (None, INVALID_STATE))
            self.assertEqual(self.machine.qmp.status(), "running")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertIn("rip", registers(tool.do("regs 0")))
        self.assertEqual(tool.do("release"), "ok")
        self.assert_runs()

    def test_memory_map(self):
        tool = self.open("gdb", self.address)
        ours = tool.do("ranges").split()
        self.assertEqual(tool.do("read 0xfee00000 16"), "ok unreadable")  # a device
        tool.end()
        # Below, the firmware changes the map while it starts.
        for line in self.machine.qmp.hmp("info mtree -f").split("FlatView")[1:]:
            if 'AS "memory"' in line:
                break
        theirs = [f"{int(first, 16):#x}:{int(last, 16) - int(first, 16) + 1:#x}:"
                  f"{['ram', 'rom', 'i/o'].index(kind)}:{name}" for first, last, kind, name in
                  re.findall(r"^  (0{8}f\w{7})-(\w+) \(prio \d+, (\S+)\): (\S+)", line, re.M)]
        self.assertGreaterEqual(len(theirs), 3)
        self.assertEqual(ours[-len(theirs):], theirs)

    def test_user_pauses(self):
        tool = self.open("gdb", self.address)
        self.machine.qmp.command("stop")
        self.assertEqual(tool.do("hold"), "ok")
        self.assertEqual(tool.do("paused"), "ok 1")
        self.assertEqual(tool.do("release"), "ok")
        tool.end()
        self.assertEqual(self.machine.qmp.status(), "paused")

    def test_user_pauses_and_resumes_meanwhile(self):
        tool = self.open("gdb", self.address)
        for _ in range(3):
            self.machine.qmp.command("stop")
            self.assertEqual(tool.do("hold"), "ok")
            self.assertEqual(tool.do("paused"), "ok 1")
            self.machine.qmp.command("cont")
            # This request stops it again, and release has it go on.
            self.assertIn("rip", registers(tool.do("regs 1")))
            self.assertEqual(tool.do("release"), "ok")
            self.assert_runs()
            self.assertEqual(tool.do("hold"), "ok")
            self.assertEqual(tool.do("paused"), "ok 0")
            self.assertEqual(tool.do("release"), "ok")
            self.assert_runs()

    def test_users_stub_is_left_alone(self):
        tool = self.open()
        answer = tool.do("hold")
        self.assertEqual(error_code(answer), BUSY)
        self.assertIn("--gdb", answer)
        tool.end()
        self.assertIn("gdb", self.labels())
        self.assert_runs()

    def test_stub_in_use(self):
        first = self.open("gdb", self.address)
        second = Tool("gdb", self.address)
        self.assertEqual(error_code(second.opened), BUSY)
        second.end()
        self.assertEqual(first.do("hold"), "ok")


class Refused(unittest.TestCase):
    """Each obstacle has its own error, and none takes for ever."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-test-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / "socket"

    def check(self, how, address, code, *words):
        tool = Tool(how, address)
        tool.end()
        self.assertEqual(error_code(tool.opened), code, tool.opened)
        for word in words:
            self.assertIn(word, tool.opened)

    def serve(self, *chunks, forever=False, close=True):
        """A peer that says something to whoever connects."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(1)
        self.addCleanup(listener.close)

        def talk():
            connection, _ = listener.accept()
            with connection:
                try:
                    for chunk in chunks:
                        connection.sendall(chunk)
                    while forever:
                        connection.sendall(chunks[-1])
                    while not close and connection.recv(65536):
                        pass
                except OSError:
                    pass
        threading.Thread(target=talk, daemon=True).start()

    def test_no_such_process(self):
        self.check("pid", 2**31 - 1, NOT_FOUND, "no such process")

    def test_not_qemu(self):
        self.check("pid", os.getpid(), UNSUPPORTED, "not QEMU")

    def test_no_qmp_socket(self):
        machine = Machine(qmp=False)
        self.addCleanup(machine.stop)
        self.check("pid", machine.pid, UNSUPPORTED, "no QMP socket", "-qmp")

    def test_in_use(self):
        machine = Machine()
        self.addCleanup(machine.stop)
        with Tool("qmp", machine.qmp_path) as first:
            user = f"process {first.process.pid} (machine-tool) is using it"
            self.check("qmp", machine.qmp_path, BUSY, user)
            self.check("pid", machine.pid, BUSY, user)
            self.assertEqual(first.do("hold"), "ok")

    def test_no_socket(self):
        self.check("qmp", self.path, NOT_FOUND, str(self.path))

    def test_stale_socket(self):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(self.path))
        self.check("qmp", self.path, CLOSED, "nothing listens")

    def test_nothing_listens_on_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.check("qmp", f"127.0.0.1:{port}", CLOSED)
        self.check("gdb", f"127.0.0.1:{port}", CLOSED)

    @unittest.skipIf(not hasattr(os, "setresuid") or os.geteuid() != 0,
                     "only root can become somebody else")
    def test_no_permission(self):
        machine = Machine()
        self.addCleanup(machine.stop)
        machine.directory.chmod(0o755)
        machine.qmp_path.chmod(0o600)
        for how, address in (("qmp", machine.qmp_path), ("pid", machine.pid)):
            tool = Tool(how, address, user=65534, group=65534, extra_groups=[])
            tool.end()
            self.assertEqual(error_code(tool.opened), PERMISSION, tool.opened)

    @unittest.skipIf(os.geteuid() != 0, "only root can become somebody else")
    def test_memory_by_stub_where_qemus_may_not_be_read(self):
        machine = Machine()
        self.addCleanup(machine.stop)
        machine.directory.chmod(0o755)
        machine.qmp_path.chmod(0o666)
        tool = Tool("qmp", machine.qmp_path, user=65534, group=65534, extra_groups=[])
        self.assertTrue(tool.opened.startswith("ok"), tool.opened)
        ours = tool.do("read 0xfffc0000 16384")
        self.assertEqual(machine.qmp.status(), "running")
        with Tool("qmp", machine.qmp_path, user=65534) as other:
            self.assertEqual(error_code(other.opened), BUSY)
        self.assertEqual(tool.do("read 0xfee00000 16"), "ok unreadable")
        self.assertIn("slow", tool.end())
        with Tool("qmp", machine.qmp_path) as root:
            self.assertEqual(ours, root.do("read 0xfffc0000 16384"))

    def test_silent_qmp(self):
        self.serve(close=False)
        self.check("qmp", self.path, BUSY)

    def test_garbage_qmp(self):
        self.serve(b"\x00\xff\x80SSH-2.0-nothing\r\n", close=False)
        self.check("qmp", self.path, PROTOCOL)

    def test_qmp_closes(self):
        self.serve(b'{"QMP": {"version": {"qemu": {"mi')
        self.check("qmp", self.path, CLOSED)

    def test_endless_qmp(self):
        self.serve(b'{"QMP": "', b"x" * 65536, forever=True)
        self.check("qmp", self.path, PROTOCOL)

    def test_garbage_gdb(self):
        self.serve(b"SSH-2.0-nothing\r\n" * 10000, close=False)
        self.check("gdb", self.path, PROTOCOL)

    def test_gdb_closes(self):
        self.serve(b"+$PacketSi")
        self.check("gdb", self.path, CLOSED)


class TcpMonitor(unittest.TestCase):
    def test_qmp_by_tcp(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % probe.getsockname()[1]
        machine = Machine("-qmp", f"tcp:{address},server=on,wait=off", qmp=False)
        self.addCleanup(machine.stop)
        for how, where in (("qmp", address), ("pid", machine.pid)):
            with Tool(how, where) as tool:
                self.assertEqual(tool.do("hold"), "ok")
                self.assertIn("rip", registers(tool.do("regs 1")))
                self.assertEqual(len(tool.do("read 0xf0000 32")), 3 + 64)
                self.assertIn(f"pid={machine.pid} ", tool.do("facts"))
                self.assertEqual(tool.do("release"), "ok")
        with Tool("qmp", address) as tool:
            tool.do("hold")
            tool.kill()
        wait_for(lambda: machine.qmp.status() == "running", "the guest to run on")


if __name__ == "__main__":
    unittest.main()
