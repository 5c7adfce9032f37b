# SPDX-License-Identifier: MIT
"""What vmscope reads changes meanwhile: files of a process that it records, a guest's memory and disks."""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading

import testbed
from faults import QMP, Skipped, fault
from oracle import must_tick, recording_problem
from rounds import Wrong
from test_foreign_files import mapper

HOSTILE = pathlib.Path(__file__).resolve().parents[1] / "hostile"
sys.path.append(str(HOSTILE))
import disks  # noqa: E402
import elf_files  # noqa: E402

FILES = 40
WORD, PAGE = 8, 4096
HALF = 256  # entries of a root page table for each half of the addresses
KERNEL = 0xff  # the highest byte of its addresses
TASKS = 20  # at least so many are in a guest
KINDS = (("areas", 16), ("segments", 10), ("logical", 40), ("compressed", 20), ("extents", 40))
DISK_BYTES = 24 << 20


# ---- files of a recorded process

def write_files(folder):
    paths = [folder / f"file{i}" for i in range(FILES)]
    for i, path in enumerate(paths):
        path.write_bytes(elf_files.make_elf(i, 1, 0, f"code_{i}"))
    return paths


def start_mapper(round_, *words):
    """A process that executes in the files that it maps."""
    return round_.cleanups.enter_context(mapper(*words))


def record(round_, process):
    round_.recording = round_.directory / "files-recording"
    return round_.start(words=[str(word) for word in (
        testbed.VMSCOPE, "record", "-F", "499", "-t", "2", "-p", process.pid, "-o", round_.recording)])


def finish_recording(round_, process, recorder):
    """The recording ends, by itself, by its user, or with kill -9; the process goes on."""
    kind = round_.rng.random()
    if kind < 0.3:
        round_.sleep(2)
        round_.kill(recorder)
    elif kind < 0.6:
        round_.sleep(2)
        round_.signal(signal.SIGTERM, recorder)
    must_tick(round_, why="beside the recording")
    round_.wait_ended()
    state = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    if state not in "RSD":
        raise Wrong(f"the recorded process is in the state {state}")
    if recorder.returncode == 0 and (problem := recording_problem(round_.recording)):
        raise Wrong(f"the recording is not complete: {problem}")


def is_for_files(command):
    return command.name in ("sample", "record")


@fault(engines=("stub",), only=is_for_files, short=1)
def files_cut(round_):
    """A process that is recorded cuts its files and writes them again."""
    path, *_ = write_files(round_.directory)
    process = start_mapper(round_, "--cut", "--links", 300, path)
    round_.start()
    finish_recording(round_, process, record(round_, process))


@fault(engines=("stub",), only=is_for_files, short=1)
def files_replaced(round_):
    """A process that is recorded has FIFOs, devices or links in the place of its files."""
    paths = write_files(round_.directory)
    fifo = round_.directory / "fifo"
    os.mkfifo(fifo)
    kind = round_.rng.choice(("fifo", "device", f"={fifo}"))
    round_.tell(f"files are replaced: {kind}")
    process = start_mapper(round_, "--replace", kind, *paths)
    round_.start()
    finish_recording(round_, process, record(round_, process))


