#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What recording costs, of this host's processes and of a guest's, and how fast recordings are read.

Both record the same program, which does a fixed piece of work, in turns; the cost is the processor time of
the recorder and of what the program needs more. Baseline: the program alone. Reports: a recording of many
samples beside `perf report --stdio` of as many. `--guest` instead: the work that a guest gets done while its
threads are recorded through the agent, beside the same guest with the agent idle, in turns as of agent.py; with
`--wall`, `--host` and `--instructions N` as `vmscope record` has them. `--switches`: the cost of `--wall` on this host, of
two processes that wait for each other, beside perf with the same tracepoint.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

import agent  # finds the tests' modules
import testbed

SOURCE = testbed.ROOT / "tests" / "guests" / "record_program.c"


def cpu_seconds(*command):
    """Processor time of a command and of all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds(*command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def bench_guest(options):
    """The recorded guest's share of the other one's work, by time and by processor time."""
    guests = [agent.Guest(options, options.vcpus, "count", agent=True) for _ in range(2)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "recording"
            rate = ("--instructions", options.instructions) if options.instructions else ("-F", agent.HERTZ)
            extra = ["--wall"] * options.wall + ["--host"] * options.host
            recorder = guests[1].work(lambda: agent.Sampler(
                "--agent", guests[1].socket, "-o", file, *extra, command="record", rate=rate))
            measured = [agent.rates(guests, options.seconds) for _ in range(options.rounds)]
            recorder.stop()
            stats = subprocess.run([testbed.VMSCOPE, "report", "--stats", file], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout
        shares = [recorded[0] / idle[0] for idle, recorded in measured]
        by_cpu = [recorded[1] / idle[1] for idle, recorded in measured]
        print(f"{options.vcpus} vCPUs, recorded by {' '.join(map(str, (*rate, *extra)))}: work done")
        agent.print_ratios("recorded", shares, "agent idle")
        agent.print_ratios("recorded, by CPU time", by_cpu, "agent idle")
        print(stats)
    finally:
        for guest in guests:
            guest.stop()


def bench_switches(options):
    """Processor time of all, of so many switches as `perf bench sched pipe` makes."""
    work = ("perf", "bench", "sched", "pipe", "-l", "100000")
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = pathlib.Path(name) / "ours", pathlib.Path(name) / "theirs"
        record = (testbed.VMSCOPE, "record", "-q", "-F", str(options.frequency), "--buffer", "64M", "-o", ours)
        recorders = {
            "alone": (), "vmscope record": (*record, "--"), "vmscope record --wall": (*record, "--wall", "--"),
            "perf record -e sched:sched_switch -c 1 -g":
                ("perf", "record", "-q", "-m", "16384", "-e", "sched:sched_switch", "-c", "1", "-g", "-o", theirs, "--")}
        costs = {recorder: [] for recorder in recorders}
        for _ in range(options.rounds):
            for recorder, words in recorders.items():
                costs[recorder].append(cpu_seconds(*words, *work))
        alone = statistics.median(costs["alone"])
        for recorder, taken in costs.items():
            print(f"{recorder}: {statistics.median(taken):.2f} s of processor time ({min(taken):.2f} to "
                  f"{max(taken):.2f}), {statistics.median(taken) / alone:.2f} times")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frequency", type=int, default=999)
    parser.add_argument("--report-hertz", type=int, default=50000)
    parser.add_argument("--report-seconds", type=float, default=20)
    parser.add_argument("--guest", action="store_true")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--instructions", type=int)
    parser.add_argument("--switches", action="store_true")
    parser.add_argument("--vcpus", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--qemu", default="qemu-system-x86_64")
    parser.set_defaults(internals=True)
    options = parser.parse_args()
    if options.guest or options.switches:
        (bench_guest if options.guest else bench_switches)(options)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program, ours, theirs = folder / "program", folder / "ours", folder / "theirs"
        subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", program, SOURCE],
                       check=True)

        def vmscope(hertz, *work):
            return (testbed.VMSCOPE, "record", "-q", "-F", str(hertz), "-o", ours, "--", *work)

        def perf(hertz, *work):
            return ("perf", "record", "-q", "-e", "cpu-clock", "-g", "-F", str(hertz), "-o", theirs,
                    "--", *work)

        work = (program, "rounds", "600")
        costs = {"alone": [], "vmscope": [], "perf": []}
        for _ in range(options.rounds):
            costs["alone"].append(cpu_seconds(*work))
            costs["vmscope"].append(cpu_seconds(*vmscope(options.frequency, *work)))
            costs["perf"].append(cpu_seconds(*perf(options.frequency, *work)))
        alone = statistics.median(costs["alone"])
        for who in ("vmscope", "perf"):
            cost = statistics.median(costs[who])
            print(f"{who} record at {options.frequency} Hz: {cost:.3f} s of processor time, "
                  f"{100 * (cost / alone - 1):.1f} % more than the program alone ({alone:.3f} s)")

        work = (program, "shares", str(options.report_seconds))
        subprocess.run(vmscope(options.report_hertz, *work), check=True, stdout=subprocess.DEVNULL)
        subprocess.run(perf(options.report_hertz, *work), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        stats = subprocess.run([testbed.VMSCOPE, "report", "--stats", ours], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
        print(stats.splitlines()[1])
        taken = statistics.median(seconds(testbed.VMSCOPE, "report", ours) for _ in range(3))
        perf_taken = statistics.median(
            seconds("perf", "report", "--stdio", "-i", theirs) for _ in range(3))
        size = os.path.getsize(ours)
        print(f"vmscope report: {taken:.2f} s for {size / 1e6:.0f} MB, {size / 1e6 / taken:.0f} MB/s; "
              f"perf report --stdio: {perf_taken:.2f} s for {os.path.getsize(theirs) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
