# SPDX-License-Identifier: MIT
"""A process that arms places in a machine, through libvmscope (tests/tools/stop_probes.c)."""
import json
import signal
import subprocess
import threading

from testbed import ANSWER_SECONDS, BUILD, wait_for

TOOL = BUILD / "tests" / "tools" / "stop-probes"


class Probes:
    """Sets of places that are armed; what is hit is read in a thread of its own."""

    def __init__(self, how, address, *sets, **options):
        self.process = subprocess.Popen([TOOL, how, str(address), *sets], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        bufsize=1, **options)
        self.lines = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def wait_line(self, key, value=None):
        """The first line with that key, of that value."""
        return wait_for(lambda: next((line for line in list(self.lines) if key in line and
                                      value in (None, line[key])), None), f"a line with {key}")

    def wait_hits(self, n, number=0):
        def come():
            errors = [line for line in list(self.lines) if "error" in line]
            if errors:
                raise RuntimeError(f"{errors[0]}")
            return len(self.hits(number)) >= n and self.hits(number)
        return wait_for(come, f"{n} hits")

    def hits(self, number=0):
        """Of a set, in the order of their coming."""
        return [line for line in list(self.lines) if line.get("set") == number]

    def values(self, number=0, index=0, place=None):
        """A value of every hit, as a number; None where it could not be read."""
        texts = [hit["values"][index] for hit in self.hits(number)
                 if place in (None, hit["place"])]
        return [None if text == "?" else int.from_bytes(bytes.fromhex(text), "little")
                for text in texts]

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask_counts(self, number=0):
        """The set's counts as of now."""
        n = len(self.lines)
        self.do(f"counts {number}")
        return wait_for(lambda: next((line for line in self.lines[n:] if "counts" in line), None),
                        "counts")

    def counts(self, number=0):
        """The set's counts as of its end."""
        self.end()
        return [line for line in self.lines if line.get("counts") == number][-1]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(ANSWER_SECONDS)
            self.end()

    def end(self):
        """An orderly end; again, the same."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.wait(ANSWER_SECONDS)
            self._reader.join()
            self.process.stdout.close()
            self.log = self.process.stderr.read()
            self.process.stderr.close()
        return self.log
