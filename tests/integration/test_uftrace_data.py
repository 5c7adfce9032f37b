# SPDX-License-Identifier: MIT
"""The reader of data directories by itself: it accepts what uftrace records, and finds faults."""
import pathlib
import struct
import subprocess
import tempfile
import unittest

import uftrace_data
from uftrace_data import ENTRY, EXIT, LOST

PROGRAM = """
__attribute__((noinline)) int f(int n) { return n ? f(n - 1) + 1 : 0; }
int main(void) { return f(2000) - f(3) - 1997; }
"""


def record(time, kind, depth, address, magic=uftrace_data.MAGIC):
    return struct.pack("<QQ", time, kind | magic << 3 | min(depth, 1023) << 6 | address << 16)


class Faults(unittest.TestCase):
    def stream(self, *records):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = pathlib.Path(directory.name) / "100.dat"
        path.write_bytes(b"".join(records))
        return uftrace_data.Stream(path)

    def check(self, fault, *records):
        errors = self.stream(*records).check()
        self.assertEqual(len(errors), 1, errors)
        self.assertIn(fault, errors[0])

    def test_right(self):
        stream = self.stream(record(1, ENTRY, 0, 0x10), record(1, ENTRY, 1, 0x20),
                             record(2, EXIT, 1, 0x20), record(3, ENTRY, 1, 0x30))
        self.assertEqual(stream.check(), [])
        self.assertEqual(stream.open, [0x10, 0x30])
        self.assertEqual(stream.entries(), {0x10: 1, 0x20: 1, 0x30: 1})
        self.assertEqual(stream.edges(), {(None, 0x10): 1, (0x10, 0x20): 1, (0x10, 0x30): 1})

    def test_deep(self):
        deep = [record(n, ENTRY, n, 0x10) for n in range(3000)]
        deep += [record(3000 + n, EXIT, 2999 - n, 0x10) for n in range(3000)]
        self.assertEqual(self.stream(*deep).check(), [])

    def test_depth(self):
        self.check("depth 2, 1 calls are open", record(1, ENTRY, 0, 0x10), record(1, ENTRY, 2, 0x20))

    def test_other_exit(self):
        self.check("exit of 0x20", record(1, ENTRY, 0, 0x10), record(2, EXIT, 0, 0x20))

    def test_exit_at_other_depth(self):
        self.check("exit of 0x10", record(1, ENTRY, 0, 0x10), record(2, EXIT, 1, 0x10))

    def test_exit_without_entry(self):
        self.check("no call is open", record(2, EXIT, 0, 0x20))

    def test_time(self):
        self.check("before the one before", record(2, ENTRY, 0, 0x10), record(1, EXIT, 0, 0x10))

    def test_magic(self):
        self.check("no record", record(2, ENTRY, 0, 0x10, magic=4))

    def test_cut(self):
        self.check("after the last whole record", record(2, ENTRY, 0, 0x10), b"half")

    def test_lost(self):
        stream = self.stream(record(1, ENTRY, 0, 0x10), record(1, ENTRY, 1, 0x20),
                             record(2, LOST, 0, 7), record(3, EXIT, 0, 0x10))
        self.assertEqual(stream.check(), [])
        self.assertEqual((stream.lost, stream.open), (7, []))


class Recorded(unittest.TestCase):
    def test_uftrace(self):
        """A program that uftrace itself has recorded."""
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "program"
            subprocess.run(["gcc", "-pg", "-O0", "-x", "c", "-o", program, "-"], input=PROGRAM,
                           text=True, check=True)
            subprocess.run(["uftrace", "record", "-d", f"{directory}/trace", "--no-libcall",
                            program], check=True, stdout=subprocess.DEVNULL)
            trace = uftrace_data.Trace(f"{directory}/trace")
            self.assertEqual(trace.check(), [])
            self.assertEqual([trace.name_of_task(tid) for tid in trace.ids], ["program"])
            # It notes where in a function its own call lies.
            shown = {name.partition("+")[0]: n for name, n in trace.calls().items()}
            # Up to the depth that it can write.
            self.assertEqual(shown, {"main": 1, "f": 1023 + 4})


if __name__ == "__main__":
    unittest.main()
