# SPDX-License-Identifier: MIT
"""Core files of a guest without an operating system, under TCG and KVM: gdb, with the guest's own
ELF file, sees in them what it is known to do.
"""
import json
import pathlib
import subprocess
import tempfile
import unittest

import qemu_machine
import testbed
from vmscope_command import vmscope

# What tests/guests/bare.c does all of its time, but for a few instructions.
STACKS = (["work", "major", "guest_main"], ["work", "helper", "minor", "guest_main"])


# What it has set before.
REGISTERS = {"sysenter_cs": 0x1230, "sysenter_esp": 0xffff800011112200,
             "sysenter_eip": 0x7fff11112222, "pat": 0x0006040100070406,
             "star": 0x0023001000001234, "lstar": 0xffff812345678900, "cstar": 0xffff81abcdef0000,
             "sfmask": 0x47700, "xcr0": 1, "tsc_aux": 0}


class BareCore(unittest.TestCase):
    def gdb_functions(self, elf, core):
        """The functions of the vCPU's stack, up to the guest's own first one."""
        run = subprocess.run(["gdb", "-q", "-nx", "-batch", "-ex", "bt", str(elf), "-c", str(core)],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             timeout=testbed.ANSWER_SECONDS, check=True)
        frames = [line for line in run.stdout.splitlines() if line.startswith("#")]
        # The first frame is shown twice: when the file is opened, and by bt.
        functions = [line.split(" (")[0].split()[-1] for line in frames[1:]]
        return functions[:functions.index("guest_main") + 1]

    def check(self, accel):
        guest = qemu_machine.BareGuest(accel=accel)
        self.addCleanup(guest.stop)
        with tempfile.TemporaryDirectory(prefix="vmscope-bare-") as directory:
            core = pathlib.Path(directory, "core")
            vmscope("core", *guest.target, "-o", core)
            self.assertEqual(guest.qmp.status(), "running")
            rows = json.loads(vmscope("regs", "-c", core, "--json").out)
            registers = {row["register"]: int(row["value"], 16) for row in rows}
            self.assertEqual({name: registers.get(name) for name in REGISTERS}, REGISTERS)
            functions = self.gdb_functions(guest.elf, core)
            ours = vmscope("stack", "-c", core, "--symbols", guest.elf).out
        self.assertIn(functions, STACKS)
        shown = [line.split()[2].split("+")[0] for line in ours.splitlines() if "#" in line]
        self.assertEqual(shown[:len(functions)], functions)

    def test_tcg(self):
        self.check("tcg")

    @unittest.skipUnless(testbed.have_kvm(), "there is no /dev/kvm")
    def test_kvm(self):
        self.check("kvm")


if __name__ == "__main__":
    unittest.main()
