# SPDX-License-Identifier: MIT
"""Programs of a guest that are made to harm who looks at their stacks and names: unwind tables and symbols
that lie, names with control characters, files that change while they are mapped, processes that come and
go. Nothing may hang, grow without limit, or write what a terminal takes for a command."""
import json
import pathlib
import re
import struct
import subprocess
import tarfile
import tempfile
import time
import unittest

import linux_guest
import testbed
from vmscope_command import start_vmscope

SECONDS = 60  # for one command
MEMORY_LIMIT = 200 << 10  # KiB
PROCESSES = 500
ESCAPES = "\\033[31mX\\007\\n\\r"  # for printf
BLOB = 0x100000  # bytes of the section for tables that are made here


def uleb(number):
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def sections_of(file):
    """By name: address, offset and size."""
    text = subprocess.run(["readelf", "-SW", file], check=True, capture_output=True, text=True).stdout
    return {name: tuple(int(number, 16) for number in numbers) for name, *numbers in re.findall(
        r"\] (\S+) +[A-Z]\S* +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", text)}


class Tables:
    """A copy of a program whose header of unwind tables leads to entries that are made here."""

    def __init__(self, program):
        self.bytes = bytearray(program.read_bytes())
        sections = sections_of(program)
        self.header, self.header_at, _ = sections[".eh_frame_hdr"]
        self.text, _, self.text_size = sections[".text"]
        self.blob, self.blob_at, _ = sections["blob"]
        self.n, = struct.unpack_from("<I", self.bytes, self.header_at + 8)
        # Version 1, "zR", the factors 1 and -8, register 16; CFA is rsp+8, the return address is at CFA-8.
        shared = b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01"
        self.entries = bytearray(struct.pack("<I", len(shared)) + shared)

    def add(self, program):
        """Adds an entry for all of the text; its address."""
        va = self.blob + len(self.entries)
        body = struct.pack("<IiIB", va + 4 - self.blob, self.text - (va + 8), self.text_size, 0) + program
        return self.add_raw(struct.pack("<I", len(body)) + body)

    def add_raw(self, entry):
        va = self.blob + len(self.entries)
        self.entries += entry + bytes(-len(entry) % 4)
        return va

    def write(self, file, lines):
        """`lines`: as many addresses of entries as the header has, for equal parts of the text."""
        for i in range(self.n):
            place = self.text + self.text_size * i // self.n
            struct.pack_into("<ii", self.bytes, self.header_at + 12 + 8 * i, place - self.header,
                             lines[i % len(lines)] - self.header)
        self.bytes[self.blob_at:self.blob_at + len(self.entries)] = self.entries
        file.write_bytes(self.bytes)
        file.chmod(0o755)


def write_rows(tables, file):
    """Entries with as many rows as they can have."""
    row = b"".join(b"\x41\x0e" + uleb(8 + 8 * (i % 9)) + bytes([0x80 | i % 16, i % 7]) for i in range(0xc000))
    tables.write(file, [tables.add(row) for _ in range(4)])


def write_itself(tables, file):
    """Each function's caller has the same stack pointer."""
    tables.write(file, [tables.add(b"\x0c\x07\x00\x90\x00")])


def write_deep(tables, file):
    """Each function is its own caller, a word further out."""
    tables.write(file, [tables.add(b"\x0c\x07\x08\x16\x10\x02\x80\x00")])


def write_loop(tables, file):
    """The CFA is an expression that jumps back to its begin."""
    expression = b"\x77\x08\x2f" + struct.pack("<h", -5)
    tables.write(file, [tables.add(b"\x0f" + uleb(len(expression)) + expression)])


def write_own_parent(tables, file):
    """An entry of the greatest size that shares with itself."""
    tables.write(file, [tables.add_raw(struct.pack("<II", 0x3fff0, 4) + bytes(0x3ffec))])


def write_lies(tables, file):
    """A header with more lines than it has bytes."""
    struct.pack_into("<I", tables.bytes, tables.header_at + 8, 0xffffffff)
    tables.write(file, [0x7f000000])


