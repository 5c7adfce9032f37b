#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recordings that cost as much as a small file can. Usage: recordings.py KIND COUNT SIZE FILE [plain]

COUNT is how many structures there are, SIZE how large each is, where that has a meaning. `plain` writes
the twin: as many samples of as many threads and functions, but nothing in it is meant to cost much.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "integration"))
import fxt_format as fxt  # noqa: E402

PROVIDER_HOST = 1
TICKS_PER_SECOND = 10 ** 9
KERNEL = 0xffffffff80000000
WORD = 2 ** 64 - 1
PAGE = 0x1000
STRINGS_LIMIT = 0x7ffe
# Two letters each: as 33 * first + second they are one number, but for the last.
SAME, ALIKE, OTHER = "Ez", "FY", "Fq"
GOLDEN = 0x9e3779b97f4a7c15
ODD_NAMES = ("line\nbreak", "carriage\rreturn", "tab\tand\vmore", "escape\x1b[31mred\x1b]0;title\x07",
             "bell\x07\x08\x7f", "separator\u2028and\u2029more", "next\x85line", "\u202eoverride\u202d",
             "\u2066isolate\u2069\u200e\u200f\u061c", "a;b;c 12", "</text><script>alert(1)</script>",
             "\"quoted\\\", \"x\": [", "# comment", "\u00e4\u20ac\U0001f600", "x" * 13 + "\u20ac\u20ac")


class Writer:
    """A recording of a host. Texts are kept as strings of the file, each once."""

    def __init__(self):
        self.strings, self.parts, self.time = {}, [fxt.MAGIC], 0
        self.add(fxt.record(fxt.METADATA, 1, number=PROVIDER_HOST, name=(0, b"vmscope")))
        self.add(fxt.record(fxt.INITIALIZATION, value=TICKS_PER_SECOND))
        self.event("session", real=1, period=10 ** 7, version="1", system="Linux", release="6.1",
                   machine="x86_64", host="host", cpus=4)

    def add(self, record):
        self.parts.append(fxt.encode(record))

    def text(self, text):
        data = text.encode("utf-8", "surrogateescape")
        if data not in self.strings and len(self.strings) < STRINGS_LIMIT:
            number = self.strings[data] = len(self.strings) + 1
            self.add(fxt.record(fxt.STRING, number=number, name=(0, data)))
        return (self.strings.get(data, 0), data)

    def arguments(self, values):
        known = []
        for name, value in values.items():
            name = self.text(name.replace("_", " "))
            if isinstance(value, str):
                known.append((6, name, self.text(value)))
            else:
                known.append((2 if value < 2 ** 32 else 4, name, value))
        return known

    def event(self, name, pid=1, time=0, **values):
        self.add(fxt.record(fxt.EVENT, time=time, thread=(0, pid, pid), category=self.text("vmscope"),
                            name=self.text(name), arguments=self.arguments(values)))

    def process(self, pid=1, comm="busy", **values):
        self.event("process", pid=pid, comm=comm, **values)

    def mapping(self, pid, start, pages=1, file=1, **values):
        self.event("mapping", pid=pid, start=start, end=start + pages * PAGE, offset=0, file=file,
                   **values)

    def sample(self, *pcs, pid=1, tid=None, time=None, **values):
        """Those in the kernel have to come first."""
        self.time += 10 ** 6
        self.add(fxt.record(fxt.LARGE, 0, time=self.time if time is None else time,
                            thread=(0, pid, tid or pid), payload=fxt.words(*pcs),
                            arguments=self.arguments({"cpu": 0, **values})))

    def attachment(self, name, payload):
        self.add(fxt.record(fxt.LARGE, 1, category=self.text("vmscope"), name=self.text(name),
                            payload=payload))

    def kernel_functions(self, names):
        """Functions of the kernel, 16 bytes each, with a sample in each."""
        lines = (b"%x 10 %s\n" % (KERNEL + i * 16, name.encode()) for i, name in enumerate(names))
        self.attachment("kernel symbols", b"".join(lines))
        for i in range(len(names)):
            self.sample(KERNEL + i * 16, kernel=1)

    def finish(self):
        self.event("end", collected=1, elapsed=10 ** 9)
        return b"".join(self.parts)


def colliding_name(number, plain):
    letters = (SAME, OTHER if plain else ALIKE)
    return "".join(letters[number >> bit & 1] for bit in range(17))


def undo_shift(value):
    """Finds x of x ^ x >> 29."""
    found = value
    for _ in range(3):
        found = value ^ found >> 29
    return found


def write_files(out, count, size, plain):
    """Numbers of files whose halves are the same, or whose low half is 0."""
    out.process()
    for i in range(1, count):
        number = i if plain else i << 32 | (i if i % 2 else 0)
        out.event("file", number=number, path="a" * size)
    out.sample(PAGE)


def write_stacks(out, count, size, plain):
    """Stacks of which each gives the same sum of multiplied words."""
    out.process()
    inverse = pow(GOLDEN, -1, 2 ** 64)
    for i in range(count):
        end = i << 32 | (i ^ 0x1234)
        leaf = PAGE + i * 16 if plain else undo_shift(end) * inverse & WORD
        out.sample(leaf, *range(PAGE, PAGE + size - 1))