def mounted(round_, *words):
    """A folder with the files, on a file system of its own that goes with the round."""
    folder = round_.directory / "mounted"
    folder.mkdir()
    mount = subprocess.run([*map(str, words), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if mount.returncode:
        raise Skipped(f"cannot mount: {mount.stdout.decode().strip()}")
    round_.cleanups.callback(subprocess.run, ["umount", "-l", str(folder)], stderr=subprocess.DEVNULL)
    return folder


@fault(engines=("stub",), only=is_for_files, short=0)
def files_unmounted(round_):
    """The file system of a recorded process's files is unmounted."""
    folder = mounted(round_, "mount", "-t", "tmpfs", "none")
    process = start_mapper(round_, *write_files(folder))
    round_.start()
    recorder = record(round_, process)
    round_.sleep(3)
    round_.tell("the files are unmounted")
    subprocess.run(["umount", "-l", str(folder)], check=True)
    finish_recording(round_, process, recorder)


@fault(engines=("stub",), only=is_for_files, short=1)
def file_system_hangs(round_):
    """The file system of a recorded process's files (FUSE) answers no more."""
    if not pathlib.Path("/dev/fuse").exists():
        raise Skipped("there is no /dev/fuse")
    files = round_.directory / "files"
    files.mkdir()
    paths = write_files(files)
    folder = mounted(round_, "bindfs", files)
    server, = (int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
               if str(folder) in read_words(path))
    round_.cleanups.callback(kill_quietly, server)
    process = start_mapper(round_, *(folder / path.name for path in paths))
    round_.start()
    is_late = round_.rng.random() < 0.5
    recorder = record(round_, process)
    if is_late:
        round_.sleep(3)
    round_.tell("the file system stops")
    os.kill(server, signal.SIGSTOP)
    finish_recording(round_, process, recorder)
    # A killed process that has opened a file there ends only now: it closes the file, which FUSE waits for.
    os.kill(server, signal.SIGKILL)


def kill_quietly(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def read_words(path):
    try:
        return path.read_text().split("\0")
    except (OSError, UnicodeError):
        return []


# ---- a guest's memory

class Rewriter:
    """Rewrites something again and again, by a function, until the round is over."""

    def __init__(self, round_, rewrite):
        self._ended = threading.Event()
        self._rewrite = rewrite
        self._random = random.Random(round_.rng.random())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        round_.cleanups.callback(self.end)

    def _run(self):
        while not self._ended.wait(self._random.random() * 1e-4):
            self._rewrite(self._random)

    def end(self):
        self._ended.set()
        self._thread.join()


class GuestWords:
    """Words of a guest's physical memory, written by the memory of its QEMU."""

    def __init__(self, machine):
        self._machine = machine
        self._file = open(f"/proc/{machine.pid}/mem", "r+b", buffering=0)

    def close(self):
        self._file.close()

    def place(self, va):
        """Of a kernel's address, in QEMU's memory."""
        return self.place_of_physical(int(self._translate(va)[1], 16))

    def is_mapped(self, va):
        return va >> 56 == KERNEL and self._translate(va) is not None

    def _translate(self, va):
        return re.search(r"gpa: (0x[0-9a-f]+)", self._machine.qmp.hmp(f"gva2gpa {va:#x}"))

    def place_of_physical(self, pa):
        shown = self._machine.qmp.hmp(f"gpa2hva {pa:#x}")
        return int(re.search(r"is (0x[0-9a-f]+)", shown)[1], 16)

    def read_va(self, va):
        return self.read(self.place(va))

    def read(self, place):
        return struct.unpack("<Q", os.pread(self._file.fileno(), WORD, place))[0]

    def write(self, place, value):
        os.pwrite(self._file.fileno(), struct.pack("<Q", value & (1 << 64) - 1), place)


def unused_table_entries(machine, words):
    """Those of the kernel's half of the root page table that map nothing; what they then lead to."""
    registers = machine.qmp.hmp("info registers")
    root = int(re.search(r"CR3=([0-9a-f]+)", registers)[1], 16) & ~0xfff
    table = words.place_of_physical(root)
    return root, [place for place in (table + i * WORD for i in range(HALF, 2 * HALF))
                  if words.read(place) == 0]


def is_task_list(words, head):
    """True for a list head of the kernel at `head` through which all tasks are found."""
    va, n = words.read_va(head), 0
    while va != head and n < TASKS:
        if not words.is_mapped(va):
            return False
        va, n = words.read_va(va), n + 1
    return n == TASKS


def find_task_list(machine, words):
    """The address of init_task.tasks.next. Who goes through all tasks reads it; the kernel rarely does."""
    init_task = next(symbol.va for symbol in machine.kallsyms() if symbol.name == "init_task")
    return next(head for head in range(init_task, init_task + PAGE, WORD)
                if words.is_mapped(words.read_va(head)) and
                words.read_va(words.read_va(head) + WORD) == head and is_task_list(words, head))


@fault(engines=QMP, linux=True, fresh=True, evenly=True, short=1)
def memory_rewritten(round_):
    """A Linux guest rewrites its list of tasks and unused page table entries all the time."""
    words = GuestWords(round_.guest)
    round_.cleanups.callback(words.close)
    root, entries = unused_table_entries(round_.guest, words)
    task = words.place(find_task_list(round_.guest, words))
    first = words.read(task)

    def rewrite(rng):
        words.write(rng.choice(entries), rng.choice((root | 0x67, rng.getrandbits(48) | 0x63, 0)))
        words.write(task, rng.choice((first, first + 8, first ^ 1 << rng.randrange(48), rng.getrandbits(64))))
        words.write(task, first)

    rewriter = Rewriter(round_, rewrite)
    round_.start()
    round_.finish()
    round_.wait_ended()
    rewriter.end()
    for entry in entries:
        words.write(entry, 0)
    words.write(task, first)


# ---- a guest's disk

def add_disk(round_, name, content):
    """A disk that comes to the running guest; its file."""
    path = round_.directory / name
    path.write_bytes(content)
    round_.owner("blockdev-add", driver="raw", node_name=name, read_only=True,
                 file={"driver": "file", "filename": str(path)})
    round_.owner("device_add", driver="virtio-blk-pci", drive=name, id=f"device-{name}")
    return path


def make_file_system(round_):
    """With a program in it."""
    files, image = round_.directory / "files", round_.directory / "image"
    files.mkdir()
    shutil.copy(testbed.GUESTS / "workload", files / "program")
    with open(image, "wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", files, image], check=True)
    return image.read_bytes()


def start_from_disk(machine):
    """The program of the first disk, of whose file little stays in memory: its names lead to the disks."""
    machine.run("until ls /sys/block | grep -q vda; do sleep 0.1; done; mkdir -p /mnt/good; "
                "mount -o ro /dev/vda /mnt/good")
    machine.send("/mnt/good/program sort >/dev/null 2>&1 & "
                 "while :; do echo 3 >/proc/sys/vm/drop_caches; sleep 0.3; done >/dev/null 2>&1 &")


def names_functions(command):
    return command.name.startswith(("sample", "stack", "top", "record"))


@fault(engines=QMP, linux=True, fresh=True, evenly=True, short=0, only=names_functions)
def disk_rewritten(round_):
    """A Linux guest's disks are rewritten while names are read from them."""
    good = add_disk(round_, "good", make_file_system(round_))
    start_from_disk(round_.guest)
    contents = [disks.KINDS[kind](n) for kind, n in KINDS]
    bad = add_disk(round_, "bad", contents[0].ljust(DISK_BYTES, b"\0"))
    round_.guest.descriptors = None  # QEMU opens some when the guest begins to use its disks
    with contextlib.ExitStack() as files:
        good_fd, bad_fd = (files.enter_context(open(path, "r+b", buffering=0)).fileno()
                           for path in (good, bad))

        def rewrite(rng):
            os.pwrite(bad_fd, rng.choice(contents), 0)
            at = rng.randrange(1 << 20)  # where the file system describes itself
            before = os.pread(good_fd, 16, at)
            os.pwrite(good_fd, rng.randbytes(16), at)
            os.pwrite(good_fd, before, at)

        rewriter = Rewriter(round_, rewrite)
        round_.start()
        round_.finish()
        round_.wait_ended()
        rewriter.end()
