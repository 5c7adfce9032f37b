# SPDX-License-Identifier: MIT
"""A guest whose vCPUs count their timers' interrupts, and what of its QEMU can be told from outside."""
import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import agent_client
import harness
from harness import path_of

MEMORY = 64 << 20
RANDOM = 16 << 20  # bytes at the end that do not compress: what copies them is busy for a while
VCPUS = 2
TICKER = 0x9000  # tests/guests/ticker.h
DISK = "disk"  # the name of its node in QEMU
ENGINES = ("stub", "agent", "gdb")
# What QEMU writes down of its own: who has stopped and continued it, and when.
TRACED = ("runstate_set", "handle_qmp_command", "qmp_enter_stop", "qmp_exit_stop",
          "qmp_enter_cont", "qmp_exit_cont")

DISK_BYTES = 64 << 20

Ticks = collections.namedtuple("Ticks", "vcpus wakes")


@functools.cache
def disk_template():
    """A disk with something on it, as a file without a name."""
    template = tempfile.TemporaryFile(prefix="vmscope-disk-")
    with tempfile.NamedTemporaryFile(prefix="vmscope-raw-") as raw:
        raw.write(os.urandom(RANDOM))
        raw.truncate(DISK_BYTES)
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw.name,
                        path_of(template)], check=True, pass_fds=[template.fileno()])
    return template


class Ticker(harness.Machine):
    """tests/guests/ticker.c in a QEMU that vmscope can reach by one engine.

    `paused`: it waits for its owner's cont. `incoming`: it waits for another one's state.
    `disk`: the other one's, which it takes over.
    """

    def __init__(self, engine, paused=False, incoming=None, disk=None):
        harness.build_guests()
        self.engine = engine
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-faults-"))
        self.trace_path = self.place / "trace"
        self.disk = disk or self._make_disk()
        memory = f"memory-backend-memfd,id=mem,size={MEMORY},share=on"
        words = ["-kernel", harness.GUESTS / "ticker.elf", "-object", memory,
                 "-machine", "pc,memory-backend=mem",
                 "-blockdev", f"driver=qcow2,node-name={DISK},file.driver=file,"
                 f"file.filename={self.disk}",
                 "-device", f"virtio-blk-pci,drive={DISK}",
                 "-D", self.trace_path, "-msg", "timestamp=on", *self._engine_options()]
        for event in TRACED:
            words += ["-trace", event]
        if paused:
            words.append("-S")
        if incoming:
            words += ["-incoming", incoming]
        try:
            super().__init__(*words, smp=VCPUS, memory=MEMORY >> 20, qmp=False)
        except BaseException:
            shutil.rmtree(self.place, ignore_errors=True)
            raise
        self.qmp_path = self.place / "qmp"
        if not paused and not incoming:
            self.wait_ready()
            self._fill_memory()
        self.chardevs = self.list_chardevs()
        # What is open changes while the devices are set up and while a migration arrives.
        self.descriptors = None if paused or incoming else self.count_descriptors()

    def _make_disk(self):
        path = self.place / "disk.qcow2"
        shutil.copy(path_of(disk_template()), path)
        return path

    def make_empty_disk(self, path):
        """An empty disk of the same size."""
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, f"{DISK_BYTES}"],
                       check=True)

    def _engine_options(self):
        options = ["-qmp", f"unix:{self.place}/qmp,server=on,wait=off"]
        if self.engine == "agent":
            options += agent_client.options(self.place / "agent")
        elif self.engine == "gdb":
            options += ["-gdb", f"unix:{self.place}/gdb,server=on,wait=off"]
        return options

    def _fill_memory(self):
        descriptors = pathlib.Path(f"/proc/{self.pid}/fd").iterdir()
        path = next(path for path in descriptors if "memfd:memory-backend" in os.readlink(path))
        with open(path, "r+b") as file:
            file.seek(MEMORY - 2 * RANDOM)  # the firmware's tables are at the end
            file.write(os.urandom(RANDOM))

    @property
    def address(self):
        """The socket by which vmscope reaches the guest."""
        return self.place / {"stub": "qmp", "agent": "agent", "gdb": "gdb"}[self.engine]

    @property
    def target(self):
        return ({"stub": "--qmp", "agent": "--agent", "gdb": "--gdb"}[self.engine], self.address)

    def take_place_of(self, other):
        """Whoever connects to the other one's sockets finds this QEMU from now on."""
        for name in ("qmp", "agent", "gdb"):
            if (self.place / name).exists():
                os.rename(self.place / name, other.place / name)

    def stop(self):
        super().stop()
        shutil.rmtree(self.place, ignore_errors=True)

    def read_ticks(self):
        """The guest's own account, as QEMU's monitor shows its memory."""
        shown = self.qmp.hmp(f"xp /{VCPUS + 1}gx {TICKER:#x}")
        values = [int(word, 16) for word in re.findall(r"\b0x([0-9a-f]{16})\b", shown)]
        return Ticks(values[:VCPUS], values[VCPUS])

    def list_chardevs(self):
        return sorted(chardev["label"] for chardev in self.qmp.command("query-chardev"))

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
