# SPDX-License-Identifier: MIT
"""aarch64 guests: what is tested elsewhere on x86-64, on one guest that all these tests share.

Its kernel uses addresses of 52 bits. A second one, on a processor of 2016, has 48 bits, isolates
its page tables, and carries no symbols of data.
"""
import json
import random
import re
import subprocess
import tempfile
import unittest

import harness
import test_guest
import test_modules
import test_sample
import test_stacks
import test_symbols
from test_pages import our_walks, qemu_walk

_guests = {}


def shared(series, cpu):
    if series not in _guests:
        _guests[series] = harness.LinuxGuest(series, arch="aarch64", cpu=cpu)
        unittest.addModuleCleanup(lambda: _guests.pop(series).stop())
    return _guests[series]


class New:
    """Linux 6.12 on the newest processor."""
    series = "6.12"
    cpu = "max"

    @classmethod
    def start_guest(cls):
        return shared(cls.series, cls.cpu)

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop_workload()


class Old(New):
    """Linux 6.1 on a processor without pointer authentication and the like."""
    series = "6.1"
    cpu = "cortex-a72"


class Symbols(New, test_symbols.Stock, unittest.TestCase):
    link_text = 0xffff800080000000
    test_another_kernels_file = None  # says nothing of the guest's architecture


class SymbolsOfOld(Old, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def test_all_symbols(self):
        """Which are its functions; and what is known without a symbol."""
        own = [symbol for symbol in self.guest.kallsyms() if symbol.module is None]
        ours = [harness.Symbol.parse(line) for line in
                harness.vmscope("symbol", *self.guest.target).out.splitlines()]
        self.assertGreater(len(own), 20000)
        self.assertNotIn("init_task", [symbol.name for symbol in own])
        self.assertEqual([symbol for symbol in ours if symbol.module is None], own)
        os = harness.vmscope("info", "--json", "os", *self.guest.target).out
        for command in ("uname -r", "uname -v", "hostname"):
            self.assertIn(json.dumps(self.guest.run(command).strip()), os)
        self.assertEqual(test_symbols.tool(self.guest, "banner"),
                         self.guest.run("cat /proc/version").splitlines())


class Guest(New, test_guest.Guest, unittest.TestCase):
    scheduler = ["__switch_to", "__schedule", "schedule"]
    test_log_that_has_wrapped = None  # the same on all architectures, and slow here


class Stacks(New, test_stacks.Stacks, unittest.TestCase):
    pass


class GuestOfOld(Old, test_guest.Guest, unittest.TestCase):
    scheduler = ["__switch_to", "__schedule", "schedule"]
    test_log_that_has_wrapped = None


class Modules(New, test_modules.Modules, unittest.TestCase):
    @classmethod
    def kernel(cls):
        return cls.series + "-arm64"


class ModulesOfOld(Old, test_modules.Modules, unittest.TestCase):
    kernel = Modules.kernel
    test_programs = None  # no symbol leads to what counts changes of these


class Isolated(New):
    """User code runs without the kernel's page tables: a processor that has no E0PD."""
    cpu = "cortex-a76"
    tramp = "tramp_vectors"  # its symbol; without those of data, the mark at the code's begin

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def test_trampoline(self):
        """Code of the kernel that runs at another address than its image's has a name."""
        self.guest.start_workload("mix")
        report = test_sample.sample(self.guest, "-F", "199", seconds=15)
        names = set()
        for node in report.nodes:
            match = test_sample.FRAME.fullmatch(node.label)
            if match and int(match[4], 16) >> 63:
                self.assertIsNotNone(match[1], node.label)
                names.add(match[1])
        self.assertIn(self.tramp, names)


class IsolatedOfNew(Isolated, unittest.TestCase):
    """The image's head is no code there."""

    @classmethod
    def start_guest(cls):
        guest = harness.LinuxGuest(cls.series, arch="aarch64", cpu=cls.cpu)
        cls.addClassCleanup(guest.stop)
        return guest


class IsolatedOfOld(Isolated, unittest.TestCase):
    series, cpu, tramp = Old.series, Old.cpu, "__entry_tramp_text_start"


class StacksOfOld(Old, test_stacks.Stacks, unittest.TestCase):
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


class PagesIsolated(Pages, Old, unittest.TestCase):
    linear_map = 0xffff000000000000
    user_wanted = 20


class Asked:
    """What the other tests do not ask."""

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def ask(self, *arguments):
        return json.loads(harness.vmscope(*arguments, *self.guest.target, "--json").out)


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
        text = harness.vmscope("disas", *self.guest.target, "cpu_do_idle").out
        self.assertIn("wfi", text)
        self.assertIn("ret", text)
        self.assertIn("|Linux version 6.|",
                      harness.vmscope("mem", *self.guest.target, "linux_banner", "16").out)

    def test_work_is_seen(self):
        """The kernel functions that the workload must reach, and its own in their order."""
        self.guest.start_workload("mix")
        out = harness.vmscope("sample", *self.guest.target, "-t", "5", "-F", "99", "--format",
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


class Cores(Asked, Old, unittest.TestCase):
    """QEMU 10 misplaces memory where SVE registers of vCPUs differ in size; this one has none."""

    def stop_outside_entry_code(self):
        """Where a frame is still to be made, QEMU's file lacks a register (ELR) that leads on."""
        for _ in range(100):
            self.guest.qmp.command("stop")
            innermost = [row["symbol"] for row in self.ask("stack") if row["frame"] == 0]
            if not any(re.match(r"el[01]|vectors|tramp|ret_to", str(name)) for name in innermost):
                return
            self.guest.qmp.command("cont")
        self.fail("the guest is always in its entry code")

    def test_core(self):
        """A core file, as elfutils read it, and the same of QEMU: both are seen as the guest is."""
        with tempfile.TemporaryDirectory() as directory:
            ours, theirs = f"{directory}/ours", f"{directory}/theirs"
            self.stop_outside_entry_code()
            try:
                pcs = re.findall(r" PC=([0-9a-f]+)", self.guest.qmp.hmp("info registers -a"))
                live = {command: self.ask(command) for command in ("ps", "stack", "modules")}
                harness.vmscope("core", *self.guest.target, "-o", ours)
                self.guest.qmp.command("dump-guest-memory", paging=False,
                                       protocol=f"file:{theirs}")
            finally:
                self.guest.qmp.command("cont")
            text = subprocess.run(["eu-readelf", "-n", ours], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
            self.assertEqual([int(pc, 16) for pc in re.findall(r"pc: 0x([0-9a-f]+)", text)],
                             [int(pc, 16) for pc in pcs])
            for command, rows in live.items():
                for file in (ours, theirs):
                    core = json.loads(harness.vmscope(command, "-c", file, "--json").out)
                    if command != "stack":
                        self.assertEqual(core, rows)
                        continue
                    self.assertEqual([row["address"] for row in core if row["mode"] == "kernel"],
                                     [row["address"] for row in rows if row["mode"] == "kernel"])
            with self.assertRaisesRegex(RuntimeError, "VirtualBox's layout does not know aarch64"):
                harness.vmscope("core", *self.guest.target, "--format", "vbox", "-o",
                                f"{directory}/other")


if __name__ == "__main__":
    unittest.main()
