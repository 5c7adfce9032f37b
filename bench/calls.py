#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What tracing all calls costs: a guest's boot, from QEMU's start until its first process says READY.

Boots without a plugin, with the agent loaded but idle, and with every call of kernel and user
recorded alternate; figures are medians.
"""
import argparse
import pathlib
import shutil
import statistics
import tempfile
import time

from samplers import cpu_seconds
import linux_guest
import qemu_machine
import testbed

MIB = 1 << 20


def boot(series, arch, smp, launcher):
    """Seconds until READY, and of the vCPUs' threads until then; QEMU and what launched it have
    ended when this returns."""
    began = time.monotonic()
    guest = linux_guest.LinuxGuest(series, arch=arch, smp=smp, boot=True, launcher=launcher)
    seconds = time.monotonic() - began
    cpu = cpu_seconds(guest)
    guest.qmp.command("quit")
    guest.process.wait(testbed.BOOT_SECONDS)
    guest.stop()
    return seconds, cpu


def size_of(directory):
    return sum(file.stat().st_size for file in directory.iterdir())


def records_of(directory):
    return sum(file.stat().st_size for file in directory.glob("*.dat")) // 16


def boot_parser(description):
    """The options of what measures boots."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--series", default="6.1", choices=testbed.SERIES)
    parser.add_argument("--arch", default="x86_64", choices=qemu_machine.ARCHS)
    parser.add_argument("--smp", type=int, default=1)
    return parser


def main():
    parser = boot_parser(__doc__)
    parser.add_argument("--directory", default="/var/tmp", help="where the traces are written")
    options = parser.parse_args()
    testbed.build_guests()
    seconds = {}
    with tempfile.TemporaryDirectory(dir=options.directory) as parent:
        for number in range(options.rounds):
            cases = {"without plugin": (), "agent, idle": (testbed.VMSCOPE, "run", "--")}
            for by in ("vcpu", "task"):
                path = pathlib.Path(parent) / f"{by}-{number}"
                cases[f"all calls, by {by}"] = (testbed.VMSCOPE, "run", "--calls", path, "--by",
                                                by, "--")
            for kept in pathlib.Path(parent).iterdir():
                shutil.rmtree(kept)
            for case, launcher in cases.items():
                seconds.setdefault(case, []).append(boot(options.series, options.arch, options.smp,
                                                        launcher))
        base, base_cpu = (statistics.median(column) for column in zip(*seconds["without plugin"]))
        print(f"{'boot':24}{'median':>10}{'worst':>10}{'ratio':>8}{'CPU':>10}{'ratio':>8}{'data':>12}"
              f"{'records':>12}")
        for case, times in seconds.items():
            path = pathlib.Path(parent) / f"{case.rpartition(' ')[2]}-{options.rounds - 1}"
            data = (f"{size_of(path) / MIB:>8.0f} MiB{records_of(path):>12}"
                    if path.exists() else "")
            walls, cpus = zip(*times)
            wall, cpu = statistics.median(walls), statistics.median(cpus)
            print(f"{case:24}{wall:>8.2f} s{max(walls):>8.2f} s{wall / base:>8.2f}{cpu:>8.2f} s"
                  f"{cpu / base_cpu:>8.2f}{data}")


if __name__ == "__main__":
    main()
