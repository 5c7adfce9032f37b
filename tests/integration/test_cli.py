# SPDX-License-Identifier: MIT
"""The commands that look inside, against what QEMU and the guest say themselves."""
import json
import re
import unittest

import harness
from harness import vmscope


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = harness.shared_guest("6.1")
        cls.target = cls.guest.target

    def setUp(self):
        self.assertEqual(self.guest.qmp.status(), "running")

    def pause(self):
        self.guest.qmp.command("stop")
        self.addCleanup(self.guest.qmp.command, "cont")

    def json(self, *arguments):
        return json.loads(vmscope(*arguments, "--json", *self.target).out)


class List(Case):
    def test_list(self):
        rows = {row["pid"]: row for row in json.loads(vmscope("list", "--json").out)}
        row = rows[self.guest.pid]
        self.assertEqual(row["accel"], "tcg")
        self.assertEqual(row["vcpus"], 2)
        self.assertEqual(row["memory"], 512 << 20)
        self.assertEqual(row["qmp"], str(self.guest.qmp_path))
        self.assertIsNone(row["obstacle"])
        self.assertIn(str(self.guest.pid), vmscope("list").out)

    def test_obstacle(self):
        machine = harness.Machine("-S", smp=1, memory=64, qmp=False, name="closed")
        self.addCleanup(machine.stop)
        rows = {row["pid"]: row for row in json.loads(vmscope("list", "--json").out)}
        self.assertEqual(rows[machine.pid]["name"], "closed")
        self.assertIn("QMP", rows[machine.pid]["obstacle"])


