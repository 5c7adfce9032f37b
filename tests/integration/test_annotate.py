# SPDX-License-Identifier: MIT
"""Hits per instruction: the instructions by objdump, the hits of loops by their rounds, the lines by
addr2line. Of recordings, of a bare guest, and of a Linux guest's programs and kernel."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import linux_guest
import testbed
from qemu_machine import BareGuest
from test_record import HERTZ, MAY
from vmscope_command import vmscope


def disassemble(program, function):
    """[(address in the file, mnemonic)] of a function."""
    listing = subprocess.run(["objdump", "-d", "-M", "intel", "--no-show-raw-insn",
                              f"--disassemble={function}", program],
                             check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ *([0-9a-f]+):\t(\S+)", listing, re.MULTILINE)
    return [(int(address, 16), mnemonic) for address, mnemonic in found]


def annotate(*arguments):
    return json.loads(vmscope("annotate", "--json", *arguments).out)


class Case(unittest.TestCase):
    def check_code(self, rows, program, function):
        """The very instructions, without padding behind the function; their hits in this order."""
        truth = disassemble(program, function)
        first = truth[0][0]
        self.assertEqual([(row["offset"], row["instruction"].split()[0]) for row in rows],
                         [(address - first, mnemonic) for address, mnemonic in truth])
        self.assertEqual({row["module"] for row in rows}, {rows[0]["module"]})
        self.assertAlmostEqual(sum(row["percent"] for row in rows), 100, delta=0.1)
        return [row["hits"] for row in rows]


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Recorded(Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.program, cls.file = cls.folder / "program", cls.folder / "recording"
        subprocess.run(["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", cls.program,
                        testbed.ROOT / "tests" / "guests" / "record_program.c"], check=True)
        vmscope("record", "-F", HERTZ, "-o", cls.file, "--", cls.program, "loops", "1")

    def test_loops(self):
        """A quarter of the hits is in the first loop, three are in the second."""
        rows = annotate("two_loops", self.file)
        self.check_code(rows, self.program, "two_loops")
        loops, inside = [], False
        for row in rows:
            mnemonic = row["instruction"].split()[0]
            if mnemonic == "dec":
                loops.append(0)
                inside = True
            if inside:
                loops[-1] += row["hits"]
            inside = inside and mnemonic != "jne"
        whole = sum(row["hits"] for row in rows)
        self.assertGreater(whole, HERTZ / 2)
        self.assertEqual(len(loops), 2)
        self.assertAlmostEqual(loops[0] / whole, 0.25, delta=0.05)
        self.assertAlmostEqual(loops[1] / whole, 0.75, delta=0.05)

    def test_lines(self):
        rows = annotate("two_loops", self.file)
        first = disassemble(self.program, "two_loops")[0][0]
        addresses = [hex(first + row["offset"]) for row in rows]
        truth = subprocess.run(["addr2line", "-e", self.program, *addresses], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        # A line may have several parts, which addr2line tells.
        self.assertEqual([row["line"] for row in rows], [line.split(" ")[0] for line in truth])
        text = vmscope("annotate", "two_loops", self.file).out
        for line in set(truth):
            self.assertIn(line.split(" ")[0], text)

    def test_elsewhere(self):
        """The code is in the recording: neither the program nor this host is needed."""
        moved = self.folder / "moved"
        self.program.rename(moved)
        try:
            rows = annotate("two_loops", self.file)
            self.check_code(rows, moved, "two_loops")
            self.assertEqual({row["line"] for row in rows}, {None})
            lines = {row["line"] for row in annotate("two_loops", "--symbols", moved, self.file)}
            self.assertNotIn(None, lines)
            # Another program has other lines.
            rows = annotate("two_loops", "--symbols", testbed.VMSCOPE, self.file)
            self.assertEqual({row["line"] for row in rows}, {None})
        finally:
            moved.rename(self.program)

    def test_without_code(self):
        """Of a recording that has no code only the addresses with hits are shown."""
        data, older = self.file.read_bytes(), self.folder / "older"
        older.write_bytes(data.replace(b"code\0\0\0\0", b"none\0\0\0\0"))
        run = vmscope("annotate", "--json", "two_loops", older)
        self.assertIn("only addresses are shown", run.err)
        rows = json.loads(run.out)
        self.assertEqual({row["instruction"] for row in rows}, {None})
        with_code = {row["offset"]: row["hits"] for row in annotate("two_loops", self.file)}
        self.assertEqual({row["offset"]: row["hits"] for row in rows},
                         {offset: hits for offset, hits in with_code.items() if hits})

    def test_errors(self):
        samples = re.search(r" of (\d+) samples", vmscope("annotate", "two_loops", self.file).out)[1]
        for arguments, status, message in (
                ((), 2, "an argument is missing"),
                (("two_lops", self.file), 1, "did you mean two_loops?"),
                (("vfs_read", self.file), 1, f"none of {samples} samples found vfs_read itself executing; "),
                (("main", self.program), 1, "is not a recording"),
                (("main", "-t", "1", self.file), 2, "it has neither a target nor"),
                (("main", "-p", "1", self.file), 2, "it has neither a target nor")):
            run = vmscope("annotate", *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)


class Bare(Case):
    def test_loop(self):
        """A guest that does nothing but go round in one loop: work, of two instructions."""
        guest = BareGuest()
        self.addCleanup(guest.stop)
        guest.wait_ready()
        program = testbed.GUESTS / "bare.elf"
        rows = annotate("work", "-t", "0.7", "--symbols", program, *guest.target)
        self.check_code(rows, program, "work")
        loop = sum(row["hits"] for row in rows if row["instruction"].split()[0] in ("dec", "jne"))
        whole = sum(row["hits"] for row in rows)
        self.assertGreater(whole, 50)
        self.assertGreater(loop / whole, 0.95)
        self.assertEqual(int(rows[0]["address"], 16), disassemble(program, "work")[0][0])
        self.assertEqual(guest.qmp.status(), "running")


class Linux(Case):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest("6.1")
        cls.addClassCleanup(cls.guest.stop)

    def test_program(self):
        """A function of a program, which the guest has in memory."""
        self.guest.start_workload("deep")
        self.addCleanup(self.guest.stop_workload)
        rows = annotate("burn", "-t", "0.7", *self.guest.target)
        hits = self.check_code(rows, testbed.GUESTS / "workload", "burn")
        self.assertGreater(sum(hits), 10)

    def test_kernel(self):
        """The function that most samples are in, where the guest's kallsyms says."""
        self.guest.run("dd if=/dev/zero of=/dev/null bs=1M count=1000000 2>/dev/null &")
        self.addCleanup(self.guest.run, "killall -9 dd")
        folded = vmscope("sample", "-t", "0.5", "-F", "499", "--format", "folded", *self.guest.target).out
        counts = {}
        for line in folded.splitlines():
            stack, count = line.rsplit(" ", 1)
            if ";dd (" in stack and "entry_SYSCALL_64" in stack:
                leaf = stack.rsplit(";", 1)[1]
                counts[leaf] = counts.get(leaf, 0) + int(count)
        function = max(counts, key=counts.get)
        rows = annotate(function, "-t", "0.7", *self.guest.target)
        begins = [symbol.va for symbol in self.guest.kallsyms() if symbol.name == function]
        self.assertIn(int(rows[0]["address"], 16), begins)
        self.assertEqual({row["module"] for row in rows}, {"vmlinux"})
        self.assertNotIn(None, {row["instruction"] for row in rows})
        self.assertGreater(sum(row["hits"] for row in rows), 5)


if __name__ == "__main__":
    unittest.main()
