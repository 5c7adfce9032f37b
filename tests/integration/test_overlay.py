# SPDX-License-Identifier: MIT
"""Programs in an overlay, as containers have them: names of their files and functions. The truth is the
guest's own /proc, and what nm says of the program."""
import json
import unittest

import linux_guest
import test_made_code
from test_frames import WAIT, user_names
from test_names import read_functions
from testbed import GUESTS
from vmscope_command import vmscope

ROOT = "/mnt/overlay"
MAKE = " && ".join((
    f"modprobe overlay && mkdir -p /lower /upper {ROOT}",
    "mount -t tmpfs none /lower && mount -t tmpfs none /upper",
    "mkdir -p /lower/bin /lower/tmp /upper/files /upper/work",
    "cp -a /bin/frames-static /bin/sorts /bin/makes_code /bin/libc.so.6 /bin/ld-linux-x86-64.so.2 /lower/bin/",
    f"mount -t overlay none -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work {ROOT}",
    *(f"cp {ROOT}/bin/frames-static {ROOT}/bin/{copy}" for copy in ("upper", "gone", "replaced"))))


class Overlay:
    """Subclasses say which kernel."""
    series = ""

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(cls.series)
        cls.addClassCleanup(cls.guest.stop)
        cls.guest.run(MAKE)

    def start(self, program):
        """Starts a program in the overlay; its process id, when it runs there."""
        pid = self.guest.run(f"chroot {ROOT} /bin/{program} >/dev/null 2>&1 & echo $!").strip()
        self.addCleanup(self.guest.run, f"kill -9 {pid}")
        name = program.split()[0]
        self.guest.run(f"until readlink /proc/{pid}/exe | grep -q /{name}$; do sleep 0.1; done")
        return pid

    def check_stack(self, pid, file):
        self.guest.run(f"until grep -q '^State:.S' /proc/{pid}/status; do sleep 0.1; done")
        rows = json.loads(vmscope("stack", "--task", pid, "--json", *self.guest.target).out)
        frames = [row for row in reversed(rows) if row["mode"] == "user"]
        names = user_names(frames)
        self.assertEqual(frames[0]["end"], "complete")
        self.assertEqual(names[names.index("main") + 1:], WAIT)
        self.assertEqual({row["module"] for row in frames}, {file})

    def test_layers(self):
        """A file of the lower layer, and one of the upper one."""
        for program in ("frames-static", "upper"):
            with self.subTest(program):
                self.check_stack(self.start(f"{program} wait"), f"{ROOT}/bin/{program}")

    def test_files_that_are_gone(self):
        """A process has the bytes that it was started from, not those that are at the path now."""
        gone, replaced = self.start("gone wait"), self.start("replaced wait")
        self.guest.run(f"cd {ROOT}/bin && rm gone && cp sorts new && mv new replaced")
        self.check_stack(gone, f"{ROOT}/bin/gone")
        self.check_stack(replaced, f"{ROOT}/bin/replaced")

    def test_symbols(self):
        pid = self.start("sorts")
        place, = (va for va, names in read_functions(GUESTS / "sorts").items() if "compare_numbers" in names)
        maps = [line.split() for line in self.guest.run(f"cat /proc/{pid}/maps").splitlines()]
        first = next(words for words in maps if words[-1] == f"{ROOT}/bin/sorts")
        self.assertEqual(vmscope("symbol", "--task", pid, "compare_numbers", *self.guest.target).out,
                         f"{int(first[0].split('-')[0], 16) + place:016x} T compare_numbers\t[{ROOT}/bin/sorts]\n")

    def test_made_code(self):
        """The map of code that a container's program makes is a file of the upper layer."""
        pid = self.start("makes_code")
        self.guest.run(f"until [ -s {ROOT}/tmp/perf-{pid}.map ]; do sleep 0.1; done")
        start = int(self.guest.run(f"sed -n 2p {ROOT}/tmp/perf-{pid}.map").split()[0], 16)
        self.assertEqual(vmscope("symbol", "--task", pid, test_made_code.NAME, *self.guest.target).out,
                         f"{start:016x} t {test_made_code.NAME}\t[/tmp/perf-{pid}.map]\n")


class Overlay612(Overlay, unittest.TestCase):
    series = "6.12"


if __name__ == "__main__":
    unittest.main()
