# SPDX-License-Identifier: MIT
"""User stacks of Debian's own programs, in a whole Debian: stripped, without frame pointers."""
import bisect
import collections
import functools
import pathlib
import re
import subprocess
import tempfile
import unittest

import debian_guest
import testbed
from vmscope_command import vmscope

ENOUGH = 0.95  # of stacks walked to their roots, and of frames named
UNNAMED = re.compile(r"(.+)\+0x([0-9a-f]+)")
SECONDS = 30


@debian_guest.needs_debian
class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-debian-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.guest = debian_guest.DebianGuest(launcher=(testbed.VMSCOPE, "run", "--"))
        cls.addClassCleanup(cls.guest.stop)
        cls.guest.start_work()
        path = cls.directory / "stacks.folded"
        vmscope("sample", "-p", cls.guest.pid, "-t", SECONDS, "-F", 99, "-o", path)
        cls.stacks = collections.Counter()
        for line in path.read_text().splitlines():
            stack, count = line.rsplit(" ", 1)
            cls.stacks[tuple(stack.split(";"))] += int(count)
        cls.files = {}
        for name in cls.guest.run("sed -n 's/.* r-xp .* //p' /proc/*/maps | sort -u").split():
            cls.files[name.rsplit("/", 1)[-1]] = name

    def user_stacks(self):
        """The frames of each stack of one of the programs that work, and how often it was found."""
        for (_, process, *frames), count in ((stack, n) for stack, n in self.stacks.items()
                                             if len(stack) > 2):
            name = re.sub(r" \(\d+\)$", "", process)
            if name in debian_guest.WORK:
                yield name, frames, count

    @functools.cache
    def functions(self, name):
        """The functions of a file of the guest that its symbols tell: sorted first and last bytes."""
        path = self.directory / name
        subprocess.run(["/sbin/debugfs", "-R", f"dump {self.files[name]} {path}",
                        f"{debian_guest.IMAGES / 'disk.img'}?offset={debian_guest.FIRST_BYTE}"],
                       check=True, stderr=subprocess.DEVNULL)
        listed = subprocess.run(["readelf", "-W", "--symbols", path], check=True, text=True,
                                stdout=subprocess.PIPE).stdout
        found = re.findall(r"^ *\d+: ([0-9a-f]{16}) +(\d+) I?FUNC .* \d+ \S+$", listed, re.M)
        return sorted((int(va, 16), int(va, 16) + int(size)) for va, size in found if int(size))

    def has_name(self, frame):
        """True if the file's own symbols have a name for a frame that has none."""
        match = UNNAMED.fullmatch(frame)
        if not match or match[1] not in self.files:
            return False
        offset, functions = int(match[2], 16), self.functions(match[1])
        index = bisect.bisect(functions, (offset, 1 << 64)) - 1
        return index >= 0 and offset < functions[index][1]

    def test_programs(self):
        """Each of the programs is found at work."""
        found = {name for name, _, _ in self.user_stacks()}
        self.assertEqual(found, set(debian_guest.WORK))

    def test_roots(self):
        """User stacks reach the function with which a program or thread begins."""
        ends = collections.defaultdict(collections.Counter)
        for name, frames, count in self.user_stacks():
            ends[name][frames[0] if frames[0].startswith("[") else "root"] += count
        total = sum(ends.values(), collections.Counter())
        self.assertGreater(total["root"] / total.total(), ENOUGH, dict(ends))

    def test_names(self):
        """User functions have names, where their files have symbols for them."""
        named = missed = 0
        examples = collections.Counter()
        for _, frames, count in self.user_stacks():
            for frame in frames:
                if self.has_name(frame):
                    missed += count
                    examples[frame] += count
                elif not UNNAMED.fullmatch(frame) and not frame.startswith("["):
                    named += count
        self.assertGreater(named, 1000)
        self.assertGreater(named / (named + missed), ENOUGH, examples.most_common(10))


if __name__ == "__main__":
    unittest.main()
