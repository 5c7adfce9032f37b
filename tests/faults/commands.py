# SPDX-License-Identifier: MIT
"""What is run beside a guest while something goes wrong."""
import collections
import functools

import guest
import testbed
import vmscope_command

# `makes`: the file that it writes, complete or not at all. `seconds`: about as long as it takes;
# moments at which something happens are spread over that time. `status`: its own where nothing
# goes wrong; the guest has no operating system whose tasks could be shown. `weight`: how much more
# often it is run than others.
Command = collections.namedtuple("Command", "name engine words makes seconds weight status",
                                 defaults=(0,))

SAMPLE = ("sample", "-F", "499", "-t", "2", "-o", "{out}/report.svg")
TOP = ("top", "--once", "--json", "--idle", "-F", "499", "-d", "2", "-o", "{out}/top.json")
RECORD = ("record", "-F", "499", "-t", "2", "-o", "{out}/recording")
BOTH = (*RECORD, "--host")
CORE = ("core", "-o", "{out}/core")
HELD = (*CORE, "--format", "kdump", "--compress-held")
PATIENT = (*HELD, "--hold-limit", "40")  # a stub gives memory slowly
CALLS = ("calls", "-t", "2", "-o", "{out}/calls")
FLOW = ("flow", "{probed}=rsp,mem(rsp,16)", "{probed}:after=rip", "-t", "2", "--no-tasks",
        "-o", "{out}/hits")
CALLED = (*FLOW, "{probed}:call")

COMMANDS = {command.name: command for command in (
    Command("sample", "stub", SAMPLE, "report.svg", 2.2, 6),
    Command("stack", "stub", ("stack",), None, 0.15, 1),
    Command("regs", "stub", ("regs",), None, 0.1, 1),
    Command("ps", "stub", ("ps",), None, 0.2, 1, status=1),
    Command("info", "stub", ("info",), None, 0.2, 1),
    Command("core", "stub", CORE, "core", 0.4, 2),
    Command("top", "stub", TOP, "top.json", 2.2, 1),
    Command("record", "stub", RECORD, "recording", 2.2, 2),
    Command("record-host", "stub", BOTH, "recording", 2.2, 1),
    Command("core-held", "stub", HELD, "core", 1, 3),
    Command("flow-stub", "stub", FLOW, "hits", 2.2, 4),
    Command("sample-agent", "agent", SAMPLE, "report.svg", 2.2, 3),
    Command("record-agent", "agent", RECORD, "recording", 2.2, 2),
    Command("record-host-agent", "agent", BOTH, "recording", 2.2, 1),
    Command("stack-agent", "agent", ("stack",), None, 0.1, 1),
    Command("core-agent", "agent", HELD, "core", 1, 1),
    Command("flow-agent", "agent", CALLED, "hits", 2.2, 1),
    Command("calls-agent", "agent", CALLS, "calls", 2.2, 1),
    Command("sample-kvm", "kvm", SAMPLE, "report.svg", 2.2, 3),
    Command("record-host-kvm", "kvm", BOTH, "recording", 2.2, 1),
    Command("stack-kvm", "kvm", ("stack",), None, 0.1, 1),
    Command("regs-kvm", "kvm", ("regs",), None, 0.1, 1),
    Command("core-kvm", "kvm", HELD, "core", 1, 2),
    Command("flow-kvm", "kvm-stub", FLOW, "hits", 2.2, 3),
    Command("regs-stub-kvm", "kvm-stub", ("regs",), None, 0.1, 1),
    Command("sample-monitor", "monitor", SAMPLE, "report.svg", 2.2, 3),
    Command("record-host-monitor", "monitor", BOTH, "recording", 2.2, 1),
    Command("top-monitor", "monitor", TOP, "top.json", 2.2, 1),
    Command("regs-monitor", "monitor", ("regs",), None, 0.1, 1),
    Command("core-monitor", "monitor", HELD, "core", 0.5, 2),
    Command("sample-gdb", "gdb", SAMPLE, "report.svg", 2.2, 2),
    Command("regs-gdb", "gdb", ("regs",), None, 0.1, 1),
    Command("core-gdb", "gdb", PATIENT, "core", 1, 1),
)}


@functools.cache
def has_option(word, option):
    """True if that command of the vmscope that is tested knows the option."""
    return option in vmscope_command.vmscope(word, "--help-all").out


def argv(command, machine, out):
    """The command line for a guest; what it writes goes to the directory `out`."""
    words = [word.format(out=out, probed=machine.probed) for word in command.words]
    if machine.engine in guest.STOPPING and has_option(words[0], "--allow-stop"):
        words.append("--allow-stop")  # we are another client of its QEMU, and watch it
    target = machine.target
    if words[0] == "record":  # whose --pid is a process, not a machine
        target = ("--guest" if word == "--pid" else word for word in target)
    return [str(word) for word in (testbed.VMSCOPE, *words, *target)]


def of_engine(engine):
    return [command for command in COMMANDS.values() if command.engine == engine]


assert {command.engine for command in COMMANDS.values()} == set(guest.ENGINES)
