# SPDX-License-Identifier: MIT
"""vmscope flow without the agent, by breakpoints of QEMU's gdb stub."""
import unittest

import probes_tool
from qemu_machine import BareGuest
from test_flow_tables import Tables
import testbed
from testbed import wait_for
from vmscope_command import vmscope


class Stub(unittest.TestCase):
    place = hex(probes_tool.symbols("x86_64", "counter.elf")["counted_nop"])

    def start_guest(self, *extra, accel="tcg"):
        self.guest = BareGuest("counter", accel=accel, extra=extra)
        self.addCleanup(self.guest.stop)

    def flow(self, *arguments, check=True):
        return vmscope("flow", "--allow-stop", "-p", self.guest.pid, "--no-tasks", *arguments,
                       check=check)

    def test_table(self):
        """Where every hit stops the machine, vmscope adds up itself."""
        self.start_guest()
        found = Tables(("--allow-stop", "-p", self.guest.pid), self.place, "--sum", "rdi", "--by",
                       "rdi % 2", "--hits", "20").wait()
        self.assertEqual(found.counts(), {(0,): 10, (1,): 10})
        for row in found.rows:
            number, = row["numbers"]
            self.assertEqual(number["max"] - number["min"], 18)
            self.assertEqual(number["sum"], 5 * (number["min"] + number["max"]))

    def test_break(self):
        """The machine stands still at the hit until its owner resumes it, whoever probes it next."""
        self.start_guest()
        run = self.flow(f"{self.place}=rip", "--break")
        self.assertIn(self.place, run.out)
        self.assertIn("stands still", run.err)
        self.assertEqual(self.guest.qmp.status(), "debug")
        shown = self.guest.qmp.hmp("info registers").split()
        self.assertIn(f"RIP={int(self.place, 16):016x}", shown)
        again = self.flow(self.place, "-t", "0.1")
        self.assertIn("0 hits", again.out)
        self.assertIn("stands still", again.err)
        self.assertEqual(self.guest.qmp.status(), "debug")
        self.guest.qmp.command("cont")
        wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")

    @unittest.skipUnless(testbed.have_kvm(), "there is no /dev/kvm")
    def test_kvm(self):
        """The engine of KVM has no probes, but the stub of that QEMU has."""
        self.start_guest(accel="kvm")
        for target in ("-p", self.guest.pid), ("--qmp", self.guest.qmp_path):
            run = vmscope("flow", "--allow-stop", *target, "--no-tasks", f"{self.place}=rip,xmm0",
                          "--hits", "2")
            self.assertIn("2 hits", run.out)
            self.assertEqual(run.out.count(f"rip={self.place}  xmm0=0x"), 2)
        self.assertEqual(self.guest.qmp.status(), "running")

    def test_stub_of_somebody_else(self):
        """QEMU has one, which serves one client."""
        self.start_guest("-gdb", "tcp:127.0.0.1:0,server=on,wait=off")
        run = self.flow(self.place, "--hits", "1", check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("has a gdb stub already", run.err)
        self.assertEqual(self.guest.qmp.status(), "running")


if __name__ == "__main__":
    unittest.main()
