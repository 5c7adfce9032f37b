# SPDX-License-Identifier: MIT
"""aarch64 guests of older kernels and processors: one of 2016, with addresses of 48 bits, that isolates
its page tables and carries no symbols of data; and a newer kernel on a processor without E0PD."""
import json
import re
import subprocess
import tempfile
import unittest

import linux_guest
import vmscope_command
import test_aarch64
import test_again
import test_guest
import test_modules
import sample_report
import test_stacks
import test_symbols


class Old(test_aarch64.New):
    """Linux 6.1 on a processor without pointer authentication and the like."""
    series = "6.1"
    processor = {"cpu": "cortex-a72"}


class SymbolsOfOld(Old, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def test_all_symbols(self):
        """Which are its functions; and what is known without a symbol."""
        own = [symbol for symbol in self.guest.kallsyms() if symbol.module is None]
        ours = [linux_guest.Symbol.parse(line) for line in
                vmscope_command.vmscope("symbol", *self.guest.target).out.splitlines()]
        self.assertGreater(len(own), 20000)
        self.assertNotIn("init_task", [symbol.name for symbol in own])
        self.assertEqual([symbol for symbol in ours if symbol.module is None], own)
        os = vmscope_command.vmscope("info", "--json", "os", *self.guest.target).out
        for command in ("uname -r", "uname -v", "hostname"):
            self.assertIn(json.dumps(self.guest.run(command).strip()), os)
        self.assertEqual(test_symbols.tool(self.guest, "banner"),
                         self.guest.run("cat /proc/version").splitlines())


class GuestOfOld(Old, test_guest.Guest, unittest.TestCase):
    scheduler = ["__switch_to", "__schedule", "schedule"]
    test_log_that_has_wrapped = None


class StacksOfOld(Old, test_stacks.Stacks, unittest.TestCase):
    pass


class ModulesOfOld(Old, test_modules.Modules, unittest.TestCase):
    kernel = test_again.ModulesOfAarch64.kernel
    test_programs = None  # no symbol leads to what counts changes of these


class Isolated(test_aarch64.New):
    """User code runs without the kernel's page tables: a processor that has no E0PD."""
    processor = {"cpu": "cortex-a76"}
    tramp = "tramp_vectors"  # its symbol; without those of data, the mark at the code's begin

    @classmethod
    def setUpClass(cls):
        cls.guest = cls.start_guest()

    def test_trampoline(self):
        """Code of the kernel that runs at another address than its image's has a name."""
        self.guest.start_workload("mix")
        report = sample_report.sample(self.guest, "-F", "199", seconds=15)
        names = set()
        for node in report.nodes:
            match = sample_report.FRAME.fullmatch(node.label)
            if match and int(match[4], 16) >> 63:
                self.assertIsNotNone(match[1], node.label)
                names.add(match[1])
        self.assertIn(self.tramp, names)


class IsolatedOfNew(Isolated, unittest.TestCase):
    """The image's head is no code there."""

    @classmethod
    def start_guest(cls):
        guest = linux_guest.LinuxGuest(cls.series, arch="aarch64", **cls.processor)
        cls.addClassCleanup(guest.stop)
        return guest


class IsolatedOfOld(Isolated, unittest.TestCase):
    series, processor, tramp = Old.series, Old.processor, "__entry_tramp_text_start"


class PagesIsolated(test_aarch64.Pages, Old, unittest.TestCase):
    linear_map = 0xffff000000000000
    user_wanted = 20


class Cores(test_aarch64.Asked, Old, unittest.TestCase):
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
                vmscope_command.vmscope("core", *self.guest.target, "-o", ours)
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
                    core = json.loads(vmscope_command.vmscope(command, "-c", file, "--json").out)
                    if command != "stack":
                        self.assertEqual(core, rows)
                        continue
                    self.assertEqual([row["address"] for row in core if row["mode"] == "kernel"],
                                     [row["address"] for row in rows if row["mode"] == "kernel"])
            with self.assertRaisesRegex(RuntimeError, "VirtualBox's layout does not know aarch64"):
                vmscope_command.vmscope("core", *self.guest.target, "--format", "vbox", "-o",
                                f"{directory}/other")
