#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What sampling costs a machine that runs by KVM, held by its vCPUs' threads.

Two machines of the tests' own monitor (tests/tools/kvm_monitor.c) count, one of them sampled at 999 Hz
all the time. They take turns, the other one paused by its monitor, so that a host whose speed varies is
as fast for one as for the other; and a pause by the monitor is timed with and without sampling. How long
a vCPU is held is what vmscope measures, from when its thread was asked to stop until it was let go. The
limit is the same thread stopped and let go by ptrace(2) with nothing read, in turns with vmscope. The time from the start of `vmscope stack` to its end, with the memory map
found out, has `--memory` and a `vmscope` that only shows its version beside it.

On a host that has other work: chrt -r 1 bench/kvm.py.
"""
import argparse
import ctypes
import os
import pathlib
import re
import resource
import signal
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))

from kvm_monitor import CALLS, COUNTS, ELF, HALTS, Monitor  # noqa: E402
from testbed import have_kvm  # noqa: E402
from vmscope_command import start_vmscope, vmscope  # noqa: E402

HERTZ = 999
SAMPLES = re.compile(r"vCPU \d+: (\d+) samples, .* (\d+) missed, (\d+) failed")
HELD = re.compile(r"held for (.*) \(median\), (.*) \(99th percentile\), (.*) \(longest\)")
UNITS_US = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
PAUSE = 0.001  # seconds between two stops, as at 999 Hz


def work(monitor, seconds):
    """Rounds per second of its first vCPU, which is paused before and afterwards."""
    before = monitor.numbers("rounds")[0]
    monitor.do("resume")
    began = time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - began
    monitor.do("pause")
    return (monitor.numbers("rounds")[0] - before) / lasted


def pauses(monitor, times):
    """Microseconds that pauses take."""
    taken = []
    for _ in range(times):
        monitor.do("resume")
        time.sleep(0.005)
        taken.append(monitor.numbers("pause")[0])
    return taken


def sample_in_turns(options):
    with Monitor(COUNTS) as sampled, Monitor(COUNTS) as alone:
        run = start_vmscope("sample", *sampled.target, "-F", HERTZ, "-t", 1000)
        time.sleep(1)  # vmscope has attached
        sampled.do("pause")
        alone.do("pause")
        shares = []
        for _ in range(options.rounds):
            first, second = work(sampled, options.turn), work(alone, options.turn)
            shares.append(first / second)
        beside = pauses(sampled, options.rounds)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        without = pauses(alone, options.rounds)
        sampled.do("resume")
        alone.do("resume")
    print(f"work kept at {HERTZ} Hz: {statistics.median(shares):.3f} "
          f"({min(shares):.3f} to {max(shares):.3f} in {options.rounds} turns of {options.turn} s)")
    for name, taken in (("sampled", beside), ("not sampled", without)):
        print(f"pause by the monitor, {name}: {statistics.median(taken):.0f} us (median), "
              f"{max(taken)} us (longest)")


def microseconds(text):
    number, unit = text.split()
    return float(number) * UNITS_US[unit]


def bare_stops(thread, times):
    """Microseconds that a thread is stopped for by ptrace alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    taken = []
    for _ in range(times):
        if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "cannot trace the vCPU's thread")
        began = time.perf_counter_ns()
        libc.ptrace(PTRACE_INTERRUPT, thread, None, None)
        os.waitpid(thread, WALL)
        libc.ptrace(PTRACE_DETACH, thread, None, None)
        taken.append((time.perf_counter_ns() - began) / 1000)
        time.sleep(PAUSE)
    return taken


def hold_times(options):
    taken, limits, counts = [], [], [0, 0, 0]
    with Monitor(CALLS) as monitor:
        thread, = monitor.numbers("threads")
        for _ in range(options.rounds):
            out = vmscope("sample", *monitor.target, "-F", HERTZ, "-t", options.seconds).out
            taken.append([microseconds(text) for text in HELD.search(out).groups()])
            counts = [a + int(b) for a, b in zip(counts, SAMPLES.search(out).groups())]
            stops = bare_stops(thread, options.seconds * 200)
            limits.append((statistics.median(stops), statistics.quantiles(stops, n=100)[98]))
    median, high, longest = map(statistics.median, zip(*taken))
    limit, limit_high = map(statistics.median, zip(*limits))
    ratio = statistics.median(one[0] / other[0] for one, other in zip(taken, limits))
    print(f"held, {options.rounds} turns of {options.seconds} s at {HERTZ} Hz: {median:.1f} us (median), "
          f"{high:.0f} us (99th percentile), {longest:.0f} us (longest); samples {counts[0]}, missed "
          f"{counts[1]}, failed {counts[2]}")
    print(f"stopped by ptrace alone: {limit:.1f} us (median), {limit_high:.0f} us (99th percentile); "
          f"a hold takes {ratio:.2f} times as long")


def run_times(*words):
    """Seconds that a command takes, and those of a processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    vmscope(*words)
    lasted, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return lasted, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def first_stack(options):
    with Monitor(CALLS, HALTS, one=True, low=3072, high=13 * 1024) as monitor:
        cases = {"map found out": ("stack", "--pid", monitor.pid, "--symbols", ELF),
                 "map given": ("stack", *monitor.target, "--symbols", ELF),
                 "--version": ("--version",)}
        taken = {name: [] for name in cases}
        for _ in range(options.rounds):
            for name, words in cases.items():
                taken[name].append(run_times(*words))
    for name, times in taken.items():
        wall, processor = zip(*times)
        print(f"from start to stack, 16 GiB, {name}: {statistics.median(wall) * 1e3:.0f} ms (median), "
              f"{min(wall) * 1e3:.0f} ms (least); of a processor {statistics.median(processor) * 1e3:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turn", type=float, default=0.2, help="seconds (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=2,
                        help="of sampling, in each turn (default: %(default)s)")
    options = parser.parse_args()
    if not have_kvm():
        print("there is no /dev/kvm")
        return
    sample_in_turns(options)
    hold_times(options)
    first_stack(options)


if __name__ == "__main__":
    main()
