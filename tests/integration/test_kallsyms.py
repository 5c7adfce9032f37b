# SPDX-License-Identifier: MIT
"""Symbols against the guest's own /proc/kallsyms: every one of them, on every kernel."""
import bisect
import collections
import json
import unittest

import harness
from harness import vmscope


class AllEqual:
    """The main test; subclasses say which guest."""

    @classmethod
    def boot(cls):
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.boot()
        cls.target = cls.guest.target
        cls.kallsyms = cls.guest.kallsyms()

    def test_all_equal(self):
        ours = vmscope("symbol", *self.target).out.splitlines()
        self.assertGreater(len(self.kallsyms), 50000)
        self.assert_same(ours, [str(symbol) for symbol in self.kallsyms])

    def assert_same(self, ours, theirs):
        """In any order; a failure shows the first differences."""
        ours, theirs = collections.Counter(ours), collections.Counter(theirs)
        self.assertEqual(list((ours - theirs).elements())[:10],
                         list((theirs - ours).elements())[:10])


class Symbols(AllEqual):
    """More ways to ask for them."""

    def test_json(self):
        ours = json.loads(vmscope("symbol", "--json", *self.target).out)
        self.assertEqual(len(ours), len(self.kallsyms))
        self.assert_same([harness.Symbol(int(row["address"], 16), row["type"], row["name"],
                                         row["module"]) for row in ours], self.kallsyms)

    def test_by_name_and_address(self):
        symbols = self.kallsyms
        text = sorted(symbol for symbol in symbols if symbol.type in "tT" and symbol.va >> 63)
        addresses = [symbol.va for symbol in text]
        for name in ("do_idle", "vfs_read", "virtblk_probe", "schedule"):
            with self.subTest(name):
                same = [symbol for symbol in symbols if symbol.name == name]
                out = vmscope("symbol", name, *self.target).out
                self.assertEqual(sorted(int(line.split()[0], 16) for line in out.splitlines()),
                                 sorted(symbol.va for symbol in same))
                first = same[0]
                following = text[bisect.bisect_right(addresses, first.va)].va
                for va in (first.va, first.va + 1, following - 1):
                    out = vmscope("symbol", hex(va), *self.target).out.strip()
                    self.assertEqual(out, f"{name}+{va - first.va:#x}" +
                                     (f" ({first.module})" if first.module else ""))

    def test_unknown(self):
        run = vmscope("symbol", "no_such_symbol_anywhere", *self.target, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("no_such_symbol_anywhere", run.err)


class Linux61(Symbols, unittest.TestCase):
    @classmethod
    def boot(cls):
        return harness.shared_guest("6.1")


class Linux612(Symbols, unittest.TestCase):
    @classmethod
    def boot(cls):
        return harness.shared_guest("6.12")


class Isolated(AllEqual, unittest.TestCase):
    """Page table isolation: a vCPU in user mode maps next to nothing of the kernel."""
    @classmethod
    def boot(cls):
        guest = harness.LinuxGuest("6.1", cpu="Haswell,vendor=GenuineIntel")
        cls.addClassCleanup(guest.stop)
        vulnerable = guest.run("cat /sys/devices/system/cpu/vulnerabilities/meltdown")
        assert "PTI" in vulnerable, vulnerable
        guest.kallsyms()
        guest.start_workload("deep")
        guest.start_workload("deep")
        return guest


class NotRandomised(AllEqual, unittest.TestCase):
    """Without KASLR, with 4-level paging."""
    @classmethod
    def boot(cls):
        guest = harness.LinuxGuest("6.12", append="nokaslr", cpu="max,la57=off")
        cls.addClassCleanup(guest.stop)
        return guest


if __name__ == "__main__":
    unittest.main()
