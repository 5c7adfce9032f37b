# SPDX-License-Identifier: MIT
"""Our core files in others' hands: readelf, eu-readelf, gdb, drgn and makedumpfile.

One guest, paused; one file of it per layout. What the tools read from the files is compared with
what QEMU says of the machine: its registers, its memory, its page tables.
"""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import linux_guest
import testbed
from vmscope_command import vmscope

LAYOUTS = ("elf", "vbox", "kdump")
# gdb's names of registers, and QEMU's of those that are numbers in its line.
REGISTERS = {"rip": "RIP", "rsp": "RSP", "rbp": "RBP", "rax": "RAX", "rcx": "RCX", "rdi": "RDI",
             "r8": "R8", "r15": "R15", "eflags": "RFL"}
SELECTORS = {"cs": "CS", "ss": "SS", "fs": "FS", "gs": "GS"}
BASES = {"fs_base": "FS", "gs_base": "GS"}

GDB_SCRIPT = """
import gdb, json
addresses, names, size = json.loads({request!r})
result = {{"threads": [], "memory": {{}}}}
for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
    thread.switch()
    frame = gdb.newest_frame()
    result["threads"].append({{name: int(frame.read_register(name)) % 2**64 for name in names}})
for name, va in addresses.items():
    try:
        data = bytes(gdb.selected_inferior().read_memory(va, size)).hex()
    except gdb.MemoryError as error:
        data = str(error)
    result["memory"][name] = data
print("RESULT", json.dumps(result))
"""

DRGN_SCRIPT = """
import drgn, json, sys
path, addresses, size = json.loads(sys.argv[1])
program = drgn.Program()
program.set_core_dump(path)
print(json.dumps({name: program.read(address, size, physical).hex()
                  for name, (address, physical) in addresses.items()}))
"""


def run(*command):
    """The command's output; whatever it writes to stderr fails the test."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=testbed.ANSWER_SECONDS)
    if done.returncode or done.stderr:
        raise AssertionError(f"{command}: status {done.returncode}: {done.stderr[:2000]}")
    return done.stdout


class Machine:
    """What QEMU says of a paused machine."""

    def __init__(self, guest, directory):
        self.qmp = guest.qmp
        self.registers = [self.parse(text) for text in
                          self.qmp.hmp("info registers -a").split("CPU#")[1:]]
        self.memory = pathlib.Path(directory, "memory")
        size = self.qmp.command("query-memory-size-summary")["base-memory"]
        self.qmp.command("pmemsave", val=0, size=size, filename=str(self.memory))

    @staticmethod
    def parse(text):
        """By QEMU's names: numbers of registers, (selector, base) of segments."""
        values = {name: int(value, 16) for name, value in
                  re.findall(r"\b([A-Z][A-Z0-9]+) ?=([0-9a-f]{8,16})\b", text)}
        for name, selector, base in re.findall(
                r"^([A-Z]{2}) =([0-9a-f]{4}) ([0-9a-f]{16}) ", text, re.M):
            values[name] = (int(selector, 16), int(base, 16))
        return values

    def as_gdb_shows(self, vcpu):
        own = self.registers[vcpu]
        return {**{name: own[theirs] for name, theirs in REGISTERS.items()},
                **{name: own[theirs][0] for name, theirs in SELECTORS.items()},
                **{name: own[theirs][1] for name, theirs in BASES.items()}}

    def translate(self, va):
        return int(self.qmp.hmp(f"gva2gpa {va:#x}").split("gpa:")[1], 16)

    def read_u64(self, va):
        return int.from_bytes(self.read(self.translate(va), 8), "little")

    def read(self, pa, size):
        with open(self.memory, "rb") as memory:
            memory.seek(pa)
            return memory.read(size)


