# SPDX-License-Identifier: MIT
"""The sample report of real guests: what it says."""
import bisect
import collections
import pathlib
import os
import re
import tempfile
import unittest

import linux_guest
import qemu_machine
from sample_report import FRAME, Report, read_folded, sample
import testbed
from vmscope_command import vmscope


class Busy:
    """One run of a guest with work of every kind, in all formats; subclasses say which kernel."""
    series = ""
    names = ("r.txt", "r.folded", "r.svg")  # of the files

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.busy_guest(cls.series)
        cls.addClassCleanup(cls.guest.stop)
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            files = [directory / file for file in cls.names]
            vmscope("sample", "-t", "5", "-F", "199", *(word for file in files for word in ("-o", file)),
                    *cls.guest.target)
            cls.written = {file.name: file.read_text() for file in directory.iterdir()}
        cls.report = Report(cls.written["r.txt"])
        cls.stacks = read_folded(cls.written["r.folded"])

    def test_sums(self):
        report = self.report
        self.assertEqual(set(report.trees), {0, 1})
        report.check_ticks(self)
        for vcpu, roots in report.trees.items():
            self.assertGreater(report.samples[vcpu], 0)
            self.assertEqual(sum(root.count for root in roots), report.samples[vcpu])
            pending = list(roots)
            while pending:
                node = pending.pop()
                below = [child.count for child in node.children]
                self.assertEqual(below, sorted(below, reverse=True))
                self.assertLessEqual(sum(below), node.count, node)
                self.assertAlmostEqual(node.percent, 100 * node.count / report.samples[vcpu],
                                       delta=0.006)
                pending += node.children

    def test_work_is_seen(self):
        """Every process that works appears, with the kernel functions that its work must reach."""
        seen = collections.defaultdict(set)
        for frames, _ in self.stacks:
            process = frames[1].split(" (")[0]
            seen[process].update(frames)
        self.assertIn("workload", seen)
        for function in ("entry_SYSCALL_64_after_hwframe", "do_syscall_64", "asm_exc_page_fault",
                         "vfs_read", "handle_mm_fault"):
            self.assertIn(function, seen["workload"])

    def test_names_by_address(self):
        """Each kernel address is called what the guest's own kallsyms calls it."""
        names = collections.defaultdict(set)
        for symbol in self.guest.kallsyms():
            names[symbol.va].add((symbol.name, symbol.module or "vmlinux"))
        addresses = sorted(names)
        report = sample(self.guest, "--by", "address", "-F", "199")
        checked = set()
        for node in report.nodes:
            match = FRAME.match(node.label)
            if not match or int(match[4], 16) >> 63 == 0:
                continue
            name, offset, module, va = match[1], match[2], match[3], int(match[4], 16)
            self.assertIsNotNone(name, node.label)
            start = va - int(offset or "0", 16)
            self.assertIn((name, module), names[start], node.label)
            # Of a return address, the call before it decides: hence one less.
            floor = {addresses[bisect.bisect_right(addresses, at) - 1] for at in (va, va - 1)}
            self.assertIn(start, floor, node.label)
            checked.add(va)
        self.assertGreater(len(checked), 100)

    def test_stacks_are_complete(self):
        """At least 98 % of kernel stacks reach their root."""
        complete = walked = 0
        for percent, count in re.findall(r"kernel stacks complete ([\d.]+)% of (\d+)",
                                         self.report.text):
            walked += int(count)
            complete += float(percent) / 100 * int(count)
        self.assertGreater(walked, 300)
        self.assertGreaterEqual(complete / walked, 0.98)

    def test_files(self):
        """All formats of one run, by the names of the files."""
        self.assertEqual(sorted(self.written), sorted(self.names))
        total = sum(count for _, count in self.stacks)
        self.assertEqual(total, sum(self.report.samples.values()))
        self.assertRegex(self.written["r.svg"], r"(?s)^<\?xml.*<svg.*</svg>\s*$")


class Ordered(Busy):
    """And other orders of what is seen."""

    def test_reversed(self):
        """Leaf first: processes stand at the far end."""
        report = sample(self.guest, "--reverse", seconds=1)
        for vcpu, roots in report.trees.items():
            self.assertEqual(sum(root.count for root in roots), report.samples[vcpu])
            for root in roots:
                self.assertNotRegex(root.label, r"^workload \(\d+\)$")

    def test_truncated(self):
        for order in ((), ("--reverse",)):
            stacks = sample(self.guest, "--depth", "2", "-F", "199", *order, seconds=1)
            self.assertTrue(any(node.label == "[truncated]" for node in stacks.nodes))
            self.assertLessEqual(max(node.depth for node in stacks.nodes), 4)


class Busy61(Ordered, unittest.TestCase):
    series = "6.1"


