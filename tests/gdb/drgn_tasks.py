# SPDX-License-Identifier: MIT
"""Writes what drgn finds in a core file as JSON: drgn_tasks.py VMLINUX CORE.

By thread id: its name and its kernel stack, the addresses, inlined functions aside; or, in place of
the stack, why there is none.
"""
import json
import sys

import drgn
from drgn.helpers.linux.pid import for_each_task

KERNEL = 1 << 63


def stack(task):
    try:
        trace = task.prog_.stack_trace(task)
    except Exception as error:
        return str(error)
    return [frame.pc for frame in trace if frame.pc >= KERNEL and not frame.is_inline]


program = drgn.Program()
program.set_core_dump(sys.argv[2])
program.load_debug_info([sys.argv[1]])
json.dump({task.pid.value_(): (task.comm.string_().decode(), stack(task))
           for task in for_each_task(program)}, sys.stdout)
