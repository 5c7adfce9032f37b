# SPDX-License-Identifier: MIT
"""Modules that are loaded and unloaded while their guest is sampled.

What their functions are called is told by the files that they are loaded from.
"""
import collections
import lzma
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

import linux_guest
from long_tests import takes_long
import testbed
import vmscope_command
from sample_report import FRAME, Report

MODULES = ("raid6_pq", "xor")  # both measure how fast they are when they are loaded
# What they are called that the kernel calls.
INIT = {"init_module", "raid6_init", "xor_init"}
WANTED_PERCENT = 98


def functions(kernel, nm, modules=MODULES):
    """By module: the names of its code."""
    names = {}
    for module in modules:
        pattern = module.replace("_", "?") + ".ko*"  # of a file's name it may be a "-"
        file = next(path for path in (testbed.KERNELS / kernel).rglob(pattern))
        data = file.read_bytes()
        with tempfile.NamedTemporaryFile() as plain:
            plain.write(lzma.decompress(data) if file.suffix == ".xz" else data)
            plain.flush()
            run = subprocess.run([nm, plain.name], text=True, check=True, stdout=subprocess.PIPE)
        names[module] = {line.split()[-1] for line in run.stdout.splitlines()
                         if line.split()[-2] in "tTwW"}
    return names


def completeness(report):
    """Kernel stacks that were walked, and the percentage of those that reach their root."""
    found = re.findall(r"kernel stacks complete ([\d.]+)% of (\d+)", report.text)
    walked = sum(int(count) for _, count in found)
    complete = sum(float(percent) / 100 * int(count) for percent, count in found)
    return walked, 100 * complete / max(walked, 1)


class Modules:
    """The tests; subclasses say which kernel."""
    series = ""

    @classmethod
    def start_guest(cls):
        return linux_guest.LinuxGuest(cls.series)

    @classmethod
    def kernel(cls):
        return cls.series

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()
        cls.functions = functions(cls.kernel(), cls.guest.arch.nm)

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def sample_while(self, command):
        """The report of a run in which the guest executes the command."""
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "report.txt"
            self.guest.qmp.event_names()
            self.guest.qmp.events.clear()
            sampling = vmscope_command.start_vmscope("sample", "-F", "199", "-o", file, *self.guest.target)
            testbed.wait_for(lambda: self.guest.qmp.event_names().count("STOP") > 20, "samples")
            self.guest.run(command)
            sampling.send_signal(signal.SIGINT)
            _, err = sampling.communicate(timeout=120)
            self.assertEqual(sampling.returncode, 0, err)
            return Report(file.read_text())

    def check(self, report):
        """Stacks are complete, names are right; how often each function of a module was seen."""
        walked, percent = completeness(report)
        self.assertGreater(walked, 30, report.text)
        self.assertGreaterEqual(percent, WANTED_PERCENT, report.text)
        seen = collections.Counter()
        pending = [(root, None) for roots in report.trees.values() for root in roots]
        while pending:
            node, caller = pending.pop()
            match = FRAME.fullmatch(node.label)
            pending += [(child, match and match[1]) for child in node.children]
            if not match or not int(match[4], 16) >> 63:
                continue
            self.assertIsNotNone(match[1], f"{node.label} has no name")
            if match[3] not in MODULES:
                continue
            self.assertIn(match[1], self.functions[match[3]], node.label)
            seen[match[1], caller] += node.count
        return seen

    def check_init(self, seen):
        """Init functions are called by the kernel."""
        callers = {caller for (name, caller) in seen if name in INIT}
        self.assertEqual(callers, {"do_one_initcall"}, seen)

    def test_come_and_go(self):
        """Also names of code that is unloaded when the run ends."""
        once = " && ".join([f"modprobe {module}" for module in MODULES] +
                           [f"rmmod {module}" for module in reversed(MODULES)])
        seen = self.check(self.sample_while(f"for i in 1 2; do {once} || exit; done"))
        self.check_init(seen)
        self.assertEqual(self.guest.run("grep -cE '^(raid6_pq|xor) ' /proc/modules || true"), "0\n")

    def test_come_and_stay(self):
        seen = self.check(self.sample_while("modprobe raid6_pq && modprobe xor"))
        self.guest.run("rmmod xor && rmmod raid6_pq")
        self.check_init(seen)

    def test_programs(self):
        """A BPF program is code that comes and goes, too."""
        report = self.sample_while("workload filter >/dev/null 2>&1 & sleep 4; kill -9 $!")
        names = set()
        for node in report.nodes:
            match = FRAME.fullmatch(node.label)
            if match and int(match[4], 16) >> 63:
                self.assertIsNotNone(match[1], f"{node.label} has no name")
                names.add((re.sub("_[0-9a-f]{16}_", "_", match[1]), match[3]))
        self.assertIn(("bpf_prog_test_filter", "bpf"), names)


class Modules61(Modules, unittest.TestCase):
    series = "6.1"


@takes_long
@testbed.needs_newest
class ModulesNewest(Modules, unittest.TestCase):
    series = testbed.NEWEST


if __name__ == "__main__":
    unittest.main()
