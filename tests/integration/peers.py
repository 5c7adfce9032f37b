# SPDX-License-Identifier: MIT
"""Peers that do not behave: QMP monitors and gdb stubs that lie, fall silent or hang up."""
import json
import os
import pathlib
import shutil
import socket
import tempfile
import threading

GREETING = {"QMP": {"version": {"qemu": {"major": 10, "minor": 0, "micro": 2}, "package": ""},
                    "capabilities": []}}


class Peer:
    """Serves a unix socket: `behave(connection)` runs in a thread for every client."""

    def __init__(self, behave):
        self.directory = tempfile.mkdtemp(prefix="vmscope-peer-")
        self.path = str(pathlib.Path(self.directory) / "socket")
        self._behave = behave
        self._connections = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._client, args=(connection,), daemon=True).start()

    def _client(self, connection):
        try:
            self._behave(connection)
        except (OSError, ValueError):
            pass  # the client has gone

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()
        shutil.rmtree(self.directory)


def hang_up(connection):
    connection.close()


def silent(connection):
    """Takes everything and never answers."""
    while connection.recv(65536):
        pass


def garbage(connection):
    """Random bytes, for as long as somebody reads."""
    while True:
        connection.sendall(os.urandom(4096))


def endless_line(connection):
    """One JSON string that never ends."""
    connection.sendall(b'{"QMP": "')
    while True:
        connection.sendall(b"A" * 65536)


def deep_json(connection):
    connection.sendall(b"[" * 1000000 + b"\n")
    silent(connection)


def _send(connection, message):
    connection.sendall(json.dumps(message).encode() + b"\r\n")


def qmp(answer):
    """A monitor whose greeting and capabilities are right; then `answer(connection, request)`."""
    def behave(connection):
        _send(connection, GREETING)
        for line in connection.makefile("r"):
            request = json.loads(line)
            if request.get("execute") == "qmp_capabilities":
                _send(connection, {"return": {}, "id": request.get("id")})
            else:
                answer(connection, request)
    return behave


def greets_only(connection):
    _send(connection, GREETING)
    silent(connection)


def hangs_up_later(connection, _request):
    connection.shutdown(socket.SHUT_RDWR)


def answers_garbage(connection, _request):
    connection.sendall(b"\x00\xff{]}\r\n" * 100)


def answers_wrong_types(connection, request):
    _send(connection, {"return": {"status": 1, "running": "x", "arch": [], "qemu": None,
                                  "enabled": {}}, "id": request.get("id")})


def answers_errors(connection, request):
    _send(connection, {"error": {"class": "GenericError", "desc": "no"}, "id": request.get("id")})


def stops_answering(_connection, _request):
    pass


def _packet(payload):
    return b"$%s#%02x" % (payload, sum(payload) % 256)


def gdb(answer):
    """A stub that acknowledges every packet and answers with what `answer(payload)` gives."""
    def behave(connection):
        buffer = b""
        while data := connection.recv(65536):
            buffer += data
            while (start := buffer.find(b"$")) >= 0:
                end = buffer.find(b"#", start)
                if end < 0 or end + 3 > len(buffer):
                    break
                payload = buffer[start + 1:end]
                buffer = buffer[end + 3:]
                connection.sendall(b"+" + answer(payload))
    return behave


def gdb_unknown(_payload):
    """Supports nothing at all."""
    return _packet(b"")


def gdb_bad_checksum(_payload):
    return b"$OK#00"


def gdb_huge(_payload):
    return _packet(b"0" * (1 << 20))


def gdb_lies(payload):
    """An endless list of threads, a target description that includes itself."""
    if payload.startswith(b"qSupported"):
        return _packet(b"PacketSize=ffffffff;qXfer:features:read+")
    if payload.startswith(b"qXfer:features:read"):
        return _packet(b'm<target><xi:include href="target.xml"/>')
    if payload.startswith((b"qfThreadInfo", b"qsThreadInfo")):
        return _packet(b"mp01.01,p01.01,p01.02")
    if payload.startswith(b"?"):
        return _packet(b"T05thread:p01.01;")
    return _packet(b"ff" * 1000)
