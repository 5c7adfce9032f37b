# SPDX-License-Identifier: MIT
"""QEMU processes, and the bare guests that run in them."""
import atexit
import collections
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from qmp_client import Qmp
from testbed import ANSWER_SECONDS, BOOT_SECONDS, GUESTS, build_guests, die_with_parent, wait_for

# What differs between guests by their architecture: how QEMU starts one, the name of its serial
# console and of the directories that hold its kernels, its programs, and who reads them.
Arch = collections.namedtuple("Arch", "qemu console suffix programs nm")
ARCHS = {
    "x86_64": Arch(("qemu-system-x86_64",), "ttyS0", "", GUESTS, "nm"),
    "aarch64": Arch(("qemu-system-aarch64", "-M", "virt"), "ttyAMA0", "-arm64", GUESTS / "arm64",
                    "aarch64-linux-gnu-nm"),
}


class Machine:
    """A QEMU process with a QMP socket for vmscope and a connection of the tests' own.

    The own connection is an inherited socket pair: vmscope cannot find it and so cannot be in
    its way.
    """
    _all = []
    # Some hosts' KVM offers that register and refuses what QEMU writes into it.
    _cpus = {"kvm": "host,arch-capabilities=off"}

    def __init__(self, *arguments, accel="tcg,thread=multi", cpu=None, smp=2, memory=512,
                 qmp=True, name=None, arch="x86_64", qemu=None, launcher=(), has_input=False):
        """`qemu`: another than the installed one. `launcher`: the words before QEMU's own.
        `has_input`: send_byte() works."""
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-test-"))
        self.qmp_path = self.directory / "qmp"
        self.serial_path = self.directory / "serial.log"
        self._qemu = None  # a pidfd
        ours, theirs = socket.socketpair()
        command = [
            *map(str, launcher), *map(str, qemu or ARCHS[arch].qemu), "-accel", accel,
            "-cpu", cpu or self._cpus.get(accel, "max"), "-smp", str(smp), "-m", str(memory),
            "-nodefaults", "-no-user-config", "-display", "none",
            *self._serial(has_input),
            "-chardev", f"socket,id=tests,fd={theirs.fileno()},server=off",
            "-mon", "chardev=tests,mode=control",
        ]
        if qmp:
            command += ["-qmp", f"unix:{self.qmp_path},server=on,wait=off"]
        if name:
            command += ["-name", name]
        self._log = open(self.directory / "qemu.log", "w")
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        theirs.close()
        try:
            self.qmp = Qmp(ours)
        except (EOFError, OSError):
            self.process.wait(ANSWER_SECONDS)
            log = self.log()
            self._log.close()
            shutil.rmtree(self.directory, ignore_errors=True)
            raise RuntimeError(f"QEMU did not start: {log}") from None
        self._qemu = os.pidfd_open(self.pid)
        self._all.append(self)

    def _serial(self, has_input):
        """QEMU's options for the serial port."""
        self._input = None
        if not has_input:
            return "-serial", f"file:{self.serial_path}"
        path = self.directory / "input"
        os.mkfifo(path)
        self._input = os.open(path, os.O_RDWR)
        return ("-chardev", f"file,id=serial,path={self.serial_path},input-path={path}",
                "-serial", "chardev:serial")

    def send_byte(self):
        """To the serial port."""
        os.write(self._input, b".")

    @functools.cached_property
    def pid(self):
        """QEMU's, or its loader's, which is a child of what launched it, if that stays."""
        own = self.process.pid
        for child in pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError):
                if pathlib.Path(f"/proc/{child}/comm").read_text().startswith(
                        ("qemu-system", "ld-linux")):
                    return int(child)
        return own

    @property
    def target(self):
        """The options that name this machine to vmscope."""
        return ("--qmp", self.qmp_path, "--allow-stop")

    def log(self):
        return (self.directory / "qemu.log").read_text(errors="replace").strip()

    def serial(self):
        try:
            return self.serial_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def wait_until(self, condition, what):
        """Until the condition holds, or QEMU ends, which is an error."""
        def holds():
            if self.process.poll() is not None:
                raise RuntimeError(f"QEMU has gone: {self.log()}\n{self.serial()[-2000:]}")
            return condition()
        try:
            wait_for(holds, what, BOOT_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.describe()}") from None

    def describe(self):
        """What may tell why it hangs: its log, what the guest wrote last, where all threads are."""
        texts = [self.log(), self.serial()[-2000:]]
        for pid in {self.process.pid, self.pid}:
            texts.append(subprocess.run(
                ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 12"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, check=False).stdout)
        return "\n".join(texts)

    def wait_ready(self):
        """Until the guest has written READY to its serial port."""
        self.wait_until(lambda: "READY" in self.serial(), "the guest to boot")

    def wait_unplugged(self, vcpus):
        """Until there are as few vCPUs; what QEMU sends when nothing refers to one any more may
        never come."""
        self.wait_until(lambda: sum("qom-path" in cpu for cpu in
                                    self.qmp.command("query-hotpluggable-cpus")) == vcpus,
                        "a vCPU to be unplugged")

    def save(self, path):
        """Writes the machine's state for another one's -incoming; the guest does not run on."""
        self.qmp.command("migrate-set-parameters", max_bandwidth=0)  # no limit
        self.qmp.command("migrate", uri=f"file:{path}")
        self.wait_until(lambda: self.qmp.command("query-migrate")["status"] == "completed",
                        "the guest's state to be saved")

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._qemu is not None:
            with contextlib.suppress(ProcessLookupError):  # where it was started by another
                signal.pidfd_send_signal(self._qemu, signal.SIGKILL)
            os.close(self._qemu)
            self.qmp.close()
        if self._input is not None:
            os.close(self._input)
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        if self in self._all:
            self._all.remove(self)

    @classmethod
    def all(cls):
        """Those that run."""
        return list(cls._all)

    @classmethod
    def stop_all(cls):
        for machine in cls.all():
            machine.stop()


atexit.register(Machine.stop_all)


class BareGuest(Machine):
    """One of the bare guests of tests/guests, by its name."""

    def __init__(self, name="bare", extra=(), **options):
        build_guests()
        self.elf = ARCHS[options.get("arch", "x86_64")].programs / f"{name}.elf"
        options.setdefault("smp", 1)
        options.setdefault("memory", 64)
        super().__init__("-kernel", self.elf, *extra, **options)
        self.wait_ready()


def monitor_registers(guest, cpu):
    """Of a vCPU of x86-64, by vmscope's names, as QEMU's monitor shows them; segment attributes in
    the form of the VMCS."""
    text = guest.qmp.command("human-monitor-command", command_line="info registers", cpu_index=cpu)
    registers = {name.strip().lower(): int(value, 16) for name, value in re.findall(
        r"\b(R[A-Z0-9]{1,2} ?|CR[0234]|DR[012367]|EFER)=([0-9a-f]+)\b", text)}
    registers["eflags"] = registers.pop("rfl")
    for name, selector, base, limit, flags in re.findall(
            r"^(ES|CS|SS|DS|FS|GS|LDT|TR) *=(\w{4}) (\w+) (\w+) (\w+)", text, re.MULTILINE):
        name = {"LDT": "ldtr"}.get(name, name.lower())
        registers[name] = int(selector, 16)
        registers[f"{name}_base"] = int(base, 16)
        registers[f"{name}_limit"] = int(limit, 16)
        registers[f"{name}_attr"] = int(flags, 16) >> 8 & 0xF0FF
    for name, base, limit in re.findall(r"^(GDT|IDT)= +(\w+) (\w+)", text, re.MULTILINE):
        registers[f"{name.lower()}r_base"] = int(base, 16)
        registers[f"{name.lower()}r_limit"] = int(limit, 16)
    return registers
