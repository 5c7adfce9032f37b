# SPDX-License-Identifier: MIT
"""What a Linux kernel saves when it crashes: /proc/vmcore, and makedumpfile's files made of it.

A guest crashes while CPU 0 handles a system call and CPU 1 runs a user program with known calls.
What vmscope reads from the file is compared with what the guest said of itself before.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import linux_guest
import testbed
from vmscope_command import vmscope

# Enough on one side of the kernel, wherever KASLR puts it.
MEMORY_MIB = 416
FOR_CAPTURE_MIB = 128
CAPTURE_OPTIONS = "console=ttyS0 quiet panic=-1 no_timer_check nr_cpus=1 reset_devices"
SYMBOLS = ("_text", "sysrq_handle_crash", "init_task", "linux_banner")
# What the program on CPU 1 calls, outermost last.
DEEP = [*(f"deep_{n}" for n in range(7, 0, -1)), "work_deep", "main"]
# makedumpfile's formats: zlib, lzo, snappy flattened (all without what is free or the users'), ELF.
MADE = (("-c", "-d", "31"), ("-l", "-d", "31"), ("-p", "-F", "-d", "31"), ("-E", "-d", "1"))


def disks(*files):
    """QEMU's options for virtio disks, and the last one can be written to."""
    options = []
    for i, file in enumerate(files):
        read_only = "off" if i == len(files) - 1 else "on"
        options += ["-drive", f"file={file},format=raw,if=none,id=disk{i},cache=unsafe,"
                    f"read-only={read_only}", "-device", f"virtio-blk-pci,drive=disk{i}"]
    return options


def call_names(rows, vcpu):
    return [row["symbol"] for row in rows if row["vcpu"] == vcpu]


