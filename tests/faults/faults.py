# SPDX-License-Identifier: MIT
"""The table of what can go wrong; every fault is a function of a round.

It starts the command, does its deed at a random moment, and says with Round.expect() what must be
true in the end. The name in the table is the function's, the words are its description.
"""
import collections

import commands
import guest

# `engines`: those whose commands it concerns. `only`: a condition on a command, or None.
# `fresh`: it needs a machine that nobody used before and nobody can use afterwards.
# `linux`: in a guest of that system, not in our own. `evenly`: as often beside each command.
# `idle`: its rounds are mostly spent waiting.
# `short`, `long`: rounds in each form of the matrix.
Fault = collections.namedtuple("Fault", "name act what engines only fresh linux evenly idle short "
                               "long")

FAULTS = {}
ALL = guest.ENGINES
KVM = ("kvm", "monitor")
QMP = ("stub", "agent")
BY_KVM = (*KVM, "kvm-stub")  # whose guest needs it
QEMU = ("stub", "agent", "gdb", "kvm", "kvm-stub")
OWNED = (*QMP, *BY_KVM)  # those that know whether its owner has paused a machine
TCG = (*QMP, "gdb")  # whose guest has a disk, and can sleep, restart and be moved


class Skipped(Exception):
    """This host cannot do that; the reason."""


def fault(engines=ALL, only=None, fresh=False, linux=False, evenly=False, idle=False,
          short=1, long=100):
    """Enters a function into the table."""
    def enter(act):
        name = act.__name__.replace("_", "-")
        assert name not in FAULTS
        FAULTS[name] = Fault(name, act, act.__doc__.split("\n")[0].rstrip("."), engines, only,
                             fresh, linux, evenly, idle, short, long)
        return act
    return enter


def commands_of(fault_):
    """The commands beside which that fault is tried."""
    return [command for command in commands.COMMANDS.values()
            if command.engine in fault_.engines and (not fault_.only or fault_.only(command))]
