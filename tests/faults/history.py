# SPDX-License-Identifier: MIT
"""What QEMU itself wrote down of stops and continues: whose they were, and which had an effect.

A `stop` that comes while vmscope holds the machine through its stub changes nothing, as the machine
is stopped; QEMU tells nobody of it. That one vmscope cannot respect. All others it must.
"""
import collections
import re

LINE = re.compile(r"^\d+@(\d+\.\d+):(\w+) ?(.*)$", re.MULTILINE)
RUNSTATE = re.compile(r"current_run_state \d+ \((\S+)\) new_state \d+ \((\S+)\)")

MIGRATE = re.compile(r'"execute": "migrate"')
GRACE_SECONDS = 0.5  # a hold that was decided upon before

Step = collections.namedtuple("Step", "time event text")


def read(path, offset=0):
    """All steps so far, from an offset into the file on."""
    with open(path, errors="replace") as file:
        file.seek(offset)
        return [Step(float(match[1]), match[2], match[3]) for match in LINE.finditer(file.read())]


STOP = '"execute": "stop"'
NUMBERED = '"id": '  # vmscope's own commands are


def find_owners_stops(steps):
    """Where the owner's `stop` commands are carried out. QEMU notes a command when it arrives, and
    carries them out in that order, more or less."""
    arrived, found = [], []
    for i, step in enumerate(steps):
        if step.event == "handle_qmp_command" and STOP in step.text:
            arrived.append(NUMBERED not in step.text)
        elif step.event == "qmp_enter_stop" and (arrived.pop(0) if arrived else True):
            found.append(i)
    return found


def has_effect(steps, begin):
    """True where the `stop` that is carried out from this step on stops the machine."""
    for step in steps[begin + 1:]:
        if step.event == "qmp_exit_stop":
            return False
        if step.event == "runstate_set" and RUNSTATE.search(step.text)[2] == "paused":
            return True
    return True  # it is not over


def stops_without_effect(steps):
    """How many `stop` commands found the machine stopped already, and how many there were."""
    begins = find_owners_stops(steps)
    return sum(not has_effect(steps, begin) for begin in begins), len(begins)


def last_stop_had_effect(steps):
    """False where the last `stop` found the machine stopped already; True where there is none."""
    begins = find_owners_stops(steps)
    return not begins or has_effect(steps, begins[-1])


ADDS_STUB = "gdbserver chardev:vmscope"
LAST_LOOK = '"query-jobs"'  # the last command of vmscope's look at the condition


def last_stop_met_ours(steps):
    """True where QEMU did the last `stop` between vmscope's last look and its command that stops a
    machine which runs. Then nobody can tell whose stop it was (docs/safety.md)."""
    begins = find_owners_stops(steps)
    if not begins:
        return False
    ours = [(i, step.text) for i, step in enumerate(steps)
            if step.event == "handle_qmp_command" and NUMBERED in step.text]
    before = [command for command in ours if command[0] < begins[-1]]
    after = [command for command in ours if command[0] > begins[-1]]
    # QEMU notes a command when it arrives; it may do another client's before it.
    if before and (ADDS_STUB in before[-1][1] or STOP in before[-1][1]):
        arrived = before[-1][0]
        if any(step.event == "runstate_set" for step in steps[arrived:begins[-1]]):
            return False
        before, after = before[:-1], before[-1:] + after
    if not before or not after:
        return False
    return (LAST_LOOK in before[-1][1] and ADDS_STUB in after[0][1]) or STOP in after[0][1]


LATE_SECONDS = 0.1  # a vmscope that is later than this has not just waited for its processor


def last_stop_followed_ours(steps):
    """True where the stub stopped the machine for vmscope, the owner resumed it and did the last
    `stop`, all before vmscope sent anything more: it may have read of all three at once, and the
    stub's answers have no order among QMP's events (docs/safety.md)."""
    begins = find_owners_stops(steps)
    if not begins:
        return False
    resumed = False
    for step in reversed(steps[:begins[-1]]):
        if step.event == "handle_qmp_command" and NUMBERED in step.text or \
                steps[begins[-1]].time - step.time > LATE_SECONDS:
            return False
        if step.event == "runstate_set":
            old, new = RUNSTATE.search(step.text).groups()
            resumed = resumed or new == "running"
            if resumed and (old, new) == ("running", "paused"):
                return True
    return False


def reset_met_the_connection(steps):
    """True where the last reset came after a bare stub had stopped the machine for its client, and
    before that could ask for the state: then it looks as one that was never started."""
    resets = [i for i, step in enumerate(steps) if step.event == "runstate_set" and
              RUNSTATE.search(step.text).groups() == ("paused", "prelaunch")]
    if not resets:
        return False
    stops = [i for i, step in enumerate(steps[:resets[-1]]) if step.event == "runstate_set" and
             RUNSTATE.search(step.text).groups() == ("running", "paused")]
    return bool(stops) and not any(
        step.event == "handle_hmp_command" and "info status" in step.text
        for step in steps[stops[-1]:resets[-1]])


def holds_beside_migration(steps, grace=GRACE_SECONDS):
    """How often the machine was stopped by nobody's `stop` while a migration was under way; those
    that come right behind the owner's `migrate` do not count."""
    holds, begin, inside = 0, None, False
    for step in steps:
        if step.event == "handle_qmp_command" and MIGRATE.search(step.text):
            begin = step.time
        elif step.event == "handle_qmp_command" and '"migrate_cancel"' in step.text:
            begin = None
        elif step.event in ("qmp_enter_stop", "qmp_exit_stop"):
            inside = step.event == "qmp_enter_stop"
        elif step.event == "runstate_set" and begin is not None and not inside:
            old, new = RUNSTATE.search(step.text).groups()
            if new == "finish-migrate":
                begin = None
            elif (old, new) == ("running", "paused") and step.time > begin + grace:
                holds += 1
    return holds
