#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a hit costs that follows types through a Linux guest's memory, under TCG with the agent.

A program of the guest writes byte by byte to /dev/null, as it is, and with probes on vfs_write that collect
different values, in turns, in one run. What a hit costs is the processor time that QEMU takes for a write, less
that without probe. On a busy host the least of all rounds says most. The limit is a hit that collects four registers.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))
import testbed  # noqa: E402
from test_agent_engine import LinuxGuest  # noqa: E402

NAME = "file->f_path.dentry->d_name.name"
WRITES = 200000
PROBES = {
    "no probe": None,
    "four registers": "rdi,rsi,rdx,rcx",
    "all arguments": None,
    "a member": "file->f_mode",
    "a name by three pointers": NAME,
    "a structure of 232 bytes": "*file",
    "rejected by a number": ("count > 4096", "count"),
    "rejected by a name": (f'{NAME} == "else"', "count"),
}


def processor_seconds(guest):
    """Of all threads of QEMU."""
    return sum(int(path.read_text().split()[0])
               for path in pathlib.Path(f"/proc/{guest.pid}/task").glob("*/schedstat")) / 1e9


def write_seconds(guest):
    began = processor_seconds(guest)
    guest.run(f"dd if=/dev/zero of=/dev/null bs=1 count={WRITES} 2>/dev/null")
    return processor_seconds(guest) - began


def probed_seconds(guest, name, probe):
    if name == "no probe":
        return write_seconds(guest)
    condition, entries = probe if isinstance(probe, tuple) else (None, probe)
    command = [testbed.VMSCOPE, "flow", "-v", "-p", str(guest.pid),
               "vfs_write" + (f"={entries}" if entries else ""), "--no-tasks", "--records", "1000"]
    with subprocess.Popen([*command, *(["--if", condition] if condition else [])], text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        next(line for line in process.stderr if "armed" in line)
        took = write_seconds(guest)
        process.terminate()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    guest = LinuxGuest("6.1")
    found = {name: [] for name in PROBES}
    for _ in range(options.rounds):
        for name, probe in PROBES.items():
            found[name].append(probed_seconds(guest, name, probe) / WRITES * 1e6)
    guest.stop()
    free = min(found.pop("no probe"))
    print(f"a write without probe: {free:.2f} us at least")
    for name, values in found.items():
        print(f"{name}: {min(values) - free:.2f} us a hit at least; median "
              f"{statistics.median(values) - free:.2f}")


if __name__ == "__main__":
    main()
