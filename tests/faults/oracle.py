# SPDX-License-Identifier: MIT
"""What must be true after a round: the state of every machine, its ticks, and that nothing is left.

Nothing here asks vmscope: QEMU, the guest's own counters, /proc and the files tell.
"""
import json
import os
import re
import signal
import struct
import time

import guest
import history
from vmscope_command import vmscope
from rounds import Wrong

# Generous: what is to come back after a fault has done so by then.
SECONDS = float(os.environ.get("FAULTS_SECONDS", 60))
SETTLE_SECONDS = 5  # what QEMU still has to do when nobody is left who asks it
STANDS = 0.05  # seconds in which a machine that stands still does not tick
# In QEMU's log; they change nothing.
QUESTION = re.compile(r'xp /|\{"execute": "query-(status|migrate|chardev|jobs|block-jobs|dump)"')


def must_tick(round_, machine=None, why="", seconds=SECONDS):
    """Every vCPU goes on, whoever else is still at work."""
    machine = machine or round_.guest
    before = machine.read_ticks().vcpus
    began = time.monotonic()
    while not all(now > then for now, then in zip(machine.read_ticks().vcpus, before)):
        if time.monotonic() > began + seconds:
            raise Wrong(f"the guest ({machine.qmp.status()}) has not ticked for {seconds} s {why}")
        time.sleep(0.01)
    round_.longest = max(round_.longest, time.monotonic() - began)
    round_.tell(f"ticks {why}")


def must_restart(round_, before):
    """After a reset, its counters begin again, and go on. `before`: what they were."""
    try:
        round_.wait("the guest to begin again", lambda: all(
            now < then for now, then in zip(round_.guest.read_ticks().vcpus, before.vcpus)), SECONDS)
    except Wrong:
        if round_.command.engine != "gdb" or \
                not history.reset_met_the_connection(round_.history()):
            raise
        round_.undetectable = True
        round_.tell("undetectable: the reset came while the stub's client connected")
        round_.owner("cont")
    must_tick(round_, why="after the reset")


def must_stand(machine):
    before = machine.read_ticks()
    time.sleep(STANDS)
    if machine.read_ticks() != before:
        raise Wrong("the guest ticks, which its owner did not want")


def judge(round_):
    """Raises Wrong for the first thing that is not as it should be."""
    round_.wait_ended()
    for process in round_.processes:
        if number := round_.died(process):
            raise Wrong(f"vmscope died of {signal.Signals(number).name}")
    round_.wait("all processes of vmscope to end", lambda: not round_.living(), SECONDS)
    for expected in round_.expected.values():
        if expected.status is None:
            judge_gone(round_, expected)
        else:
            judge_machine(round_, expected)
    if holds := history.holds_beside_migration(round_.history()):
        raise Wrong(f"vmscope stopped the machine {holds} times while it was migrating")
    judge_files(round_)


def explain_end(round_):
    """What a QEMU that has ended, though nobody wanted that, said last; None where all live."""
    for machine in (round_.guest, *round_.others):
        expected = round_.expected.get(machine)
        time.sleep(0.1)  # its sockets are closed a little earlier
        if expected and expected.status is not None and machine.process.poll() is not None:
            return f"QEMU has gone with status {machine.process.returncode}: {machine.log()[-500:]}"
    return None


def is_abort_of_loading(task, reason):
    """True for the abort of a QEMU that loads a snapshot while a bare stub stops it (safety.md)."""
    return task.command.engine == "gdb" and task.fault.name == "snapshot-load-job" and \
        "virtio_blk_set_status: Assertion" in reason


def is_abort_of_sleeping(task, reason):
    """True for the abort of a QEMU whose guest falls asleep while a vCPU of it hits a breakpoint
    (safety.md)."""
    return task.command.name == "flow-stub" and \
        "invalid runstate transition: 'suspended' -> 'debug'" in reason


def judge_gone(round_, expected):
    process = expected.machine.process
    round_.wait("QEMU to end", lambda: process.poll() is not None, SECONDS)
    if process.returncode != expected.code:
        raise Wrong(f"QEMU ended with status {process.returncode} in place of {expected.code}: "
                    f"{expected.machine.log()[-500:]}")


