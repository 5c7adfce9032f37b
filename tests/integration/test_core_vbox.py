# SPDX-License-Identifier: MIT
"""VirtualBox's core files both ways: vmscope's read by vbox.py, and vbox.py's read by vmscope.

The guest is paused all the time, so that what its files hold can be compared with what QEMU says.
"""
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import linux_guest
import qemu_machine
import vbox
from vmscope_command import vmscope


def qemu_ranges(guest):
    """(first, size, is_memory) of what lies in the guest's address space, by QEMU's monitor."""
    view = next(view for view in guest.qmp.hmp("info mtree -f").split("FlatView #")
                if 'AS "memory"' in view)
    return [(int(first, 16), int(last, 16) - int(first, 16) + 1, kind != "i/o")
            for first, last, kind in
            re.findall(r"^ +(\w{16})-(\w{16}) \(prio \d+, (ram|rom|romd|i/o)\)", view,
                       re.MULTILINE)]


def joined(ranges):
    """Ranges (first, size) with adjoining ones as one."""
    result = []
    for first, size in sorted(ranges):
        if result and sum(result[-1]) == first:
            result[-1] = (result[-1][0], result[-1][1] + size)
        else:
            result.append((first, size))
    return result


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-vbox-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.guest = linux_guest.shared_guest(linux_guest.busy_guest)
        cls.guest.qmp.command("stop")
        cls.addClassCleanup(cls.guest.qmp.command, "cont")
        cls.cpus = [qemu_machine.monitor_registers(cls.guest, cpu) for cpu in range(2)]
        cls.ranges = qemu_ranges(cls.guest)

    @classmethod
    def memory(cls, pa, size):
        """Guest-physical memory as QEMU writes it into a file."""
        path = cls.directory / "saved"
        cls.guest.qmp.command("pmemsave", val=pa, size=size, filename=str(path))
        return path.read_bytes()


