# SPDX-License-Identifier: MIT
"""A process that does to a machine what a test tells it, through libvmscope (tests/tools/machine.c)."""
import pathlib
import select
import signal
import subprocess

from testbed import ANSWER_SECONDS, BUILD

TOOL = BUILD / "tests" / "tools" / "machine-tool"
# enum vms_error
INVALID_STATE, NOT_FOUND, PERMISSION, BUSY, PROTOCOL, TIMEOUT, CLOSED, UNSUPPORTED, NOT_NOW = (
    1, 2, 4, 5, 6, 7, 8, 9, 14)


class Tool:
    """A process that does to a machine what it is told, line by line."""

    def __init__(self, how, address, **options):
        self.process = subprocess.Popen([TOOL, how, str(address)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, bufsize=1, **options)
        self.opened = self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def read(self):
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        if not ready:
            raise TimeoutError("the tool does not answer")
        return self.process.stdout.readline().strip()

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line):
        self.send(line)
        return self.read()

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(ANSWER_SECONDS)

    def end(self):
        """An orderly end; what was logged. Again, the same."""
        if self.process.stdin.closed:
            return self.log
        self.process.stdin.close()
        self.process.wait(ANSWER_SECONDS)
        self.process.stdout.close()
        self.log = self.process.stderr.read()
        self.process.stderr.close()
        return self.log


def error_code(answer):
    words = answer.split()
    return int(words[1]) if words[:1] == ["error"] else None


def registers(answer):
    return dict(word.split("=") for word in answer.split()[1:])


def guards(of):
    """Processes that guard the machine held by the process `of`, which may be dead."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
            argv = (stat.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if "(vms-guard)" in text and text.rpartition(")")[2].split()[0] != "Z" and \
                of.encode() in b" ".join(argv):
            found.append(int(stat.parent.name))
    return found
