#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a core dump costs: how long the guest stands still, how long the file takes, how much memory.

A guest with a part of its memory filled is dumped by vmscope and by QEMU's dump-guest-memory, in
turns, into the same directory. The guest's stop is measured by the times in QEMU's own STOP and
RESUME events, for both alike. The limit is dd copying as many bytes as the dump holds from a file
in memory into the same directory. Figures are medians.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))
import linux_guest  # noqa: E402
import testbed  # noqa: E402

import samplers  # noqa: E402

MIB = 1 << 20
# How each layout is called by vmscope and by QEMU.
LAYOUTS = {
    "elf": (["--format", "elf"], "elf"),
    "kdump zlib": (["--format", "kdump", "--compress", "zlib"], "kdump-zlib"),
    "kdump zstd": (["--format", "kdump", "--compress", "zstd"], None),
}


def fill(guest, mebibytes):
    """Fills guest memory with pages that differ from zero and do not compress."""
    guest.run("dd if=/dev/urandom of=/seed bs=1M count=8 2>/dev/null")
    guest.run(f"i=0; while [ $i -lt {mebibytes // 8} ]; do cat /seed; i=$((i+1)); done >/filled")


def fsync(path):
    began = time.monotonic()
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.close(descriptor)
    return time.monotonic() - began


def stopped(guest):
    """Seconds that the guest stood still since the events were cleared."""
    guest.qmp.command("query-status")
    return sum(samplers.stops_us(guest.qmp.events)) / 1e6


def longest_stop(guest):
    guest.qmp.command("query-status")
    return max(samplers.stops_us(guest.qmp.events), default=0) / 1e6


def dump_by_vmscope(guest, path, options):
    """Seconds of the longest stop and of the whole command, its file on the disk; its peak RSS."""
    command = [str(testbed.VMSCOPE), "core", "-q", "--allow-stop", "-p", str(guest.pid),
               "-o", str(path), *options]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    whole = time.monotonic() - began
    if status:
        raise RuntimeError(f"{' '.join(command)} failed")
    return longest_stop(guest), whole, usage.ru_maxrss / 1024


def dump_by_qemu(guest, path, layout):
    """Seconds of the stop, of the command, and of the fsync that it leaves to its user."""
    began = time.monotonic()
    guest.qmp.command("dump-guest-memory", paging=False, protocol=f"file:{path}", format=layout)
    whole = time.monotonic() - began
    return stopped(guest), whole, fsync(path)


def copy_by_dd(source, path):
    """Seconds of copying and of its fsync."""
    began = time.monotonic()
    subprocess.run(["dd", f"if={source}", f"of={path}", "bs=1M"], check=True,
                   stderr=subprocess.DEVNULL)
    return time.monotonic() - began, fsync(path)


def allocated(path):
    return os.stat(path).st_blocks * 512


def compare(guest, directory, layout, rounds):
    options, theirs = LAYOUTS[layout]
    path = directory / "vmscope-bench-core"
    ours, qemu, size = [], [], 0
    for _ in range(rounds):
        guest.qmp.events.clear()
        ours.append(dump_by_vmscope(guest, path, options))
        size = allocated(path)
        path.unlink()
        if theirs:
            guest.qmp.events.clear()
            qemu.append(dump_by_qemu(guest, path, theirs))
            path.unlink()
    median = [statistics.median(column) for column in zip(*ours)]
    print(f"{layout}: guest stopped {median[0]:.2f} s, whole {median[1]:.2f} s with fsync, "
          f"{size / MIB:.0f} MiB on disk, peak RSS {median[2]:.0f} MiB")
    if qemu:
        stop, whole, sync = (statistics.median(column) for column in zip(*qemu))
        print(f"    QEMU's dump-guest-memory: stopped {stop:.2f} s ({stop / median[0]:.1f} times "
              f"ours), whole {whole:.2f} s ({whole / median[1]:.1f} times; with fsync "
              f"{whole + sync:.2f} s, {(whole + sync) / median[1]:.1f} times)")
    return median, size


def limit(directory, size, median):
    source, path = pathlib.Path("/dev/shm/vmscope-bench-source"), directory / "vmscope-bench-copy"
    try:
        with open(source, "wb") as file:
            block = os.urandom(MIB)
            for _ in range(size // MIB):
                file.write(block)
        copy, sync = (statistics.median(column) for column in
                      zip(*(copy_by_dd(source, path) for _ in range(3))))
        print(f"    limit, dd of as many bytes: {copy:.2f} s (our stop is {median[0] / copy:.2f} "
              f"times that), {copy + sync:.2f} s with fsync (our whole is "
              f"{median[1] / (copy + sync):.2f} times that)")
    finally:
        source.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=int, default=4096, help="of the guest, MiB")
    parser.add_argument("--filled", type=int, default=900, help="MiB that are not zeros")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=pathlib.Path, action="append",
                        help="where to dump to; may be repeated (default /dev/shm and /var/tmp)")
    options = parser.parse_args()
    guest = linux_guest.LinuxGuest("6.1", smp=2, memory=options.memory)
    fill(guest, options.filled)
    for directory in options.directory or [pathlib.Path("/dev/shm"), pathlib.Path("/var/tmp")]:
        print(f"{options.memory} MiB guest, {options.filled} MiB filled, into {directory}")
        for layout in LAYOUTS:
            median, size = compare(guest, directory, layout, options.rounds)
            if layout == "elf":
                limit(directory, size, median)
    guest.stop()


if __name__ == "__main__":
    main()
