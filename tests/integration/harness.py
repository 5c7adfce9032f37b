# SPDX-License-Identifier: MIT
"""Real guests for the integration tests: boots QEMU, talks to it and to what runs in it.

Needs nothing but Python: QMP is spoken by a client of its own here, so that what vmscope says of
a machine can be compared with what the machine says itself.
"""
import atexit
import collections
import concurrent.futures
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VMSCOPE_BUILD", ROOT / "build"))
VMSCOPE = BUILD / "cli" / "vmscope"
GUESTS = BUILD / "guests"
KERNELS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"),
                       "vmscope", "kernels")
QEMU_NEW = KERNELS.parent / "qemu-new" / "qemu-system-x86_64"  # of plugin API 7, where it could be had
SERIES = ("6.1", "6.12")
NEWEST = "sid"  # Debian's, whichever it is, where it could be had
BOOT_SECONDS = 180  # generous: a loaded machine must not fail a test
ANSWER_SECONDS = 60

_libc = ctypes.CDLL(None, use_errno=True)

# Tests send these to what they start; who started us may have had them ignored.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


@functools.cache
def build_guests():
    """Brings the test guests up to date."""
    subprocess.run(["make", "-s", "-C", str(ROOT / "tests" / "guests"), f"OUT={GUESTS}"],
                   check=True)


def wait_for(condition, what, seconds=ANSWER_SECONDS):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def die_with_parent():
    """Run in a child before its program: it is killed when its parent ends."""
    pr_set_pdeathsig = 1
    _libc.prctl(pr_set_pdeathsig, signal.SIGKILL)


class Qmp:
    """A QMP client on a connected socket."""

    def __init__(self, connection):
        self.events = []  # every event received so far, as QEMU sent it
        self._socket = connection
        self._received = b""  # of the next message
        self._receive()  # the greeting
        self.command("qmp_capabilities")

    @classmethod
    def connect(cls, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(str(path))
        return cls(connection)

    def close(self):
        self._socket.close()

    def _receive(self, seconds=ANSWER_SECONDS):
        """The next message; raises TimeoutError where none comes in time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            self._socket.settimeout(max(deadline - time.monotonic(), 1e-6))
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError("QMP: the connection was closed")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def send(self, name, **arguments):
        """Begins a command, to be ended with answer()."""
        request = {"execute": name}
        if arguments:
            request["arguments"] = {key.replace("_", "-"): value
                                    for key, value in arguments.items()}
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def answer(self, name):
        while True:
            answer = self._receive()
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"QMP {name}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def command(self, name, **arguments):
        """The command's answer; raises RuntimeError with QEMU's words when it fails."""
        self.send(name, **arguments)
        return self.answer(name)

    def wait_event(self, name, seconds):
        """The next event of that name; None where it does not come in time."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while True:
                event = self._receive(deadline - time.monotonic())
                self.events.append(event)
                if event["event"] == name:
                    return event
        return None

    def event_names(self):
        """Of all events up to now."""
        self.command("query-status")
        return [event["event"] for event in self.events]

    def hmp(self, line):
        return self.command("human-monitor-command", command_line=line)

    def status(self):
        return self.command("query-status")["status"]


# What differs between guests by their architecture: how QEMU starts one, the name of its serial
# console and of the directories that hold its kernels, its programs, and who reads them.
Arch = collections.namedtuple("Arch", "qemu console suffix programs nm")
ARCHS = {
    "x86_64": Arch(("qemu-system-x86_64",), "ttyS0", "", GUESTS, "nm"),
    "aarch64": Arch(("qemu-system-aarch64", "-M", "virt"), "ttyAMA0", "-arm64", GUESTS / "arm64",
                    "aarch64-linux-gnu-nm"),
}


class Machine:
    """A QEMU process with a QMP socket for vmscope and a connection of the harness's own.

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
            "-chardev", f"socket,id=harness,fd={theirs.fileno()},server=off",
            "-mon", "chardev=harness,mode=control",
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
        wait_for(holds, what, BOOT_SECONDS)

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


class LinuxGuest(Machine):
    """Debian's cloud kernel of a series, with the initial file system of tests/guests.

    With options of its own it boots. Without, it goes on from where booted() stands, in a
    fraction of the time, whatever launches it. `beside`: options of QEMU's that the guest does not
    see.
    """

    def __init__(self, series="6.1", append="", extra=(), beside=(), boot=False, arch="x86_64",
                 launcher=(), **options):
        build_guests()
        boot = boot or append or extra or options
        if not boot:
            extra = ("-incoming", f"file:{path_of(booted(series, arch).state)}")
        self.series = series
        self.arch = ARCHS[arch]
        kernel = series + self.arch.suffix
        self.release = (KERNELS / kernel / "release").read_text().strip()
        self._port = None
        self._kallsyms = None if boot else booted(series, arch).kallsyms
        port = tempfile.mkdtemp(prefix="vmscope-port-")
        self._port_directory = pathlib.Path(port)
        super().__init__(
            "-kernel", KERNELS / kernel / "boot" / f"vmlinuz-{self.release}",
            "-initrd", GUESTS / f"initramfs-{kernel}.gz",
            "-append", f"console={self.arch.console} quiet panic=-1 no_timer_check {append}",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=port,path={port}/port,server=on,wait=off",
            "-device", "virtserialport,chardev=port,name=port", *extra, *beside, arch=arch,
            launcher=launcher, **options)
        if boot:
            self.wait_ready()
        else:
            self.wait_until(lambda: self.qmp.status() == "running", "the guest to be restored")

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

    def send(self, command):
        """Begins a shell command in the guest."""
        self._shell.send(command)

    def run_bytes(self, command, check=True):
        """Runs a shell command in the guest; its output, stderr with it."""
        return self._shell.run_bytes(command, check)

    def run(self, command, check=True):
        return self.run_bytes(command, check).decode(errors="replace")

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
        return [symbol for symbol in symbols if not re.match(r"\$|\.L|L0", symbol.name)]

    def kallsyms(self):
        """The same, as it was when the guest had booted, or was read first."""
        if self._kallsyms is None:
            self._kallsyms = self.read_kallsyms()
        return self._kallsyms


class Symbol(collections.namedtuple("Symbol", "va type name module")):
    """A line of /proc/kallsyms; module is None for the kernel itself."""

    @classmethod
    def parse(cls, line):
        match = re.fullmatch(r"([0-9a-f]+) (\S) (\S+)(?:\s+\[(\S+)\])?", line.strip())
        if not match:
            raise ValueError(f"not a line of kallsyms: {line!r}")
        # The command shows control characters so; compilers do use them.
        name = re.sub(r"[\x00-\x1f\x7f]", "?", match[3])
        return cls(int(match[1], 16), match[2], name, match[4])

    def __str__(self):
        module = f"\t[{self.module}]" if self.module else ""
        return f"{self.va:016x} {self.type} {self.name}{module}"


def path_of(file):
    """By which other processes can open a file of ours that has no name."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


Booted = collections.namedtuple("Booted", "state kallsyms")


@functools.cache
def booted(series, arch="x86_64"):
    """A guest with standard options that has just booted: its state, as a file, and its symbols."""
    state = tempfile.TemporaryFile(prefix="vmscope-booted-")
    guest = LinuxGuest(series, arch=arch, boot=True)
    try:
        kallsyms = guest.kallsyms()
        guest.save(path_of(state))
    finally:
        guest.stop()
    return Booted(state, kallsyms)


def has_newest():
    return (KERNELS / NEWEST / "release").exists()


needs_newest = unittest.skipUnless(has_newest(), "scripts/setup could not get Debian sid's kernel")


def boot_all():
    """Boots what guests go on from; a process that is forked after this need not."""
    build_guests()
    kinds = [(series, "x86_64") for series in SERIES + (NEWEST,) * has_newest()]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda kind: booted(*kind), [("6.12", "aarch64"), *kinds]))


