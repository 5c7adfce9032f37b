# SPDX-License-Identifier: MIT
"""What happens to QEMU's process: it stands still, it dies, another one takes its place."""
import os
import signal

from faults import QEMU, TCG, fault
from oracle import must_tick


def stall(round_, least, most, machine=None):
    """The monitor does nothing for a while, as when its storage does not answer."""
    machine = machine or round_.guest
    round_.start(machine)
    round_.wait_moment()
    killed = round_.rng.random() < 0.5
    early = round_.rng.random() < 0.5  # is vmscope killed before QEMU stalls?
    if killed and early:
        round_.kill()
    round_.tell("QEMU stalls")
    os.kill(machine.pid, signal.SIGSTOP)
    try:
        if killed and not early:
            round_.sleep(1)
            round_.kill()
        round_.sleep(most, least)
    finally:
        round_.tell("QEMU goes on")
        os.kill(machine.pid, signal.SIGCONT)
    must_tick(round_, machine, "when it has gone on")
    round_.finish()


@fault(engines=QEMU, short=1)
def qemu_stalls(round_):
    """QEMU stands still for seconds, with kill -9 of vmscope or without."""
    stall(round_, 0.5, 5)


@fault(engines=QEMU, fresh=True, idle=True, short=0)
def qemu_stalls_long(round_):
    """QEMU stands still for up to 150 seconds, with kill -9 of vmscope or without."""
    stall(round_, 60, 150)


@fault(fresh=True, short=1)
def qemu_killed(round_):
    """kill -9 of QEMU."""
    round_.start()
    round_.wait_moment()
    round_.guest.process.kill()
    round_.tell("SIGKILL to QEMU")
    round_.expect(round_.guest, None, -signal.SIGKILL)
    round_.finish()


@fault(engines=TCG, fresh=True, short=1)
def qemu_replaced(round_):
    """Another QEMU at the same sockets, started with -S."""
    other = round_.add(paused=True)
    round_.start()
    round_.wait_moment()
    killed = round_.rng.random() < 0.5
    if killed:
        round_.kill()
        round_.sleep(0.01)
    round_.tell("another QEMU in its place")
    round_.guest.process.kill()
    other.take_place_of(round_.guest)
    round_.expect(round_.guest, None, -signal.SIGKILL)
    round_.expect(other, "prelaunch")
    if not killed and round_.rng.random() < 0.5:
        round_.sleep(0.3)
        round_.kill()
    round_.finish()
