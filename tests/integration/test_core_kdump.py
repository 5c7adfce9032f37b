# SPDX-License-Identifier: MIT
"""Files that makedumpfile makes of a guest's core, read as machines.

What is read from them is compared with what QEMU says of the paused guest's memory.
"""
import json
import mmap
import pathlib
import subprocess
import tempfile
import unittest

import linux_guest
import testbed
from vmscope_command import vmscope

TOOL = testbed.BUILD / "tests" / "tools" / "machine-tool"
PAGE = 4096


class Makedumpfile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.busy_guest()
        cls.addClassCleanup(cls.guest.stop)
        directory = tempfile.TemporaryDirectory(prefix="vmscope-kdump-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.size = cls.guest.qmp.command("query-memory-size-summary")["base-memory"]
        cls.guest.qmp.command("stop")  # for good: the tests compare files
        cls.guest.qmp.command("pmemsave", val=0, size=cls.size,
                              filename=str(cls.directory / "memory"))
        vmscope("core", *cls.guest.target, "-o", cls.directory / "elf")

    def convert(self, *options):
        """A kdump file of the guest's memory; what `core info` says of it."""
        path = self.directory / "kdump"
        command = ["makedumpfile", *options, self.directory / "elf"]
        path.unlink(missing_ok=True)
        if "-F" in options:
            with open(path, "wb") as out:
                subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True,
                               timeout=testbed.ANSWER_SECONDS)
        else:
            subprocess.run([*command, path], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True, timeout=testbed.ANSWER_SECONDS)
        info = json.loads(vmscope("core", "info", path, "--json").out)
        self.assertEqual(info["damage"], [])
        self.assertEqual(info["core"][0]["guest"], f"Linux {self.guest.release}")
        self.assertIn("makedumpfile", info["core"][0]["variant"])
        return info["core"][0]

    def missing_pages(self):
        """How many pages read as zeros and are something else; all others must be right."""
        saved, missing = self.directory / "saved", 0
        saved.unlink(missing_ok=True)
        subprocess.run([TOOL, "core", self.directory / "kdump"], input=f"save {saved}\n", text=True,
                       stdout=subprocess.DEVNULL, timeout=testbed.ANSWER_SECONDS, check=True)
        with open(saved, "r+b") as ours, open(self.directory / "memory", "rb") as theirs:
            ours.truncate(self.size)
            with mmap.mmap(ours.fileno(), 0, access=mmap.ACCESS_READ) as found, \
                    mmap.mmap(theirs.fileno(), 0, access=mmap.ACCESS_READ) as expected:
                for at in range(0, self.size, PAGE):
                    page = found[at:at + PAGE]
                    if page != expected[at:at + PAGE]:
                        self.assertFalse(any(page), f"the page at 0x{at:x} differs")
                        missing += 1
        return missing

    def test_whole(self):
        self.convert("-l", "-d", "1")
        self.assertEqual(self.missing_pages(), 0)

    def test_filtered_and_flattened(self):
        core = self.convert("-c", "-d", "31", "-F")
        missing = self.missing_pages()
        self.assertGreater(missing, 0)
        self.assertLessEqual(missing * PAGE, core["left_out"])


if __name__ == "__main__":
    unittest.main()
