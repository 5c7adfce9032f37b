#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Reading and filtering a saved flow report of a million records with the task and three registers.

The file is made here. Whole runs of the command are timed: loading and checking it, a filter that keeps
a thousandth, and writing that as text. The limit: gzip's check of the same bytes, which the reader
does, too. Beside it grep on the same records as JSON, where the value is a word to look for.
"""
import argparse
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))
import testbed  # noqa: E402

PLACES = 4


def piece(kind, body):
    checked = struct.pack("<II", kind, len(body)) + body
    return struct.pack("<I", zlib.crc32(checked)) + checked


def text(words):
    return struct.pack("<I", len(words)) + words


def make_file(path, count):
    head = b"VMSFLOW\n" + struct.pack("<I", 1)
    with open(path, "wb") as file:
        file.write(head + struct.pack("<I", zlib.crc32(head)))
        file.write(piece(1, struct.pack("<QQ", 0, 1700000000 * 10**9)))
        names = b"".join(struct.pack("<I", 0) + text(name) for name in (b"rdi", b"rsi", b"rdx"))
        file.write(piece(2, struct.pack("<I", 0) + text(b"rdi,rsi,rdx") + struct.pack("<I", 3) + names))
        for place in range(PLACES):
            file.write(piece(3, struct.pack("<IIIIIQ", place, 2, 0, 0xffffffff, 0xffffffff, 0x1000 + place)
                             + text(b"function_%d" % place)))
        for number in range(count):
            task = struct.pack("<HHIHHIHH16s", 0, 4, number % 50, 0, 4, number % 50, 0, 16, b"program")
            values = struct.pack("<HHQHHQHHQ", 0, 8, number % 1000 + 5000, 0, 8, number, 0, 8, 1 << 40)
            file.write(piece(4, struct.pack("<QQIIIII", number + 1, number * 1000, number % PLACES, 0, 0, 0, 0)
                             + task + values))
        file.write(piece(5, struct.pack("<QQQQQQ", count, count, 0, 0, 0, 0)))


def cpu_seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))


class Times:
    """The wall clock's and the processors' seconds of what is done several times."""

    def __init__(self):
        self.walls, self.cpus = [], []

    def measure(self, function):
        wall, cpu = time.monotonic(), cpu_seconds()
        result = function()
        self.walls.append(time.monotonic() - wall)
        self.cpus.append(cpu_seconds() - cpu)
        return result

    def __str__(self):
        return (f"{statistics.median(self.walls):.2f} s (median of {len(self.walls)}; {min(self.walls):.2f} to "
                f"{max(self.walls):.2f}), of a processor {statistics.median(self.cpus):.2f} s")


def output(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path, lines = f"{folder}/report", f"{folder}/lines"
        make_file(path, options.records)
        report = (testbed.VMSCOPE, "flow", "report", path)
        with open(lines, "wb") as file:
            subprocess.run((*report, "--json"), check=True, stdout=file)
        print(f"{pathlib.Path(path).stat().st_size / options.records:.1f} bytes a record, as JSON "
              f"{pathlib.Path(lines).stat().st_size / options.records:.1f}")
        data = pathlib.Path(path).read_bytes()
        kinds = {
            "by a value": (*report, "--filter", "rdi=5077"),
            "by any value and comm": (*report, "--filter", "value=5077", "--filter", "comm=prog*"),
            "by sequence": (*report, "--filter", "sequence=..1000"),
            "grep on JSON": ("grep", '"rdi","status":"known","value":"0x13d5"', lines)}
        found = {name: Times() for name in (*kinds, "check alone")}
        for _ in range(options.rounds):
            for name, command in kinds.items():
                shown = found[name].measure(lambda: output(command)).splitlines()
                assert abs(len(shown) - options.records // 1000) <= 2, (name, shown[-2:])
            found["check alone"].measure(lambda: zlib.crc32(data))
        for name, times in found.items():
            print(f"{name}: {times}")


if __name__ == "__main__":
    main()
