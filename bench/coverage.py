#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What coverage of a whole boot costs: from QEMU's start until the first process says READY.

Boots without a plugin, with the agent loaded but idle, and with coverage from the first instruction
on alternate; figures are medians. The limit: coverage takes 1.3 times the boot without a plugin.
"""
import json
import pathlib
import statistics
import tempfile

from calls import boot, boot_parser
import testbed

LIMIT = 1.3


def show(case, times, base):
    """A line, with the ratios to the medians `base`."""
    walls, cpus = zip(*times)
    wall, cpu = statistics.median(walls), statistics.median(cpus)
    print(f"{case:24}{wall:>8.2f} s{max(walls):>8.2f} s{wall / base[0]:>8.2f}{cpu:>8.2f} s"
          f"{cpu / base[1]:>8.2f}")
    return wall / base[0]


def main():
    options = boot_parser(__doc__).parse_args()
    testbed.build_guests()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "coverage.json"
        cases = {"without plugin": (), "agent, idle": (testbed.VMSCOPE, "run", "--"),
                 "coverage": (testbed.VMSCOPE, "run", "--json", "--coverage", path, "--")}
        times = {case: [] for case in cases}
        for _ in range(options.rounds):
            for case, launcher in cases.items():
                times[case].append(boot(options.series, options.arch, options.smp, launcher))
        totals = json.loads(path.read_text())
    base = tuple(statistics.median(column) for column in zip(*times["without plugin"]))
    print(f"{'boot':24}{'median':>10}{'worst':>10}{'ratio':>8}{'CPU':>10}{'ratio':>8}")
    for case in cases:
        ratio = show(case, times[case], base)
    print(f"{totals['functions_ran']} of {totals['functions']} functions, {totals['blocks_ran']} of "
          f"their {totals['blocks']} blocks, {totals['cut']} left in the middle, {totals['lost']} lost")
    print(f"coverage takes {ratio:.2f} times the boot without a plugin; limit {LIMIT}")


if __name__ == "__main__":
    main()
