#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What sampling costs a guest: how long it stands still per sample, and how much slower it gets.

A guest counts the rounds of a loop on both of its vCPUs. Rounds with each sampler alternate with
rounds without; figures are medians. Stops are measured by the times in QEMU's own STOP and RESUME
events, for every sampler alike.
"""
import argparse
import statistics
import time

import samplers
import linux_guest

SAMPLERS = {"vmscope": samplers.vmscope, "gdb script": samplers.gdb_script,
            "bare stop/cont": samplers.bare_stops}


def measure(guest, sampler, hertz, seconds):
    """Rounds per second the guest got done, and the durations of its stops in us."""
    with sampler(guest, hertz):
        time.sleep(1.0)  # attaching is not measured here
        guest.qmp.command("query-status")
        guest.qmp.events.clear()
        count, began = int(guest.run("workload show")), time.monotonic()
        time.sleep(seconds)
        rate = (int(guest.run("workload show")) - count) / (time.monotonic() - began)
        guest.qmp.command("query-status")
        stops = samplers.stops_us(guest.qmp.events)
    return rate, stops


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    guest = linux_guest.LinuxGuest("6.1", smp=2, memory=1024)
    guest.start_workload("count")
    cases = [(name, hertz) for hertz in (99, 499) for name in SAMPLERS]
    slowdowns = {case: [] for case in cases}
    stops = {case: [] for case in cases}
    rates = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case in cases:
            name, hertz = case
            baseline, _ = measure(guest, samplers.nothing, hertz, options.seconds)
            rate, durations = measure(guest, SAMPLERS[name], hertz, options.seconds)
            slowdowns[case].append(baseline / rate)
            stops[case] += durations
            rates[case].append(len(durations) / options.seconds)
    print(f"{'sampler':16}{'asked':>7}{'got':>9}{'slowdown':>10}{'stop median':>13}{'p99':>10}")
    for name, hertz in cases:
        case = (name, hertz)
        durations = sorted(stops[case]) or [0]
        print(f"{name:16}{hertz:>4} Hz{statistics.median(rates[case]):>6.0f} Hz"
              f"{statistics.median(slowdowns[case]):>9.3f}x"
              f"{statistics.median(durations):>10.0f} us"
              f"{durations[len(durations) * 99 // 100]:>7.0f} us")
    for hertz in (99, 499):
        ours, gdb, limit = (statistics.median(stops[name, hertz] or [0]) for name in SAMPLERS)
        if ours and limit:
            print(f"{hertz} Hz: a stop for a sample takes {gdb / ours:.1f} times less than the gdb "
                  f"script's, {ours / limit:.2f} times an empty stop")
    guest.stop()


if __name__ == "__main__":
    main()
