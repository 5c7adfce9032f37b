# SPDX-License-Identifier: MIT
"""Guests that run Linux, and what the tests run in them."""
import collections
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import socket
import struct
import tempfile
import unittest

from qemu_machine import ARCHS, Machine
from testbed import (ANSWER_SECONDS, GUESTS, KERNELS, NEWEST, SERIES, build_guests, has_newest, path_of)


class Shell:
    """What runs shell commands in a guest, behind its virtio port (tests/guests/agent.c)."""

    def __init__(self, path):
        self._port = socket.socket(socket.AF_UNIX)
        self._port.settimeout(ANSWER_SECONDS)
        self._port.connect(str(path))

    def close(self):
        self._port.close()

    def _read_number(self):
        return struct.unpack("<I", self._read(4))[0]

    def _read(self, size):
        data = bytearray()
        while len(data) < size:
            part = self._port.recv(size - len(data))
            if not part:
                raise EOFError("the guest has closed its port")
            data += part
        return bytes(data)

    def send(self, command):
        """Begins a shell command in the guest."""
        self._port.sendall(command.encode() + b"\n")

    def run_bytes(self, command, check=True):
        """Runs a shell command in the guest; its output, stderr with it."""
        self.send(command)
        output = bytearray()
        while size := self._read_number():
            output += self._read(size)
        status = self._read_number()
        if check and status:
            raise RuntimeError(f"in the guest: {command}: status {status}: {output.decode()}")
        return bytes(output)


class CommandedGuest(Machine):
    """Runs Linux and takes commands through a virtio port."""

    def __init__(self, *arguments, **options):
        self._port = None
        self._port_directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-port-"))
        super().__init__(
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=port,path={self._port_directory}/port,server=on,wait=off",
            "-device", "virtserialport,chardev=port,name=port", *arguments, **options)

    def stop(self):
        super().stop()
        if self._port:
            self._port.close()
        shutil.rmtree(self._port_directory, ignore_errors=True)

    @property
    def _shell(self):
        if self._port is None:
            self._port = Shell(self._port_directory / "port")
        return self._port

    def connect_again(self):
        """After a reset: what the shell before it has left unsaid does not come."""
        if self._port:
            self._port.close()
        self._port = None

    def send(self, command):
        """Begins a shell command in the guest."""
        self._shell.send(command)

    def run_bytes(self, command, check=True):
        """Runs a shell command in the guest; its output, stderr with it."""
        return self._shell.run_bytes(command, check)

    def run(self, command, check=True):
        return self.run_bytes(command, check).decode(errors="replace")


class LinuxGuest(CommandedGuest):
    """Debian's cloud kernel of a series, with the initial file system of tests/guests.

    With options of its own it boots. Of one of the KINDS, it goes on from where booted() stands, in a
    fraction of the time, whatever launches it. `boot`: True: it boots all the same; False: it goes
    on from where another one with the same options has booted, which pays where there are two.
    `beside`: options of QEMU's that the guest does not see, as it does not see how many threads TCG has.
    """

    def __init__(self, series="6.1", append="", extra=(), beside=(), boot=None, arch="x86_64",
                 launcher=(), **options):
        build_guests()
        kind = {name: value for name, value in (("append", append), ("extra", extra), *options.items())
                if value}
        if not set(kind) - {"accel"}:
            kind = {}
        if boot is None:
            boot = (series, arch, kind) not in KINDS
        state = None if boot else booted(series, arch, **kind)
        self.series = series
        self.arch = ARCHS[arch]
        kernel = series + self.arch.suffix
        self.release = (KERNELS / kernel / "release").read_text().strip()
        self._kallsyms = state and state.kallsyms
        super().__init__(
            "-kernel", KERNELS / kernel / "boot" / f"vmlinuz-{self.release}",
            "-initrd", GUESTS / f"initramfs-{kernel}.gz",
            "-append", f"console={self.arch.console} quiet panic=-1 no_timer_check {append}",
            *extra, *beside, *(("-incoming", f"file:{path_of(state.file)}") if state else ()), arch=arch,
            launcher=launcher, **options)
        if state:
            self.wait_until(lambda: self.qmp.status() == "running", "the guest to be restored")
        else:
            self.wait_ready()

    def start_workload(self, name):
        """Starts `workload NAME` in the background; its process id in the guest."""
        return int(self.run(f"workload {name} >/dev/null 2>&1 & echo $!"))

    def stop_workload(self):
        self.run("killall -9 workload md5sum 2>/dev/null", check=False)

    def read_kallsyms(self):
        """Every line of /proc/kallsyms as Symbol, as it is now.

        Without what marks code and data within an aarch64 module's functions, as $x: the kernel
        lists it, but calls nothing by it.
        """
        symbols = map(Symbol.parse, self.run("cat /proc/kallsyms").splitlines())
        return [symbol for symbol in symbols if not symbol.name.startswith(("$", ".L", "L0"))]

    def kallsyms(self):
        """The same, as it was when the guest had booted, or was read first."""
        if self._kallsyms is None:
            self._kallsyms = self.read_kallsyms()
        return self._kallsyms


