#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the agent costs a guest: loaded and idle, and while it is sampled through.

Three guests count the rounds of the same work on all of their vCPUs: one without the agent, one with
it, and one that is sampled through it. They take turns of a tenth of a second, the others standing
still, so that a host whose speed varies is as fast for one as for the others in the end. For
comparison the second is then sampled through QEMU's gdb stub, which a turn would end in the middle
of a stop: there it works for a while with and for a while without. The work is a loop as tight as
they get, or sorting.
"""
import argparse
import contextlib
import pathlib
import re
import signal
import statistics
import tempfile
import time

from samplers import cpu_seconds
import agent_client
import linux_guest
import qemu_machine
import vmscope_command

HERTZ = 999
TURN = 0.1  # seconds
BEGIN = 2  # seconds after which work has begun
HEADING = re.compile(r"vCPU \d+: (\d+) samples, .* (\d+) missed, (\d+) failed")
HELD = re.compile(r"held for (.*) \(median\), (.*) \(99th percentile\), (.*) \(longest\)")


class Guest:
    """One that works when it is its turn."""

    def __init__(self, options, smp, work, agent):
        self._stack = contextlib.ExitStack()
        directory = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vmscope-bench-"))
        self.socket = pathlib.Path(directory) / "agent"
        self.machine = linux_guest.LinuxGuest(
            options.kernel, boot=True, smp=smp, memory=512, qemu=(options.qemu,),
            extra=agent_client.options(self.socket, agent_client.api_of(options.qemu),
                                       options.internals) if agent else ())
        self._stack.callback(self.machine.stop)
        self.machine.start_workload(work)
        time.sleep(BEGIN)
        self._worked = 0  # seconds
        self.machine.qmp.command("stop")

    def stop(self):
        self._stack.close()

    def work(self, function, *arguments):
        """Lets it work for as long as the function takes."""
        self.machine.qmp.command("cont")
        began = time.monotonic()
        result = function(*arguments)
        self._worked += time.monotonic() - began
        self.machine.qmp.command("stop")
        return result

    def count(self):
        """Rounds done so far, the seconds that they took, and the vCPUs' CPU seconds."""
        rounds = int(self.work(self.machine.run, "workload show"))
        return rounds, self._worked, cpu_seconds(self.machine)


class Sampler:
    """A run of vmscope that samples from here on."""

    def __init__(self, *target, command="sample", rate=("-F", HERTZ)):
        self._process = vmscope_command.start_vmscope(command, *rate, "-q", *target)
        time.sleep(2)  # attaching is not measured here

    def stop(self):
        """The report."""
        self._process.send_signal(signal.SIGINT)
        with self._process as process:
            return process.communicate(timeout=60)[0]


def rates(guests, seconds):
    """Rounds that each gets done: per second, and per CPU second of its vCPUs."""
    before = [guest.count() for guest in guests]
    for _ in range(round(seconds / TURN)):
        for guest in guests:
            guest.work(time.sleep, TURN)
    after = [guest.count() for guest in guests]
    counts = [[now - then for now, then in zip(*both)] for both in zip(after, before)]
    return [(rounds / worked, rounds / cpu) for rounds, worked, cpu in counts]


def stub_rates(guest, seconds):
    """Rounds per second without and with a sampler at QEMU's gdb stub, and its report."""
    def rate():
        before = int(guest.machine.run("workload show"))
        began = time.monotonic()
        time.sleep(seconds)
        return (int(guest.machine.run("workload show")) - before) / (time.monotonic() - began)

    def both():
        without = rate()
        sampler = Sampler(*guest.machine.target)
        return without, rate(), sampler.stop()
    return guest.work(both)


def print_ratios(name, ratios, against):
    percent = [100 * ratio for ratio in ratios]
    print(f"    {name:24} {statistics.median(percent):6.1f} % of {against:15}"
          f" ({min(percent):.1f} to {max(percent):.1f})")


def print_holds(name, report):
    for heading, held in zip(HEADING.findall(report), HELD.findall(report)):
        print(f"    {name}: {heading[0]} samples, {heading[1]} missed; held {held[0]} (median), "
              f"{held[1]} (99 %), {held[2]} (longest)", flush=True)


def bench(smp, work, options):
    guests = [Guest(options, smp, work, agent=agent) for agent in (False, True, True)]
    sampler = guests[2].work(Sampler, "--agent", guests[2].socket)
    measured = [rates(guests, options.seconds) for _ in range(options.rounds)]
    report = sampler.stop()
    stub = [stub_rates(guests[1], options.seconds / 2)
            for _ in range(options.rounds if options.stub else 0)]
    for guest in guests:
        guest.stop()
    print(f"{smp} vCPU{'s' if smp > 1 else ''}, {work}: work done")
    print_ratios("agent idle", [idle[0] / plain[0] for plain, idle, _ in measured], "without plugin")
    print_ratios("agent idle, by CPU time", [idle[1] / plain[1] for plain, idle, _ in measured],
                 "without plugin")
    print_ratios("sampling, agent", [sampled[0] / idle[0] for _, idle, sampled in measured],
                 "agent idle")
    print_holds("agent", report)
    if stub:
        print_ratios("sampling, gdb stub", [sampled / idle for idle, sampled, _ in stub],
                     "agent idle")
        print_holds("gdb stub", stub[-1][2])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="that each guest works in a round")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--qemu", default=qemu_machine.ARCHS["x86_64"].qemu[0], help="another QEMU")
    parser.add_argument("--smp", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--work", nargs="*", default=["count", "sort"],
                        help="of tests/guests/workload.c")
    parser.add_argument("--no-internals", dest="internals", action="store_false",
                        help="as in a QEMU that exports nothing but its interface for plugins")
    parser.add_argument("--no-stub", dest="stub", action="store_false",
                        help="do not sample through the gdb stub, too")
    options = parser.parse_args()
    for smp in options.smp:
        for work in options.work:
            bench(smp, work, options)


if __name__ == "__main__":
    main()
