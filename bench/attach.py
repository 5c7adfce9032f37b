#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""From the command's start to the first symbolised stack of a 4 GiB guest that was never seen.

Baseline: gdb with the kernel's debug symbols (scripts/setup --debug-symbols), which is told the
KASLR offset. Limit: a process start, and connecting to QMP and a new gdb stub with one stop.
"""
import argparse
import statistics
import subprocess
import time

import samplers
import linux_guest
import qmp_client
import testbed
import vmscope_command


def vmscope_stack(guest):
    out = vmscope_command.vmscope("stack", "-p", guest.pid).out
    if "+0x" not in out:
        raise RuntimeError(f"no symbolised stack: {out}")


def gdb_backtrace(guest, vmlinux, offset):
    with samplers.gdb_stub(guest) as path:
        out = subprocess.run(
            ["gdb", "-nx", "-batch", "-iex", "set auto-load no",
             "-ex", f"symbol-file -o {offset:#x} {vmlinux}", "-ex", f"target remote {path}",
             "-ex", "thread apply all bt", "-ex", "detach"],
            stdin=subprocess.DEVNULL, text=True, check=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT).stdout
    if " in " not in out:
        raise RuntimeError(f"no stack: {out}")


def connect_only(guest):
    subprocess.run(["/bin/true"], check=True)
    qmp = qmp_client.Qmp.connect(guest.qmp_path)
    with samplers.gdb_stub(guest) as path:
        stub = samplers.Stub(path)
        stub.run()
        stub.close()
    qmp.close()


def median_ms(call, times):
    durations = []
    for _ in range(times):
        began = time.monotonic()
        call()
        durations.append((time.monotonic() - began) * 1000)
    return statistics.median(durations), max(durations)


def kaslr_offset(guest):
    """Of the kernel's text from where vmlinux was linked."""
    return next(symbol.va for symbol in guest.kallsyms() if symbol.name == "_text") \
        - 0xffffffff81000000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    for series in testbed.SERIES:
        guest = linux_guest.LinuxGuest(series, smp=2, memory=4096)
        guest.start_workload("mix")
        ours, worst = median_ms(lambda: vmscope_stack(guest), options.times)
        limit, _ = median_ms(lambda: connect_only(guest), options.times)
        print(f"Linux {series}, 4 GiB: first symbolised stack after {ours:.0f} ms (median; worst "
              f"{worst:.0f}), {ours / limit:.1f} times connecting alone ({limit:.0f} ms)")
        vmlinux = (testbed.KERNELS / f"{series}-dbg" / "usr/lib/debug/boot" /
                   f"vmlinux-{guest.release}")
        if vmlinux.exists():
            offset = kaslr_offset(guest)
            gdb, _ = median_ms(lambda: gdb_backtrace(guest, vmlinux, offset), 3)
            print(f"    gdb with debug symbols, told the KASLR offset: {gdb:.0f} ms, "
                  f"{gdb / ours:.1f} times as long")
        else:
            print("    no gdb baseline: run scripts/setup --debug-symbols for it")
        guest.stop()


if __name__ == "__main__":
    main()
