# SPDX-License-Identifier: MIT
"""What the guest's owner does through a monitor of QEMU's, at any moment."""
import time

import history
from faults import QMP, fault
from oracle import must_restart, must_tick
from rounds import Wrong

STORM_SECONDS = 1.5


@fault(short=15, evenly=True)
def nothing(round_):
    """Nothing at all: every command does its work."""
    round_.start()
    round_.wait_ended()
    if round_.process.returncode != round_.command.status:
        raise Wrong(f"the command failed with status {round_.process.returncode}")


# With engines=QMP: what a bare stub cannot tell, as whether a machine was paused when it was connected
# to, or that its guest was to stop in a hold (docs/safety.md). What it can, test_attach.py tests.
@fault(engines=QMP, short=2)
def owner_cont(round_):
    """A paused guest; its owner continues it."""
    round_.owner("stop")
    round_.start()
    round_.wait_moment(running=False)
    round_.owner("cont")
    must_tick(round_, why="after its owner's cont")
    round_.finish()


@fault(engines=QMP, short=2)
def owner_stop(round_):
    """Its owner stops the guest."""
    round_.start()
    round_.wait_moment()
    round_.owner("stop")
    round_.expect(round_.guest, "paused")
    round_.finish()


@fault(short=2)
def owner_stop_cont(round_):
    """Its owner stops the guest and continues it at once."""
    round_.start()
    round_.wait_moment()
    round_.owner("stop")
    round_.sleep(round_.rng.choice((0, 0.001, 0.05)))
    round_.owner("cont")
    must_tick(round_, why="after its owner's cont")
    round_.finish()


@fault(engines=QMP, short=1)
def owner_stop_kill(round_):
    """Its owner stops the guest, and vmscope is killed."""
    round_.start()
    round_.wait_moment()
    round_.owner("stop")
    round_.sleep(0.05)
    round_.kill()
    round_.expect(round_.guest, "paused")


@fault(engines=QMP, short=1)
def owner_keeps_on(round_):
    """Another client keeps doing stop and cont."""
    round_.start()
    deadline = time.monotonic() + STORM_SECONDS
    while time.monotonic() < deadline and round_.process.poll() is None:
        round_.qmp.command("stop")
        round_.sleep(0.02)
        if round_.qmp.status() != "paused":
            steps = round_.history()
            if history.last_stop_had_effect(steps) and not history.last_stop_met_ours(steps) and \
                    not history.last_stop_followed_ours(steps):
                raise Wrong("the owner's stop was undone")
            round_.undetectable = True
        round_.qmp.command("cont")
        round_.sleep(0.02)
    must_tick(round_, why="after its owner's cont")
    round_.finish()


@fault(engines=QMP, short=1)
def owner_paused(round_):
    """A guest that its owner has paused."""
    round_.owner("stop")
    round_.start()
    round_.expect(round_.guest, "paused")
    if round_.rng.random() < 0.5:
        round_.wait_moment(running=False)
        round_.kill()
    round_.finish()


@fault(engines=QMP, fresh=True, short=1)
def owner_prelaunch(round_):
    """A guest that was started with -S, and that its owner lets go."""
    machine = round_.add(paused=True)
    round_.start(machine)
    round_.expect(machine, "prelaunch")
    round_.wait_moment(running=False)
    if round_.rng.random() < 0.5:
        round_.owner("cont", machine)
        round_.expect(machine, "running")
        must_tick(round_, machine, "after its owner's cont")
    round_.finish()


@fault(short=2)
def owner_reset(round_):
    """system_reset."""
    round_.start()
    round_.wait_moment()
    before = round_.guest.read_ticks()
    round_.owner("system_reset")
    must_restart(round_, before)
    round_.finish()


@fault(fresh=True, short=1)
def owner_quit(round_):
    """quit."""
    round_.start()
    round_.wait_moment()
    round_.tell("owner: quit")
    round_.qmp.quit()
    round_.expect(round_.guest, None, 0)
    round_.finish()


@fault(engines=QMP, short=1)
def owner_dump(round_):
    """dump-guest-memory, in the background."""
    round_.start()
    round_.wait_moment()
    round_.owner("dump-guest-memory", paging=False, detach=True,
                 protocol=f"file:{round_.directory}/dump")
    round_.wait("the owner's dump to be written",
                lambda: round_.qmp.command("query-dump")["status"] == "completed")
    must_tick(round_, why="after its owner's dump")
    round_.finish()


@fault(engines=QMP, fresh=True, short=1)
def guest_panics(round_):
    """The guest panics, and its owner wants it to stay as it is then."""
    round_.owner("set-action", panic="pause")
    end_in(round_, "guest-panicked", "inject-nmi", "GUEST_PANICKED")


@fault(engines=QMP, fresh=True, short=1)
def guest_shuts_down(round_):
    """The guest shuts down, and its owner wants it to stay as it is then."""
    round_.owner("set-action", reboot="shutdown", shutdown="pause")
    end_in(round_, "shutdown", "system_reset", "SHUTDOWN")


def end_in(round_, status, deed, event):
    """The machine comes into a state that it does not leave, before vmscope comes or meanwhile."""
    before = round_.rng.random() < 0.3
    if not before:
        round_.start()
        round_.wait_moment()
    round_.owner(deed)
    round_.wait(event, lambda: event in round_.qmp.event_names())
    if before:
        round_.start()
    round_.expect(round_.guest, status)
    round_.finish()
