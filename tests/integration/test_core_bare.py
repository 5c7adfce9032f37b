# SPDX-License-Identifier: MIT
"""Core files of a guest without an operating system, under TCG and KVM: gdb, with the guest's own
ELF file, sees in them what it is known to do.
"""
import pathlib
import subprocess
import tempfile
import unittest

import harness
from harness import vmscope

# What tests/guests/bare.c does all of its time, but for a few instructions.
STACKS = (["work", "major", "guest_main"], ["work", "helper", "minor", "guest_main"])


class BareCore(unittest.TestCase):
    def gdb_functions(self, elf, core):
        """The functions of the vCPU's stack, up to the guest's own first one."""
        run = subprocess.run(["gdb", "-q", "-nx", "-batch", "-ex", "bt", str(elf), "-c", str(core)],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             timeout=harness.ANSWER_SECONDS, check=True)
        frames = [line for line in run.stdout.splitlines() if line.startswith("#")]
        # The first frame is shown twice: when the file is opened, and by bt.
        functions = [line.split(" (")[0].split()[-1] for line in frames[1:]]
        return functions[:functions.index("guest_main") + 1]

    def check(self, accel):
        guest = harness.BareGuest(accel=accel)
        self.addCleanup(guest.stop)
        with tempfile.TemporaryDirectory(prefix="vmscope-bare-") as directory:
            core = pathlib.Path(directory, "core")
            vmscope("core", *guest.target, "-o", core)
            self.assertEqual(guest.qmp.status(), "running")
            functions = self.gdb_functions(guest.elf, core)
            ours = vmscope("stack", "-c", core, "--symbols", guest.elf).out
        self.assertIn(functions, STACKS)
        shown = [line.split()[2].split("+")[0] for line in ours.splitlines() if "#" in line]
        self.assertEqual(shown[:len(functions)], functions)

    def test_tcg(self):
        self.check("tcg")

    @unittest.skipUnless(harness.have_kvm(), "there is no /dev/kvm")
    def test_kvm(self):
        self.check("kvm")


if __name__ == "__main__":
    unittest.main()
