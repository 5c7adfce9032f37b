#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares vmscope's kernel stacks with gdb's.

    tests/gdb/compare_gdb.py SERIES [--stacks N] [--cores N] [--show N]

Boots Debian's kernel SERIES (6.1 or 6.12) with a busy, varied workload, pauses it again and again,
and each time asks `vmscope stack` and gdb, with the kernel's debug symbols, for the kernel stack of
every vCPU. Equal is a stack of which all frames are, address by address and name by name; inlined
functions aside. Fails when fewer than 95 % are. Of the first pauses core files are written, too, in
which both must see exactly what they see in the machine. The debug symbols: scripts/setup
--debug-symbols.

Some frames are gdb's to get wrong, because neither the compiler nor anybody else describes
them to it: see gdb_stacks.py for how it is helped, and with what. Differences are counted by what
the innermost different frame is for gdb, to be judged one by one with --show.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import time

from stacks import debug_vmlinux, is_equal, names_by_address, vmscope_stacks
import linux_guest
import testbed
import vmscope_command

HERE = pathlib.Path(__file__).resolve().parent
WANTED_PERCENT = 95
DONE = "vmscope-gdb-done"


class Gdb:
    """A gdb that keeps the debug symbols loaded while machines come and go."""

    def __init__(self, vmlinux, offset):
        self.process = subprocess.Popen(
            ["gdb", "-q", "-nx"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in ("set confirm off", "set pagination off", "set architecture i386:x86-64",
                     f"symbol-file -o {offset:#x} {vmlinux}", f"source {HERE / 'gdb_stacks.py'}"):
            self.run(line)

    def run(self, line):
        self.process.stdin.write(f"{line}\necho {DONE}\\n\n")
        self.process.stdin.flush()
        output = []
        while DONE not in (text := self.process.stdout.readline()):
            if not text:
                raise EOFError("gdb has gone: " + "".join(output)[-500:])
            output.append(text)
        return "".join(output)

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def kaslr_offset(guest, vmlinux):
    """What the guest's kernel was moved by, told by the guest and the file themselves."""
    run = subprocess.run(["nm", "--defined-only", vmlinux], check=True, text=True,
                         stdout=subprocess.PIPE)
    linked = int(re.search(r"^([0-9a-f]+) \S _text$", run.stdout, re.M)[1], 16)
    return next(symbol.va for symbol in guest.kallsyms() if symbol.name == "_text") - linked


def gdb_stacks(gdb, kind, path, file):
    output = gdb.run(f"vmscope-stacks {kind} {path} {file}")
    try:
        stacks = json.loads(file.read_text())
    except FileNotFoundError:
        raise RuntimeError(f"gdb: {output}") from None
    file.unlink()
    return stacks


def paused(guest, gdb, with_core):
    """Stacks of one moment, by vCPU: vmscope's and gdb's; and is a core file of it equal?"""
    socket, core, file = (guest.directory / name for name in ("gdb", "core", "stacks.json"))
    guest.qmp.command("stop")
    guest.qmp.hmp(f"gdbserver unix:{socket},server=on,wait=off")
    theirs = gdb_stacks(gdb, "remote", socket, file)
    guest.qmp.hmp("gdbserver none")
    ours = vmscope_stacks(*guest.target)
    same = True
    if with_core:
        vmscope_command.vmscope("core", *guest.target, "-o", core)
        same = (gdb_stacks(gdb, "core", core, file) == theirs and
                vmscope_stacks("-c", core) == ours)
        core.unlink()
    guest.qmp.command("cont")
    return [(ours.get(vcpu, []), theirs[vcpu]) for vcpu in range(len(theirs))], same


def where(ours, theirs):
    """The last frame that both have: stepping out of it gave two answers."""
    last = None
    for our, their in zip(ours, theirs):
        if our[0] != their[0]:
            break
        last = their
    if last is None:
        return "no frame in common"
    return f"after {last[1]}" + ("" if last[2] else " (assembly)")


def show(ours, theirs):
    for i in range(max(len(ours), len(theirs))):
        our = f"{ours[i][0]:#x} {ours[i][1]}+{ours[i][2]:#x}" if i < len(ours) else "-"
        their = f"{theirs[i][0]:#x} {theirs[i][1]}" if i < len(theirs) else "-"
        print(f"  {' ' if our.split()[0] == their.split()[0] else '!'} {our:60} {their}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series", choices=testbed.SERIES)
    parser.add_argument("--stacks", type=int, default=300, help="kernel stacks to compare")
    parser.add_argument("--cores", type=int, default=10, help="core files to write and read")
    parser.add_argument("--show", type=int, default=5, help="differences to print in full")
    options = parser.parse_args()

    guest = linux_guest.LinuxGuest(options.series)
    vmlinux = debug_vmlinux(options.series)
    gdb = Gdb(vmlinux, kaslr_offset(guest, vmlinux))
    names = names_by_address(guest)
    guest.start_workload("mix")

    equal, total, differences = 0, 0, collections.Counter()
    cores, equal_cores = 0, 0
    while total < options.stacks:
        time.sleep(0.05)
        stacks, same = paused(guest, gdb, cores < options.cores)
        if cores < options.cores:
            cores += 1
            equal_cores += same
        for ours, theirs in stacks:
            if not ours and not theirs:
                continue  # in user mode
            total += 1
            if is_equal(ours, [frame[0] for frame in theirs], names):
                equal += 1
                continue
            differences[where(ours, theirs)] += 1
            if sum(differences.values()) <= options.show:
                print(f"different {where(ours, theirs)}: vmscope, gdb")
                show(ours, theirs)
    gdb.close()
    guest.stop()

    percent = 100 * equal / total
    print(f"{guest.release}: {equal} of {total} kernel stacks equal gdb's: {percent:.1f} %")
    for place, count in differences.most_common():
        print(f"  {count:4} {place}")
    print(f"{guest.release}: {equal_cores} of {cores} core files show gdb and vmscope the stacks "
          f"that they see in the machine itself")
    return 0 if percent >= WANTED_PERCENT and equal_cores == cores else 1


if __name__ == "__main__":
    sys.exit(main())
