#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What was everybody doing? As examples/tasks.c: tasks.py CORE"""
import sys

import vmscope


def print_stack(guest, regs):
    with vmscope.Memory(guest.machine, regs) as memory:
        for frame in guest.walk(memory, regs):
            if frame.is_user:
                break
            # A return address is that of the next instruction: the call lies before it.
            location = guest.locate(frame.pc - frame.is_return)
            print(f"    {frame.pc:#018x}  {location and location.symbol or '?'}")


def main(core):
    with vmscope.Machine.open_core(core) as machine, machine.detect_guest() as guest:
        for task in guest.tasks():
            try:
                regs = guest.task_regs(task)
            except vmscope.Error:
                regs = None
            print(f"{task.tid} {task.state} {task.comm}{'' if regs else ' (on a vCPU)'}")
            if regs:
                print_stack(guest, regs)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except vmscope.Error as error:
        sys.exit(str(error))