HOSTILE = {writer.__name__: writer for writer in (write_rows, write_itself, write_deep, write_loop,
                                                  write_own_parent, write_lies)}


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        testbed.build_guests()
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        program, source, archive = folder / "frames", folder / "frames.c", folder / "files.tar"
        source.write_text((testbed.ROOT / "tests/guests/frames.c").read_text() + "static const char made"
                          f"[{BLOB}] __attribute__((section(\"blob\"), used)) = {{ 1 }};\n")
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-fomit-frame-pointer", "-fPIE", "-pie",
                        "-Wl,--dynamic-linker=/bin/ld-linux-x86-64.so.2,-rpath,/bin", "-o", program, source],
                       check=True)
        for name, write in HOSTILE.items():
            write(Tables(program), folder / name)
        cls.write_long_names(folder)
        with tarfile.open(archive, "w") as files:
            for name in (*HOSTILE, "long_names"):
                files.add(folder / name, name)
        cls.guest = linux_guest.LinuxGuest("6.12", memory=1200, extra=(
            "-drive", f"if=none,id=files,format=raw,readonly=on,file={archive}",
            "-device", "virtio-blk-pci,drive=files"))
        cls.addClassCleanup(cls.guest.stop)
        cls.guest.run("mkdir /tmp/h && tar x -f /dev/vda -C /tmp/h")

    @staticmethod
    def write_long_names(folder):
        """Functions whose names are megabytes, or commands for a terminal."""
        names = ["x" * 1000000, "\x1b[31mred\x1b[0m", *(f"y{i}_{'z' * 60000}" for i in range(300))]
        lines = "".join(f'.type "{name}",@function\n"{name}": nop\n.size "{name}",1\n' for name in names)
        source = folder / "names.s"
        source.write_text('.section .note.GNU-stack,"",@progbits\n.text\n.globl _start\n'
                          f".type _start,@function\n{lines}_start: jmp _start\n.size _start,.-_start\n")
        subprocess.run(["gcc", "-nostdlib", "-static", "-o", folder / "long_names", source], check=True)

    def start(self, command):
        pid = self.guest.run(f"{command} >/dev/null 2>&1 & echo $!").strip()
        self.addCleanup(self.guest.run, f"kill -9 {pid} 2>/dev/null", check=False)
        time.sleep(0.5)
        return pid

    @staticmethod
    def wait_and_watch(process):
        """Waits until a process has ended; how much memory it has taken, in KiB."""
        deadline, most = time.monotonic() + SECONDS, 0
        while process.poll() is None:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            most = max([most, *(int(size) for size in re.findall(r"VmHWM:\s+(\d+)", status))])
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.02)
        return most

    def look(self, *arguments):
        """What a command writes. It ends in time, takes little memory, and writes no command for a terminal."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = start_vmscope(*arguments, *self.guest.target, stdout=out, stderr=err)
            memory = self.wait_and_watch(process)
            out.seek(0)
            err.seek(0)
            text, messages = out.read(), err.read()
        self.assertEqual(process.returncode, 0, f"{arguments}: {messages}")
        self.assertLess(memory, MEMORY_LIMIT, arguments)
        self.assertEqual(re.findall(r"[\x00-\x08\x0b-\x1f\x7f]", text + messages), [], arguments)
        return text

    def end_of(self, tid):
        """How the stack of a thread ends, and how many frames it has."""
        rows = json.loads(self.look("stack", "--task", tid, "--json"))
        return rows[-1]["end"], len(rows)

    def test_unwind_tables(self):
        """A stack may be wrong, as the tables are; it ends, and so does a run of samples."""
        for name in HOSTILE:
            with self.subTest(name):
                waits, spins = self.start(f"/tmp/h/{name} wait"), self.start(f"/tmp/h/{name} spin")
                for tid in waits, spins:
                    end, frames = self.end_of(tid)
                    self.assertNotEqual(end, "complete")
                    self.assertLessEqual(frames, 1024)
                self.assertIn(name, self.look("sample", "-t", "2"))
                self.guest.run(f"kill -9 {waits} {spins}")

    def test_symbols(self):
        pid = self.start("/tmp/h/long_names")
        self.assertIn("_start", self.look("stack", "--task", pid))
        symbols = self.look("symbol", "--task", pid)
        self.assertIn("?[31mred?[0m", symbols)
        self.assertLess(max(map(len, symbols.splitlines())), 8192)

    def test_names_with_control_characters(self):
        self.guest.run(f"cd /tmp; name=$(printf '{ESCAPES}x'); mkdir -p \"d$name\"; cp /bin/frames \"d$name/$name\"")
        pid = self.start(f"name=$(printf '{ESCAPES}x'); exec \"/tmp/d$name/$name\" wait \"$name\"")
        for options in ((), ("--json",)):
            self.assertIn("wait_inner", self.look("stack", "--task", pid, *options))
            self.look("ps", "--with", "command,cgroup,container", *options)
            self.look("symbol", "--task", pid, *options)
        self.look("stack", "--all", "--group")
        for form in "text", "folded", "speedscope", "perf":
            self.look("sample", "-t", "0.5", "--format", form)
        self.look("top", "--once")

    def test_maps_of_made_code(self):
        """One of a terabyte that is a hole, and one of many lines."""
        pid = self.start("makes_code")
        self.guest.run(f"printf '{ESCAPES}\\n7f0000000000 10 {ESCAPES}' >>/tmp/perf-{pid}.map;"
                       f"truncate -s 1000G /tmp/perf-{pid}.map")
        self.look("sample", "-t", "1")
        self.look("symbol", "--task", pid)
        self.guest.run("awk 'BEGIN { for (i = 0; i < 200000; i++) print sprintf(\"7f%010x 1 name%d\", i, i) }' "
                       f">/tmp/lines; cat /tmp/lines /tmp/lines /tmp/lines /tmp/lines >/tmp/perf-{pid}.map")
        self.look("sample", "-t", "1")

    def test_file_that_is_cut(self):
        pid = self.start("cp /bin/frames /tmp/cut; exec /bin/ld-linux-x86-64.so.2 /tmp/cut wait")
        self.assertEqual(self.end_of(pid)[0], "complete")
        self.guest.run(": >/tmp/cut")
        self.assertNotEqual(self.end_of(pid)[0], "complete")
        self.assertNotIn("/tmp/cut", self.look("symbol", "--task", pid))

    def test_processes_that_come_and_go(self):
        self.guest.run("echo 'exec sh /tmp/again' >/tmp/again")
        again = self.start("exec sh /tmp/again")
        self.start("while :; do frames x; frames-static x; done")
        for _ in range(3):
            self.look("stack", "--all")
            self.look("stack", "--task", again)
            self.look("ps", "--with", "command")
        self.look("sample", "-t", "3")

    def test_many_processes(self):
        self.guest.run(f"for i in $(seq {PROCESSES}); do frames wait >/dev/null 2>&1 & done; true")
        self.addCleanup(self.guest.run, "killall -9 frames")
        testbed.wait_for(lambda: self.look("stack", "--all").count("wait_inner") == PROCESSES, "all to wait")
        self.guest.run("for i in $(seq 20); do frames spin >/dev/null 2>&1 & done; true")
        self.look("sample", "-t", "5")


if __name__ == "__main__":
    unittest.main()
