# SPDX-License-Identifier: MIT
"""Code that is not in 64-bit mode, as firmware is: compared with what QEMU's monitor says of it.

SeaBIOS, which finds no disk, waits in real mode in vCPU 0; it has left vCPU 1 in 32-bit code.
"""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import qemu_machine
from vmscope_command import vmscope
import test_agent_engine

RESET_VECTOR = 0xffff0
FAR_JUMP = bytes.fromhex("ea5be000f0")  # what SeaBIOS has there


class Firmware(qemu_machine.Machine):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, *options.pop("extra", ()), smp=2, memory=64, **options)
        self.wait_until(self.waits, "SeaBIOS to find no disk")

    def registers(self, vcpu):
        return self.qmp.command("human-monitor-command", command_line="info registers",
                                cpu_index=vcpu)

    def waits(self):
        texts = [self.registers(vcpu) for vcpu in range(2)]
        return all("HLT=1" in text for text in texts) and "CS =f000" in texts[0]

    def address(self, vcpu):
        """Of the next instruction: QEMU adds the segment's base itself."""
        text = self.qmp.command("human-monitor-command", command_line="print $pc", cpu_index=vcpu)
        return int(text, 16)


class WithAgent(test_agent_engine.WithAgent, Firmware):
    pass


class Case(unittest.TestCase):
    target = ()

    def json(self, *arguments):
        return json.loads(vmscope(*arguments, "--json", *self.target).out)

    def check_addresses(self, truth):
        self.assertGreater(truth[0], 0xf0000)
        rows = self.json("stack")
        self.assertEqual({row["vcpu"]: int(row["address"], 16) for row in rows if row["frame"] == 0},
                         dict(enumerate(truth)))
        self.assertEqual({row["mode"] for row in rows}, {"kernel"})
        self.assertEqual([int(row["pc"], 16) for row in self.json("info", "cpus")["cpus"]], truth)

    def check_modes(self):
        rows = self.json("info", "mode")["mode"]
        self.assertEqual([(row["code_bits"], int(row["code_base"], 16), row["note"]) for row in rows],
                         [(16, 0xf0000, None), (32, 0, None)])

    def check_reset_vector(self):
        first = self.json("disas", hex(RESET_VECTOR))[0]
        self.assertEqual((first["size"], first["text"]), (5, "ljmp 0xf000:0xe05b"))


class Live:
    """Tests of a machine that a subclass reaches in its way."""
    reach = None

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start()
        cls.addClassCleanup(cls.guest.stop)
        cls.truth = [cls.guest.address(vcpu) for vcpu in range(2)]

    @classmethod
    def start(cls):
        return Firmware()

    @property
    def target(self):
        return self.reach(self.guest)

    def test_addresses(self):
        """While it is stopped: else the firmware's clock interrupt may be what is seen."""
        self.guest.qmp.command("stop")
        self.addCleanup(self.guest.qmp.command, "cont")
        self.check_addresses([self.guest.address(vcpu) for vcpu in range(2)])

    def test_modes(self):
        self.check_modes()

    def test_reset_vector(self):
        self.assertEqual(bytes.fromhex(self.json("mem", hex(RESET_VECTOR), "5")[0]["bytes"]), FAR_JUMP)
        self.check_reset_vector()

    def test_instructions(self):
        """As QEMU's disassembler finds them, which takes the mode of the vCPU, too."""
        for vcpu, start in enumerate(self.truth):
            text = self.guest.qmp.command("human-monitor-command", cpu_index=vcpu,
                                          command_line=f"x/8i {start:#x}")
            theirs = [(int(address, 16), len(code.split()))
                      for address, code in re.findall(r"^0x([0-9a-f]+):\s+((?:[0-9a-f]{2} )+)", text, re.M)]
            ours = [(int(row["address"], 16), row["size"])
                    for row in self.json("disas", hex(start), "--cpu", str(vcpu))]
            self.assertGreaterEqual(len(theirs), 8, text)
            self.assertEqual(ours[:8], theirs[:8])


