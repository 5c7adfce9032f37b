# SPDX-License-Identifier: MIT
"""Page walks against QEMU's own: 4 and 5 levels, page table isolation, the kernel and a process."""
import random
import re
import subprocess
import unittest

import linux_guest
import testbed


def qemu_walk(machine, vcpu, va):
    """Where QEMU says that an address lies, or None."""
    answer = machine.qmp.command("human-monitor-command", command_line=f"gva2gpa {va:#x}",
                                 cpu_index=vcpu)
    match = re.search(r"gpa: (0x[0-9a-f]+)", answer)
    return int(match[1], 16) if match else None


def our_walks(machine, asked):
    """The same by libvmscope, for a list of (vCPU, address)."""
    run = subprocess.run([testbed.BUILD / "tests" / "tools" / "translate",
                          machine.qmp_path], text=True, check=True, timeout=120,
                         input="".join(f"{vcpu} {va:#x}\n" for vcpu, va in asked),
                         stdout=subprocess.PIPE)
    return [None if line == "-" else int(line, 16) for line in run.stdout.split()]


class Pages:
    """The test; subclasses say which processor."""
    options = {}
    levels = 0

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest("6.1", **cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def addresses(self):
        """Addresses of every kind, by what the guest itself says is there."""
        chosen = random.Random(1)
        text = int(self.guest.run("grep -m1 ' _stext$' /proc/kallsyms").split()[0], 16)
        image = [text + chosen.randrange(40 << 20) for _ in range(800)]
        modules = [int(line.split()[5], 16) + 4096 * page for page in range(4)
                   for line in self.guest.run("cat /proc/modules").splitlines()]
        maps = self.guest.run("cat /proc/1/maps $(ls -d /proc/[0-9]*/maps | tail -3)")
        user = [int(line.split("-")[0], 16) for line in maps.splitlines() if "-" in line]
        direct_map = [0xffff888000000000 + page * 4096 for page in range(0, 1 << 17, 997)]
        top = 1 << (47 if self.levels == 4 else 56)
        edges = [0, 1, 0xfff, top - 1, top, 2**64 - top - 1, 2**64 - top, 2**64 - 1,
                 0x8000000000000000, 0xffffffff80000000]
        unlikely = [chosen.getrandbits(64) for _ in range(100)]
        near = [va + chosen.randrange(1 << 22) for va in user]
        return image + modules + user + near + direct_map + edges + unlikely

    def test_walks(self):
        self.guest.start_workload("deep")
        self.guest.start_workload("deep")
        addresses = self.addresses()
        self.guest.qmp.command("stop")
        asked = [(i % 2, va) for i, va in enumerate(addresses)]
        ours = our_walks(self.guest, asked)
        self.assertEqual(self.guest.qmp.status(), "paused", "a paused guest stays paused")
        self.assertEqual(len(ours), len(asked))
        mapped = 0
        for (vcpu, va), our in zip(asked, ours):
            qemu = qemu_walk(self.guest, vcpu, va)
            mapped += qemu is not None
            self.assertEqual(our, qemu, f"vCPU {vcpu}, address {va:#x}")
        self.assertGreater(mapped, len(asked) // 4, "too few of the addresses are mapped for a test")
        cr4 = int(re.search(r"CR4=([0-9a-f]+)", self.guest.qmp.hmp("info registers"))[1], 16)
        self.assertEqual(bool(cr4 & 1 << 12), self.levels == 5)
        self.guest.qmp.command("cont")


class FiveLevels(Pages, unittest.TestCase):
    levels = 5


class Isolated(Pages, unittest.TestCase):
    """The kernel isolates its page tables. Those of 4 levels without that: tests/long/test_again.py."""
    options = linux_guest.ISOLATED
    levels = 4


if __name__ == "__main__":
    unittest.main()