class Registers(Case):
    @staticmethod
    def system_registers(text):
        """Segments, descriptor tables and debug registers, by `info registers`."""
        qemu = {}
        for name, *values in re.findall(r"^(\w\w|LDT) ?=(\w{4}) (\w+) (\w{8}) (\w{8})", text,
                                        re.M):
            name = name.lower().replace("ldt", "ldtr")
            selector, base, limit, flags = (int(value, 16) for value in values)
            qemu.update({name: selector, f"{name}_base": base, f"{name}_limit": limit,
                         f"{name}_attr": flags >> 8 & 0xf0ff})
        for name, base, limit in re.findall(r"^([GI]DT)= +(\w+) (\w+)", text, re.M):
            qemu.update({f"{name.lower()}r_base": int(base, 16),
                         f"{name.lower()}r_limit": int(limit, 16)})
        qemu.update((name.lower(), int(value, 16)) for name, value in
                    re.findall(r"\b(DR[0-367])=([0-9a-f]+)", text))
        return qemu

    def test_equal_to_qemus(self):
        self.pause()
        rows = self.json("regs")
        for vcpu in range(2):
            text = self.guest.qmp.command("human-monitor-command", command_line="info registers",
                                          cpu_index=vcpu)
            qemu = {name.lower(): int(value, 16) for name, value in
                    re.findall(r"\b(R[A-Z0-9]{1,2}) ?=([0-9a-f]{16})\b", text)}
            qemu.update((name.lower(), int(value, 16)) for name, value in
                        re.findall(r"\b(CR[0234])=([0-9a-f]+)", text))
            qemu.update(self.system_registers(text))
            ours = {row["register"]: int(row["value"], 16) for row in rows if row["vcpu"] == vcpu}
            self.assertEqual(len(qemu), 21 + 8 * 4 + 4 + 6)
            self.assertEqual({name: ours.get(name) for name in qemu}, qemu)

    def test_one_of_one(self):
        rows = self.json("regs", "--cpu", "1", "rip")
        self.assertEqual([(row["vcpu"], row["register"]) for row in rows], [(1, "rip")])

    def test_unknown(self):
        run = vmscope("regs", "no_register", *self.target, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("no_register", run.err)
        run = vmscope("regs", "--cpu", "7", *self.target, check=False)
        self.assertEqual(run.status, 2)


class Memory(Case):
    def saved(self, command, address, size):
        """Memory as QEMU writes it into a file."""
        path = self.guest.directory / "saved"
        self.guest.qmp.command(command, val=address, size=size, filename=str(path))
        return path.read_bytes()

    def ours(self, *arguments):
        path = self.guest.directory / "ours"
        vmscope("mem", "--raw", "-o", path, *map(str, arguments), *self.target)
        return path.read_bytes()

    def test_virtual(self):
        banner = next(symbol for symbol in self.guest.kallsyms() if symbol.name == "linux_banner")
        self.pause()
        for size in (1, 13, 4096, 100001):
            self.assertEqual(self.ours(hex(banner.va), size),
                             self.saved("memsave", banner.va, size))

    def test_physical(self):
        self.pause()
        for address, size in ((0, 4096), (0x100000, 1 << 20), ((512 << 20) - 4096, 4096)):
            self.assertEqual(self.ours("--physical", hex(address), size),
                             self.saved("pmemsave", address, size))

    def test_text(self):
        version = self.guest.run("cat /proc/version").strip()
        out = vmscope("mem", "linux_banner", "64", *self.target).out
        shown = "".join(re.findall(r"\|(.*)\|", out))
        self.assertTrue(version.startswith(shown[:60]), out)

    def test_unreadable(self):
        for arguments in (("0x800000000000",), ("--physical", "0x7fffffff0000"),
                          ("0xfffffffffffffff0", "32")):
            run = vmscope("mem", *arguments, *self.target, check=False)
            self.assertEqual(run.status, 1, arguments)
            self.assertIn("cannot read", run.err)


class Disassembly(Case):
    def test_equal_to_qemus(self):
        """The same instruction boundaries as QEMU's disassembler finds, and the whole function."""
        rows = self.json("disas", "vfs_read")
        start = int(rows[0]["address"], 16)
        # A line without a mnemonic carries on the bytes of the one above.
        qemu = re.findall(r"^(0x\w+):  [0-9a-f]{2}(?: [0-9a-f]{2})* {2,}\S",
                          self.guest.qmp.hmp(f"x/{len(rows)}i {start:#x}"), re.MULTILINE)
        self.assertEqual([row["address"] for row in rows], qemu)
        symbols = sorted({symbol.va for symbol in self.guest.kallsyms()})
        end = int(rows[-1]["address"], 16) + rows[-1]["size"]
        self.assertEqual(end, symbols[symbols.index(start) + 1])


class Stacks(Case):
    def test_of_vcpus(self):
        rows = self.json("stack")
        self.assertEqual({row["vcpu"] for row in rows}, {0, 1})
        kernel = [row for row in rows if row["mode"] == "kernel"]
        self.assertTrue(all(row["symbol"] for row in kernel), kernel)

    def test_of_a_waiting_thread(self):
        """Where the guest itself says that a thread waits, by /proc/PID/stack."""
        pid = self.guest.run("pidof kthreadd").strip()
        theirs = re.findall(r"\] (\w+)\+", self.guest.run(f"cat /proc/{pid}/stack"))
        ours = [row["symbol"] for row in self.json("stack", "--task", pid)]
        self.assertTrue(theirs)
        self.assertEqual([name for name in ours if name in theirs], theirs, ours)


class BlockedLog(Case):
    """Nobody takes the log lines: the guest has nothing to do with it."""

    def test_commands(self):
        for command in ("stack", "ps", "modules", "dmesg"):
            with self.subTest(command):
                process = harness.start_vmscope(command, "-v", *self.target,
                                                stderr=harness.full_pipe(self))
                with process:
                    self.addCleanup(process.kill)
                    self.assertTrue(process.stdout.read(1), "the output, after all holds")
                    harness.wait_for(lambda: self.guest.qmp.status() == "running",
                                     "the guest to run")
                    self.assertIsNone(process.poll())
                    self.assertTrue(harness.is_blocked(process, "pipe"))
                    process.kill()


class Info(Case):
    def test_every_item(self):
        """Each item has something to say, as text and as JSON, and leaves the guest running."""
        items = [row["item"] for row in self.json("info", "help")]
        self.assertGreater(len(items), 10)
        for item in items:
            with self.subTest(item):
                rows = self.json("info", item)[item]
                self.assertTrue(rows or item in ("block", "network", "numa", "usb"), rows)
                self.assertTrue(vmscope("info", item, *self.target).out.strip())
                self.assertEqual(self.guest.qmp.status(), "running")

    def test_os(self):
        rows = {row["name"]: row["value"] for row in self.json("info", "os")["os"]}
        self.assertEqual(rows["release"], self.guest.run("uname -r").strip())
        self.assertEqual(rows["version"], self.guest.run("uname -v").strip())
        self.assertEqual(rows["hostname"], self.guest.run("hostname").strip())

    def test_memory(self):
        rows = self.json("info", "memory")["memory"]
        self.assertAlmostEqual(sum(row["size"] for row in rows), 512 << 20, delta=1 << 20)

    def test_mappings(self):
        """Kernel text is mapped, and what /proc/PID/maps says of the process that runs."""
        rows = self.json("info", "mappings")["mappings"]
        text = next(symbol.va for symbol in self.guest.kallsyms() if symbol.name == "_text")
        ranges = [(int(row["address"], 16), row["size"]) for row in rows]
        self.assertTrue(any(va <= text < va + size for va, size in ranges), rows[:5])

    def test_unknown(self):
        run = vmscope("info", "no_item", *self.target, check=False)
        self.assertEqual(run.status, 2)
        self.assertIn("mappings", run.err, "the error lists what there is")


class Paused(Case):
    def test_stays_paused(self):
        self.pause()
        for command in (("stack",), ("regs",), ("info",), ("ps",), ("symbol", "do_idle")):
            vmscope(*command, *self.target)
            self.assertEqual(self.guest.qmp.status(), "paused", command)


class Launch(unittest.TestCase):
    def test_target_that_it_starts(self):
        """`-- qemu …` starts a machine, looks at it, and ends it."""
        harness.build_guests()
        elf = harness.GUESTS / "bare.elf"
        for seconds in (0.5, 5, 50):  # a loaded machine may need longer to get past the firmware
            out = vmscope("sample", "-t", seconds, "--symbols", elf, "--", "qemu-system-x86_64",
                          "-accel", "tcg", "-m", "64", "-nodefaults", "-display", "none",
                          "-serial", "null", "-kernel", elf, timeout=120).out
            if "guest_main" in out:
                break
        self.assertIn("guest_main", out)

    def test_run(self):
        """`run` becomes a QEMU that `list` finds reachable."""
        harness.build_guests()
        process = harness.start_vmscope(
            "run", "--", "qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-nodefaults",
            "-display", "none", "-serial", "null", "-name", "launched", "-kernel",
            harness.GUESTS / "bare.elf")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

        def row():
            found = [row for row in json.loads(vmscope("list", "--json").out)
                     if row["pid"] == process.pid]
            return found and found[0]["qmp"] and found[0]
        self.assertIsNone(harness.wait_for(row, "the machine to be listed")["obstacle"])
        harness.wait_for(lambda: vmscope("regs", "-p", process.pid, check=False).status == 0,
                         "the machine to be reachable")


if __name__ == "__main__":
    unittest.main()
