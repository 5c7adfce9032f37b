# SPDX-License-Identifier: MIT
"""Every symbol of a guest against the guest's own /proc/kallsyms, and what it says of itself."""
import bisect
import json
import random
import subprocess
import tempfile
import unittest

import linux_guest
from long_tests import takes_long
import testbed
import vmscope_command


def tool(machine, *arguments, **options):
    run = subprocess.run([testbed.BUILD / "tests" / "tools" / "symbols", machine.qmp_path,
                          *arguments], text=True, check=True, timeout=testbed.ANSWER_SECONDS,
                         stdout=subprocess.PIPE, **options)
    return run.stdout.splitlines()


def lookup(symbols, addresses, va):
    """What the kernel calls an address: the first alias of the last symbol that is not above."""
    above = bisect.bisect_right(addresses, va)
    first = bisect.bisect_left(addresses, addresses[above - 1])
    symbol = symbols[first]
    return f"{symbol.name} {va - symbol.va} {symbol.module or '-'}"


class Symbols:
    """The tests; subclasses say which kernel and how it runs."""
    series = ""
    options = {}
    kaslr = True
    link_text = 0xffffffff81000000

    @classmethod
    def start_guest(cls):
        return linux_guest.LinuxGuest(cls.series, **cls.options)

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()
        pid = cls.guest.start_workload("filter")
        # It has its name in kallsyms before it has a descriptor.
        cls.guest.run(f"until ls -l /proc/{pid}/fd | grep -q bpf-prog; do sleep 0.1; done")
        cls.truth = cls.guest.read_kallsyms()
        cls.kernel = [symbol for symbol in cls.truth if symbol.module is None]
        cls.loaded = cls.guest.run("cut -d' ' -f1 /proc/modules").split() + ["bpf"]

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def run_vmscope(self, command, *arguments):
        return vmscope_command.vmscope(command, "--qmp", self.guest.qmp_path, *arguments).out

    def check_kernel(self, ours):
        self.assertGreater(len(self.kernel), 50000, "the guest shows its symbols")
        self.assertEqual(len(ours), len(self.kernel))
        for our, true in zip(ours, self.kernel):
            self.assertEqual(our, true)

    def test_all_symbols(self):
        ours = [linux_guest.Symbol.parse(line) for line in self.run_vmscope("symbol").splitlines()]
        self.check_kernel([symbol for symbol in ours if symbol.module is None])
        self.assertTrue(self.loaded)
        # What is listed under other names (__builtin__ftrace) is code of no module.
        self.assertEqual(sorted(symbol for symbol in ours if symbol.module),
                         sorted(symbol for symbol in self.truth if symbol.module in self.loaded))

    def test_search_of_memory(self):
        self.check_kernel([linux_guest.Symbol.parse(line) for line in tool(self.guest, "scan")])

    def test_kaslr(self):
        text = next(symbol.va for symbol in self.kernel if symbol.name == "_text")
        os = self.run_vmscope("info", "--json", "os")
        self.assertIn(f"{text:#x}", os)
        self.assertIn(f'"{text - self.link_text:#x}"', os)
        self.assertEqual(text != self.link_text, self.kaslr)

    def test_what_it_is(self):
        os = json.dumps(json.loads(self.run_vmscope("info", "--json", "os")))
        for command in ("uname -s", "uname -r", "uname -v", "hostname"):
            with self.subTest(command):
                self.assertIn(json.dumps(self.guest.run(command).strip()), os)
        self.assertEqual(tool(self.guest, "banner"),
                         self.guest.run("cat /proc/version").splitlines())


class Stock(Symbols):
    """And all that is said of symbols."""

    def test_names_of_addresses(self):
        chosen = random.Random(2)
        addresses = [symbol.va for symbol in self.kernel]
        first = bisect.bisect_left(addresses, self.link_text)
        text = next(symbol.va for symbol in self.kernel if symbol.name == "_text")
        end = next(symbol.va for symbol in self.kernel if symbol.name == "_end")
        asked = [chosen.randrange(text, end) for _ in range(5000)]
        asked += [va for va in chosen.sample(addresses[first:], 2000) if text <= va < end]
        modules = {}
        for symbol in self.truth:
            if symbol.module in self.loaded and symbol.type in "tT":
                modules.setdefault(symbol.module, []).append(symbol)
        for va in (symbol.va for symbols in modules.values() for symbol in symbols):
            asked.append(va)
        expected = [lookup(self.kernel, addresses, va) for va in asked if text <= va < end]
        names = tool(self.guest, "names", input="".join(f"{va:x}\n" for va in asked))
        self.assertEqual(len(names), len(asked))
        ours = dict(zip(asked, names))
        self.assertEqual([ours[va] for va in asked if text <= va < end], expected)
        for module, symbols in modules.items():
            for symbol in symbols:
                aliases = {f"{other.name} 0 {module}" for other in symbols
                           if other.va == symbol.va}
                self.assertIn(ours[symbol.va], aliases)
        unknown = [0, 0x1000, 0xdeadbeef000, 0xffffffff00000000, 2**64 - 1]
        self.assertEqual(tool(self.guest, "names", input="".join(f"{va:x}\n" for va in unknown)),
                         ["-"] * len(unknown))

    def test_one_symbol(self):
        for name in ("schedule", "vfs_read", "do_idle"):
            true = [symbol for symbol in self.truth if symbol.name == name]
            ours = [linux_guest.Symbol.parse(line)
                    for line in self.run_vmscope("symbol", name).splitlines()]
            self.assertEqual(ours, true)
            self.assertIn(name, self.run_vmscope("symbol", f"{true[0].va + 1:#x}"))
        with self.assertRaisesRegex(RuntimeError, "no symbol \"no_such_function\""):
            self.run_vmscope("symbol", "no_such_function")

    def test_json(self):
        ours = {f"{int(row['address'], 16):016x} {row['type']} {row['name']} {row['module']}"
                for row in json.loads(self.run_vmscope("symbol", "--json"))}
        self.assertEqual(ours, {
            f"{symbol.va:016x} {symbol.type} {symbol.name} {symbol.module}" for symbol in self.truth
            if symbol.module is None or symbol.module in self.loaded})

    def test_another_kernels_file(self):
        """A linked file with a _text, but not this kernel's."""
        with tempfile.TemporaryDirectory() as directory:
            other = f"{directory}/vmlinux"
            subprocess.run(["gcc", "-x", "assembler", "-", "-o", other, "-nostdlib", "-static"],
                           input=".globl _start, _text, _etext\n_start: _text: ret\n_etext: ret\n",
                           text=True, check=True)
            with self.assertRaisesRegex(RuntimeError, "another kernel"):
                self.run_vmscope("symbol", "--symbols", other, "schedule")


class Debian61(Stock, unittest.TestCase):
    series = "6.1"


@takes_long
@testbed.needs_newest
class DebianNewest(Symbols, unittest.TestCase):
    series = testbed.NEWEST


class Isolated(Symbols, unittest.TestCase):
    """Page table isolation, 4 levels: a vCPU in user mode sees next to nothing of the kernel."""
    series = "6.1"
    options = linux_guest.ISOLATED


class NoKaslr(Symbols, unittest.TestCase):
    series = "6.1"
    options = linux_guest.PLUGGABLE
    kaslr = False


if __name__ == "__main__":
    unittest.main()
