#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How much of its work a guest does while all its system calls are traced.

A guest of one vCPU repeats a task; the task is timed without a trace and with one on alternate, by the
CPU time of the vCPU's thread and by the wall clock. The limit: the guest keeps nine tenths of its work.
A trace's first task is apart, and one after its end is not timed: QEMU translates the guest's code anew as
probes are armed, and as they go.
"""
import argparse
import signal
import statistics
import subprocess
import time

import samplers  # noqa: F401 (it knows where the tests are)
import test_agent_engine
import testbed

TASKS = {
    "programs that begin and end": "for i in $(seq 60); do cat /proc/uptime >/dev/null; done",
    "computing, and reading files": "for i in $(seq 12); do md5sum /bin/busybox >/dev/null; done",
    "directories and stat": "for i in $(seq 3); do find /sys/devices >/dev/null; done",
    "system calls and nothing else": "dd if=/dev/zero of=/dev/null bs=1 count=100000 2>/dev/null",
}
KEPT = 0.9


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def timed(guest, task):
    began, cpu = time.monotonic(), cpu_seconds(guest.pid)
    guest.run(task)
    return time.monotonic() - began, cpu_seconds(guest.pid) - cpu


def traced(guest, task):
    process = subprocess.Popen([testbed.VMSCOPE, "trace", "-v", "-p", str(guest.pid)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "armed" in line:
            break
    counter = subprocess.Popen(["wc", "-l"], stdin=process.stdout, stdout=subprocess.PIPE, text=True)
    first, _ = timed(guest, task)
    times = timed(guest, task)
    process.send_signal(signal.SIGINT)
    warnings = process.stderr.read()
    process.wait()
    if warnings:
        raise RuntimeError(warnings)
    return times, first, int(counter.communicate()[0]) // 2


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--series", default="6.1", choices=testbed.SERIES)
    options = parser.parse_args()
    guest = test_agent_engine.LinuxGuest(options.series, smp=1)
    print(f"{'task':32}{'calls':>9}{'untraced':>11}{'traced':>10}{'first':>9}{'kept':>7}{'of CPU':>8}")
    for name, task in TASKS.items():
        plain, with_trace, firsts, calls = [], [], [], 0
        for _ in range(options.rounds):
            timed(guest, task)
            plain.append(timed(guest, task))
            times, first, calls = traced(guest, task)
            with_trace.append(times)
            firsts.append(first)
        (wall, cpu), (slow, dear) = (
            [statistics.median(column) for column in zip(*rows)] for rows in (plain, with_trace))
        print(f"{name:32}{calls:>9}{wall:>9.2f} s{slow:>8.2f} s{statistics.median(firsts):>7.2f} s{wall / slow:>7.2f}{cpu / dear:>8.2f}")
    guest.stop()
    print(f"limit: {KEPT} of the work is kept")


if __name__ == "__main__":
    main()
