# SPDX-License-Identifier: MIT
"""Who listens at the agent's socket is not the agent."""
import os
import pathlib
import subprocess
import sys

import commands
from faults import fault
from testbed import VMSCOPE
from oracle import must_tick
from rounds import Wrong

LIAR = pathlib.Path(__file__).with_name("liar.py")
KINDS = ("silent", "garbage", "hangs-up", "claims", "claims-dead")
RESET_RIP = "0xfff0"  # where a vCPU stands that has not begun


def monitors_of(machine):
    """How many clients have spoken to QEMU's monitors so far."""
    return machine.trace_path.read_text(errors="replace").count('"qmp_capabilities"')


@fault(engines=("agent",), short=1)
def lying_agent(round_):
    """A process that says that it is the agent of a QEMU."""
    kind = round_.rng.choice(KINDS)
    place = round_.directory / "liar"
    round_.directory.chmod(0o755)
    place.mkdir()
    place.chmod(0o777)
    user = ["nobody"] if round_.rng.random() < 0.5 and os.geteuid() == 0 else []
    round_.tell(f"a liar ({kind}) {user}")
    liar = subprocess.Popen(
        [sys.executable, "-B", LIAR, place / "agent", kind, str(round_.guest.pid), *user],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    round_.cleanups.callback(liar.wait)
    round_.cleanups.callback(liar.stdout.close)
    round_.cleanups.callback(liar.stdin.close)
    if liar.stdout.readline() != b"ready\n":
        raise RuntimeError("the liar does not listen")
    if kind == "claims-dead":
        liar.wait()  # the process that has listened; its child serves
    before = monitors_of(round_.guest)
    words = commands.argv(round_.command, round_.guest, round_.out)
    words[words.index("--agent") + 1] = str(place / "agent")
    round_.start(words=words)
    round_.wait_ended()
    if round_.process.returncode == 0:
        raise Wrong("vmscope believes the liar")
    if monitors_of(round_.guest) != before:
        raise Wrong("vmscope went to the QEMU that the liar had named")


@fault(engines=("agent",), fresh=True, short=1)
def swapped_agent(round_):
    """At the agent's socket listens the agent of another QEMU, which is not the one of that PID."""
    other = round_.add(paused=True)
    os.rename(other.place / "agent", round_.guest.place / "agent")
    round_.expect(other, "prelaunch")
    round_.start(words=[str(VMSCOPE), "regs", "-p", str(round_.guest.pid)])
    round_.wait_ended()
    if RESET_RIP in (round_.directory / "stdout0").read_text().split():
        raise Wrong("vmscope shows the registers of another QEMU")
    must_tick(round_)


