# SPDX-License-Identifier: MIT
"""Machines in the tests' own KVM monitor (tests/tools/kvm_monitor.c)."""
import re
import select
import subprocess

from testbed import ANSWER_SECONDS, BUILD, GUESTS, build_guests, die_with_parent

PROGRAM = BUILD / "tests" / "tools" / "kvm-monitor"
ELF = GUESTS / "vcpus.elf"
# What a vCPU does (tests/guests/vcpus.h).
CALLS, COUNTS, SPINS, HALTS, EXITS, SLEEPS = range(6)
NOT_STARTED = "none"


class Monitor:
    """One machine, with a vCPU for each mode. Keywords are the monitor's options."""

    def __init__(self, *modes, **options):
        build_guests()
        flags = []
        for name, value in options.items():
            flags.append(f"--{name.replace('_', '-')}")
            if value is not True:
                flags.append(str(value))
        self.process = subprocess.Popen(
            [PROGRAM, *flags, ELF, *map(str, modes)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
            preexec_fn=die_with_parent)
        self._read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    def _read(self):
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        answer = self.process.stdout.readline() if ready else ""
        if not answer.startswith("ok"):
            self.process.kill()
            raise RuntimeError(f"the monitor says {answer!r}: {self.process.stderr.read()}")
        return answer.split()[1:]

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._read()

    def numbers(self, line):
        return [int(word) for word in self.do(line)]

    @property
    def target(self):
        """The options that name this machine, and where its memory is."""
        options = ["--pid", str(self.pid)]
        for place in self.do("places"):
            options += ["--memory", place]
        return options

    def stop(self):
        """Its end by itself; what it said, which is an error."""
        self.process.stdin.close()
        self.process.wait(ANSWER_SECONDS)
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        if said:
            raise RuntimeError(said)


def symbols():
    """Address by name, as nm gives them."""
    text = subprocess.run(["nm", ELF], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: int(address, 16) for address, name in re.findall(r"^(\w+) \w (\w+)$", text,
                                                                   re.MULTILINE)}
