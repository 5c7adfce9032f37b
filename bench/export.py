#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A million samples in every format: processor time of making the profile and of writing it, and memory.

The samples are made up (tests/unit/make_formats.c): 12 processes with 5 threads each on 4 vCPUs, stacks of up
to 23 frames. 356,000 of the stacks differ, which is far more than a guest has. The peak of memory counts the
samples and the profile too. Limits: 3 s and 500 MiB for each format.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

import samplers  # noqa: F401: finds the tests' modules
import testbed

PROGRAM = testbed.BUILD / "tests/unit/make-formats"
SUFFIXES = (".pb.gz", ".json", ".json.gz", ".speedscope.json", ".perf", ".pftrace", ".folded", ".svg", ".txt")


def export(path, samples):
    """Seconds of the profile, seconds of the export, and the peak of memory in MiB."""
    with subprocess.Popen([PROGRAM, "time", str(samples), path], stdout=subprocess.PIPE, text=True) as process:
        times = [float(word) for word in process.stdout.read().split()]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{PROGRAM}: status {process.returncode}")
    return *times, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        for suffix in SUFFIXES:
            path = pathlib.Path(name) / f"r{suffix}"
            runs = [export(path, options.samples) for _ in range(options.times)]
            made, written, memory = (statistics.median(column) for column in zip(*runs))
            print(f"{suffix[1:]:16} profile {made:.2f} s, export {written:.2f} s, {memory:.0f} MiB, file "
                  f"{path.stat().st_size / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
