#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Prints the bytes of a variable of a guest's kernel, as it runs. As examples/read_symbol.c:
read_symbol.py PID SYMBOL BYTES"""
import sys

import vmscope


def main(pid, name, size):
    with vmscope.Machine.open_pid(pid) as machine, machine.detect_guest() as guest:
        # The page tables of any vCPU show the kernel. It is held for a moment.
        with machine.hold(0):
            regs = machine.regs(0)
        symbols = guest.lookup(name)
        if not symbols:
            sys.exit(f"no symbol {name} in this guest")
        with vmscope.Memory(machine, regs) as memory:
            data = memory.read(symbols[0].va, size)
        if data is None:
            sys.exit(f"cannot read {size} bytes at {symbols[0].va:#x}")
        print(f"{symbols[0].va:#018x} {data.hex(' ')}")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    except vmscope.Error as error:
        sys.exit(str(error))
