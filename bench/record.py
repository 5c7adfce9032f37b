#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What recording host processes costs beside `perf record`, and how fast recordings are read.

Both record the same program, which does a fixed piece of work, in turns; the cost is the processor time of
the recorder and of what the program needs more. Baseline: the program alone. Reports: a recording of many
samples beside `perf report --stdio` of as many.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

import samplers  # noqa: F401: finds the tests' modules
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frequency", type=int, default=999)
    parser.add_argument("--report-hertz", type=int, default=50000)
    parser.add_argument("--report-seconds", type=float, default=20)
    options = parser.parse_args()
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
