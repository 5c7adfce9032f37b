# SPDX-License-Identifier: MIT
"""A process that listens where an agent should be, and says what is not true.

Usage: liar.py SOCKET KIND PID [USER]. It writes a line when it listens, and ends with its standard
input.
"""
import fcntl
import os
import pathlib
import pwd
import socket
import struct
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import agent_client  # noqa: E402
import agent_protocol  # noqa: E402

VCPUS = 2
PAGE_OF_NAMES = agent_client.SLOTS


def hello(pid):
    """What an agent says of itself, and the memory that it shares."""
    size = PAGE_OF_NAMES + VCPUS * agent_client.SLOT
    memory = os.memfd_create("liar", os.MFD_ALLOW_SEALING)
    os.truncate(memory, size)
    for i, name in enumerate((b"rax", b"rip", b"rsp", b"cr0", b"cr3", b"cr4", b"efer")):
        os.pwrite(memory, name, i * agent_client.REG_NAME)
    f_add_seals, seal_shrink, seal_grow = 1033, 2, 4
    fcntl.fcntl(memory, f_add_seals, seal_shrink | seal_grow)
    return agent_protocol.hello_of(pid, VCPUS, n_regs=7), memory


def serve(connection, kind, pid):
    if kind == "hangs-up":
        return
    while request := connection.recv(agent_client.MAX_MESSAGE):
        asked = struct.unpack_from("=II", request)[1] if len(request) >= 8 else 0
        if kind == "garbage":
            connection.send(os.urandom(200))
        elif kind.startswith("claims") and asked == agent_client.HELLO:
            reply, memory = hello(pid)
            socket.send_fds(connection, [reply], [memory])
            os.close(memory)


def main():
    path, kind, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if sys.argv[4:]:
        os.setgroups([])
        os.setuid(pwd.getpwnam(sys.argv[4]).pw_uid)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen()
    if kind == "claims-dead" and os.fork() > 0:
        os._exit(0)  # who has listened is not there any more when somebody asks for it
    print("ready", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, kind, pid), daemon=True).start()


if __name__ == "__main__":
    main()
