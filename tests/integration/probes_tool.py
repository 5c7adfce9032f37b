# SPDX-License-Identifier: MIT
"""A process that arms probes and prints hits (tests/tools/probes.c), and what it puts them on."""
import functools
import json
import signal
import subprocess

import testbed

TOOL = testbed.BUILD / "tests" / "tools" / "probes"


@functools.cache
def symbols(arch, program="probed"):
    """The addresses of what is in a program of the guest's."""
    path = testbed.GUESTS / ("arm64" if arch == "aarch64" else "") / program
    text = subprocess.run(["nm", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    return {name: int(va, 16) for va, _, name in
            (line.split() for line in text.splitlines() if len(line.split()) == 3)}


def start(how, address, sets):
    """The tool. Each set is a list of arguments."""
    arguments = []
    for one in sets:
        arguments += [*([] if not arguments else ["--"]), *map(str, one)]
    return subprocess.Popen([TOOL, how, str(address), *arguments], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Probes:
    """Probes that are armed until the end, when their hits are read. `armed`: a line for each set."""

    def __init__(self, pid, *sets):
        self.process = start("pid", pid, sets)
        self.armed = [json.loads(self.process.stdout.readline()) for _ in sets]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.process.stdin.closed:
            self.end()

    def end(self):
        """Disarms. The hits, and what was counted, by set."""
        out, self.log = self.process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.lines = [json.loads(line) for line in out.splitlines()]
        self.hits = [line for line in self.lines if "number" in line]
        self.counts = [line for line in self.lines if "lost" in line]
        return self.hits, self.counts

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def number(value):
    """A value as a number; None: it could not be read."""
    status, text = value
    return int.from_bytes(bytes.fromhex(text), "little") if status == "known" else None


def numbers(hit):
    """The values of a hit."""
    return [number(value) for value in hit["values"]]
