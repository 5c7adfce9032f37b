# SPDX-License-Identifier: MIT
"""A paused machine shown live, and the same shown from a core file of that pause, and from what
`core convert` makes of it: equal."""
import json
import pathlib
import tempfile
import unittest

import linux_guest
import qemu_machine
from vmscope_command import vmscope

LAYOUTS = ("elf", "vbox", "kdump")
COMMANDS = (("stack",), ("ps",), ("dmesg",), ("modules",), ("info", "os", "cpus", "timers"))
# What VirtualBox's layout shows, and neither QEMU's stub nor its monitor tells.
UNTOLD = {"apic_base"}
# What a file cannot know, or tells of itself.
OWN_FACTS = ("found by",)
OWN_COLUMNS = ("thread",)  # the host's


def comparable(shown):
    """Without what must differ."""
    if isinstance(shown, list):
        return [comparable(row) for row in shown if row.get("name") not in OWN_FACTS]
    return {key: comparable(value) if isinstance(value, list) else value
            for key, value in shown.items() if key not in OWN_COLUMNS}


class CoreSame(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.busy_guest()
        cls.addClassCleanup(cls.guest.stop)
        cls.directory = tempfile.TemporaryDirectory(prefix="vmscope-same-")
        cls.guest.qmp.command("stop")  # for good: the tests compare files
        cls.live = cls.show(*cls.guest.target)
        cls.monitor = [qemu_machine.monitor_registers(cls.guest, vcpu) for vcpu in range(2)]
        for layout in LAYOUTS:
            vmscope("core", *cls.guest.target, "-o", cls.path(layout), "--format", layout)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def path(cls, layout):
        return pathlib.Path(cls.directory.name, layout)

    @staticmethod
    def show(*target):
        return {command: comparable(json.loads(vmscope(*command, *target, "--json").out))
                for command in COMMANDS}

    def test_something_is_shown(self):
        for command, shown in self.live.items():
            with self.subTest(command=command):
                self.assertTrue(shown)

    def test_from_a_file(self):
        for layout in LAYOUTS:
            shown = self.show("-c", self.path(layout))
            for command in COMMANDS:
                with self.subTest(layout=layout, command=command):
                    self.assertEqual(shown[command], self.live[command])

    @staticmethod
    def registers(path):
        """Of each vCPU, by name: only those that are known."""
        rows = json.loads(vmscope("regs", "-c", path, "--json").out)
        return [{row["register"]: int(row["value"], 16) for row in rows if row["vcpu"] == vcpu}
                for vcpu in range(2)]

    def check_registers(self, path):
        """By value against QEMU's monitor; what it does not tell is not made up either."""
        for ours, theirs in zip(self.registers(path), self.monitor, strict=True):
            self.assertGreater(len(theirs), 60)
            self.assertEqual({name: ours.get(name) for name in theirs}, theirs)
            self.assertEqual(UNTOLD & set(ours), set())
            self.assertIn("cr8", ours)

    def test_registers(self):
        for layout in LAYOUTS:
            with self.subTest(layout=layout):
                self.check_registers(self.path(layout))

    def test_converted(self):
        """From every layout to every other; each conversion says what other tools do not learn."""
        for way in (("vbox", "kdump", "elf"), ("kdump", "vbox", "elf")):
            source = self.path("elf")
            for layout in way:
                target = self.path(f"{layout}, converted")
                told = json.loads(vmscope("core", "convert", "--force", "--json",
                                          "--format", layout, source, target).out)
                with self.subTest(source=source.name, layout=layout):
                    self.check_registers(target)
                    self.assertEqual(self.registers(target), self.registers(self.path("elf")))
                    self.assertEqual({row["register"] for row in told["unknown"]},
                                     UNTOLD if layout == "vbox" else set())
                source = target


if __name__ == "__main__":
    unittest.main()