class Idle(unittest.TestCase):
    def test_idle(self):
        """A guest with nothing to do is seen to be idle."""
        guest = linux_guest.LinuxGuest("6.1")
        self.addCleanup(guest.stop)
        guest.run("sleep 3")
        report = sample(guest)
        total = sum(report.samples.values())
        self.assertGreater(report.processes()["[idle]"], total * 0.5, report.text[:2000])


class Bare(unittest.TestCase):
    """A guest of our own with a known call tree, and no operating system."""

    guest_class = qemu_machine.BareGuest

    def check(self, **options):
        guest = self.guest_class("bare", **options)
        self.addCleanup(guest.stop)
        report = sample(guest, "--symbols", guest.elf, "-F", "199")
        self.assertEqual(guest.qmp.status(), "running")
        total = sum(report.samples.values())
        self.assertGreater(total, 50)
        counts = collections.Counter()
        paths = collections.Counter()
        pending = [(root, ()) for root in report.trees[0]]
        while pending:
            node, path = pending.pop()
            path += (re.split(r"[+ ]", node.label)[0],)
            counts[path[-1]] += node.count
            paths[path[-4:]] += node.count
            pending += [(child, path) for child in node.children]
        self.assertAlmostEqual(counts["major"] / total, 0.75, delta=0.12)
        self.assertAlmostEqual(counts["minor"] / total, 0.25, delta=0.12)
        self.assertGreater(counts["guest_main"] / total, 0.97)
        self.assertGreater(counts["work"] / total, 0.9)
        self.assertIn(("guest_main", "minor", "helper", "work"), paths)
        self.assertIn("no operating system", report.text)

    def test_tcg(self):
        self.check()

    @unittest.skipUnless(testbed.have_kvm(), "no /dev/kvm on this machine")
    def test_kvm(self):
        self.check(accel="kvm")

    def test_registers(self):
        """Those for stacks are read from QEMU's memory. That they are right, test_tcg shows."""
        guest = qemu_machine.BareGuest("bare", smp=2)
        self.addCleanup(guest.stop)
        run = vmscope("sample", "--verbose", "-t", "1", *guest.target)
        self.assertIn("registers for stacks are read from QEMU's memory", run.err)

    def test_number_of_ticks(self):
        """A tick at the very end is none of the run's."""
        guest = self.guest_class("bare")
        self.addCleanup(guest.stop)
        for hz, seconds in ((20, 1), (99, 2)):
            report = sample(guest, "-F", hz, seconds=seconds)
            for vcpu in report.samples:
                self.assertEqual(report.samples[vcpu] + report.missed[vcpu] + report.failed[vcpu],
                                 hz * seconds)

    def test_missed(self):
        """Where most are missed, the likely reason is said: the host's load, or the frequency."""
        guest = self.guest_class("bare")
        self.addCleanup(guest.stop)
        loads = [os.getloadavg()[0]]
        run = vmscope("sample", "-t", "1", "-F", "100000", *guest.target)
        loads.append(os.getloadavg()[0])
        report = Report(run.out)
        missed = sum(report.missed.values())
        busy, fast = "this host is busy, its load is ", "a sample takes longer than the 10 us "
        wanted = {busy if load > os.cpu_count() else fast for load in loads}
        self.assertRegex(run.err, f"{missed} of {100000 * len(report.samples)} samples were missed, "
                                  f"likely as ({'|'.join(wanted)})")
        run = vmscope("sample", "-t", "2", "-F", "1", *guest.target)
        self.assertNotIn("missed", run.err)

    def test_facts(self):
        """An item that is not wanted is taken from those that are there without being asked for."""
        guest = qemu_machine.BareGuest("bare")
        self.addCleanup(guest.stop)

        def headings(*arguments):
            return re.findall(r"\n\n(.*)\n-+\n", sample(guest, *arguments, seconds=0.1).text)
        usual = headings()
        self.assertIn("Memory", usual)
        self.assertEqual(headings("--facts=-memory"), [name for name in usual if name != "Memory"])
        own = headings("--facts=none")
        self.assertEqual(headings("--facts=modules,memory,-modules"), [*own, "Memory"])
        self.assertEqual(headings("--facts=-memory,modules"),
                         [*(name for name in usual if name != "Memory"), "Modules"])

    def test_without_symbols(self):
        """Raw addresses, and a word on it."""
        guest = qemu_machine.BareGuest("bare")
        self.addCleanup(guest.stop)
        report = sample(guest, seconds=1)
        self.assertRegex(report.text, "Machine: .*, 1 vCPU, process")
        self.assertTrue(any(re.fullmatch(r"\[0x1[0-9a-f]{5}\]", node.label)
                            for node in report.nodes), report.text[:2000])


if __name__ == "__main__":
    unittest.main()