def judge_machine(round_, expected):
    machine = expected.machine
    if machine.process.poll() is not None:
        raise Wrong(explain_end(round_))
    judge_status(round_, machine, expected.status)
    if expected.status == "running":
        must_tick(round_, machine, "in the end")
    else:
        must_stand(machine)
    judge_leftovers(round_, machine)
    if expected.status in ("paused", "prelaunch"):
        round_.owner("cont", machine)
        must_tick(round_, machine, "when its owner lets it")
    elif expected.status == "suspended":
        wakes = machine.read_ticks().wakes
        round_.owner("system_wakeup", machine)
        round_.wait("the guest to wake up", lambda: machine.read_ticks().wakes > wakes)
        must_tick(round_, machine, "after it was woken up")


def judge_status(round_, machine, status):
    deadline = time.monotonic() + SETTLE_SECONDS
    while (found := machine.qmp.status()) != status and time.monotonic() < deadline:
        time.sleep(0.02)
    if found == status:
        return
    steps = round_.history(machine)
    if (status, found) == ("paused", "running") and round_.command.engine in guest.STOPPING and \
            (not history.last_stop_had_effect(steps) or history.last_stop_met_ours(steps)):
        round_.undetectable = True
        round_.tell("undetectable: the owner's stop came in a hold, or with the stub")
        round_.owner("stop", machine)  # for what follows
        return
    if found in ("paused", "debug") and status in ("shutdown", "guest-panicked") and \
            round_.command.engine in guest.STOPPING:
        round_.undetectable = True  # QEMU keeps no note of what stops a machine that is stopped
        round_.tell(f"{status} in a hold: the machine stays paused")
        return
    raise Wrong(f"the machine is {found} in place of {status}")


def judge_leftovers(round_, machine):
    try:
        round_.wait("QEMU's chardevs to be the same",
                    lambda: machine.list_chardevs() == machine.chardevs, SETTLE_SECONDS)
    except Wrong:
        raise Wrong(f"chardevs {machine.list_chardevs()} in place of {machine.chardevs}") from None
    if machine.descriptors is None:
        return
    try:
        round_.wait("QEMU's descriptors to be the same",
                    lambda: not machine.count_descriptors() - machine.descriptors, SETTLE_SECONDS)
    except Wrong:
        raise Wrong(f"QEMU keeps {dict(machine.count_descriptors() - machine.descriptors)} "
                    "open") from None


def judge_files(round_):
    """What was to be written is complete, or is not there; nothing else is."""
    made = round_.command.makes
    names = sorted(os.listdir(round_.out))
    if not set(names) <= {made}:
        raise Wrong(f"files are left: {names}")
    if not made:
        return
    path = round_.out / made
    if path.exists():
        if problem := PROBLEMS[made](path):
            raise Wrong(f"{made} is not complete: {problem}")
    elif any(process.returncode == 0 for process in round_.writers):
        raise Wrong(f"vmscope says that it wrote {made}; it did not")


def report_problem(path):
    text = path.read_text()
    return None if text.rstrip().endswith("</svg>") else f"it ends with {text[-60:]!r}"


def core_problem(path):
    with open(path, "rb") as file:
        header = file.read(64)
        if len(header) < 64:
            return f"{len(header)} bytes"
        if header[:4] == b"\x7fELF":
            offset, size, n = (struct.unpack_from("<Q", header, 32)[0],
                               *struct.unpack_from("<HH", header, 54))
            file.seek(offset)
            segments = [struct.unpack("<IIQQQQQQ", file.read(size)) for _ in range(n)]
            end = max(segment[2] + segment[5] for segment in segments)
            if end > path.stat().st_size:
                return f"{path.stat().st_size} bytes, its segments end at {end}"
    info = vmscope("core", "info", path, "--json", check=False)
    if info.status:
        return info.err
    damage = json.loads(info.out)["damage"]
    return "; ".join(map(str, damage)) or None


def trace_problem(path):
    """A trace is a directory that has what was recorded up to any moment."""
    return None if path.is_dir() else "it is no directory"


def hits_problem(path):
    """A full disk keeps the records that it could take, and the report says that it has no end."""
    run = vmscope("flow", "report", path, check=False)
    return None if run.status == 0 or "lacks its end" in run.err else run.err.strip()


def table_problem(path):
    try:
        return None if json.loads(path.read_text())["rows"] else "it has no rows"
    except ValueError as error:
        return str(error)


def recording_problem(path):
    """As of hits."""
    run = vmscope("report", "--stats", path, check=False)
    return None if run.status == 0 or "lacks its end" in run.err else run.err.strip()


PROBLEMS = {"core": core_problem, "report.svg": report_problem, "calls": trace_problem,
            "hits": hits_problem, "recording": recording_problem, "top.json": table_problem}
