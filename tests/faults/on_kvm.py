# SPDX-License-Identifier: MIT
"""What happens to a machine whose vCPUs are held by their threads, and to the process that holds them."""
import contextlib
import os
import pathlib
import signal

import commands
import guest
from faults import KVM, fault
from kvm_monitor import COUNTS
from on_qemu import stall
from oracle import must_tick
from rounds import Wrong

HOLDER = "vms-holder\n"
PLUGS = 3


def find_holders(round_):
    found = []
    for pid in round_.living():
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == HOLDER:
                found.append(pid)
    return found


def signal_holders(round_, number):
    for pid in find_holders(round_):
        round_.tell(f"{number.name} to the holder, {pid}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


# A vCPU of MonitorGuest sleeps in its monitor for most of the time. It is not stopped there, and one that
# wakes up in a hold of all vCPUs breaks it.
REFUSALS = ("let go while it was held", "slept in its monitor", "the host is overloaded",
            "does not come back from its monitor")


@fault(engines=KVM, short=1, evenly=True)
def nothing_to_vcpus(round_):
    """Nothing at all: the command does its work, or says which vCPU did not stay in the guest."""
    round_.start()
    round_.wait_ended()
    if round_.process.returncode != round_.command.status and \
            not any(words in round_.output() for words in REFUSALS):
        raise Wrong(f"the command failed with status {round_.process.returncode}")


def signal_holder_of_a_command(round_, number, why):
    """Signals the holder while a command works, which must let the vCPUs go."""
    round_.start()
    round_.wait_moment()
    signal_holders(round_, number)
    must_tick(round_, why=why)
    round_.finish()


@fault(engines=KVM, short=1)
def holder_killed(round_):
    """kill -9 of the process that holds vCPUs."""
    signal_holder_of_a_command(round_, signal.SIGKILL, "after the holder's kill -9")


@fault(engines=KVM, short=1)
def holder_stopped(round_):
    """SIGSTOP of the process that holds vCPUs."""
    signal_holder_of_a_command(round_, signal.SIGSTOP, "beside a stopped holder")


@fault(engines=("monitor",), fresh=True, short=1)
def kill_with_holder(round_):
    """kill -9 of vmscope and its holder: nobody puts back which registers KVM stores."""
    round_.start()
    round_.wait_moment()
    round_.signals[round_.process].add(signal.SIGKILL)
    pids = sorted(round_.living(), reverse=round_.rng.random() < 0.5)
    round_.tell(f"SIGKILL to {pids}")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    must_tick(round_, why="after kill -9 of both")
    round_.process.wait()
    round_.wait("both to end", lambda: not round_.living())
    round_.guest.note_state()
    round_.start(command=commands.COMMANDS[f"regs-{round_.command.engine}"])


@fault(engines=("monitor",), short=1)
def monitor_stalls(round_):
    """The monitor stands still for seconds, with kill -9 of vmscope or without."""
    machine = round_.add(kind=guest.MonitorGuest, seccomp=False)
    round_.expect(machine, "running")
    stall(round_, 0.5, 5, machine)


@fault(engines=("monitor",), fresh=True, short=1)
def vcpus_plugged(round_):
    """The monitor starts vCPUs and ends others."""
    machine = round_.guest
    round_.start()
    for _ in range(PLUGS):
        round_.sleep(round_.command.seconds / PLUGS)
        if round_.rng.random() < 0.6:
            round_.tell("a vCPU is plugged")
            machine.do(f"add {COUNTS}")
        else:
            vcpu = round_.rng.choice(sorted(set(range(4)) - machine.ended))
            round_.tell(f"vCPU {vcpu} is unplugged")
            machine.do(f"end {vcpu}")
            machine.ended.add(vcpu)
        must_tick(round_, why="with other vCPUs")
    machine.descriptors = None  # it has others now
