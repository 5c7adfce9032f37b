# SPDX-License-Identifier: MIT
"""Control flow graphs: of kernels against objdump and the kernel's own tables, of switches against
the text of the program."""
import collections
import json
import re
import struct
import subprocess
import unittest
import xml.etree.ElementTree

import linux_guest
import qemu_machine
import testbed
from vmscope_command import vmscope

WINDOW = 1 << 19  # bytes of kernel code that are compared
CASES = {f"case_{n}" for n in range(18)}  # tests/guests/switches.c
WARNING = 1  # BUGFLAG_WARNING
OBJDUMPS = {"x86_64": ("objdump", "-m", "i386:x86-64", "-M", "intel"),
            "aarch64": ("aarch64-linux-gnu-objdump", "-m", "aarch64")}

Insn = collections.namedtuple("Insn", "size mnemonic operands")


def objdump(arch, path, va):
    """{address: Insn} of a file of code that begins at `va`."""
    listing = subprocess.run(
        [*OBJDUMPS[arch], "-D", "-b", "binary", "-w", f"--adjust-vma={va:#x}", path],
        check=True, text=True, stdout=subprocess.PIPE).stdout
    insns = {}
    for address, code, text in re.findall(r"^ *([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(.*)$", listing,
                                          re.MULTILINE):
        words = re.sub(r"^(?:notrack|bnd|rep|repz|lock|ds|cs) ", "", text).split(None, 1)
        insns[int(address, 16)] = Insn(len(code.replace(" ", "")) // 2, words[0],
                                       words[1] if len(words) > 1 else "")
    return insns


def target_of(insn):
    """Of a direct jump, as objdump shows it; None of any other instruction."""
    is_jump = re.fullmatch(r"j\w+|loop\w*|b|b\.\w+|cbn?z|tbn?z", insn.mnemonic)
    address = re.search(r"(?:^|, )0x([0-9a-f]{6,})\b", insn.operands) if is_jump else None
    return int(address[1], 16) if address else None


def is_conditional(insn):
    return target_of(insn) is not None and insn.mnemonic not in ("jmp", "b", "b.al")


def ends(insn):
    """True if nothing that comes behind belongs to it."""
    return target_of(insn) is not None or insn.mnemonic in (
        "jmp", "ret", "iret", "iretq", "sysret", "sysretq", "br", "eret")


def number(text):
    return int(text, 16)


