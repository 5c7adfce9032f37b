# SPDX-License-Identifier: MIT
"""Registers of more than 64 bits at hits: the truth is what the guest's program loads into them
(tests/guests/wide_*.S), and what gdb shows of them."""
import json
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import probes_tool
import test_agent_engine
import testbed
from vmscope_command import vmscope


def vector(number, size):
    """The bytes of a vector register."""
    return bytes((16 * number + i // 2 + 128 * (i % 2)) & 255 for i in range(size))


def hexadecimal(value):
    """As one number in its full width."""
    return "0x" + value[::-1].hex()


def lanes(value, code):
    return list(struct.unpack(f"<{len(value) // struct.calcsize(code)}{code}", value))


def read_lanes(text):
    return [float(number) for number in text.strip("{}").split(", ")]


class Wide:
    """Of one architecture, by one engine."""
    arch = "x86_64"

    @classmethod
    def setUpClass(cls):
        cls.guest, cls.target = cls.start_guest()
        cls.addClassCleanup(cls.guest.stop)
        cls.symbols = probes_tool.symbols(cls.arch, "wide.elf")
        cls.place = hex(cls.symbols["wide_nop"])

    def flow(self, entries, *arguments):
        return vmscope("flow", *self.target, "--no-tasks", "--hits", "1", "-t", "5",
                       f"{self.place}={entries}", *arguments)

    def shown(self, *entries):
        """The values of a hit, and their texts, by name."""
        record, _ = map(json.loads, self.flow(",".join(entries), "--json").out.splitlines())
        self.assertEqual([value["name"] for value in record["values"]], list(entries))
        for value in record["values"]:
            self.assertEqual(value["status"], "known" if value["value"] else "unreadable")
        return {value["name"]: value.get("text", value["value"]) for value in record["values"]}


class X86(Wide):
    def test_vectors(self):
        """The whole registers, in numbers of each kind, and one of those."""
        names = [f"xmm{i}" for i in range(16)]
        self.assertEqual(self.shown(*names),
                         {name: hexadecimal(vector(i, 16)) for i, name in enumerate(names)})
        shown = self.shown("xmm1.u8", "xmm2.s16", "xmm3.f32", "xmm4.f64", "xmm5.u32[3]",
                           "xmm6.s64[1]", "xmm7.f64[0]")
        self.assertEqual(read_lanes(shown["xmm1.u8"]), lanes(vector(1, 16), "B"))
        self.assertEqual(read_lanes(shown["xmm2.s16"]), lanes(vector(2, 16), "h"))
        self.assertEqual(read_lanes(shown["xmm4.f64"]), lanes(vector(4, 16), "d"))
        self.assertEqual([struct.pack("<f", number) for number in read_lanes(shown["xmm3.f32"])],
                         [vector(3, 16)[i:i + 4] for i in range(0, 16, 4)])
        self.assertEqual(int(shown["xmm5.u32[3]"]), lanes(vector(5, 16), "I")[3])
        self.assertEqual(int(shown["xmm6.s64[1]"]), lanes(vector(6, 16), "q")[1])
        self.assertEqual(float(shown["xmm7.f64[0]"]), lanes(vector(7, 16), "d")[0])

    def test_wider_vectors(self):
        """Those that the processor has: it has no AVX-512, so there are no zeros of zmm."""
        names = [f"ymm{i}" for i in range(16)]
        self.assertEqual(self.shown(*names),
                         {name: hexadecimal(vector(i, 32)) for i, name in enumerate(names)})
        self.assertEqual(self.shown("ymm3.u64[3]", "zmm0", "zmm31", "zmm0.u64[4]"),
                         {"ymm3.u64[3]": str(lanes(vector(3, 32), "Q")[3]), "zmm0": None,
                          "zmm31": None, "zmm0.u64[4]": "(unreadable)"})

    def test_floats_and_tables(self):
        """From the top of the x87's stack on; what LGDT and LIDT have loaded."""
        self.assertEqual(self.shown("st0", "st0.f80", "st1.f80", "st2.f80", "gdtr", "idtr",
                                    "gdtr.base", "idtr.limit"),
                         {"st0": "0x4000c90fdaa22168c235", "st0.f80": "3.14159265358979323851",
                          "st1.f80": "1", "st2.f80": "1.44269504088896340739",
                          "gdtr": f"{{base={self.symbols['gdt']:#x}, limit=0x1f}}",
                          "idtr": "{base=0x123456789a, limit=0x7f3}",
                          "gdtr.base": hex(self.symbols["gdt"]), "idtr.limit": str(0x7f3)})

    def test_conditions(self):
        """Where the hit happens."""
        condition = (f"xmm1.u32[1] == {lanes(vector(1, 16), 'I')[1]} && xmm2.s8[1] < 0"
                     " && idtr.base == 0x123456789a")
        self.assertIn("1 hit", self.flow("rip", "--if", condition).out)
        self.assertIn("0 hits", self.flow("rip", "--if", f"!({condition})", "-t", "0.1").out)
        table = vmscope("flow", *self.target, self.place, "--count-by", "xmm1.u16[0]", "--hits", "9")
        self.assertRegex(table.out, rf"{lanes(vector(1, 16), 'H')[0]} +9\b")


class Agent(X86, unittest.TestCase):
    @staticmethod
    def start_guest():
        guest = test_agent_engine.BareGuest("wide", extra=("-gdb", "tcp:127.0.0.1:0"))
        return guest, guest.target

    def test_gdb(self):
        """What gdb shows."""
        port = re.search(r"127\.0\.0\.1:(\d+)", self.guest.qmp.hmp("info chardev"))[1]
        wanted = ["$xmm9.uint128", "$xmm9.v4_float", "$st2"]
        run = subprocess.run(
            ["gdb", "-q", "-nx", "-batch", self.guest.elf, "-ex", f"target remote 127.0.0.1:{port}",
             *(word for name in wanted for word in ("-ex", f"p{'/x' if '128' in name else ''} {name}"))],
            check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=testbed.ANSWER_SECONDS)
        found = re.findall(r"^\$\d+ = (.*)", run.stdout, re.M)
        shown = self.shown("xmm9", "xmm9.f32", "st2.f80")
        self.assertEqual([*shown.values()], found)

    def test_saved(self):
        """A saved report shows the same, and is filtered by numbers in their full width."""
        names = "xmm1", "xmm1.f32", "st0", "gdtr"
        whole = int.from_bytes(vector(1, 16), "little")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "hits")
            self.flow(",".join(names), "-o", path)
            texts = self.shown(*names)
            report = vmscope("flow", "report", path).out
            for name in names:
                self.assertIn(f"{name}={texts[name]}", report)
            for value, count in ((hex(whole), 1), (hex(whole + 1), 0), (hex(whole - 1), 0),
                                 (hex(whole & 2**64 - 1), 0), (f"{hex(whole - 1)}..", 1),
                                 (f"..{hex(whole)}", 1), (f"5..{hex(whole - 1)}", 0),
                                 ("0x" + "f" * 100 + "..", 0), ("..-1", 0), ("-5..", 0),
                                 (f"hex:{vector(1, 16).hex()}", 1)):
                with self.subTest(value=value):
                    run = vmscope("flow", "report", path, "--filter", f"xmm1={value}")
                    self.assertEqual(run.out.count("xmm1="), count)
            run = vmscope("flow", "report", path, "--filter", "xmm1=0x" + "f" * 129, check=False)
            self.assertIn("a value is a number", run.err)

    def test_script(self):
        """Lua gets floating-point numbers as such, and the bytes of whole registers."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "script.lua")
            path.write_text("function hit(h) local v = h.values print(string.format('%.17g', "
                            "v['xmm7.f64[0]']), string.unpack('<I4', v.xmm1), #v.st0,"
                            "v['xmm2.s8[1]'], v.zmm0) end")
            run = self.flow("xmm7.f64[0],xmm1,st0,xmm2.s8[1],zmm0", "--script", path)
            number, first, size, signed, none = run.out.splitlines()[0].split()
        self.assertEqual(float(number), lanes(vector(7, 16), "d")[0])
        self.assertEqual((int(first), int(size), int(signed), none),
                         (lanes(vector(1, 16), "I")[0], 10, lanes(vector(2, 16), "b")[1], "nil"))

    def test_wrong(self):
        """Each mistake is said, with what would be right."""
        for entry, says in (("xmm16", "did you mean"), ("xmm0.u128", "which has u8, u16"),
                            ("xmm0.u32[4]", "from 0 to 3"), ("xmm0+1", "xmm0.u64[0]"),
                            ("st8", "\"st8\" is not known")):
            run = vmscope("flow", *self.target, f"{self.place}={entry}", check=False)
            self.assertEqual(run.status, 2, entry)
            self.assertIn(says, run.err)


class Aarch64(Wide):
    arch = "aarch64"

    def test_vectors(self):
        names = [f"v{i}" for i in range(32)]
        self.assertEqual(self.shown(*names),
                         {name: hexadecimal(vector(i, 16)) for i, name in enumerate(names)})
        self.assertEqual(self.shown("v9.u32[2]", "q3.s8[1]"),
                         {"v9.u32[2]": str(lanes(vector(9, 16), "I")[2]),
                          "q3.s8[1]": str(lanes(vector(3, 16), "b")[1])})


if __name__ == "__main__":
    unittest.main()
