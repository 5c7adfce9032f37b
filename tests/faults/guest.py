# SPDX-License-Identifier: MIT
"""Guests that show from outside that they run, and what can be told of their QEMU."""
import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import agent_client
import kvm_monitor
import linux_guest
import probes_tool
import qemu_machine
import testbed
from testbed import path_of

MEMORY = 64 << 20
RANDOM = 16 << 20  # bytes at the end that do not compress: what copies them is busy for a while
VCPUS = 2
TICKER = 0x9000  # tests/guests/ticker.h
DISK = "disk"  # the name of its node in QEMU
DISK_BYTES = 64 << 20
# How vmscope reaches a guest: QEMU under TCG by three ways, QEMU under KVM and the tests' own KVM
# monitor by their vCPUs' threads, and QEMU under KVM by its stub, for what they cannot do.
ENGINES = ("stub", "agent", "gdb", "kvm", "monitor", "kvm-stub")
STOPPING = ("stub", "gdb", "kvm-stub")  # those whose hold stops the whole machine
SLOW = ("kvm", "kvm-stub")  # its guests take long to boot where KVM itself is emulated
# What QEMU writes down of its own: who has stopped and continued it, and when.
TRACED = ("runstate_set", "handle_qmp_command", "qmp_enter_stop", "qmp_exit_stop",
          "qmp_enter_cont", "qmp_exit_cont", "handle_hmp_command")

# Each only grows while the guest runs. `wakes`: how often it woke up from S3.
Ticks = collections.namedtuple("Ticks", "vcpus wakes")


@functools.cache
def disk_template():
    """A disk with something on it, as a file without a name."""
    template = tempfile.TemporaryFile(prefix="vmscope-disk-")
    with tempfile.NamedTemporaryFile(prefix="vmscope-raw-") as raw:
        raw.write(os.urandom(RANDOM))
        raw.truncate(DISK_BYTES)
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw.name,
                        path_of(template)], check=True)
    return template


def make_empty_disk(path):
    """Of the same size."""
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, f"{DISK_BYTES}"], check=True)


class Watched:
    """What every guest of the matrix has: one engine by which vmscope reaches it, its QEMU's own
    account of what happens, and its state before anything has happened."""

    def _prepare(self, engine):
        """The place of its sockets and files; the options of QEMU's that belong to them."""
        self.engine = engine
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-faults-"))
        self.trace_path = self.place / "trace"
        words = ["-qmp", f"unix:{self.place}/qmp,server=on,wait=off",
                 "-D", self.trace_path, "-msg", "timestamp=on"]
        for event in TRACED:
            words += ["-trace", event]
        if engine == "agent":
            words += agent_client.options(self.place / "agent")
        elif engine == "gdb":
            words += ["-gdb", f"unix:{self.place}/gdb,server=on,wait=off"]
        return words

    def _start(self, start):
        try:
            start()
        except BaseException:
            shutil.rmtree(self.place, ignore_errors=True)
            raise
        self.qmp_path = self.place / "qmp"

    def note_state(self, settled=True):
        """What may not be different afterwards. `settled`: what it has open changes no more."""
        self.chardevs = self.list_chardevs()
        self.descriptors = self.count_descriptors() if settled else None

    @property
    def target(self):
        if self.engine == "kvm":
            return "--pid", self.pid
        option, name = {"stub": ("--qmp", "qmp"), "kvm-stub": ("--qmp", "qmp"), "agent": ("--agent", "agent"),
                        "gdb": ("--gdb", "gdb")}[self.engine]
        return option, self.place / name

    def take_place_of(self, other):
        """Whoever connects to the other one's sockets finds this QEMU from now on."""
        for name in ("qmp", "agent", "gdb"):
            if (self.place / name).exists():
                os.rename(self.place / name, other.place / name)

    def stop(self):
        super().stop()
        shutil.rmtree(self.place, ignore_errors=True)

    def list_chardevs(self):
        """QEMU keeps one monitor for the stub once there was one; that has a name of QEMU's own."""
        labels = sorted(chardev["label"] for chardev in self.qmp.command("query-chardev"))
        return [label for label in labels if not re.fullmatch(r"#chr\d+", label)]

    def count_descriptors(self):
        """How many QEMU has open of every kind; files with names are its owner's business."""
        kinds = collections.Counter()
        for path in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                kind = re.sub(r":\[\d+\]$", "", os.readlink(path))
            except FileNotFoundError:
                continue
            if not kind.startswith("/") or kind.startswith("/memfd"):
                kinds[kind] += 1
        return kinds