class Written(Case):
    """A file of vmscope's."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.directory / "ours"
        vmscope("core", "-o", cls.path, "--format", "vbox", *cls.guest.target)
        cls.core = vbox.read(cls.path)

    @staticmethod
    def memory_loads(core):
        return [load for load in core.loads if load.filesz]

    @staticmethod
    def devices(core):
        return joined((load.pa, load.memsz) for load in core.loads if not load.filesz)

    def test_header(self):
        self.assertEqual(self.core.ident_version, 1)  # 0 in VirtualBox's own, which libelf refuses
        self.assertEqual(self.core.version, 6)
        self.assertEqual(self.core.n_cpus, 2)
        self.assertEqual({(load.va, load.align, load.flags) for load in self.core.loads},
                         {(0, 0, vbox.PF_R)})

    def test_registers(self):
        self.assertEqual(len(self.core.cpus), 2)
        for ours, theirs in zip(self.core.cpus, self.cpus):
            self.assertGreater(len(theirs), 50)
            # What is not usable is bit 16, as in the VMCS; QEMU has no such bit.
            ours = {name: value & 0xFFFF if name.endswith("_attr") else value
                    for name, value in ours.items()}
            self.assertEqual({name: ours[name] for name in theirs}, theirs)

    def test_ranges(self):
        self.assertEqual(joined((load.pa, load.memsz) for load in self.memory_loads(self.core)),
                         joined(range_[:2] for range_ in self.ranges if range_[2]))
        self.assertEqual(self.devices(self.core),
                         joined(range_[:2] for range_ in self.ranges if not range_[2]))

    def test_memory(self):
        """Every byte."""
        with open(self.path, "rb") as file:
            for load in self.core.loads:
                self.assertIn(load.filesz, (0, load.memsz))
                if load.filesz:
                    file.seek(load.offset)
                    self.assertTrue(file.read(load.filesz) == self.memory(load.pa, load.memsz),
                                    f"memory at {load.pa:#x}")

    def test_convert_gives_the_same(self):
        """From here into ELF and back: nothing is lost."""
        elf, back = self.directory / "elf", self.directory / "back"
        vmscope("core", "convert", self.path, elf)
        vmscope("core", "convert", "--format", "vbox", elf, back)
        again = vbox.read(back)
        self.assertEqual(again.cpus, self.core.cpus)
        self.assertEqual(self.devices(again), self.devices(self.core))
        with open(self.path, "rb") as ours, open(back, "rb") as theirs:
            for load, other in zip(self.memory_loads(self.core), self.memory_loads(again),
                                   strict=True):
                self.assertEqual((load.pa, load.filesz), (other.pa, other.filesz))
                ours.seek(load.offset)
                theirs.seek(other.offset)
                self.assertTrue(ours.read(load.filesz) == theirs.read(load.filesz))


class Read(Case):
    """Files of vbox.py's, of every version, of a Linux guest."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ranges = [vbox.Range(pa, size, cls.memory(pa, size) if is_memory else None)
                  for pa, size, is_memory in cls.ranges]
        # Of the registers that QEMU's monitor does not show, Linux's per-CPU memory needs one.
        for row in json.loads(vmscope("regs", "k_gs_base", "--json", *cls.guest.target).out):
            cls.cpus[row["vcpu"]]["k_gs_base"] = int(row["value"], 16)
        cls.paths = {version: cls.directory / f"theirs-{version}" for version in vbox.LAYOUTS}
        for version, path in cls.paths.items():
            vbox.write(path, cls.cpus, ranges, version)

    def test_registers(self):
        for version, path in self.paths.items():
            with self.subTest(version=version):
                rows = json.loads(vmscope("regs", "--json", "-c", path).out)
                for cpu, theirs in enumerate(self.cpus):
                    ours = {row["register"]: int(row["value"], 16) for row in rows
                            if row["vcpu"] == cpu}
                    names = set(theirs) & set(vbox.LAYOUTS[version][0])
                    self.assertEqual({name: ours.get(name) for name in names},
                                     {name: theirs[name] for name in names})

    def test_memory(self):
        out = self.directory / "ours"
        for version, path in self.paths.items():
            with self.subTest(version=version):
                for pa, size in ((0, 4096), (0x100000, 1 << 20), ((512 << 20) - 4096, 4096),
                                 (0xFFFC0000, 4096)):
                    vmscope("mem", "--physical", "--raw", "-o", out, hex(pa), size, "-c", path)
                    self.assertTrue(out.read_bytes() == self.memory(pa, size), hex(pa))
                run = vmscope("mem", "--physical", "0xfee00000", "-c", path, check=False)
                self.assertEqual(run.status, 1, "a device has no content")

    def test_guest_is_what_it_is_live(self):
        for command in (("ps",), ("dmesg",), ("stack",), ("modules",), ("info", "os"),
                        ("symbol", "vfs_read"), ("disas", "vfs_read")):
            live = vmscope(*command, *self.guest.target).out
            self.assertGreaterEqual(len(live.splitlines()), 1)
            for version, path in self.paths.items():
                with self.subTest(version=version):
                    self.assertEqual(vmscope(*command, "-c", path).out, live, command)

    def test_cut_off(self):
        """A file that ends too early is opened, and says what is missing; so does its conversion."""
        path = self.directory / "cut"
        shutil.copy(self.paths[6], path)
        os.truncate(path, 300 << 20)
        facts = json.loads(vmscope("core", "info", "--json", path).out)
        self.assertTrue(facts["damage"])
        self.assertTrue(vmscope("core", "info", path).out.startswith("damaged"))
        self.assertIn("damaged", vmscope("core", "convert", path, self.directory / "whole").err)

    def test_info(self):
        for version, path in self.paths.items():
            with self.subTest(version=version):
                facts = json.loads(vmscope("core", "info", "--json", path).out)
                core = facts["core"][0]
                self.assertEqual((core["layout"], core["vcpus"]), ("vbox", 2))
                self.assertIn("VirtualBox", core["variant"])
                self.assertIn(self.guest.release, core["guest"])
                self.assertEqual(facts["damage"], [])
                self.assertEqual([int(row["pc"], 16) for row in facts["vcpus"]],
                                 [cpu["rip"] for cpu in self.cpus])
                self.assertEqual(sum(row["file_size"] for row in facts["segments"]),
                                 sum(size for _, size, is_memory in self.ranges if is_memory))


if __name__ == "__main__":
    unittest.main()
