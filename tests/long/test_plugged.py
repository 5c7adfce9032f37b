# SPDX-License-Identifier: MIT
"""Guests to which something was plugged. Core files of plugged memory, before a tool has attached to the
guest and after; samples of a vCPU that nobody has started."""
import contextlib
import json
import pathlib
import tempfile
import unittest

import linux_guest
from vmscope_command import vmscope
from machine_tool import Tool

MIB = 1 << 20
PLUGGED = 0x100000000  # where QEMU puts the first
SIZE = 128 * MIB       # the smallest that Linux takes
MARK = "memory that was plugged"


class Plugged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-plugged-", dir="/var/tmp")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.guest = linux_guest.LinuxGuest("6.1", memory="256,slots=2,maxmem=2G")
        cls.addClassCleanup(cls.guest.stop)
        with Tool("qmp", cls.guest.qmp_path) as cls.tool:
            cls.plug(0)
            cls.fill()
            cls.after = [cls.tool.do(line) for line in (
                f"dump {cls.directory / 'after'}", "hold", f"read {PLUGGED:#x} 16", "release")]

    @classmethod
    def plug(cls, number):
        """Memory that Linux takes into use, for what user programs have."""
        cls.guest.qmp.command("object-add", qom_type="memory-backend-ram", id=f"memory{number}",
                              size=SIZE)
        cls.guest.qmp.command("device_add", driver="pc-dimm", id=f"dimm{number}",
                              memdev=f"memory{number}")
        block = f"/sys/devices/system/memory/memory{PLUGGED // SIZE + number}"
        cls.guest.run(f"until [ -e {block} ]; do sleep 0.1; done; echo online_movable >{block}/state")

    @classmethod
    def fill(cls):
        """Has the guest use it: Linux takes memory that can be moved first."""
        cls.guest.run(f"yes '{MARK}' | head -c {8 * MIB} >/tmp/fill")

    def plugged_memory(self):
        """As QEMU has it; the guest is paused."""
        path = self.directory / "saved"
        self.guest.qmp.command("pmemsave", val=PLUGGED, size=SIZE, filename=str(path))
        return path.read_bytes()

    def test_plugged_before(self):
        """Its every byte, in every layout; what is mapped there is found, too."""
        self.guest.qmp.command("stop")
        with contextlib.ExitStack() as stack:
            stack.callback(self.guest.qmp.command, "cont")
            expected = self.plugged_memory()
            self.assertGreater(expected.count(MARK.encode()), 1000)
            for layout in ("elf", "vbox", "kdump"):
                with self.subTest(layout=layout):
                    path, out = self.directory / layout, self.directory / "out"
                    vmscope("core", "-o", path, "--format", layout, *self.guest.target)
                    info = json.loads(vmscope("core", "info", path, "--json").out)
                    self.assertIn((hex(PLUGGED), SIZE), [(row["address"], row["size"])
                                                         for row in info["ranges"]])
                    vmscope("mem", "--physical", "--raw", "-o", out, hex(PLUGGED), SIZE, "-c", path)
                    self.assertTrue(out.read_bytes() == expected)
                    self.assertEqual(vmscope("ps", "-c", path).out,
                                     vmscope("ps", *self.guest.target).out)

    def test_plugged_after(self):
        """A tool that has attached before does not write a file that lacks it, and says why."""
        dumped, held, read, released = self.after
        self.assertRegex(dumped, r"^error \d+ .*has other memory.*attach anew")
        self.assertFalse((self.directory / "after").exists())
        self.assertEqual(read, "ok unreadable", "it does not take it for zeros either")
        self.assertEqual([held, released], ["ok", "ok"])
        self.assertEqual(self.guest.run("echo alive").strip(), "alive")


class Vcpu(unittest.TestCase):
    def test_not_started(self):
        """It stands where a reset puts it, and executes nothing."""
        guest = linux_guest.LinuxGuest("6.12", smp="1,maxcpus=2", append="maxcpus=1")
        self.addCleanup(guest.stop)
        vcpu = next(one for one in guest.qmp.command("query-hotpluggable-cpus") if "qom-path" not in one)
        guest.qmp.command("device_add", driver=vcpu["type"], id="plugged", **vcpu["props"])
        text = guest.qmp.command("human-monitor-command", command_line="info registers", cpu_index=1)
        self.assertIn("HLT=1", text)
        out = vmscope("sample", *guest.target, "-t", "1", "--format", "folded").out
        self.assertEqual({line.rsplit(" ", 1)[0] for line in out.splitlines() if line.startswith("vCPU 1;")},
                         {"vCPU 1;[idle]"})


if __name__ == "__main__":
    unittest.main()
