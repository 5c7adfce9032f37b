# SPDX-License-Identifier: MIT
"""What QEMU itself wrote down of stops and continues: who they were, and whether they had an effect.

A `stop` that comes while vmscope holds the machine through its stub changes nothing, as the machine
is stopped; QEMU tells nobody of it. That one vmscope cannot respect. All others it must.
"""
import collections
import re

LINE = re.compile(r"^\d+@(\d+\.\d+):(\w+) ?(.*)$", re.MULTILINE)
RUNSTATE = re.compile(r"current_run_state \d+ \((\S+)\) new_state \d+ \((\S+)\)")

Step = collections.namedtuple("Step", "time event text")


def read(path, offset=0):
    """All steps so far, from an offset into the file on."""
    with open(path, errors="replace") as file:
        file.seek(offset)
        return [Step(float(match[1]), match[2], match[3]) for match in LINE.finditer(file.read())]


def stops_without_effect(steps):
    """How many `stop` commands found the machine stopped already, of how many that came through QMP."""
    total = ineffective = 0
    inside = changed = False
    for step in steps:
        if step.event == "qmp_enter_stop":
            inside, changed = True, False
        elif step.event == "qmp_exit_stop" and inside:
            inside = False
            total += 1
            ineffective += not changed
        elif step.event == "runstate_set" and inside:
            changed = changed or RUNSTATE.search(step.text)[2] == "paused"
    return ineffective, total


def last_stop_had_effect(steps):
    """False where the last `stop` found the machine stopped already; True where there is none."""
    begins = [i for i, step in enumerate(steps) if step.event == "qmp_enter_stop"]
    return not begins or stops_without_effect(steps[begins[-1]:])[0] == 0