class Vmcore(unittest.TestCase):
    series = "6.1"  # Debian 12's makedumpfile drops pages in use of later kernels

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="vmscope-vmcore-")
        cls.path = pathlib.Path(cls.directory.name, "vmcore")
        with open(cls.path, "wb") as disk:
            disk.truncate(MEMORY_MIB << 20)
        testbed.build_guests()
        kernel = testbed.KERNELS / cls.series / "boot"
        guest = linux_guest.LinuxGuest(
            cls.series, memory=MEMORY_MIB, append=f"crashkernel={FOR_CAPTURE_MIB}M",
            extra=disks(next(kernel.glob("vmlinuz-*")),
                        testbed.GUESTS / f"initramfs-{cls.series}.gz", cls.path))
        try:
            cls.ask_guest(guest)
            size = cls.crash(guest)
        finally:
            guest.stop()
        os.truncate(cls.path, size)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def ask_guest(cls, guest):
        """What the guest says of itself, soon before it crashes."""
        guest.run(f"cat /dev/vda >/tmp/kernel; cat /dev/vdb >/tmp/initrd; "
                  f"load_capture /tmp/kernel /tmp/initrd '{CAPTURE_OPTIONS}' && "
                  f"rm /tmp/kernel /tmp/initrd")
        cls.deep = int(guest.run("taskset 2 workload deep >/dev/null 2>&1 & echo $!"))
        cls.release = guest.run("uname -r").strip()
        cls.banner = guest.run_bytes("cat /proc/version")
        cls.modules = {line.split()[0]: int(line.split()[5], 16)
                       for line in guest.run("cat /proc/modules").splitlines()}
        pattern = "|".join(SYMBOLS)
        cls.symbols = {symbol.name: symbol.va for symbol in map(
            linux_guest.Symbol.parse,
            guest.run(f"grep -E ' ({pattern})$' /proc/kallsyms").splitlines())}
        cls.log = guest.run("dmesg").splitlines()
        cls.tasks = {}
        for line in guest.run("cat /proc/[0-9]*/stat; true").splitlines():
            pid, name, ppid = re.fullmatch(r"(\d+) \((.*)\) \S (\d+) .*", line).groups()
            if name not in ("cat", "sh"):  # who asks
                cls.tasks[int(pid)] = (name, int(ppid))

    @staticmethod
    def crash(guest):
        """Until the second kernel has saved the first one's memory: its bytes."""
        guest.send("exec taskset 1 sh -c 'echo c > /proc/sysrq-trigger'")
        saved = testbed.wait_for(lambda: re.search(r"SAVED (\d+)\s", guest.serial()),
                                 "the crashed guest's memory", testbed.BOOT_SECONDS)
        return int(saved[1])

    def ask(self, *arguments, path=None):
        return json.loads(vmscope(*arguments, "-c", path or self.path, "--json").out)

    def test_kernel(self):
        facts = {row["name"]: row["value"] for row in self.ask("info", "os")["os"]}
        self.assertEqual(facts["release"], self.release)
        self.assertEqual(int(facts["text"], 16), self.symbols["_text"])
        for name, va in self.symbols.items():
            self.assertIn(va, [int(row["address"], 16) for row in self.ask("symbol", name)])
        self.assertEqual(self.banner, subprocess.run(
            [testbed.VMSCOPE, "mem", "linux_banner", str(len(self.banner)), "--raw", "-c",
             self.path], check=True, stdout=subprocess.PIPE).stdout)

    def test_tasks(self):
        ours = {task["tid"]: (task["comm"], task["ppid"]) for task in self.ask("ps")}
        self.assertGreater(len(self.tasks), 40)
        for pid, (name, ppid) in self.tasks.items():
            if name.startswith("kworker/"):  # they come and go, and /proc adds what they work on
                continue
            self.assertEqual(ours[pid], (name[:15], ppid))

    def test_modules(self):
        ours = {module["name"]: int(module["text"], 16) for module in self.ask("modules")}
        self.assertIn("virtio_blk", ours)
        self.assertEqual(ours, self.modules)

    def test_log(self):
        texts = [line for record in self.ask("dmesg") for line in record["text"].split("\n")]
        before = [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in self.log]
        self.assertGreater(len(before), 100)
        self.assertEqual(texts[:len(before)], before)
        self.assertIn("Kernel panic - not syncing: sysrq triggered crash", texts[len(before):])

    def test_stack_of_the_crash(self):
        rows = self.ask("stack")
        calls = call_names(rows, 0)
        self.assertIn("sysrq_handle_crash", calls)
        at = calls.index("sysrq_handle_crash")
        self.assertIn("__crash_kexec", calls[:at])
        self.assertLess(at, calls.index("write_sysrq_trigger"))
        self.assertLess(at, calls.index("vfs_write"))
        self.assertEqual({row["mode"] for row in rows if row["vcpu"] == 0}, {"kernel", "user"})

    def test_stack_of_a_user_program(self):
        """Its stack is found by page tables that no note names."""
        rows = self.ask("stack", "--symbols", testbed.GUESTS / "workload")
        calls = call_names(rows, 1)
        self.assertIn("deep_1", calls)
        at = calls.index("work_deep")
        self.assertEqual(calls[at + 1], "main")
        self.assertEqual(calls[at - 1], "deep_1")

    def test_registers_that_nobody_noted(self):
        """The kernel's memory tells some, which a converted file has. What is assumed of others,
        to walk page tables, is told by nobody."""
        converted = pathlib.Path(self.directory.name, "converted")
        vmscope("core", "convert", self.path, converted, "--force", "-q")
        names = {row["register"] for row in self.ask("regs", path=converted)}
        self.assertLess({"rip", "cr3", "gs_base"}, names)
        self.assertFalse(names & {"cr0", "cr4", "efer"})
        self.assertEqual(self.ask("stack", path=converted), self.ask("stack"))

    def test_files_of_makedumpfile(self):
        commands = (("ps",), ("dmesg",), ("modules",), ("stack", "--cpu", "0"))
        expected = [self.kernel_part(self.ask(*command)) for command in commands]
        for options in MADE:
            with self.subTest(options=options):
                made = pathlib.Path(self.directory.name, "made")
                made.unlink(missing_ok=True)
                self.make(options, made)
                ours = [self.kernel_part(self.ask(*command, path=made)) for command in commands]
                self.assertEqual(ours, expected)

    @staticmethod
    def kernel_part(rows):
        """Without the user frames of stacks, the memory of which is left out."""
        return [row for row in rows if row.get("mode") != "user"]

    def make(self, options, path):
        command = ["makedumpfile", *options, "--message-level", "0", str(self.path)]
        if "-F" in options:
            with open(path, "wb") as file:
                subprocess.run(command, check=True, stdout=file, stderr=subprocess.PIPE)
        else:
            subprocess.run([*command, str(path)], check=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)


if __name__ == "__main__":
    unittest.main()
