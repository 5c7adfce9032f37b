# SPDX-License-Identifier: MIT
"""Names of the functions of a guest's programs and libraries."""
import collections
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import linux_guest
from sample_report import FRAME
from testbed import GUESTS
from vmscope_command import vmscope


def read_functions(path, *options):
    """The functions of a file by address, as nm tells them."""
    functions = collections.defaultdict(set)
    listing = subprocess.run(["nm", *options, path], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "tTwWi":
            functions[int(words[0], 16)].add(words[2].split("@")[0])
    return functions


class Names:
    """A dynamic program (tests/guests/sorts.c) in a guest of a series and an architecture."""
    series, arch, programs = "", "x86_64", GUESTS

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)
        cls.pid = cls.guest.run("sorts >/dev/null 2>&1 & echo $!").strip()
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "report.txt"
            # Without the host's debug symbols: nm -D does not know the static functions of a library.
            vmscope("sample", "-t", "3", "-F", "199", "--by", "address", "--debug-dir", name, "-o", file,
                    *cls.guest.target)
            cls.text = file.read_text()

    def frames(self):
        """Frames of the program, as (name, offset, file, address)."""
        for line in self.text.splitlines():
            match = FRAME.search(line)
            if match and match[3] and match[3].startswith("/bin/"):
                yield match[1], int(match[2] or "0", 16), match[3], int(match[4], 16)

    def test_names_and_places(self):
        """A function has one address in its file, wherever that is mapped: a multiple of pages apart."""
        files = {"/bin/sorts": read_functions(self.programs / "sorts"),
                 "/bin/libc.so.6": read_functions(self.programs / "libc.so.6", "-D")}
        biases, seen = collections.defaultdict(set), collections.Counter()
        for name, offset, file, address in self.frames():
            # A stripped library has no names of its static functions.
            if file not in files or name == pathlib.Path(file).name or name.endswith("@plt"):
                continue
            places = [place for place, names in files[file].items() if name in names]
            self.assertTrue(places, f"{name} in {file}")
            biases[file].update({address - offset - place for place in places} if len(places) == 1 else ())
            seen[file] += 1
        for file in files:
            self.assertGreater(seen[file], 0, f"{file}: {self.text}")
            self.assertEqual(len(biases[file]), 1, file)
            self.assertEqual(min(biases[file]) % 4096, 0)

    def symbol(self, *words):
        return vmscope("symbol", "--task", self.pid, *words, *self.guest.target).out

    def test_symbol_of_a_task(self):
        """A function is where the guest's own /proc/PID/maps and nm say; so is its name."""
        maps = [line.split() for line in self.guest.run(f"cat /proc/{self.pid}/maps").splitlines()]
        for file, name, options in (("sorts", "compare_numbers", ()), ("libc.so.6", "rand_r", ("-D",))):
            first = next(words for words in maps if words[-1] == f"/bin/{file}")
            self.assertEqual(int(first[2], 16), 0)
            bias = int(first[0].split("-")[0], 16)
            place, = (place for place, names in read_functions(self.programs / file, *options).items()
                      if name in names)
            va = bias + place
            self.assertEqual(self.symbol(name), f"{va:016x} T {name}\t[/bin/{file}]\n")
            self.assertEqual(self.symbol(hex(va + 1)), f"{va + 1:016x} {name}+0x1 (/bin/{file})\n")
        self.assertIn("no function \"nothing\" is known",
                      vmscope("symbol", "--task", self.pid, "nothing", *self.guest.target, check=False).err)

    def test_symbol_with_an_offset(self):
        """A function and an offset are the address that nm and /proc/PID/maps tell."""
        start = int(self.symbol("compare_numbers").split()[0], 16)
        self.assertEqual(self.symbol("compare_numbers+0x4"),
                         f"{start + 4:016x} compare_numbers+0x4 (/bin/sorts)\n")

    def test_disassembly(self):
        """A program's function has the instructions that objdump finds in its file."""
        prefix = "aarch64-linux-gnu-" if self.arch == "aarch64" else ""
        listed = subprocess.run([f"{prefix}objdump", "-d", "--no-show-raw-insn", "--disassemble=compare_numbers",
                                 self.programs / "sorts"], check=True, capture_output=True, text=True).stdout
        offsets = [int(place, 16) for place in re.findall(r"^ +([0-9a-f]+):\t", listed, re.M)]
        rows = json.loads(vmscope("disas", "--task", self.pid, "compare_numbers", "--json",
                                  *self.guest.target).out)
        vas = [int(row["address"], 16) for row in rows]
        self.assertEqual(self.symbol("compare_numbers").split()[0], f"{vas[0]:016x}")
        self.assertEqual([va - vas[0] for va in vas], [offset - offsets[0] for offset in offsets])
        shown = vmscope("disas", "--task", self.pid, "compare_numbers+0x4", *self.guest.target).out.splitlines()
        self.assertEqual(shown[0], "compare_numbers+0x4 (/bin/sorts):")
        run = vmscope("disas", "--task", self.pid, "nothing", *self.guest.target, check=False)
        self.assertEqual((run.status, run.out), (1, ""))
        self.assertIn("no function \"nothing\" is known", run.err)

    def test_vdso(self):
        """The kernel's code for programs is in their memory alone."""
        self.assertIn("\t[[vdso]]\n", self.symbol())

    def test_symbol_of_a_thread_without_programs(self):
        """A zombie is none of the kernel's threads."""
        zombie = self.guest.run("(sleep 0.2 & echo $!; exec sleep 1000 >/dev/null 2>&1) &").strip()
        self.assertIn("State:\tZ", self.guest.run(f"sleep 1; cat /proc/{zombie}/status"))
        for task, reason in ((zombie, "has ended, and has no programs any more"),
                             ("2", "(kthreadd) is of the kernel, and has no programs")):
            self.assertIn(reason, vmscope("symbol", "--task", task, *self.guest.target, check=False).err)

    def test_same_build_id(self):
        """A program that carries the build id of another one does not give its names to that."""
        place = (self.programs / "sorts").read_bytes().index(b"compare_numbers\0")
        pid = self.guest.run(f"cp /bin/sorts /tmp/other && printf compare_strings | dd of=/tmp/other bs=1 seek={place}"
                             " conv=notrunc 2>/dev/null; /tmp/other >/dev/null 2>&1 & echo $!").strip()
        self.addCleanup(self.guest.run, f"kill -9 {pid}")
        text = vmscope("sample", "-t", "2", "-F", "199", "--facts", "none", *self.guest.target).out
        found = set(re.findall(r"(compare_\w+) \((/[^)]+)\)", text))
        self.assertEqual(found, {("compare_numbers", "/bin/sorts"), ("compare_strings", "/tmp/other")}, text)

    def test_functions_that_must_be_there(self):
        names = {name for name, *_ in self.frames()}
        for name in ("compare_numbers", "rand_r"):
            self.assertIn(name, names)
        vdso = set(re.findall(r"([^ +]+)(?:\+0x[0-9a-f]+)? \(\[vdso\]\)", self.text))
        self.assertTrue(vdso & {"__vdso_clock_gettime", "clock_gettime", "__kernel_clock_gettime"}, self.text)


class NamesAarch64(Names, unittest.TestCase):
    series, arch, programs = "6.12", "aarch64", GUESTS / "arm64"


if __name__ == "__main__":
    unittest.main()
