#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What sampling costs a machine that runs by KVM, held by its vCPUs' threads.

Two machines of the tests' own monitor (tests/tools/kvm_monitor.c) count, one of them sampled at 999 Hz
all the time. They take turns, the other one paused by its monitor, so that a host whose speed varies is
as fast for one as for the other. More turns show the limits: the vCPU's thread is stopped and let go by
ptrace(2) as often, with nothing read, and it only gets a signal, which makes KVM_RUN return and be called
again (tests/tools/stops.c). A pause by the monitor is timed with and without sampling. How long
a vCPU is held is what vmscope measures, from when its thread was asked to stop until it was let go, in turns
with the bare stop. The time from the start of `vmscope stack` to its end, with the memory map
found out, has `--memory` and a `vmscope` that only shows its version beside it. `--before` is a build to
compare with, in the same turns.

On a host that has other work: chrt -r 1 bench/kvm.py.
"""
import argparse
import collections
import contextlib
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))

from kvm_monitor import CALLS, COUNTS, ELF, HALTS, Monitor  # noqa: E402
from testbed import BUILD, VMSCOPE, have_kvm  # noqa: E402
from vmscope_command import vmscope  # noqa: E402

HERTZ = 999
SAMPLES = re.compile(r"vCPU \d+: (\d+) samples, .* (\d+) missed, (\d+) failed")
HELD = re.compile(r"held for (.*) \(median\), (.*) \(99th percentile\), (.*) \(longest\)")
UNITS_US = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
STOPS = BUILD / "tests" / "tools" / "stops"


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


@contextlib.contextmanager
def disturbed(how, thread):
    """The thread is stopped or kicked meanwhile; afterwards the list has the median and the 99th percentile
    of stops, in us."""
    taken = []
    with subprocess.Popen([STOPS, how, str(thread), str(HERTZ)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as stops:
        stops.stdout.readline()
        yield taken
        out, _ = stops.communicate()
        taken += [int(word) / 1000 for word in out.split()]


def builds_of(options):
    """The programs that are compared, by name."""
    before = {"before": options.before / "cli" / "vmscope"} if options.before else {}
    return {"now": VMSCOPE, **before}


def attach(stack, program):
    """A machine that counts, and is sampled all the time."""
    monitor = stack.enter_context(Monitor(COUNTS))
    command = [program, "sample", *monitor.target, "-F", str(HERTZ), "-t", "1000"]
    run = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    stack.callback(run.send_signal, signal.SIGINT)
    time.sleep(1)  # vmscope has attached
    monitor.do("pause")
    return monitor


def show_kept(options, name, shares):
    low, median, high = statistics.quantiles(shares, n=4)
    print(f"work kept at {HERTZ} Hz, {name}: {median:.3f} (a half of {options.rounds} turns of "
          f"{options.turn} s: {low:.3f} to {high:.3f})")


def sample_in_turns(options):
    with contextlib.ExitStack() as stack:
        alone = stack.enter_context(Monitor(COUNTS))
        alone.do("pause")
        thread, = alone.numbers("threads")
        sampled = {name: attach(stack, program) for name, program in builds_of(options).items()}
        shares = collections.defaultdict(list)
        for _ in range(options.rounds):
            usual = work(alone, options.turn)
            for name, monitor in sampled.items():
                shares[f"vmscope {name}"].append(work(monitor, options.turn) / usual)
            for how in ("stop", "kick"):
                with disturbed(how, thread):
                    shares[f"limit, {how} alone"].append(work(alone, options.turn) / usual)
        beside = pauses(sampled["now"], options.rounds)
        without = pauses(alone, options.rounds)
        for monitor in (alone, *sampled.values()):
            monitor.do("resume")
    for name, kept in shares.items():
        show_kept(options, name, kept)
    for name, taken in (("sampled", beside), ("not sampled", without)):
        print(f"pause by the monitor, {name}: {statistics.median(taken):.0f} us (median), "
              f"{max(taken)} us (longest)")


def microseconds(text):
    number, unit = text.split()
    return float(number) * UNITS_US[unit]


def show_held(options, name, taken, counts):
    median, high, longest = map(statistics.median, zip(*taken))
    print(f"held, vmscope {name}, {options.rounds} turns of {options.seconds} s at {HERTZ} Hz: {median:.1f} us "
          f"(median), {high:.0f} us (99th percentile), {longest:.0f} us (longest); samples {counts[0]}, "
          f"missed {counts[1]}, failed {counts[2]}")


def hold_times(options):
    taken, counts, limits = collections.defaultdict(list), {}, []
    with Monitor(CALLS) as monitor:
        thread, = monitor.numbers("threads")
        for _ in range(options.rounds):
            for name, program in builds_of(options).items():
                out = subprocess.run([program, "sample", *monitor.target, "-F", str(HERTZ), "-t",
                                      str(options.seconds)], stdout=subprocess.PIPE, text=True, check=True).stdout
                taken[name].append([microseconds(text) for text in HELD.search(out).groups()])
                counts[name] = [a + int(b) for a, b in zip(counts.get(name, (0, 0, 0)),
                                                           SAMPLES.search(out).groups())]
            with disturbed("stop", thread) as stops:
                time.sleep(options.seconds)
            limits.append(stops)
    for name, times in taken.items():
        show_held(options, name, times, counts[name])
    limit, limit_high = map(statistics.median, zip(*limits))
    ratio = statistics.median(one[0] / other[0] for one, other in zip(taken["now"], limits))
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
    parser.add_argument("--before", type=pathlib.Path, metavar="BUILD",
                        help="a build to compare with, in the same turns")
    options = parser.parse_args()
    if not have_kvm():
        print("there is no /dev/kvm")
        return
    sample_in_turns(options)
    hold_times(options)
    first_stack(options)


if __name__ == "__main__":
    main()
