# SPDX-License-Identifier: MIT
"""Core files that QEMU writes of a paused guest, read as machines.

What is read from the files is compared with what QEMU's monitor says of registers and memory, and
with what vmscope says of the paused guest itself.
"""
import json
import pathlib
import subprocess
import tempfile
import unittest

import linux_guest
import qemu_machine
import testbed
from vmscope_command import vmscope

TOOL = testbed.BUILD / "tests" / "tools" / "machine-tool"
COMMANDS = ("ps", "dmesg", "stack", "modules")


def ask(command, *target):
    return json.loads(vmscope(command, *target, "--json").out)


class QemuDump(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.busy_guest()
        cls.addClassCleanup(cls.guest.stop)
        directory = tempfile.TemporaryDirectory(prefix="vmscope-core-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.core = cls.directory / "core"
        cls.guest.qmp.command("stop")
        cls.memory = cls.save_memory()
        cls.live = {command: ask(command, "--qmp", cls.guest.qmp_path) for command in COMMANDS}

    @classmethod
    def save_memory(cls):
        """The guest's memory from address 0 on, as QEMU reads it."""
        path = cls.directory / "memory"
        size = cls.guest.qmp.command("query-memory-size-summary")["base-memory"]
        cls.guest.qmp.command("pmemsave", val=0, size=size, filename=str(path))
        memory = path.read_bytes()
        path.unlink()
        return memory

    def dump(self, **options):
        self.core.unlink(missing_ok=True)
        self.guest.qmp.command("dump-guest-memory", protocol=f"file:{self.core}", **options)
        return json.loads(vmscope("core", "info", self.core, "--json").out)

    def check_registers(self):
        rows = ask("regs", "-c", self.core)
        for vcpu in range(2):
            # QEMU's files have no debug registers, and no EFER.
            expected = {name: value for name, value in
                        qemu_machine.monitor_registers(self.guest, vcpu).items()
                        if name != "efer" and not name.startswith("dr")}
            self.assertEqual(len(expected), 18 + 4 + 8 * 4 + 4)
            ours = {row["register"]: int(row["value"], 16) for row in rows if row["vcpu"] == vcpu}
            self.assertEqual({name: ours.get(name) for name in expected}, expected)

    def check_memory(self, ranges):
        """Every range that lies where QEMU has read; their bytes."""
        path, compared = self.directory / "ours", 0
        subprocess.run([TOOL, "core", self.core], input=f"save {path}\n", text=True,
                       stdout=subprocess.DEVNULL, timeout=testbed.ANSWER_SECONDS, check=True)
        with open(path, "rb") as ours:
            for row in ranges:
                start = int(row["address"], 16)
                expected = self.memory[start:start + row["size"]]
                ours.seek(start)
                self.assertTrue(ours.read(len(expected)) == expected,
                                f"memory differs in 0x{start:x}+0x{row['size']:x}")
                compared += len(expected)
        path.unlink()
        return compared

    def check(self, **options):
        info = self.dump(**options)
        self.assertEqual(info["damage"], [])
        self.assertEqual(info["core"][0]["guest"], f"Linux {self.guest.release}")
        self.check_registers()
        for command in COMMANDS:
            self.assertEqual(ask(command, "-c", self.core), self.live[command], command)
        return self.check_memory(info["ranges"])

    def test_elf(self):
        self.assertEqual(self.check(paging=False), len(self.memory))

    def test_elf_with_paging(self):
        # QEMU leaves out what no page table maps: not much of it.
        self.assertGreater(self.check(paging=True), len(self.memory) * 0.99)

    def test_kdump(self):
        self.assertEqual(self.check(paging=False, format="kdump-zlib"), len(self.memory))


if __name__ == "__main__":
    unittest.main()