class Ticker(Watched, qemu_machine.Machine):
    """tests/guests/ticker.c, whose vCPUs count their timers' interrupts.

    `paused`: it waits for its owner's cont. `incoming`: it waits for another one's state.
    `disk`: the other one's, which it takes over.
    """

    def __init__(self, engine, paused=False, incoming=None, disk=None):
        testbed.build_guests()
        words = self._prepare(engine)
        self.disk = disk or self._make_disk()
        words += ["-kernel", testbed.GUESTS / "ticker.elf",
                  "-object", f"memory-backend-memfd,id=mem,size={MEMORY},share=on",
                  "-machine", "pc,memory-backend=mem",
                  "-blockdev", f"driver=qcow2,node-name={DISK},file.driver=file,"
                  f"file.filename={self.disk}",
                  "-device", f"virtio-blk-pci,drive={DISK}", "-device", "pvpanic"]
        if paused:
            words.append("-S")
        if incoming:
            words += ["-incoming", incoming]
        self._start(lambda: super(Watched, self).__init__(*words, smp=VCPUS, memory=MEMORY >> 20,
                                                          qmp=False))
        if not paused and not incoming:
            self.wait_ready()
            self._fill_memory()
        self.note_state(settled=not paused and not incoming)

    @property
    def probed(self):
        """Every vCPU comes there with each tick."""
        return hex(probes_tool.symbols("x86_64", "ticker.elf")["count_tick"])

    def _make_disk(self):
        path = self.place / "disk.qcow2"
        shutil.copy(path_of(disk_template()), path)
        return path

    def _fill_memory(self):
        descriptors = pathlib.Path(f"/proc/{self.pid}/fd").iterdir()
        path = next(path for path in descriptors if "memfd:memory-backend" in os.readlink(path))
        with open(path, "r+b") as file:
            file.seek(MEMORY - 2 * RANDOM)  # the firmware's tables are at the end
            file.write(os.urandom(RANDOM))

    def read_ticks(self):
        """The guest's own account, as QEMU's monitor shows its memory."""
        shown = self.qmp.hmp(f"xp /{VCPUS + 1}gx {TICKER:#x}")
        values = [int(word, 16) for word in re.findall(r"\b0x([0-9a-f]{16})\b", shown)]
        return Ticks(values[:VCPUS], values[VCPUS])

    def fall_asleep(self):
        """S3."""
        self.qmp.command("system_powerdown")


class LinuxTicker(Watched, linux_guest.LinuxGuest):
    """Debian's kernel: its jiffies tell whether it runs."""
    probed = "hrtimer_interrupt"

    def __init__(self, engine):
        words = self._prepare(engine)
        self._start(lambda: super(Watched, self).__init__(beside=words, qmp=False))
        for vcpu in range(VCPUS):  # something that wants to run on each
            self.run(f"taskset {1 << vcpu} sh -c 'while :; do usleep 20000; done' "
                     ">/dev/null 2>&1 &")
        va = next(symbol.va for symbol in self.kallsyms() if symbol.name == "jiffies_64")
        self._jiffies = int(re.search(r"gpa: (0x[0-9a-f]+)", self.qmp.hmp(f"gva2gpa {va:#x}"))[1],
                            16)
        self.note_state()

    def read_ticks(self):
        shown = self.qmp.hmp(f"xp /1gx {self._jiffies:#x}")
        jiffies = int(re.search(r": 0x([0-9a-f]{16})", shown)[1], 16)
        return Ticks([jiffies], self.qmp.event_names().count("WAKEUP"))

    def fall_asleep(self):
        """S3."""
        self.run("(sleep 0.3; echo mem >/sys/power/state) >/dev/null 2>&1 &")


class KvmGuest(Watched, qemu_machine.BareGuest):
    """tests/guests/counter.c in a QEMU that uses KVM. The ticker does not get through its boot where KVM
    is emulated."""

    def __init__(self, engine):
        testbed.build_guests()
        words = self._prepare(engine)
        self._value = probes_tool.symbols("x86_64", "counter.elf")["counts"] + 8
        self._start(lambda: super(Watched, self).__init__("counter", accel="kvm", extra=words, qmp=False))
        self.note_state()

    @property
    def probed(self):
        """It comes there in every round."""
        return hex(probes_tool.symbols("x86_64", "counter.elf")["counted_nop"])

    def read_ticks(self):
        shown = self.qmp.hmp(f"xp /1gx {self._value:#x}")
        return Ticks([int(re.search(r": 0x([0-9a-f]{16})", shown)[1], 16)], 0)


class MonitorOwner:
    """Who pauses and resumes a machine of the tests' own monitor; as far as the matrix uses QMP."""

    def __init__(self, machine):
        self._machine = machine
        self._paused = False

    def command(self, name, **_arguments):
        self._machine.do({"stop": "pause", "cont": "resume"}[name])
        self._paused = name == "stop"

    def status(self):
        """The monitor's own account, and whether its guest agrees."""
        before = self._machine.read_ticks()
        time.sleep(0.02)
        if self._paused and self._machine.read_ticks() == before:
            return "paused"
        return "running"

    def quit(self):
        self._machine.process.stdin.close()


class MonitorGuest(Watched, kvm_monitor.Monitor):
    """tests/guests/vcpus.c: vCPUs that compute, that are in their monitor as often as in the guest, and
    that sleep there.

    `seccomp`: with a filter that kills a thread which is stopped by a signal while it sleeps."""
    probed = ""
    target = kvm_monitor.Monitor.target

    def __init__(self, engine, seccomp=True):
        self._prepare(engine)
        self.trace_path.touch()
        self.ended = set()  # numbers of vCPUs
        self._start(lambda: super(Watched, self).__init__(
            kvm_monitor.COUNTS, kvm_monitor.CALLS, kvm_monitor.EXITS, kvm_monitor.SLEEPS,
            **({"seccomp": True} if seccomp else {})))
        self.qmp = MonitorOwner(self)
        self.note_state()

    def read_ticks(self):
        return Ticks([rounds for vcpu, rounds in enumerate(self.numbers("rounds"))
                      if vcpu not in self.ended], 0)

    def list_chardevs(self):
        """In place of QEMU's: which registers vCPUs store, which vmscope puts back."""
        return sorted(set(self.numbers("valid")))

    def log(self):
        return "" if self.process.poll() is None else self.process.stderr.read()


def start(engine, linux=False):
    """A guest that runs, for commands of that engine."""
    if linux:
        return LinuxTicker(engine)
    return {"kvm": KvmGuest, "kvm-stub": KvmGuest, "monitor": MonitorGuest}.get(engine, Ticker)(engine)