def write_deep(out, count, size, plain):
    """Stacks that share no node of a tree, with all nodes the same code."""
    out.process()
    for i in range(count):
        below = range(1 if plain else i + 1, (1 if plain else i + 1) + size)
        out.sample(*(PAGE * j for j in below))


def write_names(out, count, size, plain):
    out.process()
    out.kernel_functions([colliding_name(i, plain) + "a" * size for i in range(count)])


def write_same_names(out, count, size, plain):
    """Functions of one name, each of another file that is mapped by a process of its own."""
    for i in range(1, count + 1):
        out.process(pid=i)
        out.event("file", number=i, path="/lib/one" if plain else f"/lib/{i}")
        out.attachment("symbols", b"%d\n0 %x evil\n" % (i, size))
        out.mapping(i, i * PAGE, file=i)
        out.sample(i * PAGE, pid=i)


def write_strings(out, count, size, plain):
    """Each record of a file, of 60 bytes, names two strings of `size` bytes."""
    path, build_id = ("/" + "a" * size, "b" * size) if not plain else ("/a", "bb")
    for i in range(1, count):
        out.event("file", number=i, path=path, build_id=build_id)
    out.process()
    out.sample(PAGE)


def write_generations(out, count, size, plain):
    """A process that begins again and again, and samples that were taken before or within."""
    for i in range(count):
        out.process(pid=1 + i if plain else 1, time=10 ** 6 + i)
    for i in range(count):
        out.sample(PAGE * (1 + i % size), time=1 if i % 2 else 10 ** 6 + i)


def write_births(out, count, size, plain):
    """A parent of `size` mappings, and children of it, each of which maps something else."""
    out.process()
    for i in range(1 if plain else size):
        out.mapping(1, PAGE * (i + 1))
    for i in range(count):
        out.process(pid=2 + i, parent=1)
        out.mapping(2 + i, PAGE * (1 + i % size), file=2)
        out.sample(PAGE, pid=2 + i)


def write_mappings(out, count, size, plain):
    """Mappings of one process, each over half of the one before; downwards, so each comes first."""
    out.process()
    for i in range(count):
        start = PAGE * 2 * (count - i)
        out.mapping(1, start, pages=1 if plain else 2 * size, time=i)
    out.sample(PAGE * 2)


def write_replaced(out, count, size, plain):
    """Other files at one address, again and again, beside `size` mappings."""
    out.process()
    for i in range(size):
        out.mapping(1, PAGE * (2 + i))
    for i in range(count):
        out.mapping(1, PAGE, file=1 if plain else 1 + i % 2, time=i)
    for i in range(count):
        out.sample(PAGE, time=1 + i)


def write_threads(out, count, size, plain):
    out.process()
    for i in range(count):
        tid = 1000 + i
        name = "worker" if plain else "w%d" % i + "n" * size
        out.add(fxt.record(fxt.KERNEL_OBJECT, 2, value=tid, name=out.text(name),
                           arguments=[(8, out.text("process"), 1)]))
        out.sample(PAGE, tid=tid)


def write_processes(out, count, size, plain):
    """Processes of which the half is only named as a parent."""
    for i in range(count):
        out.process(pid=1 + i, comm="p" if plain else "p%d" % i + "c" * size,
                    **({} if plain else {"parent": 10 ** 6 + i}))
        out.sample(PAGE, pid=1 + i)


def write_cpus(out, count, size, plain):
    """Samples of CPUs with the highest numbers."""
    out.process()
    for i in range(count):
        out.sample(PAGE, cpu=0 if plain else 2 ** 31 - 1 - i * size)


def write_odd(out, count, size, plain):
    """Names of all kinds that a terminal or a format would take for something else."""
    kinds = [f"plain{i}" for i in range(len(ODD_NAMES))] if plain else ODD_NAMES
    names = [kinds[i % len(kinds)] + "z" * size for i in range(count)]
    out.process(comm=names[0])
    # A symbol ends where its line does.
    out.kernel_functions([name.replace("\n", "\u2028") for name in names])
    for i, name in enumerate(names, 1):
        out.process(pid=1 + i, comm=name, container=name)
        out.event("file", number=i, path="/" + name, build_id=name)
        out.attachment("symbols", b"%d\n0 1000 %s\n" % (i, name.replace("\n", "\u2029").encode()))
        out.mapping(1 + i, PAGE * i, file=i)
        out.add(fxt.record(fxt.KERNEL_OBJECT, 2, value=100 + i, name=out.text(name),
                           arguments=[(8, out.text("process"), 1 + i)]))
        out.sample(PAGE * i, PAGE * 1000, pid=1 + i, tid=100 + i)


KINDS = {name[6:]: function for name, function in list(globals().items()) if name.startswith("write_")}


def make_recording(kind, count, size, plain=False):
    out = Writer()
    KINDS[kind](out, count, size, plain)
    return out.finish()


if __name__ == "__main__":
    pathlib.Path(sys.argv[4]).write_bytes(make_recording(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]),
                                                         sys.argv[5:] == ["plain"]))
