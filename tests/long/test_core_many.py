# SPDX-License-Identifier: MIT
"""A file with more ranges of memory than an ELF header can count (PN_XNUM), converted into every
layout: what other tools and vmscope itself read of it.
"""
import json
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import testbed
from vmscope_command import vmscope

N = 70000
PAGE = 4096
STRIDE = 2 * PAGE  # every second page is memory
PN_XNUM = 0xFFFF
EHDR, PHDR, SHDR = 64, 56, 64


def address(number):
    """Of a range of memory; the first is not at 0, where gdb reads nothing."""
    return (number + 1) * STRIDE


def word(number):
    """What a range begins with."""
    return number * 0x100000001 ^ 0x5A5A


def write_source(path):
    """One vCPU, N pages with a word each; the rest of the file is holes."""
    content = struct.pack("<336x")
    note = struct.pack("<III8s", 5, len(content), 1, b"CORE") + content
    notes_at = EHDR + (N + 1) * PHDR
    section_at = notes_at + len(note)
    memory_at = -(-(section_at + SHDR) // PAGE) * PAGE
    headers = struct.pack("<IIQQQQQQ", 4, 0, notes_at, 0, 0, len(note), 0, 4)
    headers += b"".join(
        struct.pack("<IIQQQQQQ", 1, 7, memory_at + i * PAGE, 0, address(i), PAGE, PAGE, 0)
        for i in range(N))
    with open(path, "wb") as file:
        file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 4, 62, 1, 0, EHDR, section_at,
                               0, EHDR, PHDR, PN_XNUM, SHDR, 1, 0))
        file.write(headers + note + struct.pack("<44xI16x", N + 1))
        file.truncate(memory_at + N * PAGE)
        for i in range(N):
            file.seek(memory_at + i * PAGE)
            file.write(struct.pack("<Q", word(i)))


def run(*command):
    return subprocess.run([*map(str, command)], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=testbed.ANSWER_SECONDS).stdout


class ManyRanges(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-many-", dir="/var/tmp")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        write_source(cls.directory / "source")
        cls.paths = {layout: cls.directory / layout for layout in ("elf", "vbox", "kdump")}
        for layout, path in cls.paths.items():
            vmscope("core", "convert", cls.directory / "source", path, "--format", layout)

    def test_source(self):
        """The files are made of one that readelf takes."""
        self.assertIn(f"({N + 1})", run("readelf", "-h", self.directory / "source"))

    def test_readelf(self):
        for layout in ("elf", "vbox"):
            with self.subTest(layout=layout):
                output = run("readelf", "-h", "-lW", self.paths[layout])
                self.assertNotRegex(output, "(?i)warning|error")
                self.assertRegex(output, rf"Number of program headers: +{PN_XNUM} \({N + 1}\)")
                loads = re.findall(r"^ +LOAD +0x\w+ 0x\w+ 0x(\w+) 0x(\w+) 0x(\w+)", output, re.M)
                self.assertEqual([tuple(int(part, 16) for part in load) for load in loads],
                                 [(address(i), PAGE, PAGE) for i in range(N)])

    def test_gdb(self):
        """Memory behind the first, the last and the ones around what the header can count."""
        numbers = (0, 1, PN_XNUM - 2, PN_XNUM - 1, PN_XNUM, N - 1)
        asked = [part for i in numbers for part in ("-ex", f"x/gx {address(i):#x}")]
        output = run("gdb", "-q", "-nx", "-batch", "-ex", f"core {self.paths['elf']}", *asked)
        shown = [int(value, 16) for value in re.findall(r"^0x\w+:\t0x(\w+)$", output, re.M)]
        self.assertEqual(shown, [word(i) for i in numbers])

    def test_vmscope(self):
        for layout, path in self.paths.items():
            with self.subTest(layout=layout):
                info = json.loads(vmscope("core", "info", path, "--json").out)
                self.assertEqual(info["damage"], [])
                self.assertEqual(info["core"][0]["ranges"], N)
                for i in (PN_XNUM - 1, N - 1):
                    out = self.directory / "word"
                    vmscope("mem", "--physical", "--raw", "-o", out, hex(address(i)), 8, "-c", path)
                    self.assertEqual(struct.unpack("<Q", out.read_bytes())[0], word(i))
                run_ = vmscope("mem", "--physical", hex(address(0) + PAGE), "-c", path, check=False)
                self.assertEqual(run_.status, 1, "there is no memory")


if __name__ == "__main__":
    unittest.main()