class ByMonitor(Live, Case):
    @staticmethod
    def reach(guest):
        return guest.target

    def test_sample(self):
        """What does not wait is named by its address. The wait is seen as one."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "out.folded"
            vmscope("sample", "-t", "1", "-o", path, *self.target)
            text = path.read_text()
        self.assertIn("[idle]", text)
        addresses = [int(word, 16) for word in re.findall(r"\b0x([0-9a-f]+)", text)]
        self.assertFalse([hex(address) for address in addresses if 0x1000 <= address < 0xc0000], text)

    def test_reset(self):
        """After a reset the base is not that of the selector: QEMU knows it."""
        guest = qemu_machine.Machine("-S", smp=1, memory=16)
        self.addCleanup(guest.stop)
        pc = int(guest.qmp.hmp("print $pc"), 16)
        self.assertEqual(pc, 0xfffffff0)
        rows = json.loads(vmscope("stack", "--json", *guest.target).out)
        self.assertEqual([int(row["address"], 16) for row in rows], [pc])
        rows = json.loads(vmscope("disas", hex(pc), "--json", *guest.target).out)
        self.assertEqual(rows[0]["text"], "ljmp 0xf000:0xe05b")

    def test_core(self):
        for layout in ("elf", "vbox", "kdump"):
            with self.subTest(layout), tempfile.TemporaryDirectory() as directory:
                path = pathlib.Path(directory) / "core"
                vmscope("core", "--format", layout, "-o", path, *self.target)
                case = Case()
                case.target = ("-c", path)
                case.check_addresses(self.truth)
                case.check_modes()
                case.check_reset_vector()
                rows = json.loads(vmscope("core", "info", "--json", path).out)["vcpus"]
                self.assertEqual([int(row["pc"], 16) for row in rows], self.truth)

    def test_told_width(self):
        """The vCPU that is in real mode need not be the one whose code is shown."""
        rows = self.json("disas", hex(self.truth[1]), "--bits", "32")
        self.assertEqual(rows, self.json("disas", hex(self.truth[1]), "--cpu", "1"))
        self.assertNotEqual(rows, self.json("disas", hex(self.truth[1]), "--bits", "16"))
        run = vmscope("disas", "0", "--bits", "8", *self.target, check=False)
        self.assertEqual(run.status, 2)

    def test_symbols(self):
        """Of a file that is linked where its code runs, as firmware is: by linear addresses."""
        with tempfile.TemporaryDirectory() as directory:
            elf = pathlib.Path(directory) / "bios.elf"
            base = self.truth[0] & ~0xf
            source = f".text\n.globl waits\n.type waits, @function\nwaits: .skip 64\n.size waits, 64\n"
            subprocess.run(["gcc", "-nostdlib", "-static", "-no-pie", f"-Wl,-Ttext={base:#x}",
                            "-Wl,-e,waits", "-x", "assembler", "-", "-o", elf],
                           input=source, text=True, check=True)
            rows = self.json("stack", "--cpu", "0", "--symbols", elf)
            self.assertEqual((rows[0]["symbol"], rows[0]["offset"]), ("waits", self.truth[0] - base))
            out = vmscope("symbol", hex(self.truth[0]), "--symbols", elf, *self.target).out
            self.assertIn("waits+", out)


class ByAgent(Live, Case):
    @classmethod
    def start(cls):
        return WithAgent()

    @staticmethod
    def reach(guest):
        return guest.target

    test_sample = ByMonitor.test_sample


class ByStub(Live, Case):
    """QEMU's monitor is behind its stub, too."""

    @classmethod
    def start(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-stub-")
        cls.addClassCleanup(directory.cleanup)
        cls.stub = f"{directory.name}/gdb"
        return Firmware("-gdb", f"unix:{cls.stub},server=on,wait=off")

    @staticmethod
    def reach(guest):
        return ("--gdb", ByStub.stub)


class NoSymbol(unittest.TestCase):
    """Code without symbols, from any of its instructions on."""

    @classmethod
    def setUpClass(cls):
        cls.guest = qemu_machine.BareGuest()
        cls.addClassCleanup(cls.guest.stop)
        text = subprocess.run(["objdump", "-d", "-w", cls.guest.elf], stdout=subprocess.PIPE,
                              text=True, check=True).stdout
        code = text[text.index("<start64>:"):]
        cls.sizes = {int(address, 16): len(code.split()) for address, code in
                     re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", code, re.M)}

    def instructions(self, start):
        """As objdump has them: those that begin in 64 bytes."""
        return [(address, size) for address, size in sorted(self.sizes.items())
                if start <= address < start + 64]

    def test_instruction_across_the_end(self):
        starts = [start for start in sorted(self.sizes)
                  if start + 64 < max(self.sizes)
                  and sum(self.instructions(start)[-1]) > start + 64]
        self.assertGreater(len(starts), 8)
        for start in starts:
            rows = json.loads(vmscope("disas", hex(start), "--json", *self.guest.target).out)
            self.assertEqual([(int(row["address"], 16), row["size"]) for row in rows],
                             self.instructions(start))

    def test_end_of_memory(self):
        """What there is of the 64 bytes is shown."""
        end = 64 << 20
        rows = json.loads(vmscope("disas", hex(end - 16), "--json", *self.guest.target).out)
        self.assertEqual(sum(row["size"] for row in rows), 16)


if __name__ == "__main__":
    unittest.main()
