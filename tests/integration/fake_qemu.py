# SPDX-License-Identifier: MIT
"""A QEMU that lies about whose memory its guest's is: a QMP monitor and an agent.

As a program it serves the QMP socket of its command line, as QEMU would, and says that the guest's
memory is at the address of --memory. With --hello HEX it serves the agent's socket of its command
line, too, by a process that has called listen(2) and ended; the agent says this hello, whatever it is.
"""
import argparse
import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import sys

PAGE = 4096
SHARED_SIZE = 32  # where the hello says how much memory is shared


def answer(command, arguments, memory):
    line = arguments.get("command-line", "")
    if command == "query-status":
        return {"running": True, "status": "running"}
    if command == "query-cpus-fast":
        return [{"cpu-index": 0, "thread-id": os.getpid()}]
    if line.startswith("gpa2hva"):
        return f"Host virtual address for 0x0 (ram) is {memory:#x}\r\n"
    if line.startswith("info mtree"):
        return ("FlatView #0\r\n AS \"memory\", root: system\r\n Root memory region: system\r\n"
                "  0000000000000000-0000000000000fff (prio 0, ram): ram\r\n")
    return "" if line else {}


def serve_qmp(connection, memory):
    def send(message):
        connection.sendall(json.dumps(message).encode() + b"\n")
    send({"QMP": {"version": {"qemu": {"major": 10, "minor": 0, "micro": 2}},
                  "capabilities": []}})
    for line in connection.makefile("rb"):
        request = json.loads(line.replace(b"\xff", b""))
        send({"return": answer(request["execute"], request.get("arguments", {}), memory),
              "id": request.get("id")})


def serve_agent(connection, hello):
    """Says this hello, with the memory that it tells of."""
    connection.recv(PAGE)
    memory = os.memfd_create("shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, *struct.unpack_from("=Q", hello, SHARED_SIZE))
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    socket.send_fds(connection, [hello], [memory])
    connection.recv(PAGE)


def listen(path, kind):
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(path)
    listener.listen()
    return listener


def listen_by_child(path, kind):
    """A child calls listen(2) and ends: whose socket that is, the kernel cannot tell any more."""
    listener = socket.socket(socket.AF_UNIX, kind)
    child = os.fork()
    if child == 0:
        listener.bind(path)
        listener.listen()
        os._exit(0)
    os.waitpid(child, 0)
    return listener


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-qmp", default="")
    parser.add_argument("-plugin", default="")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--hello", type=bytes.fromhex)
    options = parser.parse_args()
    if options.hello:
        path = re.search("socket=(.*)", options.plugin)[1]
        agent = listen_by_child(path, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            while True:
                connection, _ = agent.accept()
                with contextlib.suppress(OSError):  # the client has gone
                    serve_agent(connection, options.hello)
    if options.memory is not None:
        listener = listen(re.match("unix:(.*?),", options.qmp)[1], socket.SOCK_STREAM)
    print("ready", flush=True)
    while options.memory is not None:
        connection, _ = listener.accept()
        with contextlib.suppress(OSError, ValueError):
            serve_qmp(connection, options.memory)
    sys.stdin.read()


if __name__ == "__main__":
    main()