_shared = {}


def shared_guest(series="6.1", **options):
    """A guest with every kind of workload running in it, for all tests of a module."""
    key = (series, tuple(sorted(options.items())))
    if key not in _shared or _shared[key].process.poll() is not None:
        guest = LinuxGuest(series, **options)
        guest.kallsyms()  # quicker while the guest has nothing else to do
        guest.start_workload("mix")
        guest.run("while :; do md5sum /bin/busybox; done >/dev/null 2>&1 &")
        _shared[key] = guest
        unittest.addModuleCleanup(_stop_shared, key)
    return _shared[key]


def _stop_shared(key):
    guest = _shared.pop(key, None)
    if guest:
        guest.stop()


Run = collections.namedtuple("Run", "status out err")


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


def allow_stop(arguments):
    """The harness is connected to a monitor of each machine: stops have to be allowed."""
    named = {"--qmp", "-p", "--agent"} & set(map(str, arguments))
    return (*arguments, "--allow-stop") if named and "--" not in arguments else arguments


def vmscope(*arguments, timeout=ANSWER_SECONDS, check=True, program=VMSCOPE, **options):
    """Runs the vmscope command. `check`: a failure raises with what it wrote."""
    run = subprocess.run([str(program), *map(str, allow_stop(arguments))], stdin=subprocess.DEVNULL, text=True,
                         errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=timeout, **options)
    if check and run.returncode:
        raise RuntimeError(f"vmscope {' '.join(map(str, arguments))}: status {run.returncode}: "
                           f"{run.stderr.strip()}")
    return Run(run.returncode, run.stdout, run.stderr)


def start_vmscope(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options):
    """The command as a running process, for tests that kill it."""
    command = [str(VMSCOPE), *map(str, allow_stop(arguments))]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, stdout=stdout, stderr=stderr,
                            **options)


def full_pipe(case):
    """The end of a pipe that takes nothing as long as the test runs: for what is printed."""
    ours, theirs = os.pipe()
    case.addCleanup(os.close, ours)
    case.addCleanup(os.close, theirs)
    os.set_blocking(theirs, False)
    try:
        while os.write(theirs, bytes(1 << 12)):
            pass
    except BlockingIOError:
        os.set_blocking(theirs, True)
    return theirs


def is_blocked(process, where):
    """Does one of its threads wait in one of these functions of the kernel, a regular expression?"""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").glob("*/wchan")
    return any(re.search(where, path.read_text()) for path in tasks)


def have_kvm():
    return os.access("/dev/kvm", os.R_OK | os.W_OK)
