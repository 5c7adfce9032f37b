#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What data of others cost that were made to cost much: processor time, memory, and the end after SIGTERM.

Limit: the budget of a command (docs/hostile-data.md): 4 s of processor time and 256 MiB, and 100 ms after
SIGTERM. Baseline: the same command on harmless data. VMSCOPE_BUILD names another build to compare with.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import samplers  # noqa: F401: finds the tests' modules
import linux_guest
import testbed
from vmscope_command import allow_stop

HOSTILE = pathlib.Path(__file__).resolve().parents[1] / "tests" / "hostile"
DISKS = (("areas", 240), ("areas", 4000), ("segments", 60), ("logical", 1000), ("compressed", 40),
         ("compressed", 400), ("extents", 400))
WORDS = 4_300_000  # of memory, each of which is a task
SYMBOLS = 32_000  # of a file of 800 KB
SAMPLE = ("sample", "-t", "2", "-q")

Cost = collections.namedtuple("Cost", "processor_s memory_mib wall_s")


def start(words):
    return subprocess.Popen([testbed.VMSCOPE, *map(str, allow_stop(words))], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end_of(process, began):
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, time.monotonic() - began)


def cost_of(words, limit):
    """Of the command and the processes that it has waited for. It is killed after `limit` seconds."""
    began = time.monotonic()
    process = start(words)
    alarm = subprocess.Popen(["sh", "-c", f"sleep {limit}; kill -9 {process.pid}"],
                             stderr=subprocess.DEVNULL, start_new_session=True)
    cost = end_of(process, began)
    os.killpg(alarm.pid, signal.SIGKILL)
    alarm.wait()
    return cost, process.returncode


def end_after_sigterm_ms(words, within, times):
    """The longest time from SIGTERM, at random moments, to the command's end."""
    longest = 0.0
    for _ in range(times):
        process = start(words)
        time.sleep(random.random() * within)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait()
        longest = max(longest, (time.monotonic() - began) * 1000)
    return longest


def generate(program, *words):
    subprocess.run([sys.executable, HOSTILE / program, *map(str, words)], check=True)


@contextlib.contextmanager
def plugged_disk(guest, path):
    node = f"hostile{path.name}".replace("-", "")
    guest.qmp.command("blockdev-add", driver="raw", node_name=node, read_only=True,
                      file={"driver": "file", "filename": str(path)})
    guest.qmp.command("device_add", driver="virtio-blk-pci", drive=node, id=f"d{node}")
    try:
        yield
    finally:
        guest.qmp.command("device_del", id=f"d{node}")
        time.sleep(1)


def start_from_disk(guest, folder):
    """A program of a good disk, of whose file little is in memory: names of it lead to the disks."""
    files, image = folder / "good-files", folder / "good"
    files.mkdir()
    shutil.copy(testbed.GUESTS / "workload", files / "program")
    with open(image, "wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", files, image], check=True)
    guest.qmp.command("blockdev-add", driver="raw", node_name="good", read_only=True,
                      file={"driver": "file", "filename": str(image)})
    guest.qmp.command("device_add", driver="virtio-blk-pci", drive="good", id="dgood")
    guest.run("until ls /sys/block | grep -q vd; do sleep 0.1; done; mkdir -p /mnt/good; "
              "mount -o ro /dev/vda /mnt/good")
    guest.send("/mnt/good/program sort >/dev/null 2>&1 & "
               "while :; do echo 3 >/proc/sys/vm/drop_caches; sleep 0.3; done >/dev/null 2>&1 &")


def attacks(guest, folder):
    """(name, words of the command) of each attack, while it is there."""
    yield "no attack: sample", (*SAMPLE, "-p", guest.pid)
    for kind, n in DISKS:
        path = folder / f"{kind}-{n}"
        generate("disks.py", kind, path, n)
        with plugged_disk(guest, path):
            yield f"disk: {kind} {n} ({path.stat().st_size >> 10} KiB): sample", (*SAMPLE, "-p", guest.pid)
    core, flood = folder / "core", folder / "flood"
    subprocess.run([testbed.VMSCOPE, "core", "-q", "-p", str(guest.pid), "-o", core, "--allow-stop"], check=True,
                   stdout=subprocess.DEVNULL)
    yield "no attack: ps --with all", ("ps", "--with", "time,command,cgroup,container", "-c", core)
    generate("task_flood.py", testbed.VMSCOPE, core, flood, WORDS)
    yield f"memory: {WORDS} tasks: ps", ("ps", "-c", flood)
    yield f"memory: {WORDS} tasks: ps --with all", ("ps", "--with", "time,command,cgroup,container", "-c", flood)
    yield from attacks_by_files(folder)


def attacks_by_files(folder):
    files = folder / "files"
    files.mkdir()
    generate("elf_files.py", files, 30, SYMBOLS)
    process = subprocess.Popen([sys.executable, HOSTILE / "mapper.py", *sorted(files.iterdir())],
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        yield "process: 30 files of 800 KB: record -t 4", ("record", "-q", "-t", "4", "-p", process.pid, "-o",
                                                           folder / "recording")
    finally:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=5, help="how often SIGTERM is sent to each command")
    parser.add_argument("--limit", type=int, default=120, help="seconds after which a command is killed")
    options = parser.parse_args()
    guest = linux_guest.LinuxGuest("6.1", smp=2)
    with tempfile.TemporaryDirectory() as name:
        start_from_disk(guest, pathlib.Path(name))
        for title, words in attacks(guest, pathlib.Path(name)):
            cost, status = cost_of(words, options.limit)
            last = end_after_sigterm_ms(words, min(cost.wall_s, 10), options.signals)
            print(f"{title}: {cost.processor_s:.2f} s of processor time, {cost.memory_mib:.0f} MiB, "
                  f"{cost.wall_s:.1f} s in all, status {status}; {last:.0f} ms after SIGTERM at most",
                  flush=True)
    guest.stop()


if __name__ == "__main__":
    main()
