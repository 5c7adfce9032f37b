# SPDX-License-Identifier: MIT
"""Processes of another user that say of themselves what they are not.

Root looks at a process that is called QEMU and belongs to nobody. Whatever its command line, its
QMP socket and its agent say, no other process's memory may be read at its word. The secret lies in
the memory of this process.
"""
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

import agent_protocol
import fake_qemu
from qemu_machine import Machine
from testbed import ANSWER_SECONDS
from machine_tool import PERMISSION, Tool, error_code

NOBODY = 65534
SECRET = b"this is nobody's business"


@unittest.skipIf(os.geteuid() != 0, "only root can start a process of another user")
class FakeQemu(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-fake-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.directory.chmod(0o777)
        shutil.copy(fake_qemu.__file__, self.directory / "fake.py")
        # Its name is that of its executable.
        shutil.copy(os.path.realpath("/usr/bin/python3"), self.directory / "qemu-system-x86_64")
        self.page = ctypes.create_string_buffer(2 * fake_qemu.PAGE)
        self.memory = -(-ctypes.addressof(self.page) // fake_qemu.PAGE) * fake_qemu.PAGE
        ctypes.memmove(self.memory, SECRET, len(SECRET))

    def start(self, *arguments, qmp=None, agent=None):
        """Starts a fake QEMU as nobody; its process, when it is ready."""
        options = ["-qmp", f"unix:{qmp or self.directory / 'qmp'},server=on,wait=off"]
        if agent:
            options += ["-plugin", f"/nowhere/libvmscope-agent-api4.so,socket={agent}"]
        process = subprocess.Popen(
            [self.directory / "qemu-system-x86_64", self.directory / "fake.py", *options,
             *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", user=NOBODY,
            group=NOBODY, extra_groups=[], start_new_session=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @staticmethod
    def end(process):
        os.killpg(process.pid, 9)  # with the child that serves its agent
        process.wait(ANSWER_SECONDS)
        process.stdin.close()
        process.stdout.close()

    def look(self, process):
        """What it says when it opens the process, and its log; where it opens it, the memory that
        it reads is not the secret."""
        with Tool("pid", process.pid) as tool:
            opened = tool.opened
            if opened.startswith("ok"):
                self.assertNotIn(SECRET.hex(), tool.do(f"read 0 {len(SECRET)}"))
        return opened, tool.log

    def test_the_agent_says_another_pid(self):
        path = self.directory / "agent"
        hello = agent_protocol.hello_of(os.getpid()).hex()
        fake = self.start("--memory", self.memory, "--hello", hello, agent=path)
        _, log = self.look(fake)
        self.assertIn(f"agent {path}: cannot tell which process listens there", log)

    def test_the_agent_is_anothers(self):
        """It names the agent of a process of root, and tells itself where the memory is."""
        path = self.directory / "agent"
        listener = fake_qemu.listen(str(path), socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        asked = []

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                asked.append(connection.recv(fake_qemu.PAGE, socket.MSG_PEEK))
                if asked[-1]:
                    fake_qemu.serve_agent(connection, agent_protocol.hello_of(os.getpid()))
                connection.close()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        fake = self.start("--memory", self.memory, agent=path)
        _, log = self.look(fake)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(ANSWER_SECONDS)
        self.assertIn(f"process {os.getpid()} listens there, not process {fake.pid}", log)
        self.assertEqual(asked, [b""], "another process's agent was asked for something")

    def test_the_monitor_is_anothers(self):
        """It names the monitor of another user's QEMU, which stays as it was."""
        machine = Machine()
        self.addCleanup(machine.stop)
        fake = self.start(qmp=machine.qmp_path)
        opened, _ = self.look(fake)
        self.assertEqual(error_code(opened), PERMISSION, opened)
        self.assertIn(f"it is not process {fake.pid} that answers there", opened)
        self.assertEqual(machine.qmp.status(), "running")
        with Tool("pid", machine.pid) as tool:
            self.assertIn(f"pid={machine.pid} ", tool.do("facts"))


if __name__ == "__main__":
    unittest.main()