class Graphs:
    """Of many functions that lie in one piece of a kernel, beside what objdump says of it."""
    series, arch = "6.1", "x86_64"
    first = "vfs_read"  # around which they lie

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)
        functions = sorted({symbol.va: symbol.name for symbol in cls.guest.kallsyms()
                            if symbol.type in "tT" and not symbol.module}.items())
        cls.addresses = {symbol.name: symbol.va for symbol in cls.guest.kallsyms()}
        begin = cls.addresses[cls.first]
        cls.code = cls.read(begin, WINDOW)
        path = cls.guest.directory / "code"
        path.write_bytes(cls.code)
        cls.insns = objdump(cls.arch, path, begin)
        cls.asked = [va for va, _ in functions if begin <= va < begin + WINDOW - 65536]
        cls.graphs = json.loads(cls.cfg("--json", *map(hex, cls.asked)))

    @classmethod
    def read(cls, va, size):
        """The guest's memory by QEMU's own page walk."""
        path = cls.guest.directory / "memory"

        def save():
            """False while the vCPU runs a program, by whose rights QEMU may refuse this."""
            try:
                cls.guest.qmp.command("memsave", val=va, size=size, filename=str(path))
            except RuntimeError:
                return False
            return True
        testbed.wait_for(save, "the vCPU to be in the kernel")
        return path.read_bytes()

    @classmethod
    def cfg(cls, *arguments):
        return vmscope("cfg", *cls.guest.target, *arguments).out

    def blocks(self):
        """Of all graphs: the graph and the block, where objdump has seen its first instruction."""
        for graph in self.graphs:
            for block in graph["blocks"]:
                if number(block["address"]) in self.insns:
                    yield graph, block

    def test_many(self):
        self.assertEqual(len(self.graphs), len(self.asked))
        self.assertGreater(len(self.asked), 500)
        self.assertGreater(sum(1 for _ in self.blocks()), 5 * len(self.asked))

    def test_instructions(self):
        """objdump finds the same, and only the last of a block jumps."""
        for graph, block in self.blocks():
            last = block["instructions"][-1]
            for insn in block["instructions"]:
                theirs = self.insns.get(number(insn["address"]))
                self.assertIsNotNone(theirs, (graph["function"], insn))
                self.assertEqual(insn["size"], theirs.size, (graph["function"], insn, theirs))
                if insn is not last:
                    self.assertFalse(ends(theirs), (graph["function"], insn, theirs))

    def test_none_is_cut(self):
        self.assertEqual([(graph["function"], block["address"]) for graph, block in self.blocks()
                          if block["end"] == "cut"], [])

    def test_edges(self):
        """Where objdump shows a jump, the graph has its edges and no others."""
        n = 0
        for graph, block in self.blocks():
            last = number(block["last"])
            theirs = self.insns[last]
            target = target_of(theirs)
            to = {edge["kind"]: number(graph["blocks"][edge["block"]]["address"])
                  for edge in block["edges"] if edge["kind"] in ("next", "jump")}
            if target is None:
                self.assertNotIn("jump", to, (graph["function"], block))
            elif "jump" in to:
                self.assertEqual(to["jump"], target, (graph["function"], block))
            else:
                self.assertIn(block["leaves_to"], (None, hex(target)), graph["function"])
                self.assertNotIn(target, {number(other["address"]) for other in graph["blocks"]})
            if is_conditional(theirs):
                self.assertEqual(block["end"], "conditional", (graph["function"], block))
                self.assertEqual(to.get("next"), last + theirs.size, (graph["function"], block))
                n += 1
            elif ends(theirs):
                self.assertNotIn("next", to, (graph["function"], block))
        self.assertGreater(n, 2000)

    def test_blocks_are_apart(self):
        for graph in self.graphs:
            end = 0
            for block in graph["blocks"]:
                self.assertGreaterEqual(number(block["address"]), end, graph["function"])
                end = number(block["address"]) + block["size"]

    def test_every_target_begins_a_block(self):
        """No jump leads into the middle of a block."""
        for graph, block in self.blocks():
            target = target_of(self.insns[number(block["last"])])
            for other in graph["blocks"]:
                begin = number(other["address"])
                self.assertFalse(target and begin < target < begin + other["size"],
                                 (graph["function"], block, other))

    def test_warnings_go_on(self):
        """As the kernel's own table of traps says, which is read here by its layout."""
        begin, end = (self.addresses[f"__{side}___bug_table"] for side in ("start", "stop"))
        table = self.read(begin, end - begin)
        warnings = {}
        for at in range(0, len(table), 12):  # the layout of all kernels up to 6.12
            distance, _, _, flags = struct.unpack_from("<iiHH", table, at)
            warnings[begin + at + distance] = bool(flags & WARNING)
        seen = collections.Counter()
        for graph, block in self.blocks():
            for insn in block["instructions"]:
                va = number(insn["address"])
                if self.insns[va].mnemonic in ("ud2", "brk") and va in warnings:
                    goes_on = insn is not block["instructions"][-1] or block["end"] != "exit"
                    self.assertEqual(goes_on, warnings[va], (graph["function"], insn))
                    seen[goes_on] += 1
        self.assertGreater(seen[True], 20)
        self.assertGreater(seen[False], 5)

    def test_faults(self):
        """Where the kernel goes on after a fault, by its own table."""
        begin, end = (self.addresses[f"__{side}___ex_table"] for side in ("start", "stop"))
        table = self.read(begin, end - begin)
        fixups = {}
        for at in range(0, len(table), 12):
            insn, fixup = struct.unpack_from("<ii", table, at)
            fixups[begin + at + insn] = begin + at + 4 + fixup
        n = 0
        for graph, block in self.blocks():
            begins = {number(other["address"]) for other in graph["blocks"]}
            expected = {fixups[number(insn["address"])] for insn in block["instructions"]
                        if number(insn["address"]) in fixups}
            to = {number(graph["blocks"][edge["block"]]["address"]) for edge in block["edges"]
                  if edge["kind"] == "fault"}
            self.assertEqual(to, expected & begins, (graph["function"], block))
            n += len(to)
        self.assertGreater(n, 10)


