# SPDX-License-Identifier: MIT
"""A paused machine shown live, and the same shown from a core file of that pause: equal."""
import json
import pathlib
import tempfile
import unittest

import harness
from harness import vmscope

LAYOUTS = ("elf", "vbox", "kdump")
COMMANDS = (("stack",), ("ps",), ("dmesg",), ("modules",), ("info", "os", "cpus", "timers"))
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
        cls.guest = harness.shared_guest()
        cls.directory = tempfile.TemporaryDirectory(prefix="vmscope-same-")
        cls.guest.qmp.command("stop")
        try:
            cls.live = cls.show(*cls.guest.target)
            for layout in LAYOUTS:
                vmscope("core", *cls.guest.target, "-o", cls.path(layout), "--format", layout)
        finally:
            cls.guest.qmp.command("cont")

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


if __name__ == "__main__":
    unittest.main()
