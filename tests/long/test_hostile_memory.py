# SPDX-License-Identifier: MIT
"""A guest that rewrites its tasks and page tables while it is looked at: here its memory is rewritten from
outside, which it cannot tell from its own doing. Every command ends, with a result or with a message."""
import mmap
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import threading
import unittest

import linux_guest
import testbed
from vmscope_command import allow_stop

MEMORY = 256 << 20
MEMORY_LIMIT = 1 << 20  # KiB, of a command
ROUNDS = 5
PAGE = 4096
PRESENT, LARGE = 1, 1 << 7
ADDRESS = 0x000ffffffffff000
COMMANDS = (("ps",), ("ps", "--with", "time,command,cgroup,container"), ("stack", "--all"), ("info",),
            ("modules",), ("dmesg",), ("sample", "-t", "1"), ("stack",), ("regs",))


class Rewriter:
    """Changes words of a guest's memory without end."""

    def __init__(self, memory, places, seed):
        self.memory, self.places = memory, places
        self.random = random.Random(seed)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _value(self, place):
        """What leads back, what leads nowhere, and noise."""
        old, = struct.unpack_from("<Q", self.memory, place)
        return self.random.choice((old, old + 8, old ^ 1 << self.random.randrange(48),
                                   self.random.getrandbits(64), place & ADDRESS | 0x67, 0))

    def _run(self):
        while not self.ended.is_set():
            place = self.random.choice(self.places)
            before = self.memory[place:place + 8]
            struct.pack_into("<Q", self.memory, place, self._value(place) & (1 << 64) - 1)
            self.ended.wait(self.random.random() * 1e-4)
            if self.random.random() < 0.9:  # most of it is right most of the time
                self.memory[place:place + 8] = before

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class HostileMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(memory=MEMORY >> 20, smp=2, extra=(
            "-machine", "memory-backend=mem", "-object",
            f"memory-backend-memfd,id=mem,size={MEMORY},share=on"))
        cls.addClassCleanup(cls.guest.stop)
        descriptors = pathlib.Path(f"/proc/{cls.guest.pid}/fd").iterdir()
        path = next(path for path in descriptors if "memfd:memory-backend" in os.readlink(path))
        with open(path, "r+b") as file:
            cls.memory = mmap.mmap(file.fileno(), MEMORY)
        cls.addClassCleanup(cls.memory.close)
        cls.init_task = next(symbol.va for symbol in cls.guest.kallsyms() if symbol.name == "init_task")

    def hmp(self, text):
        return self.guest.qmp.command("human-monitor-command", command_line=text)

    def physical(self, va):
        return int(re.search(r"gpa: (0x[0-9a-f]+)", self.hmp(f"gva2gpa 0x{va:x}"))[1], 16)

    def places_of_task(self):
        """All words of init_task: its lists, pointers and names."""
        return [self.physical(self.init_task + at) for at in range(0, 2 * PAGE, 8)]

    def places_of_tables(self):
        """All entries in use of the page tables that map the kernel's half."""
        root = int(re.search(r"CR3=([0-9a-f]+)", self.hmp("info registers"))[1], 16) & ADDRESS
        places, pages = [], [(root, 4, range(256, 512))]
        while pages:
            page, level, entries = pages.pop()
            for i in entries:
                place = page + i * 8
                entry, = struct.unpack_from("<Q", self.memory, place)
                if not entry & PRESENT:
                    continue
                places.append(place)
                if level > 1 and not entry & LARGE and entry & ADDRESS < MEMORY:
                    pages.append((entry & ADDRESS, level - 1, range(512)))
        return places

    def check_command(self, words):
        """It ends within the time and memory that a command has, and says what was wrong."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [str(testbed.VMSCOPE), *allow_stop((*words, "-p", str(self.guest.pid)))],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            alarm = threading.Timer(testbed.ANSWER_SECONDS, process.kill)
            alarm.start()
            _, status, used = os.wait4(process.pid, 0)
            alarm.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            told = errors.read()
        self.assertIn(process.returncode, (0, 1), told[-2000:])
        if process.returncode:
            self.assertIn(b"vmscope: ", told)
        self.assertLess(used.ru_maxrss, MEMORY_LIMIT)

    def check_all(self, places):
        self.guest.qmp.command("stop")  # it would not survive this
        saved = bytes(self.memory)
        for seed in range(ROUNDS):
            for words in COMMANDS:
                with self.subTest(command=words, seed=seed), Rewriter(self.memory, places, seed):
                    self.check_command(words)
            self.memory[:] = saved
        self.guest.qmp.command("cont")
        self.assertEqual(self.guest.run("echo alive").strip(), "alive")

    def test_tasks(self):
        self.check_all(self.places_of_task())

    def test_page_tables(self):
        self.check_all(self.places_of_tables())
