# SPDX-License-Identifier: MIT
"""A client of the agent inside QEMU, written from src/machine/agent/protocol.h."""
import contextlib
import ctypes
import functools
import mmap
import os
import platform
import re
import socket
import struct
import subprocess
import time

import testbed

from agent_protocol import (  # noqa: F401
    ABSENT, CALLS_START, CALLS_STOP, ERROR, FEATURES, GREETING, HALTED, HELLO, HOLD, MAGIC,
    MAX_CLIENTS, MAX_MESSAGE, MAX_PREFETCH, MAX_REGS, OK, OLD_HELLO, PIN, PREFETCH_SIZE, REG_NAME,
    RUNNING, SLOT, SLOTS, TASKS)

WANTED, HELD, STATE, BROKEN, THREAD, HAS_REGS, REGS = 0, 4, 8, 12, 16, 20, 40
N_PREFETCH = REGS + 8 * MAX_REGS
IS_PREFETCHED = N_PREFETCH + 4
PREFETCH_HVA = IS_PREFETCHED + MAX_PREFETCH + 4  # aligned
PREFETCHED = PREFETCH_HVA + 8 * MAX_PREFETCH

# In struct vms_agent_rings: looks; of the first ring, its head and what found no room.
LOOKS, RING_HEADS, RING_LOST = 24, 64, 64 + 128

FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]
FUTEX_WAKE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class AgentError(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


@functools.cache
def api_of(qemu):
    """The version of the agent that a QEMU takes."""
    text = subprocess.run([qemu, "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout
    version = tuple(map(int, re.search(r"version (\d+)\.(\d+)", text).groups()))
    return 7 if version >= (11, 1) else 4


def plugin_of(api):
    return testbed.BUILD / "agent" / f"libvmscope-agent-api{api}.so"


def options(path, api=4, internals=True):
    """The arguments that load the agent into QEMU."""
    return "-plugin", f"{plugin_of(api)},socket={path}" + ("" if internals else ",internals=off")


class Agent:
    """A connection to the agent; says hello unless `greet` is False. `features`: what this client
    can; None: it is older than features are."""

    def __init__(self, path, greet=True, features=FEATURES):
        self._features = features
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(testbed.ANSWER_SECONDS)
        self.socket.connect(str(path))
        self.memory = None
        if greet:
            self.hello()

    def close(self):
        if self.memory:
            self.memory.close()
            self.memory = None
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def send(self, kind, body=b"", fds=()):
        socket.send_fds(self.socket, [struct.pack("=II", MAGIC, kind) + body], fds)

    def receive(self):
        """The next reply's kind, all of its bytes, and the descriptors that came with it."""
        data, fds, _, _ = socket.recv_fds(self.socket, MAX_MESSAGE, 4)
        if not data:
            raise EOFError("the agent has closed the connection")
        magic, kind = struct.unpack_from("=II", data)
        assert magic == MAGIC, data
        if kind == ERROR:
            for fd in fds:
                os.close(fd)
            code, = struct.unpack_from("=I", data, 8)
            raise AgentError(code, data[12:].split(b"\0")[0].decode())
        return kind, data, fds

    def hello(self):
        with contextlib.suppress(BrokenPipeError):  # turned away: it says why
            self.send(HELLO, b"" if self._features is None else struct.pack("=Q", self._features))
        _, data, (memory,) = self.receive()
        (_, _, self.version, self.api, self.pid, self.max_vcpus, self.n_regs, self.one_thread,
         size, arch) = OLD_HELLO.unpack_from(data)
        rest = data[OLD_HELLO.size:]
        self.features = struct.unpack("=Q", rest)[0] if rest else None
        self.arch = arch.split(b"\0")[0].decode()
        self.memory = mmap.mmap(memory, size)
        self.memory_size = size
        os.close(memory)
        self.names = [self.memory[i * REG_NAME:(i + 1) * REG_NAME].split(b"\0")[0].decode()
                      for i in range(self.n_regs)]
        self._number = 0

    def word(self, vcpu, offset):
        return struct.unpack_from("=I", self.memory, SLOTS + vcpu * SLOT + offset)[0]

    def _want(self, vcpu, number):
        offset = SLOTS + vcpu * SLOT + WANTED
        struct.pack_into("=I", self.memory, offset, number)
        word = ctypes.c_uint32.from_buffer(self.memory, offset)
        _libc.syscall(FUTEX, ctypes.byref(word), FUTEX_WAKE, 1, None, None, 0)
        del word

    def state(self, vcpu):
        return self.word(vcpu, STATE)

    def broken(self, vcpu):
        return self.word(vcpu, BROKEN)

    def thread(self, vcpu):
        return self.word(vcpu, THREAD)

    def wanted(self, vcpu):
        return self.word(vcpu, WANTED)

    def ask(self, vcpu, flags=PIN):
        """Requests a hold and does not wait for it. Without PIN the hold is brief."""
        self._number += 1
        self._want(vcpu, flags | self._number)
        self.send(HOLD, struct.pack("=I", vcpu))
        return self._number

    def hold_briefly(self, vcpu):
        """Holds the vCPU until it goes on by itself. Returns its registers."""
        number = self.ask(vcpu, flags=0)
        testbed.wait_for(lambda: self.word(vcpu, HELD) == number, f"vCPU {vcpu} to come")
        testbed.wait_for(lambda: not self.wanted(vcpu), f"vCPU {vcpu} to go on")
        return self.registers(vcpu)

    def pin(self, vcpu):
        """Makes a brief hold stay. For a moment at which the vCPU cannot go on."""
        self._want(vcpu, PIN | self.wanted(vcpu))

    def trace(self):
        """Begins to trace all calls by vCPU, without knowing any function. Its descriptors: the
        memory, and what wakes the client."""
        options = struct.pack("=8I Q 64I", 0, 0, 1 << 16, 0, 1, 1, 0, 0, 0, *[0] * 64)
        self.send(CALLS_START, options)
        return self.receive()[2]

    def end_trace(self):
        self.send(CALLS_STOP)
        self.receive()

    def ask_for_prefetch(self, vcpu, addresses, n=None):
        """Sets which memory of QEMU comes along with the next holds."""
        base = SLOTS + vcpu * SLOT
        struct.pack_into("=I", self.memory, base + N_PREFETCH, len(addresses) if n is None else n)
        struct.pack_into(f"={len(addresses)}Q", self.memory, base + PREFETCH_HVA, *addresses)

    def prefetched(self, vcpu, n):
        """The first n prefetched blocks. None for one that was not copied."""
        base = SLOTS + vcpu * SLOT
        return [self.memory[base + PREFETCHED + i * PREFETCH_SIZE:base + PREFETCHED + (i + 1) * PREFETCH_SIZE]
                if self.memory[base + IS_PREFETCHED + i] == 1 else None for i in range(n)]

    def has(self, vcpu):
        """Is it held?"""
        wanted = self.wanted(vcpu)
        return wanted != 0 and self.word(vcpu, HELD) == wanted & ~PIN

    def registers(self, vcpu):
        """What was given with the last hold."""
        base = SLOTS + vcpu * SLOT
        values = struct.unpack_from(f"={self.n_regs}Q", self.memory, base + REGS)
        has = struct.unpack_from("=4I", self.memory, base + HAS_REGS)
        return {name: values[i] for i, name in enumerate(self.names)
                if has[i // 32] >> i % 32 & 1}

    def hold(self, vcpu):
        """Holds the vCPU; its registers. One that halts may wake before it is seen: once more."""
        def held():
            if not self.wanted(vcpu):
                self.ask(vcpu)
            while self.wanted(vcpu) and not self.has(vcpu) and time.monotonic() < deadline:
                time.sleep(0)
            return self.has(vcpu)
        deadline = time.monotonic() + testbed.ANSWER_SECONDS
        testbed.wait_for(held, f"vCPU {vcpu} to be held")
        return self.registers(vcpu)

    def release(self, vcpu):
        self._want(vcpu, 0)

    @contextlib.contextmanager
    def held(self, vcpu):
        """Holds the vCPU in a `with` statement, and gives its registers."""
        try:
            yield self.hold(vcpu)
        finally:
            self.release(vcpu)
