# SPDX-License-Identifier: MIT
"""Our encoder and decoder of the Fuchsia Trace Format beside the tests' own, in both directions; and what
is left of damaged files."""
import json
import pathlib
import random
import subprocess
import tempfile
import unittest

import fxt_format
import testbed
from fxt_format import MAGIC, record

TOOL = testbed.BUILD / "tests" / "tools" / "fxt-tool"
STRINGS = {1: b"", 2: b"name", 9: b"category", 0x7fff: b"\0\xff"}
THREADS = {1: (5, 6), 255: (2**64 - 1, 0)}


class Records:
    """Random records that use all of the format."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def bits(self, count):
        return self.random.choice((0, 1, 2**count - 1, self.random.getrandbits(count)))

    def data(self, limit=40):
        return self.random.randbytes(self.random.choice((0, 1, 7, 8, 9, limit)))

    def string(self):
        index = self.random.choice((0, *STRINGS))
        return (index, STRINGS[index]) if index else (0, self.data())

    def thread(self):
        index = self.random.choice((0, *THREADS))
        return (index, *THREADS[index]) if index else (0, self.bits(64), self.bits(64))

    def argument(self, kind):
        signed = self.bits(32)
        value = {0: 0, 1: signed | (0xffffffff << 32 if signed >> 31 else 0), 2: self.bits(32),
                 6: self.string(), 9: self.bits(1), 10: self.data()}.get(kind, self.bits(64))
        return (kind, self.string(), value)

    def arguments(self):
        return [self.argument(kind) for kind in self.random.sample(range(11), self.random.randint(0, 11))]

    def one(self):
        what, bits = self.random.choice((0, 1, 4, 5, 6, 7, 8, 9, 15)), self.bits
        if what == 0:
            kind = self.random.randint(1, 4)
            return record(0, kind, bits(4) if kind == 3 else 0, 0 if kind == 4 else 7,
                          name=(0, self.data(255)) if kind == 1 else fxt_format.EMPTY)
        if what == 1:
            return record(1, value=bits(64) or 1)
        if what == 4:
            kind = self.random.randint(0, 10)
            return record(4, kind, value=0 if kind in fxt_format.NO_EXTRA else bits(64), time=bits(64),
                          thread=self.thread(), category=self.string(), name=self.string(),
                          arguments=self.arguments())
        if what == 5:
            return record(5, bits(8), name=self.string(), payload=self.data(30000))
        if what == 6:
            index, pid, tid = self.thread()
            return record(6, value=bits(64), thread=(index, pid, tid if index else 0),
                          name=self.string(), arguments=self.arguments())
        if what == 7:
            return record(7, bits(8), value=bits(64), name=self.string(), arguments=self.arguments())
        if what == 8:
            kind = self.random.randint(1, 2)
            return record(8, kind, bits(4) if kind == 1 else 0, bits(16), bits(64), bits(64),
                          bits(64) if kind == 1 else 0, arguments=self.arguments())
        if what == 9:
            return record(9, time=bits(64), thread=self.thread(), name=(0, self.data(32000)))
        if self.random.randint(0, 1):
            return record(15, 1, category=self.string(), name=self.string(), payload=self.data(32768))
        return record(15, 0, time=bits(64), thread=self.thread(), category=self.string(),
                      name=self.string(), arguments=self.arguments(), payload=self.data(32768))

    def tables(self):
        """Provider 7, in which all records are, and the strings and threads that they use."""
        return [record(0, 4), record(0, 2, number=7),
                *(record(2, number=index, name=(0, text)) for index, text in STRINGS.items()),
                *(record(3, number=index, thread=(0, *who)) for index, who in THREADS.items())]

    def file(self, count):
        return [*self.tables(), *(self.one() for _ in range(count))]


def to_json(value):
    if isinstance(value, bytes):
        return value.hex()
    return [to_json(part) for part in value] if isinstance(value, (list, tuple)) else value


def sample(time, pcs=(0x401000, 0x402000)):
    return record(15, 0, time=time, thread=(0, 3, 4), arguments=[(2, (0, b"cpu"), 1)],
                  payload=fxt_format.words(*pcs))


class Fxt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "trace.fxt"

    def tool(self, verb, text=None):
        run = subprocess.run([TOOL, verb, self.path], input=text, stdout=subprocess.PIPE, check=True,
                             text=True, timeout=testbed.ANSWER_SECONDS)
        return [json.loads(line) for line in run.stdout.splitlines() if line != "refused"]

    def decode(self, data):
        """The records of our decoder, and what it says of damage: what, offset, size, reason."""
        self.path.write_bytes(data)
        lines = self.tool("decode")
        said = [(what, *rest) for line in lines if isinstance(line, dict) for what, rest in line.items()]
        return [line for line in lines if isinstance(line, list)], said

    def test_our_decoder(self):
        for seed in range(20):
            records = Records(seed).file(150)
            found, said = self.decode(b"".join(map(fxt_format.encode, records)))
            self.assertEqual(said, [])
            self.assertEqual(found, to_json(records))

    def test_our_encoder(self):
        for seed in range(20):
            records = Records(100 + seed).file(150)
            text = "".join(json.dumps(to_json(item)) + "\n" for item in records)
            self.tool("encode", text)
            data = self.path.read_bytes()
            self.assertEqual(data[:8], MAGIC)
            self.assertEqual(to_json(fxt_format.decode(data)), to_json(records))

    def test_encoder_refuses(self):
        """What has no room in the format is not written at all."""
        many = [(0, fxt_format.EMPTY, 0)] * 16
        refused = [record(4, 11), record(2, number=0), record(2, number=0x8000), record(3, number=256),
                   record(15, 0, payload=bytes(32769)), record(5, payload=bytes(32768)),
                   record(4, arguments=many), record(4, arguments=[(10, (0, b""), bytes(32760))]),
                   record(0, 1, name=(0, bytes(256))), record(8, 3), record(11)]
        self.tool("encode", "".join(json.dumps(to_json(item)) + "\n" for item in refused))
        self.assertEqual(self.path.read_bytes(), b"")

    def test_truncated(self):
        """At any byte: what is whole is read, and the rest is told."""
        items = [record(0, 4), *(sample(time) for time in range(4))]
        encoded = [fxt_format.encode(item) for item in items]
        ends = [sum(map(len, encoded[:n])) for n in range(len(encoded) + 1)]
        data = b"".join(encoded)
        for size in range(0, len(data), 5):
            whole = max(n for n, end in enumerate(ends) if end <= size)
            found, said = self.decode(data[:size])
            self.assertEqual(found, to_json(items[:whole]))
            rest = size - ends[whole]
            self.assertEqual([part[:3] for part in said],
                             [("truncated", ends[whole], rest)] if rest else [])

    def test_damaged(self):
        """A record with one word changed: never is another one read wrongly. A sample that the change makes
        another valid one is not damage, which no decoder could know."""
        before, after = [record(0, 4), sample(1)], [sample(2), record(0, 4), sample(3)]
        victim = fxt_format.encode(sample(7))
        head = b"".join(map(fxt_format.encode, before))
        tail = b"".join(map(fxt_format.encode, after))
        generator = random.Random(1)
        for word in range(len(victim) // 8):
            for value in (0, 2**64 - 1, generator.getrandbits(64)):
                changed = victim[:8 * word] + fxt_format.words(value) + victim[8 * word + 8:]
                found, said = self.decode(head + changed + tail)
                found = [item for item in found if item[0] != 15 or item[5] in (1, 2, 3)]
                self.assertEqual(found[:2], to_json(before))
                self.assertEqual(found[-2:], to_json(after[1:]))
                for _, offset, size, reason in said:
                    self.assertEqual((offset, size % 8), (len(head), 0), reason)

    def test_faults(self):
        """Each kind of fault is told where it is; what follows is read."""
        argument = bytearray(fxt_format.encode(sample(7)))
        argument[6 * 8 - 8] += 0x10  # its argument says that it has a word more
        padding = bytearray(fxt_format.encode(record(2, number=3, name=(0, b"x"))))
        padding[-1] = 1
        for fault, reason in (
                (bytes(8), "it has no size"),
                (fxt_format.words(2**16 - 2**4 + 4), "it is longer than the file"),
                (fxt_format.words(0x1b), "it is of a type that is not known"),
                (fxt_format.encode(record(4, name=(44, b""))), "a string that is not in the file"),
                (fxt_format.encode(record(4, thread=(44, 0, 0))), "a thread that is not in the file"),
                (fxt_format.encode(record(1)), "no ticks"), (bytes(padding), "padding"),
                (bytes(argument), "an argument is not as long as it says")):
            head = b"".join(map(fxt_format.encode, (record(0, 4), sample(1))))
            found, said = self.decode(head + fault + MAGIC + fxt_format.encode(sample(2)))
            self.assertEqual(found, to_json([record(0, 4), sample(1), record(0, 4), sample(2)]))
            (what, offset, size, told), = said
            self.assertEqual((what, offset, size), ("damaged", len(head), len(fault)))
            self.assertIn(reason, told)

    def test_providers(self):
        """Each provider has strings of its own."""
        items = [record(0, 4)]
        for number, text in ((1, b"one"), (2, b"two")):
            items += [record(0, 1, number=number, name=(0, b"p")), record(2, number=5, name=(0, text))]
        items += [record(0, 2, number=1), record(4, name=(5, b"one")), record(0, 2, number=2),
                  record(4, name=(5, b"two"))]
        self.assertEqual(self.decode(b"".join(map(fxt_format.encode, items))), (to_json(items), []))


if __name__ == "__main__":
    unittest.main()
