#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What `vmscope stack --all` takes: all threads of a guest, kernel and user, with names.

The guest runs programs of five threads that sleep ten calls deep, without frame pointers. Times are the
whole command's, attaching included, and those of its stops, by QEMU's own STOP and RESUME events.
"""
import argparse
import json
import resource
import statistics
import time

import samplers
import linux_guest
import vmscope_command

THREADS_OF_EACH = 5  # see tests/guests/frames.c


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    guest = linux_guest.LinuxGuest("6.1", memory=1024)
    for _ in range(options.threads // THREADS_OF_EACH):
        guest.run("frames threads >/dev/null 2>&1 &")
    time.sleep(3)
    walls, cpus, stops = [], [], []
    for _ in range(options.rounds):
        guest.qmp.command("query-status")
        guest.qmp.events.clear()
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        rows = json.loads(vmscope_command.vmscope("stack", *guest.target, "--all", "--json").out)
        walls.append(time.monotonic() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        guest.qmp.command("query-status")
        stops.append(max(samplers.stops_us(guest.qmp.events)) / 1000)
    guest.stop()
    threads = {row["thread"] for row in rows}
    complete = sum(row["end"] == "complete" for row in rows)
    print(f"{len(threads)} threads, {len(rows)} frames, {sum(row['mode'] == 'user' for row in rows)} of them of "
          f"programs; {complete} stacks complete")
    for name, values, unit in (("wall clock", walls, "s"), ("processor time", cpus, "s"),
                               ("longest stop", stops, "ms")):
        print(f"{name}: {statistics.median(values):.2f} {unit} (median; {min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
