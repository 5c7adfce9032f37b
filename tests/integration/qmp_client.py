# SPDX-License-Identifier: MIT
"""A QMP client of the tests' own, so that what vmscope says of a machine can be compared with what
the machine says itself."""
import contextlib
import json
import socket
import time

from testbed import ANSWER_SECONDS


class Qmp:
    """A QMP client on a connected socket."""

    def __init__(self, connection):
        self.events = []  # every event received so far, as QEMU sent it
        self._socket = connection
        self._received = b""  # of the next message
        self._receive()  # the greeting
        self.command("qmp_capabilities")

    @classmethod
    def connect(cls, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(str(path))
        return cls(connection)

    def close(self):
        self._socket.close()

    def _receive(self, seconds=ANSWER_SECONDS):
        """The next message; raises TimeoutError where none comes in time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            self._socket.settimeout(max(deadline - time.monotonic(), 1e-6))
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError("QMP: the connection was closed")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def send(self, name, **arguments):
        """Begins a command, to be ended with answer()."""
        request = {"execute": name}
        if arguments:
            request["arguments"] = {key.replace("_", "-"): value
                                    for key, value in arguments.items()}
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def answer(self, name):
        while True:
            answer = self._receive()
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"QMP {name}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def command(self, name, **arguments):
        """The command's answer; raises RuntimeError with QEMU's words when it fails."""
        self.send(name, **arguments)
        return self.answer(name)

    def quit(self):
        """QEMU may end before it has answered."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            self.command("quit")

    def wait_event(self, name, seconds):
        """The next event of that name; None where it does not come in time."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while True:
                event = self._receive(deadline - time.monotonic())
                self.events.append(event)
                if event["event"] == name:
                    return event
        return None

    def event_names(self):
        """Of all events up to now."""
        self.command("query-status")
        return [event["event"] for event in self.events]

    def hmp(self, line):
        return self.command("human-monitor-command", command_line=line)

    def status(self):
        return self.command("query-status")["status"]
