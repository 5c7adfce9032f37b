# SPDX-License-Identifier: MIT
"""aarch64 guests: what is tested elsewhere on x86-64, on one guest that all these tests share.

Its kernel uses addresses of 52 bits. Older kernels and processors: tests/long/test_aarch64_old.py.
"""
import json
import random
import re
import unittest

import linux_guest
import vmscope_command
import test_guest
import test_stacks
import test_symbols
from test_pages import our_walks, qemu_walk

_guests = {}


def shared(series, processor):
    if series not in _guests:
        _guests[series] = linux_guest.LinuxGuest(series, arch="aarch64", **processor)
        unittest.addModuleCleanup(lambda: _guests.pop(series).stop())
    return _guests[series]


class New:
    """Linux 6.12 on the newest processor."""
    series = "6.12"
    processor = {}

    @classmethod
    def start_guest(cls):
        return shared(cls.series, cls.processor)

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop_workload()


class Symbols(New, test_symbols.Symbols, unittest.TestCase):
    link_text = 0xffff800080000000


class Guest(New, test_guest.Guest, unittest.TestCase):
    scheduler = ["__switch_to", "__schedule", "schedule"]
    test_log_that_has_wrapped = None  # the same on all architectures, and slow here


class Stacks(New, test_stacks.Stacks, unittest.TestCase):
    pass


class Pages:
    """Page walks against QEMU's own."""
    linear_map = 0
    user_wanted = 0  # addresses of user memory to compare: with PAN that is left to luck

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def addresses(self):
        """Addresses of every kind, by what the guest itself says is there."""
        chosen = random.Random(1)
        text = int(self.guest.run("grep -m1 ' _stext$' /proc/kallsyms").split()[0], 16)
        image = [text + chosen.randrange(40 << 20) for _ in range(500)]
        maps = self.guest.run("cat /proc/1/maps $(ls -d /proc/[0-9]*/maps | tail -3)")
        user = [int(line.split("-")[0], 16) for line in maps.splitlines() if "-" in line]
        linear = [self.linear_map + page * 4096 for page in range(0, 1 << 17, 997)]
        edges = [0, 1, 0xfff, 1 << 47, (1 << 48) - 1, 1 << 48, 1 << 52, 1 << 55, 1 << 63,
                 2**64 - (1 << 52) - 1, 2**64 - (1 << 52), 2**64 - (1 << 48), 2**64 - 1]
        unlikely = [chosen.getrandbits(64) for _ in range(100)]
        near = [va + chosen.randrange(1 << 22) for va in user]
        return image + user + near + linear + edges + unlikely

    def readable_halves(self, vcpu):
        """Halves of the address space, by bit 55, that QEMU tells of: what the vCPU may read."""
        pan = 1 << 22
        text = self.guest.qmp.command("human-monitor-command", command_line="info registers",
                                      cpu_index=vcpu)
        pstate, level = re.search(r"PSTATE=([0-9a-f]+).* EL([01])", text).groups()
        if level == "0":
            return {0}
        return {1} if int(pstate, 16) & pan else {0, 1}

    def test_walks(self):
        self.guest.start_workload("deep")
        self.guest.start_workload("mix")
        addresses = self.addresses()
        chosen = random.Random(2)
        mapped = [0, 0]
        for _ in range(100):
            self.guest.qmp.command("stop")
            asked = [(i % 2, va) for i, va in enumerate(chosen.sample(addresses, 150))]
            readable = [self.readable_halves(vcpu) for vcpu in range(2)]
            for (vcpu, va), our in zip(asked, our_walks(self.guest, asked)):
                half = va >> 55 & 1
                if half in readable[vcpu]:
                    qemu = qemu_walk(self.guest, vcpu, va)
                    mapped[half] += qemu is not None
                    self.assertEqual(our, qemu, f"vCPU {vcpu}, address {va:#x}")
            self.guest.qmp.command("cont")
            if mapped[0] >= self.user_wanted and mapped[1] > 200:
                return
        self.fail(f"too few of the addresses were mapped for a test: {mapped}")


class Pages52Bits(Pages, New, unittest.TestCase):
    linear_map = 0xfff0000000000000


class Asked:
    """What the other tests do not ask."""

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def ask(self, *arguments):
        return json.loads(vmscope_command.vmscope(*arguments, *self.guest.target, "--json").out)


class Commands(Asked, New, unittest.TestCase):
    def test_registers(self):
        """As QEMU's monitor tells them."""
        self.guest.qmp.command("stop")
        try:
            text = self.guest.qmp.hmp("info registers")
            own = {name.lower(): int(value, 16)
                   for name, value in re.findall(r"\b(X\d\d|SP|PC)=([0-9a-f]{16})", text)}
            ours = {row["register"]: int(row["value"], 16) for row in self.ask("regs")
                    if row["vcpu"] == 0}
        finally:
            self.guest.qmp.command("cont")
        self.assertEqual(len(own), 33)
        for name, value in own.items():
            self.assertEqual(ours[re.sub("x0(.)", r"x\1", name)], value, name)
        self.assertIn("TTBR1_EL1", ours)

    def test_code(self):
        """A function that is known to have two instructions, and a text."""
        text = vmscope_command.vmscope("disas", *self.guest.target, "cpu_do_idle").out
        self.assertIn("wfi", text)
        self.assertIn("ret", text)
        self.assertIn("|Linux version 6.|",
                      vmscope_command.vmscope("mem", *self.guest.target, "linux_banner", "16").out)

    def test_work_is_seen(self):
        """The kernel functions that the workload must reach, and its own in their order."""
        self.guest.start_workload("mix")
        out = vmscope_command.vmscope("sample", *self.guest.target, "-t", "3", "-F", "199", "--format",
                              "folded", "--symbols", self.guest.arch.programs / "workload").out
        self.guest.stop_workload()
        functions = set()
        deep = 0
        for line in out.splitlines():
            frames = line.rsplit(" ", 1)[0].split(";")
            if frames[1].startswith("workload ("):
                functions.update(frames)
                deep += ";".join(reversed(test_stacks.DEEP)) in ";".join(frames)
        for function in ("el0t_64_sync", "invoke_syscall", "vfs_read", "do_page_fault",
                         "handle_mm_fault"):
            self.assertIn(function, functions)
        self.assertTrue(deep, out)

    def test_vcpu_that_is_off(self):
        """The kernel turns it off by a call of its firmware, from which it does not return."""
        online = "/sys/devices/system/cpu/cpu1/online"
        self.guest.run(f"echo 0 >{online}")
        self.addCleanup(self.guest.run, f"echo 1 >{online}")
        out = vmscope_command.vmscope("sample", *self.guest.target, "-t", "0.5", "--format", "folded").out
        stacks = {line.rsplit(" ", 1)[0] for line in out.splitlines() if line.startswith("vCPU 1;")}
        self.assertEqual(stacks, {"vCPU 1;[idle]"})


if __name__ == "__main__":
    unittest.main()
