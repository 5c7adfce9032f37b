# SPDX-License-Identifier: MIT
"""QEMU that uses KVM, with QMP: compared with its own monitor, which a pause makes exact."""
import contextlib
import json
import os
import pathlib
import unittest
import uuid

from kvm_case import stacks, traced
from machine_tool import Tool, registers
from qemu_machine import BareGuest, Machine, monitor_registers
from qmp_client import Qmp
from testbed import ANSWER_SECONDS, have_kvm, wait_for
from vmscope_command import start_vmscope, vmscope


@unittest.skipUnless(have_kvm(), "there is no /dev/kvm")
class TestQemu(unittest.TestCase):
    uuid = str(uuid.uuid4())

    @classmethod
    def setUpClass(cls):
        cls.guest = BareGuest(accel="kvm", smp=2, extra=(
            "-name", f"guest=vmscope-{os.getpid()},debug-threads=on", "-uuid", cls.uuid))
        cls.addClassCleanup(cls.guest.stop)
        cls.target = ("--pid", cls.guest.pid)

    def setUp(self):
        self.guest.qmp.command("cont")
        self.guest.qmp.events.clear()

    def events(self):
        return [event["event"] for event in self.guest.qmp.events]

    def test_nobody_sees_it(self):
        """No stop, no event, no stub: what the machine's owner sees of hundreds of samples."""
        self.guest.qmp.command("query-status")
        run = vmscope("sample", "-F", 500, "-t", 1, "--symbols", self.guest.elf, *self.target)
        self.assertRegex(run.out, "engine +kvm")
        self.assertIn("work", run.out)
        self.assertEqual(self.guest.qmp.command("query-status")["status"], "running")
        self.assertEqual(self.events(), [])
        self.assertNotIn("'vmscope-", str(self.guest.qmp.command("query-chardev")))

    def test_without_qmp(self):
        """By its name, while another client uses its QMP socket, as libvirt does."""
        with contextlib.closing(Qmp.connect(self.guest.qmp_path)):
            run = vmscope("stack", "-v", "--symbols", self.guest.elf, "--domain",
                          f"vmscope-{os.getpid()}")
        self.assertIn("proved by page tables", run.err)
        self.assertEqual(stacks(run.out)[0][:2], ["start64", "guest_main"])
        self.assertEqual(self.events(), [])
        for name in (self.uuid, self.uuid.upper()):
            self.assertEqual(vmscope("regs", "--domain", name).err, "")
        missing = vmscope("stack", "--domain", "no-such-machine", check=False)
        self.assertEqual(missing.status, 1)
        self.assertIn("no machine of that name", missing.err)

    def test_pid_namespace(self):
        """In a container QEMU tells other thread ids than those of the host."""
        machine = Machine(accel="kvm", memory=64, launcher=("unshare", "--pid", "--fork",
                                                            "--kill-child"))
        self.addCleanup(machine.stop)
        told = [cpu["thread-id"] for cpu in machine.qmp.command("query-cpus-fast")]
        run = vmscope("info", "--json", "--pid", machine.pid)
        machine.qmp.command("query-status")
        self.assertEqual((run.err, machine.qmp.events), ("", []))
        for own_id, vcpu in zip(told, json.loads(run.out)["cpus"], strict=True):
            status = pathlib.Path(f"/proc/{vcpu['thread']}/status").read_text()
            self.assertRegex(status, rf"\nNSpid:\t{vcpu['thread']}\t{own_id}\n")

    def test_paused(self):
        self.guest.qmp.command("stop")
        shown = {}
        for row in json.loads(vmscope("regs", "--json", *self.target).out):
            shown.setdefault(row["vcpu"], {})[row["register"]] = int(row["value"], 16)
        told = monitor_registers(self.guest, 0)
        self.assertGreater(len(told.keys() & shown[0].keys()), 50)
        for name in told.keys() & shown[0].keys():
            self.assertEqual((name, shown[0][name]), (name, told[name]))
        self.assertEqual(self.guest.qmp.command("query-status")["status"], "paused")

    def test_resumed(self):
        """A machine that its owner pauses and resumes beside a sampler runs on."""
        with start_vmscope("sample", "-F", 500, "-t", 2, *map(str, self.target)) as run:
            for _ in range(20):
                self.guest.qmp.command("stop")
                self.assertEqual(self.guest.qmp.command("query-status")["status"], "paused")
                self.guest.qmp.command("cont")
            out, err = run.communicate(timeout=ANSWER_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(self.guest.qmp.command("query-status")["status"], "running")

    def test_by_the_stub(self):
        """With the reason, as another program traces the vCPU."""
        thread = self.guest.qmp.command("query-cpus-fast")[0]["thread-id"]
        with traced(thread) as tracer, Tool("pid", self.guest.pid) as tool:
            self.assertIn("accelerator=kvm", tool.do("facts"))
            for _ in range(5):
                self.assertEqual(tool.do("hold"), "ok")
                self.assertEqual(self.guest.qmp.status(), "paused")
                self.assertIn("cr3", registers(tool.do("regs 0")))
                self.assertEqual(tool.do("release"), "ok")
                self.assertEqual(self.guest.qmp.status(), "running")
            tool.do("hold")
            tool.kill()
            wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run on")
            self.assertIn(f"traced by process {tracer.pid}", tool.end())


if __name__ == "__main__":
    unittest.main()
