#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""From the end of sampling to the written report: 1000 samples of each vCPU of a 2-vCPU guest.

Measured from SIGINT to the command's exit, so that ending the run, releasing the guest, naming,
merging, sorting, writing all three formats and the final rename are in it. Limit: the same
command's exit after its first samples, which is the cost of ending a run alone.
"""
import argparse
import re
import signal
import statistics
import subprocess
import tempfile
import time
import pathlib

import samplers  # noqa: F401: finds the tests' modules
import linux_guest
import testbed

HERTZ = 499


def end_of_run_ms(guest, seconds, directory):
    outputs = [word for name in ("report.txt", "report.folded", "report.svg")
               for word in ("-o", str(directory / name))]
    process = subprocess.Popen([testbed.VMSCOPE, "sample", "--allow-stop", "-p", str(guest.pid), "-q",
                                "-F", str(HERTZ), *outputs])
    time.sleep(seconds)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    if process.wait(60) != 0:
        raise RuntimeError(f"vmscope sample: status {process.returncode}")
    return (time.monotonic() - began) * 1000


def samples_of(report):
    """Samples of all folded stacks."""
    return sum(int(re.search(r"(\d+)$", line)[1]) for line in report.read_text().splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    guest = linux_guest.LinuxGuest("6.1", smp=2, memory=1024)
    guest.start_workload("mix")
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        full, least, counts = [], [], []
        for _ in range(options.times):
            full.append(end_of_run_ms(guest, 1000 / HERTZ + 1.5, directory))
            counts.append(samples_of(directory / "report.folded"))
            least.append(end_of_run_ms(guest, 1.0, directory))
    ours, limit = statistics.median(full), statistics.median(least)
    print(f"{statistics.median(counts):.0f} samples of 2 vCPUs: report, folded stacks and flame "
          f"graph written {ours:.0f} ms after the end of sampling, {ours / limit:.2f} times a run "
          f"of few samples ({limit:.0f} ms)")
    guest.stop()


if __name__ == "__main__":
    main()