class CoreTools(unittest.TestCase):
    SIZE = 1024  # bytes that are read at every address

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.busy_guest()
        cls.addClassCleanup(cls.guest.stop)
        cls.directory = tempfile.TemporaryDirectory(prefix="vmscope-tools-")
        cls.paths = {layout: pathlib.Path(cls.directory.name, layout) for layout in LAYOUTS}
        cls.symbols = {symbol.name: symbol.va for symbol in cls.guest.kallsyms()}
        module = cls.guest.run("cat /proc/modules").splitlines()[0].split()
        cls.log = cls.guest.run("dmesg")
        addresses = {"code": cls.symbols["_text"], "read-only data": cls.symbols["linux_banner"],
                     "data": cls.symbols["init_task"], "module": int(module[5], 16)}
        cls.guest.qmp.command("stop")  # for good: the tests compare files
        cls.machine = Machine(cls.guest, cls.directory.name)
        addresses["kernel stack"] = cls.kernel_stack(cls.symbols)
        # Kernel addresses, and their physical ones by QEMU's walk of the page tables.
        cls.places = {name: (va, cls.machine.translate(va)) for name, va in addresses.items()}
        pa = cls.places["data"][1]
        direct_map = cls.machine.read_u64(cls.symbols["page_offset_base"])
        cls.places["direct map"] = (direct_map + pa, pa)
        for layout, path in cls.paths.items():
            vmscope("core", *cls.guest.target, "-o", path, "--format", layout)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def kernel_stack(cls, symbols):
        """The outermost frames of the task that CPU 0 runs, in virtually mapped memory."""
        percpu = cls.machine.read_u64(symbols["__per_cpu_offset"])
        return cls.machine.read_u64(percpu + symbols["cpu_current_top_of_stack"]) - cls.SIZE

    def expected_memory(self):
        data = {name: self.machine.read(pa, self.SIZE).hex()
                for name, (_, pa) in self.places.items()}
        # Not a comparison of zeros with zeros.
        self.assertTrue(all(int(value, 16) for value in data.values()), data)
        return data

    def test_readelf(self):
        for layout in ("elf", "vbox"):
            for tool in ("readelf", "eu-readelf"):
                with self.subTest(layout=layout, tool=tool):
                    output = run(tool, "-a", self.paths[layout])
                    self.assertNotRegex(output, "(?i)warning|error|corrupt|invalid")

    def gdb(self):
        """What gdb, without any symbols, shows of the threads and of memory."""
        vas = {name: va for name, (va, _) in self.places.items()}
        script = pathlib.Path(self.directory.name, "script.py")
        names = [*REGISTERS, *SELECTORS, *BASES]
        script.write_text(GDB_SCRIPT.format(request=json.dumps([vas, names, self.SIZE])))
        output = run("gdb", "-q", "-nx", "-batch", "-ex", f"core {self.paths['elf']}",
                     "-ex", f"source {script}")
        return json.loads(re.search(r"^RESULT (.*)$", output, re.M)[1])

    def test_gdb(self):
        shown = self.gdb()
        self.assertEqual(shown["threads"], [self.machine.as_gdb_shows(vcpu) for vcpu in
                                            range(len(self.machine.registers))])
        self.assertEqual(shown["memory"], self.expected_memory())

    def test_drgn(self):
        places = {f"{name}, {kind}": (address, kind == "physical")
                  for name, both in self.places.items()
                  for kind, address in zip(("virtual", "physical"), both)}
        expected = {f"{name}, {kind}": data for name, data in self.expected_memory().items()
                    for kind in ("virtual", "physical")}
        for layout in ("elf", "kdump"):
            with self.subTest(layout=layout):
                output = run("/usr/bin/python3", "-c", DRGN_SCRIPT, json.dumps(
                    [str(self.paths[layout]), places, self.SIZE]))
                self.assertEqual(json.loads(output), expected)

    def test_makedumpfile(self):
        """Reads the guest's log by what VMCOREINFO says alone."""
        log = pathlib.Path(self.directory.name, "log")
        for layout in ("elf", "kdump"):
            with self.subTest(layout=layout):
                log.unlink(missing_ok=True)
                run("makedumpfile", "--dump-dmesg", self.paths[layout], log)
                # Lines after a record's first have the time before them in dmesg only.
                own, theirs = (re.sub(r"^(\[ *[\d.]+\] | {15})", "", text, flags=re.M)
                               for text in (self.log, log.read_text()))
                self.assertGreater(len(own), 10000)
                self.assertEqual(theirs[:len(own)], own)


if __name__ == "__main__":
    unittest.main()
