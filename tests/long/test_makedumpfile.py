# SPDX-License-Identifier: MIT
"""makedumpfile on files of every layout, and on what `core convert` makes of them."""
import json
import pathlib
import subprocess
import tempfile
import unittest

import linux_guest
from vmscope_command import vmscope

COMMANDS = ("ps", "dmesg", "modules")
KINDS = (("-l", "-d", "1"), ("-c", "-d", "31"), ("-E", "-d", "31"))


class Makedumpfile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-mkdump-", dir="/var/tmp")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.guest = linux_guest.shared_guest(linux_guest.busy_guest)
        cls.guest.qmp.command("stop")
        cls.live = {command: cls.ask(command, *cls.guest.target) for command in COMMANDS}
        for layout in ("elf", "vbox", "kdump"):
            vmscope("core", "-o", cls.directory / layout, "--format", layout, *cls.guest.target)
        for layout in ("vbox", "kdump"):
            vmscope("core", "convert", cls.directory / layout, cls.directory / f"{layout}-elf")
        vmscope("core", "convert", "--format", "kdump", cls.directory / "vbox",
                cls.directory / "vbox-kdump")

    @staticmethod
    def ask(command, *target):
        return json.loads(vmscope(command, *target, "--json").out)

    def make(self, source, *options):
        """A file of makedumpfile's, or None where it fails."""
        made = self.directory / "made"
        made.unlink(missing_ok=True)
        run = subprocess.run(["makedumpfile", "--message-level", "0", *options,
                              str(self.directory / source), str(made)], check=False)
        return made if run.returncode == 0 else None

    def test_filters(self):
        """What is left is still the guest."""
        for source in ("elf", "vbox-elf", "kdump-elf"):
            for kind in KINDS:
                with self.subTest(source=source, kind=kind):
                    made = self.make(source, *kind)
                    self.assertTrue(made)
                    self.assertEqual({command: self.ask(command, "-c", made)
                                      for command in COMMANDS}, self.live)

    def test_reads_the_log(self):
        for source in ("elf", "kdump", "vbox-elf", "kdump-elf", "vbox-kdump"):
            with self.subTest(source=source):
                made = self.make(source, "--dump-dmesg")
                self.assertIn(f"Linux version {self.guest.release}", made.read_text())

    def test_drops_zeros_of_vbox(self):
        """All that can be done without VMCOREINFO."""
        self.assertTrue(self.make("vbox", "-l", "-d", "1"))

    def test_does_not_know(self):
        """What docs/core-files.md says that it cannot do: where it learns it, say so there."""
        self.assertIsNone(self.make("vbox", "-l", "-d", "31"))
        self.assertIsNone(self.make("kdump", "-l", "-d", "1"))


if __name__ == "__main__":
    unittest.main()
