#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the agent costs a guest: loaded and idle, and while it is sampled through.

A guest counts the rounds of its work on all of its vCPUs, once with the agent and once without; one
stands still while the other is measured. The work is a loop as tight as they get, or sorting. Measurements alternate; figures are medians of ratios
between neighbours. For comparison the same guest is sampled through QEMU's gdb stub, too.
"""
import argparse
import re
import signal
import statistics
import time

from samplers import harness
import agent_client

HERTZ = 999
REST = 3  # seconds after its last client in which the agent comes to rest
HEADING = re.compile(r"vCPU \d+: (\d+) samples, .* (\d+) missed, (\d+) failed")
HELD = re.compile(r"held for (.*) \(median\), (.*) \(99th percentile\), (.*) \(longest\)")


def rate(guest, seconds):
    """Rounds per second that the guest gets done."""
    count, began = int(guest.run("workload show")), time.monotonic()
    time.sleep(seconds)
    return (int(guest.run("workload show")) - count) / (time.monotonic() - began)


def idle_rate(guest, seconds):
    """The same with an agent that had clients."""
    time.sleep(REST)
    return rate(guest, seconds)


def sampled_rate(guest, seconds, *target):
    """The same while it is sampled, and the report."""
    with harness.start_vmscope("sample", "-F", HERTZ, "-q", *target) as sampler:
        time.sleep(1.0)  # attaching is not measured here
        got = rate(guest, seconds)
        sampler.send_signal(signal.SIGINT)
        report = sampler.communicate(timeout=60)[0]
    return got, report


class Guests:
    """One guest without and one with the agent, of which one runs."""

    def __init__(self, smp, kernel, work):
        self.socket = None
        self.plain = self._boot(smp, kernel, work, ())
        self.plain.qmp.command("stop")
        self.agent = self._boot(smp, kernel, work, self._plugin())
        self.agent.qmp.command("stop")

    def _plugin(self):
        self.socket = self.plain.directory / "agent"
        return agent_client.options(self.socket)

    @staticmethod
    def _boot(smp, kernel, work, extra):
        guest = harness.LinuxGuest(kernel, boot=True, smp=smp, memory=512, extra=extra)
        guest.start_workload(work)
        time.sleep(1)
        return guest

    def measure(self, guest, function, *arguments):
        guest.qmp.command("cont")
        try:
            return function(guest, *arguments)
        finally:
            guest.qmp.command("stop")

    def stop(self):
        self.plain.stop()
        self.agent.stop()


def bench(smp, work, options):
    guests = Guests(smp, options.kernel, work)
    ratios = {"agent idle": [], "sampling, agent": [], "sampling, gdb stub": []}
    for _ in range(options.rounds):
        plain = guests.measure(guests.plain, rate, options.seconds)
        idle = guests.measure(guests.agent, idle_rate, options.seconds)
        agent, report = guests.measure(guests.agent, sampled_rate, options.seconds, "--agent",
                                       guests.socket)
        idle_again = guests.measure(guests.agent, idle_rate, options.seconds)
        stub, stub_report = guests.measure(guests.agent, sampled_rate, options.seconds,
                                           *guests.agent.target)
        ratios["agent idle"].append(idle / plain)
        ratios["sampling, agent"].append(agent * 2 / (idle + idle_again))
        ratios["sampling, gdb stub"].append(stub / idle_again)
    guests.stop()
    print(f"{smp} vCPU{'s' if smp > 1 else ''}, {work}: work done")
    for (name, values), against in zip(ratios.items(), ("without plugin", "agent idle",
                                                        "agent idle")):
        print(f"    {name:20} {100 * statistics.median(values):6.1f} % of {against:15}"
              f" ({100 * min(values):.1f} to {100 * max(values):.1f})")
    for name, text in (("agent", report), ("gdb stub", stub_report)):
        for heading, held in zip(HEADING.findall(text), HELD.findall(text)):
            print(f"    {name}: {heading[0]} samples, {heading[1]} missed, {heading[2]} failed; "
                  f"held {held[0]} (median), {held[1]} (99 %), {held[2]} (longest)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--smp", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--work", nargs="*", default=["count", "sort"],
                        help="of tests/guests/workload.c")
    options = parser.parse_args()
    for smp in options.smp:
        for work in options.work:
            bench(smp, work, options)


if __name__ == "__main__":
    main()
