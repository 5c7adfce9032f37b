# SPDX-License-Identifier: MIT
"""A process in the middle, between vmscope and QEMU's monitor, that may hold back what they say."""
import contextlib
import os
import socket
import threading

from testbed import ANSWER_SECONDS


class MonitorBetween:
    """Passes all on, with descriptors, unless a class that inherits from it does otherwise."""

    def __init__(self, machine):
        self.machine = machine
        self.path = machine.directory / "between"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.qemu = socket.socket(socket.AF_UNIX)
        self.qemu.connect(str(machine.qmp_path))
        self.threads = [threading.Thread(target=self._serve)]
        self.threads[0].start()

    def answer(self, line):
        """What its client gets for a line of QEMU's."""
        return line

    def command(self, data):
        """Called before a command is passed on to QEMU."""

    def descriptors(self, passed):
        """What QEMU gets for descriptors that its client passes."""
        return passed

    def _serve(self):
        self.client, _ = self.listener.accept()
        self.threads.append(threading.Thread(target=self._pass_commands))
        self.threads[1].start()
        for line in self.qemu.makefile("rb"):
            with contextlib.suppress(OSError):
                self.client.sendall(self.answer(line))

    def _pass_commands(self):
        while True:
            data, passed, _, _ = socket.recv_fds(self.client, 1 << 16, 4)
            if not data:
                self.qemu.shutdown(socket.SHUT_RDWR)
                return
            self.command(data)
            descriptors = self.descriptors(passed)
            socket.send_fds(self.qemu, [data], descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def end(self):
        """After its client has gone."""
        for thread in self.threads:
            thread.join(ANSWER_SECONDS)
        for connection in (self.client, self.qemu, self.listener):
            connection.close()


class WaysBetween(MonitorBetween):
    """In the middle of the connection to QEMU's gdb stub, too."""

    def request(self, data):
        """Called before a request is passed on to the stub."""

    def descriptors(self, passed):
        return [self._between(socket.socket(fileno=descriptor)) for descriptor in passed]

    def _between(self, client):
        """`client` leads to vmscope; what is returned is for QEMU to have in its place."""
        stub, qemu = socket.socketpair()
        for source, sink, look in ((client, stub, self.request),
                                   (stub, client, lambda data: None)):
            threading.Thread(target=self._pass, args=(source, sink, look), daemon=True).start()
        return qemu.detach()

    @staticmethod
    def _pass(source, sink, look):
        with source, contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                look(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