_SYMBOL_LINE = re.compile(r"([0-9a-f]+) (\S) (\S+)(?:\s+\[(\S+)\])?\s*")


class Symbol(collections.namedtuple("Symbol", "va type name module")):
    """A line of /proc/kallsyms; module is None for the kernel itself."""

    @classmethod
    def parse(cls, line):
        match = _SYMBOL_LINE.fullmatch(line)
        if not match:
            raise ValueError(f"not a line of kallsyms: {line!r}")
        va, type_, name, module = match.groups()
        if not name.isprintable():
            # The command shows control characters so; compilers do use them.
            name = re.sub(r"[\x00-\x1f\x7f]", "?", name)
        return cls(int(va, 16), type_, name, module)

    def __str__(self):
        module = f"\t[{self.module}]" if self.module else ""
        return f"{self.va:016x} {self.type} {self.name}{module}"


Booted = collections.namedtuple("Booted", "file kallsyms")
# Whose page tables the kernel isolates: an Intel model that is vulnerable to Meltdown.
ISOLATED = {"cpu": "Haswell,vendor=GenuineIntel"}
# One that does not move its kernel, and that vCPUs and memory can be plugged into.
PLUGGABLE = {"append": "nokaslr memhp_default_state=offline", "smp": "2,maxcpus=4",
             "memory": "128,slots=1,maxmem=1G"}
# What several modules go on from: series, architecture, options.
KINDS = (*((series, "x86_64", {}) for series in SERIES + (NEWEST,) * has_newest()),
         *((series, "aarch64", {}) for series in SERIES),
         ("6.1", "x86_64", {"smp": 4}), ("6.1", "x86_64", ISOLATED), ("6.1", "x86_64", PLUGGABLE))


@functools.cache
def booted(series, arch="x86_64", **options):
    """A guest that has just booted, with standard options or those: its state, as a file, and, of one
    with standard options, its symbols."""
    state = tempfile.TemporaryFile(prefix="vmscope-booted-")
    guest = LinuxGuest(series, arch=arch, boot=True, **options)
    try:
        kallsyms = None if options else guest.kallsyms()
        guest.save(path_of(state))
    finally:
        guest.stop()
    return Booted(state, kallsyms)


def boot_all():
    """Boots what guests of `make check` go on from; a process that is forked after this need not."""
    build_guests()
    with concurrent.futures.ThreadPoolExecutor(1 + len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda kind: booted(kind[0], kind[1], **kind[2]),
                      (kind for kind in KINDS if kind[0] != NEWEST)))


_shared = {}


def busy_guest(series="6.1", **options):
    """A guest with every kind of workload running in it. As long as it runs it takes two of the
    host's processors from whatever else is tested."""
    guest = LinuxGuest(series, **options)
    guest.start_workload("mix")
    guest.run("while :; do md5sum /bin/busybox; done >/dev/null 2>&1 &")
    return guest


def shared_guest(make=LinuxGuest):
    """A guest for all tests of a module, which `make` starts."""
    if make not in _shared or _shared[make].process.poll() is not None:
        _shared[make] = make()
        unittest.addModuleCleanup(_stop_shared, make)
    return _shared[make]


def _stop_shared(make):
    guest = _shared.pop(make, None)
    if guest:
        guest.stop()
