# SPDX-License-Identifier: MIT
"""What the tests of coverage share: readers of what vmscope writes, and of QEMU's own log."""
import collections
import json
import pathlib
import re
import struct
import subprocess

import testbed

Block = collections.namedtuple("Block", "va size module")
BEGUN = "the coverage has begun"


def read_drcov(path):
    """The blocks of a drcov file, by its format alone."""
    data = pathlib.Path(path).read_bytes()
    head, mark, rest = data.partition(b"BB Table: ")
    count, _, table = rest.partition(b" bbs\n")
    version, flavor, modules, columns, *lines = head.decode().splitlines()
    if (version, flavor[:14], bool(mark)) != ("DRCOV VERSION: 2", "DRCOV FLAVOR: ", True):
        raise ValueError(f"no drcov file: {version}")
    number = re.fullmatch(r"Module Table: version 2, count (\d+)", modules)[1]
    if columns != "Columns: id, base, end, entry, path" or len(lines) != int(number):
        raise ValueError(f"{columns}, {number} modules, {len(lines)} lines")
    known = {}
    for line in lines:
        index, base, end, _, path = (word.strip() for word in line.split(",", 4))
        known[int(index)] = int(base, 16), int(end, 16), path
    if len(table) != 8 * int(count):
        raise ValueError(f"{count} blocks, {len(table)} bytes")
    blocks = []
    for offset, size, index in struct.iter_unpack("<IHH", table):
        base, end, path = known[index]
        if base + offset + size > end:
            raise ValueError(f"a block at {base + offset:#x} is not in its module {path}")
        blocks.append(Block(base + offset, size, path))
    return blocks


class Lcov:
    """A tracefile of lcov: {path: {name: (line, ran)}} and {path: {line: ran}}."""

    def __init__(self, path):
        self.functions, self.lines = collections.defaultdict(dict), collections.defaultdict(dict)
        found, source = {}, None
        for text in pathlib.Path(path).read_text().splitlines():
            kind, _, value = text.partition(":")
            if kind == "SF":
                source, found = value, collections.Counter()
            elif kind == "FN":
                line, _, name = value.partition(",")
                if name in self.functions[source]:
                    raise ValueError(f"{source} has two functions {name}")
                self.functions[source][name] = int(line), None
            elif kind == "FNDA":
                count, _, name = value.partition(",")
                self.functions[source][name] = self.functions[source][name][0], count != "0"
            elif kind == "DA":
                line, _, count = value.partition(",")
                self.lines[source][int(line)] = count != "0"
            elif kind in ("FNF", "FNH", "LF", "LH"):
                found[kind] = int(value)
            elif kind == "end_of_record":
                self._check(source, found)
            elif kind != "TN":
                raise ValueError(f"unknown line {text}")

    def _check(self, source, found):
        functions, lines = self.functions[source].values(), self.lines[source].values()
        counted = {"FNF": len(functions), "FNH": sum(ran for _, ran in functions)}
        if lines:
            counted.update(LF=len(lines), LH=sum(lines))
        if any(found[kind] != n for kind, n in counted.items()):
            raise ValueError(f"{source}: {found}, counted {counted}")


def read_table(path):
    """What --json has written: the totals, and the functions."""
    totals = json.loads(pathlib.Path(path).read_text())
    return totals, totals.pop("list")


class ExecLog:
    """QEMU's own log of blocks (-d exec,nochain), in their order."""

    TRACE = re.compile(r"^Trace (\d+): 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/")
    STOPPED = re.compile(r"^Stopped execution of TB chain before 0x[0-9a-f]+ \[([0-9a-f]+)\]")

    def __init__(self, path):
        """A block that was logged and did not even begin is not in `blocks`."""
        self.blocks = []
        with open(path, errors="replace") as log:
            for line in log:
                if trace := self.TRACE.match(line):
                    self.blocks.append(int(trace[2], 16))
                elif stopped := self.STOPPED.match(line):
                    va = int(stopped[1], 16)
                    for i in range(len(self.blocks) - 1, -1, -1):
                        if self.blocks[i] == va:
                            del self.blocks[i]
                            break

    def between(self, first, end):
        """Blocks from the first that begins at `first` to before the next that begins at `end`."""
        begin = self.blocks.index(first)
        return self.blocks[begin:self.blocks.index(end, begin)]


def instructions(objdump, elf):
    """The addresses of a program's instructions."""
    listing = subprocess.run([objdump, "-d", "--no-show-raw-insn", elf], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return {int(va, 16) for va in re.findall(r"^ *([0-9a-f]+):\t", listing, re.MULTILINE)}


def line_table(objdump, elf):
    """[(line of the file, first address, end)] as binutils reads DWARF."""
    listing = subprocess.run([objdump, "--dwarf=decodedline", elf], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    rows = re.findall(r"^(\S+)\s+(\d+|-)\s+0x([0-9a-f]+)", listing, re.MULTILINE)
    table = []
    for (name, line, va), (_, _, end) in zip(rows, rows[1:]):
        if line not in ("-", "0") and int(end, 16) > int(va, 16):
            table.append((name, int(line), int(va, 16), int(end, 16)))
    return table


def launcher(path, *options):
    """The words that start a guest whose whole run is covered: path.json, path.drcov, path.info."""
    return (testbed.VMSCOPE, "run", "--json", "--coverage", f"{path}.json", "--drcov",
            f"{path}.drcov", "--lcov", f"{path}.info", *options, "--")
