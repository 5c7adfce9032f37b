# SPDX-License-Identifier: MIT
"""The commands that look inside, against what QEMU and the guest say themselves."""
import json
import os
import re
import subprocess
import unittest

import linux_guest
import qemu_machine
import testbed
import vmscope_command
from vmscope_command import vmscope


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.shared_guest()
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
        machine = qemu_machine.Machine("-S", smp=1, memory=64, qmp=False, name="closed")
        self.addCleanup(machine.stop)
        rows = {row["pid"]: row for row in json.loads(vmscope("list", "--json").out)}
        self.assertEqual(rows[machine.pid]["name"], "closed")
        self.assertIn("QMP", rows[machine.pid]["obstacle"])

    def test_guest_of_one_that_hangs(self):
        """Why it cannot be told is an obstacle, no guest. Other machines are not looked at here:
        this is a PID namespace of its own."""
        directory = self.guest.directory
        script = f"""
            for name in hangs works; do
                {qemu_machine.ARCHS["x86_64"].qemu[0]} -S -accel tcg -m 16 -nodefaults -display none \\
                    -name $name -qmp unix:{directory}/$name,server=on,wait=off >&2 &
                test $name = works || hangs=$!
            done
            until test -S {directory}/hangs -a -S {directory}/works; do sleep 0.1; done
            sleep 0.5
            kill -STOP $hangs
            {testbed.VMSCOPE} list --guest --json --output {directory}/json
            {testbed.VMSCOPE} list --guest --output {directory}/text
            kill -KILL 0"""
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this user may not make a PID namespace")
        subprocess.run([*unshare, script], stderr=subprocess.DEVNULL, start_new_session=True,
                       timeout=testbed.ANSWER_SECONDS)
        rows = {row["name"]: row for row in json.loads((directory / "json").read_text())}
        self.assertEqual((rows["works"]["guest"], rows["works"]["obstacle"]), ("none detected", None))
        self.assertIsNone(rows["hangs"]["guest"])
        self.assertIn("is stopped", rows["hangs"]["obstacle"])
        lines = (directory / "text").read_text().splitlines()
        self.assertTrue(all(len(line) < 200 for line in lines if rows["hangs"]["obstacle"] not in line))


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

    def test_case(self):
        """Names as QEMU's monitor writes them, too."""
        self.pause()
        self.assertEqual(self.json("regs", "RIP", "Cr3"), self.json("regs", "rip", "cr3"))

    def test_unknown(self):
        run = vmscope("regs", "no_register", *self.target, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("no_register", run.err)
        for cpu in ("7", "2", "-1", "1x", ""):
            for command in (("regs",), ("stack",), ("mem", "linux_banner"), ("disas", "vfs_read")):
                run = vmscope(*command, "--cpu", cpu, *self.target, check=False)
                self.assertEqual((run.status, run.out), (2, ""), (command, cpu))
                self.assertIn(f"no vCPU {cpu}: this machine has 0 to 1", run.err)


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

    def test_json(self):
        self.pause()
        rows = self.json("mem", "linux_banner", "40")
        start = int(rows[0]["address"], 16)
        self.assertEqual([int(row["address"], 16) - start for row in rows], [0, 16, 32])
        self.assertEqual(bytes.fromhex("".join(row["bytes"] for row in rows)),
                         self.saved("memsave", start, 40))
        run = vmscope("mem", "0", "--raw", "--json", *self.target, check=False)
        self.assertEqual(run.status, 2)

    def test_text(self):
        version = self.guest.run("cat /proc/version").strip()
        out = vmscope("mem", "linux_banner", "64", *self.target).out
        shown = "".join(re.findall(r"\|(.*)\|", out))
        self.assertTrue(version.startswith(shown[:60]), out)

    def test_length(self):
        for wrong in ("0", "1k", "linux_banner", "99999999999999999999", "0x10000001"):
            run = vmscope("mem", "linux_banner", wrong, *self.target, check=False)
            self.assertEqual((run.status, run.out), (2, ""), wrong)
            self.assertIn(f"LENGTH {wrong}: ", run.err)
        self.assertEqual(len(self.json("mem", "linux_banner", "0x20")), 2)

    def test_address(self):
        for wrong in ("12x", "99999999999999999999"):
            run = vmscope("mem", wrong, *self.target, check=False)
            self.assertEqual((run.status, run.out), (2, ""), wrong)
            self.assertIn(f'"{wrong}" is no address', run.err)
        run = vmscope("mem", "--physical", "--cpu", "0", "0", *self.target, check=False)
        self.assertEqual((run.status, run.out), (2, ""))

    def test_end(self):
        """Of RAM, and of what is mapped: what lies before it is shown."""
        self.pause()
        end = 512 << 20
        run = vmscope("mem", "--physical", hex(end - 40), "100", "--json", *self.target,
                      check=False)
        self.assertEqual(run.status, 1)
        self.assertIn(f"cannot read 60 more bytes at guest-physical address {end:#x}", run.err)
        self.assertEqual(bytes.fromhex("".join(row["bytes"] for row in json.loads(run.out))),
                         self.saved("pmemsave", end - 40, 40))
        direct_map = int.from_bytes(self.ours("page_offset_base", 8), "little")
        mappings = [(int(row["address"], 16), int(row["bytes"], 16))
                    for row in self.json("info", "mappings")["mappings"]]
        end = max(va + size for va, size in mappings if 0 <= va - direct_map < end)
        run = vmscope("mem", hex(end - 0x20), "0x30", *self.target, check=False)
        self.assertEqual((run.status, len(run.out.splitlines())), (1, 2), run.err)
        self.assertIn(f"cannot read 16 more bytes at virtual address {end:#x}", run.err)

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


    def test_mark(self):
        """Which function it is, and where in it the address is, if not at its begin."""
        start = int(self.json("disas", "vfs_read")[0]["address"], 16)
        third = int(self.json("disas", "vfs_read")[2]["address"], 16)
        for asked, heading, marked in (("vfs_read", "vfs_read+0x0:", f"=> {start:016x}"),
                                       (hex(third), f"vfs_read+{third - start:#x}:", f"=> {third:016x}")):
            lines = vmscope("disas", asked, *self.target).out.splitlines()
            self.assertEqual(lines[0], heading)
            self.assertEqual([line[:19] for line in lines if line.startswith("=>")], [marked])


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

    def test_of_a_running_thread(self):
        """It is that of its vCPU."""
        pid = self.guest.start_workload("deep")
        self.addCleanup(self.guest.stop_workload)
        testbed.wait_for(lambda: pid in {row["pid"] for row in self.json("info", "cpus")["cpus"]},
                         "the thread to run")
        self.pause()
        running = {row["tid"]: row["vcpu"] for row in self.json("stack")}
        for tid in running.keys() - {0}:
            rows = [{**row, "thread": None} for row in self.json("stack", "--task", tid)]
            vcpu = self.json("stack", "--cpu", running[tid])
            self.assertEqual([row["address"] for row in rows], [row["address"] for row in vcpu])

    def test_vcpu_or_task(self):
        for wrong in (("--task", "1", "--cpu", "0"), ("--task", "-1"), ("--task", "init")):
            run = vmscope("stack", *wrong, *self.target, check=False)
            self.assertEqual((run.status, run.out), (2, ""), wrong)
            self.assertIn("--task", run.err)


class Symbols(Case):
    def test_offset(self):
        start, size = next((row["address"], row["size"])
                           for row in self.json("symbol", "vfs_read"))
        inside = hex(int(start, 16) + 0x10)
        self.assertGreater(size, 0x10)
        out = vmscope("symbol", "vfs_read+0x10", *self.target).out
        self.assertEqual(out, f"{int(inside, 16):016x} vfs_read+0x10\n")
        self.assertEqual(vmscope("symbol", inside, *self.target).out, out)
        rows = self.json("symbol", "vfs_read+0x10")
        self.assertEqual(rows, [{**row, "offset": 0x10} for row in self.json("symbol", "vfs_read")
                                if row["address"] == start])
        self.assertEqual((rows[0]["name"], rows[0]["size"], rows[0]["type"]),
                         ("vfs_read", size, "T"))
        for wrong, status in (("no_such_symbol+1", 1), ("vfs_read+", 2), ("vfs_read+x", 2)):
            run = vmscope("symbol", wrong, *self.target, check=False)
            self.assertEqual((run.status, run.out), (status, ""), wrong)


class Log(Case):
    def test_empty_record(self):
        """It has a line, in the guest's own dmesg too, and as many as in JSON."""
        self.guest.run("printf 'before\\n' >/dev/kmsg; printf '\\n' >/dev/kmsg; printf 'after\\n' >/dev/kmsg")
        texts = [row["text"] for row in self.json("dmesg")]
        at = texts.index("before")
        self.assertEqual(texts[at:at + 3], ["before", "", "after"])
        lines = [re.sub(r"^\[ *\d+\.\d+\] ?", "", line)
                 for line in vmscope("dmesg", *self.target).out.splitlines()]
        self.assertEqual(lines, "\n".join(texts).split("\n"))


def complete(*words):
    """What bash offers for the last of these words."""
    script = f"""
        source {testbed.ROOT}/cli/completion/vmscope
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _vmscope
        printf '%s\\n' "${{COMPREPLY[@]}}" """
    path = f"{testbed.VMSCOPE.parent}:{os.environ['PATH']}"
    return subprocess.run(["bash", "-c", script, "bash", *words], text=True, check=True,
                          stdout=subprocess.PIPE, env=os.environ | {"PATH": path}).stdout.split()


class Completion(unittest.TestCase):
    def test_items(self):
        items = [row["item"] for row in json.loads(vmscope("info", "help", "--json").out)]
        self.assertIn("pci", items)
        self.assertEqual(complete("vmscope", "info", ""), [*items, "help"])
        self.assertEqual(complete("vmscope", "info", "os", "cp"), ["cpus"])
        self.assertEqual(complete("vmscope", "sample", "--facts", ""), [*items, "all", "none"])
        self.assertEqual(complete("vmscope", "sample", "--facts", "os,cp"), ["os,cpus"])
        self.assertEqual(complete("vmscope", "sample", "--facts", "=", "-cp"), ["-cpus"])

    def test_options(self):
        self.assertIn("--json", complete("vmscope", "info", "--"))
        self.assertEqual(complete("vmscope", "core", "--format", "v"), ["vbox"])
        self.assertEqual(complete("vmscope", "core", "--format", "=", "v"), ["vbox"])
        self.assertEqual(complete("vmscope", "disas", "--bits", ""), ["16", "32", "64"])


class OptionsOfRecord(unittest.TestCase):
    def test_sample(self):
        """The command that has them is named."""
        for option in ("--wall", "--host"):
            run = vmscope("sample", option, check=False)
            self.assertEqual(run.status, 2)
            self.assertIn(f'Use "vmscope record {option} -o FILE"', run.err)


class Formats(unittest.TestCase):
    """Wherever formats of a sample report are listed, there are those of the table in src/export."""

    def test_lists(self):
        # With no machine, as a format is looked at before one is opened.
        said = vmscope("sample", "--format", "no_format", "-p", "1", check=False)
        self.assertEqual(said.status, 2)
        names = re.split(", | or ", re.search(r": choose (.*) \(see", said.err).group(1))
        sources = "".join(file.read_text() for file in (testbed.ROOT / "src/export").glob("*.c"))
        written = re.findall(r'^const struct vms_exporter .*\n\t\.name = "(\w+)"', sources, re.MULTILINE)
        self.assertEqual(sorted(names), sorted(written))

        usage = vmscope("sample", "--help").out
        self.assertEqual(re.search(r"--format=(\S+)", usage).group(1).split("|"), names)
        listed = re.findall(r"^  (\w+) +(\.[\w.]+) +\S", usage.partition("\nFormats")[2], re.MULTILINE)
        self.assertEqual([name for name, _ in listed], names)
        self.assertEqual(complete("vmscope", "sample", "--format", ""), names)

        page = (testbed.BUILD / "docs/man/vmscope.1").read_text()
        self.assertIn(f".It Fl -format Ar {' | '.join(names)}\n", page)
        self.assertEqual(re.findall(r"^\.It Ar (\w+) Pq (\.[\w.]+)$", page, re.MULTILINE), listed)


class BlockedLog(Case):
    """Nobody takes the log lines: the guest has nothing to do with it."""

    def test_commands(self):
        for command in ("stack", "ps", "modules", "dmesg"):
            with self.subTest(command):
                process = vmscope_command.start_vmscope(command, "-v", *self.target,
                                                stderr=vmscope_command.full_pipe(self))
                with process:
                    self.addCleanup(process.kill)
                    self.assertTrue(process.stdout.read(1), "the output, after all holds")
                    testbed.wait_for(lambda: self.guest.qmp.status() == "running",
                                     "the guest to run")
                    self.assertIsNone(process.poll())
                    self.assertTrue(vmscope_command.is_blocked(process, "pipe"))
                    process.kill()


class Info(Case):
    def test_every_item(self):
        """Each item has something to say, as text and as JSON, and leaves the guest running."""
        items = [row["item"] for row in self.json("info", "help")]
        self.assertGreater(len(items), 10)
        said = self.json("info", *items)
        for item in items:
            self.assertTrue(said[item] or item in ("block", "network", "numa", "usb"), item)
        self.assertEqual(self.guest.qmp.status(), "running")
        for item in items[::4]:
            self.assertTrue(vmscope("info", item, *self.target).out.strip(), item)
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
        testbed.build_guests()
        elf = testbed.GUESTS / "bare.elf"
        for seconds in (0.5, 5, 50):  # a loaded machine may need longer to get past the firmware
            out = vmscope("sample", "-t", seconds, "--symbols", elf, "--", "qemu-system-x86_64",
                          "-accel", "tcg", "-m", "64", "-nodefaults", "-display", "none",
                          "-serial", "null", "-kernel", elf, timeout=120).out
            if "guest_main" in out:
                break
        self.assertIn("guest_main", out)

    def test_run(self):
        """`run` becomes a QEMU that `list` finds reachable."""
        testbed.build_guests()
        process = vmscope_command.start_vmscope(
            "run", "--", "qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-nodefaults",
            "-display", "none", "-serial", "null", "-name", "launched", "-kernel",
            testbed.GUESTS / "bare.elf")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

        def row():
            found = [row for row in json.loads(vmscope("list", "--json").out)
                     if row["pid"] == process.pid]
            return found and found[0]["qmp"] and found[0]
        self.assertIsNone(testbed.wait_for(row, "the machine to be listed")["obstacle"])
        testbed.wait_for(lambda: vmscope("regs", "-p", process.pid, check=False).status == 0,
                         "the machine to be reachable")


if __name__ == "__main__":
    unittest.main()