class Kernel61(Graphs, unittest.TestCase):
    def test_calls_end_blocks(self):
        graph = json.loads(self.cfg("--json", "--calls", "vfs_read"))[0]
        plain = json.loads(self.cfg("--json", "vfs_read"))[0]
        self.assertGreater(len(graph["blocks"]), len(plain["blocks"]))
        for block in graph["blocks"]:
            for insn in block["instructions"][:-1]:
                self.assertNotEqual(self.insns[number(insn["address"])].mnemonic, "call")

    def test_moved_part(self):
        """A function's cold part lies elsewhere, and is a part of its graph."""
        cold = next(symbol for symbol in self.guest.kallsyms()
                    if symbol.name.endswith(".cold") and not symbol.module and
                    list(self.addresses).count(symbol.name[:-5]) == 1)
        graph = json.loads(self.cfg("--json", cold.name.removesuffix(".cold")))[0]
        self.assertIn(cold.va, [number(block["address"]) for block in graph["blocks"]])

    def test_freed_code(self):
        run = vmscope("cfg", *self.guest.target, "start_kernel", check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("the kernel has freed it after its boot", run.err)

    def test_pattern(self):
        graphs = json.loads(self.cfg("--json", "vfs_read*"))
        names = {graph["function"] for graph in graphs}
        self.assertEqual(names, {symbol.name for symbol in self.guest.kallsyms()
                                 if symbol.name.startswith("vfs_read") and symbol.type in "tT"})

    def test_module(self):
        symbol = next(symbol for symbol in self.guest.kallsyms()
                      if symbol.module and symbol.type == "t" and symbol.name.endswith("probe"))
        graph = json.loads(self.cfg("--json", hex(symbol.va)))[0]
        self.assertEqual(graph["function"], symbol.name)
        self.assertNotIn("cut", {block["end"] for block in graph["blocks"]})

    def test_text(self):
        lines = self.cfg("vfs_read").splitlines()
        self.assertRegex(lines[0], r"^vfs_read: \d+ blocks, \d+ instructions$")
        self.assertRegex(lines[1], r"^block 0 \(entry\): ")

    def test_dot(self):
        """Graphviz reads it, and has as many nodes and edges as the graph."""
        graph = json.loads(self.cfg("--json", "vfs_read"))[0]
        plain = subprocess.run(["dot", "-Tplain"], input=self.cfg("--format", "dot", "vfs_read"),
                               check=True, text=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(len(re.findall("^node ", plain, re.MULTILINE)), len(graph["blocks"]))
        self.assertEqual(len(re.findall("^edge ", plain, re.MULTILINE)),
                         sum(len(block["edges"]) for block in graph["blocks"]))

    def test_svg(self):
        graph = json.loads(self.cfg("--json", "vfs_read"))[0]
        root = xml.etree.ElementTree.fromstring(self.cfg("--format", "svg", "vfs_read"))
        nodes = [group for group in root.iter("{http://www.w3.org/2000/svg}g")
                 if group.get("class") == "node"]
        self.assertEqual(len(nodes), len(graph["blocks"]))

    def test_wrong_use(self):
        for arguments, status, words in (
                (("no_such_function",), 1, "no_such_function"),
                (("no_such_*",), 1, 'no function matches "no_such_*"'),
                (("0x10",), 1, "it is not mapped"),
                (("--format", "gif", "vfs_read"), 2, "gif"),
                (("--format", "svg", "vfs_read", "vfs_write"), 2, "one function"),
                (("--bits", "48", "vfs_read"), 2, "48"),
                ((), 2, "")):
            run = vmscope("cfg", *self.guest.target, *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(words, run.err)
            self.assertEqual(run.out, "")


class Kernel612Aarch64(Graphs, unittest.TestCase):
    series, arch = "6.12", "aarch64"

    def test_tables(self):
        """gcc makes them of the kernel's switches, and nearly all are understood."""
        blocks = [block for graph in json.loads(self.cfg("--json", "do_*", "audit_*"))
                  for block in graph["blocks"] if block["end"] == "indirect"]
        known = [block for block in blocks if block["table"]]
        self.assertGreater(len(known), 8)
        self.assertGreaterEqual(len(known), 0.8 * len(blocks))
        for block in known:
            self.assertGreater(len(block["edges"]), 1)


class WithoutVariables(unittest.TestCase):
    """A kernel whose symbols do not tell where its tables are."""

    def test_traps_go_on(self):
        guest = linux_guest.LinuxGuest("6.1", arch="aarch64")
        self.addCleanup(guest.stop)
        graphs = json.loads(vmscope("cfg", *guest.target, "--json", "refcount_*").out)
        traps = [(graph, block, i) for graph in graphs for block in graph["blocks"]
                 for i, insn in enumerate(block["instructions"])
                 if insn["text"].startswith("brk ")]
        self.assertGreater(len(traps), 2)
        for _, block, i in traps:
            self.assertTrue(i + 1 < len(block["instructions"]) or block["edges"], block)


class Switches:
    """Switches of a program that is only looked at."""
    arch = "x86_64"
    bits = ("--bits", "64")

    @classmethod
    def setUpClass(cls):
        testbed.build_guests()
        cls.elf = qemu_machine.ARCHS[cls.arch].programs / f"switches-{cls.kind}.elf"
        cls.machine = qemu_machine.Machine("-S", "-device", f"loader,file={cls.elf}", smp=1,
                                           memory=64, arch=cls.arch)
        cls.addClassCleanup(cls.machine.stop)
        listing = subprocess.run([qemu_machine.ARCHS[cls.arch].nm, cls.elf], check=True,
                                 text=True, stdout=subprocess.PIPE).stdout
        cls.names = {int(va, 16): name
                     for va, name in re.findall(r"^([0-9a-f]+) [tTdDrR] (\S+)$", listing,
                                                re.MULTILINE)}

    def graph(self, function):
        return json.loads(vmscope("cfg", *self.machine.target, "--symbols", self.elf, *self.bits,
                                  "--json", function).out)[0]

    def first_call(self, graph, block):
        """The function that is called first from a block on."""
        while True:
            for insn in block["instructions"]:
                call = re.match(r"(?:call|bl) #?0x([0-9a-f]+)$", insn["text"])
                if call:
                    return self.names[int(call[1], 16)]
            self.assertEqual(len(block["edges"]), 1, block)
            block = graph["blocks"][block["edges"][0]["block"]]

    def cases(self, graph, block):
        return {self.first_call(graph, graph["blocks"][edge["block"]]) for edge in block["edges"]
                if edge["kind"] == "switch"}

    def check(self, function, tables):
        graph = self.graph(function)
        switches = [block for block in graph["blocks"] if block["end"] == "indirect"]
        self.assertEqual(len(switches), tables)
        for block in switches:
            self.assertEqual(block["entries"], len(CASES))
            self.assertEqual(self.cases(graph, block), CASES)
        called = [self.names.get(int(va, 16)) for block in graph["blocks"]
                  for insn in block["instructions"]
                  for va in re.findall(r"^(?:call|bl) #?0x([0-9a-f]+)$", insn["text"])]
        self.assertEqual(sorted(called), sorted(tables * [*CASES, "case_none"]))
        self.assertEqual({block["end"] for block in graph["blocks"]} & {"cut"}, set())

    def test_small(self):
        self.check("switch_small", 1)

    def test_middle(self):
        self.check("switch_middle", 1)

    def test_large(self):
        self.check("switch_large", 1)

    def test_twice(self):
        self.check("switch_twice", 2)


class WithoutOptimisation(Switches, unittest.TestCase):
    kind = "O0"


class Absolute(Switches, unittest.TestCase):
    kind = "O2"


class Relative(Switches, unittest.TestCase):
    """And with jumps that are marked for indirect branch tracking."""
    kind = "pie"


class Clang(Switches, unittest.TestCase):
    kind = "clang"


class Aarch64(Switches):
    arch = "aarch64"
    bits = ()


class Aarch64WithoutOptimisation(Aarch64, unittest.TestCase):
    kind = "O0"


class Aarch64Optimised(Aarch64, unittest.TestCase):
    kind = "O2"


class Aarch64Clang(Aarch64, unittest.TestCase):
    kind = "clang"


if __name__ == "__main__":
    unittest.main()
