# SPDX-License-Identifier: MIT
"""What comparisons of vmscope's kernel stacks with a debugger's have in common."""
import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import testbed  # noqa: E402
import vmscope_command  # noqa: E402


def debug_vmlinux(series):
    """The kernel's file with debug symbols, of scripts/setup --debug-symbols."""
    release = (testbed.KERNELS / series / "release").read_text().strip()
    return testbed.KERNELS / f"{series}-dbg" / "usr/lib/debug/boot" / f"vmlinux-{release}"


def names_by_address(guest):
    names = collections.defaultdict(set)
    for symbol in guest.kallsyms():
        names[symbol.va].add(symbol.name)
    return names


def vmscope_stacks(*arguments, by="vcpu"):
    """By vCPU, or another column: (address, symbol, offset) of the kernel frames."""
    stacks = collections.defaultdict(list)
    for row in json.loads(vmscope_command.vmscope("stack", *arguments, "--json").out):
        if row["mode"] == "kernel":
            stacks[row[by]].append((int(row["address"], 16), row["symbol"], row["offset"]))
    return stacks


def is_equal(ours, theirs, names):
    """`ours` to the addresses `theirs`, and each name as the guest has it at that address."""
    return ([frame[0] for frame in ours] == theirs and
            all(symbol in names[pc - offset] for pc, symbol, offset in ours))
