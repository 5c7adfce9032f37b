# SPDX-License-Identifier: MIT
"""libvmscope as others get it: what is installed, what it exports, and programs that use it."""
import functools
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import linux_guest
from long_tests import takes_long
import testbed
import vmscope_command

EXAMPLES = testbed.ROOT / "examples"
PYTHON_EXAMPLES = testbed.ROOT / "bindings" / "python" / "examples"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
NOT_IN_STACK = {"__schedule", "schedule", "schedule_timeout"}  # /proc/PID/stack leaves them out


def run(*command, **options):
    """The command's output; whatever it writes to stderr, or a failure, fails the test."""
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=testbed.ANSWER_SECONDS,
                          **{"stdin": subprocess.DEVNULL, **options})
    if done.returncode or done.stderr:
        raise AssertionError(f"{command}: status {done.returncode}: {done.stderr[:4000]}")
    return done.stdout


class Installed:
    """What `make install` puts into a folder, and how others find it there: by pkg-config."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="vmscope-install-")
        self.root = pathlib.Path(self._folder.name)
        run("meson", "install", "-C", testbed.BUILD, "--no-rebuild", "--destdir", self.root)
        file, = self.root.rglob("vmscope.pc")
        self.libraries = file.parents[1]
        line, prefix = re.search("^(prefix=(.*))$", file.read_text(), re.MULTILINE).groups()
        self.prefix = self.root / prefix.lstrip("/")
        file.write_text(file.read_text().replace(line, f"prefix={self.prefix}"))
        self._search = dict(os.environ, PKG_CONFIG_PATH=str(file.parent))

    def flags(self, *options):
        return run("pkg-config", *options, "vmscope", env=self._search).split()

    @functools.cache
    def build(self, example, static=False):
        """The program of an example, linked as its first comment says, or with libvmscope.a."""
        program = self.root / f"{example}-{'static' if static else 'shared'}"
        libraries = self.flags("--static", "--libs") if static else self.flags("--libs")
        if static:
            libraries = ["-Wl,-Bstatic", "-lvmscope", "-Wl,-Bdynamic", "-Wl,--as-needed",
                         *libraries]
            libraries.insert(0, next(flag for flag in libraries if flag.startswith("-L")))
        run("gcc", *WARNINGS, "-o", program, EXAMPLES / f"{example}.c", *self.flags("--cflags"),
            *libraries)
        return program

    @functools.cached_property
    def environment(self):
        """In which programs find the shared library, and Python the module."""
        module, = self.root.rglob("vmscope/__init__.py")
        return dict(os.environ, LD_LIBRARY_PATH=str(self.libraries),
                    PYTHONPATH=str(module.parents[1]), PYTHONDONTWRITEBYTECODE="1")

    def run(self, *command):
        return run(*command, env=self.environment)


@functools.cache
def installed():
    return Installed()


@functools.cache
def prototypes():
    """What the compiler finds in the public headers: (result, argument…) of each function."""
    with tempfile.NamedTemporaryFile() as file:
        run("gcc", "-fsyntax-only", "-aux-info", file.name, "-x", "c", "-",
            *installed().flags("--cflags"), stdin=None, input="#include <vmscope/vmscope.h>\n")
        text = pathlib.Path(file.name).read_text()
    found = {}
    for result, name, arguments in re.findall(
            r"/include/vmscope/\w+\.h:\d+:NC \*/ extern (.*?)\b(\w+) \((.*)\);$", text,
            re.MULTILINE):
        simple = re.sub(r"\(\*\) ?\([^()]*\)", "*", arguments)  # pointers to functions
        found[name] = result.strip(), *(simple.split(", ") if simple != "void" else ())
    return found


def needed(file):
    """The shared libraries that a file names, and its own name."""
    return set(re.findall(r"\((?:NEEDED|SONAME)\).*\[(.*)\]", run("readelf", "-d", "-W", file)))


class Headers(unittest.TestCase):
    """Each public header compiles alone, as C and as C++."""

    def check(self, compiler, language, standard, names):
        flags = installed().flags("--cflags")
        for name in names:
            with self.subTest(compiler=compiler, header=name):
                run(compiler, "-fsyntax-only", *WARNINGS, f"-std={standard}", "-x", language, "-",
                    *flags, stdin=None, input=f"#include <vmscope/{name}>\n")

    def setUp(self):
        folder = installed().prefix / "include" / "vmscope"
        self.names = sorted(path.name for path in folder.iterdir())
        self.assertEqual(self.names, sorted(
            path.name for path in (testbed.ROOT / "include" / "vmscope").iterdir()))

    def test_c(self):
        self.check("gcc", "c", "c11", self.names)

    @takes_long
    def test_cxx(self):
        self.check("g++", "c++", "c++17", self.names)

    def test_other_compilers(self):
        self.check("clang", "c", "gnu17", ["vmscope.h"])
        self.check("clang++", "c++", "c++17", ["vmscope.h"])

    def test_all_are_in_one(self):
        folder = installed().prefix / "include" / "vmscope"
        included = re.findall("#include <vmscope/(.*)>", (folder / "vmscope.h").read_text())
        self.assertEqual(sorted(included),
                         [name for name in self.names if name not in ("declare.h", "vmscope.h")])


class Symbols(unittest.TestCase):
    """The shared library exports what the public headers declare, and nothing else."""

    @classmethod
    def setUpClass(cls):
        cls.file = installed().libraries / "libvmscope.so"

    def exported(self):
        """Names as the dynamic linker has them."""
        table = run("readelf", "--dyn-syms", "-W", self.file)
        return {fields[7] for fields in map(str.split, table.splitlines())
                if len(fields) == 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND"
                and fields[3] in ("FUNC", "OBJECT") and "@@VMSCOPE_0" in fields[7]}, table

    def declared(self):
        """Functions as the compiler finds them in the headers and, by their text, tables."""
        headers = (installed().prefix / "include" / "vmscope").iterdir()
        return set(prototypes()) | {name for header in headers
                            for name in re.findall(r"^extern const .*?(\w+);", header.read_text(),
                                                   re.MULTILINE)}

    def test_exports(self):
        exported, table = self.exported()
        declared = self.declared()
        self.assertGreater(len(declared), 100)
        names = {name.split("@")[0] for name in exported}
        self.assertEqual(names - declared, set(), "exported, but in no public header")
        self.assertEqual(declared - names, set(), "declared, but not exported")
        # Besides these, nothing: whatever is defined has the version of ours.
        others = [line for line in table.splitlines()
                  if re.search(r" (GLOBAL|WEAK) .* \d+ \S+$", line) and "@@VMSCOPE_0" not in line]
        self.assertEqual(len(others), 0, others)

    def test_name(self):
        self.assertIn("libvmscope.so.0", needed(self.file))
        self.assertEqual(self.file.resolve().name, "libvmscope.so.0.1.0")

    def test_program_needs_no_library(self):
        """The command starts wherever it is copied to."""
        self.assertFalse([name for name in needed(installed().prefix / "bin" / "vmscope")
                          if name.startswith("libvmscope")])


class Python(unittest.TestCase):
    """What the module says of the library is what the headers say."""

    def ask(self, script):
        """What a script prints as JSON; it has the module's declarations as `library`."""
        return json.loads(installed().run("/usr/bin/python3", "-c", "import ctypes, json\n"
                                          f"from vmscope import _library as library\n{script}"))

    def test_structs(self):
        """Sizes and places of members, against the compiler's."""
        ours = self.ask("""
kinds = [kind for kind in vars(library).values() if hasattr(kind, "name_in_c")]
print(json.dumps({kind.name_in_c: [ctypes.sizeof(kind), *(getattr(kind, name).offset
                                   for name, _ in kind._fields_)] for kind in kinds}))""")
        members = self.ask("""
kinds = [kind for kind in vars(library).values() if hasattr(kind, "name_in_c")]
print(json.dumps({kind.name_in_c: [name for name, _ in kind._fields_] for kind in kinds}))""")
        self.assertGreater(len(ours), 10)
        lines = []
        for kind, names in members.items():
            c_name = kind if kind == "GError" else f"struct {kind}"
            values = [f"sizeof({c_name})", *(f"offsetof({c_name}, {name})" for name in names)]
            lines += [f'printf("{kind}' + " %zu" * len(values) + f'\\n", {", ".join(values)});']
        program = installed().root / "structs"
        run("gcc", "-x", "c", "-", "-o", program, *installed().flags("--cflags"), stdin=None,
            input="#include <stddef.h>\n#include <stdio.h>\n#include <vmscope/vmscope.h>\n"
                  f"int main(void) {{ {' '.join(lines)} return 0; }}\n")
        theirs = {line.split()[0]: list(map(int, line.split()[1:]))
                  for line in run(program).splitlines()}
        self.assertEqual(ours, theirs)

    def test_constants(self):
        ours = self.ask("""
print(json.dumps({name: value for name, value in vars(library).items()
                  if name.isupper() and isinstance(value, int)}
                 | {f"ERROR_{name}": i for i, name in enumerate(library.ERRORS)}))""")
        self.assertGreater(len(ours), 20)
        run("gcc", "-fsyntax-only", "-x", "c", "-", *installed().flags("--cflags"), stdin=None,
            input="#include <vmscope/vmscope.h>\n" + "".join(
                f"_Static_assert(VMS_{name} == {value}, \"{name}\");\n"
                for name, value in ours.items()))
        header = (installed().prefix / "include" / "vmscope" / "error.h").read_text()
        self.assertEqual({name for name in ours if name.startswith("ERROR_")},
                         set(re.findall(r"^\tVMS_(ERROR_\w+),$", header, re.MULTILINE)))

    def test_errors(self):
        """The library's words and code; an object that is closed is not used any more."""
        said = installed().run("/usr/bin/python3", "-c", f"""
import ctypes, vmscope
try:
    vmscope.Machine.open_core("/nowhere")
except vmscope.Error as error:
    print(error.code.name, error)
core = vmscope.Machine.open_core({str(self.core())!r})
with core:
    print(core.info.is_core)
    core.detect_guest().close()
try:
    print(core.vcpus)
except ctypes.ArgumentError as error:
    print(error)
""")
        self.assertRegex(said, r"^NOT_FOUND .*/nowhere.*\nTrue\n.*this Machine is closed\n$")

    def core(self):
        """The smallest core file that there can be: of a machine with a page and no vCPU."""
        path = installed().root / "core"
        segment = struct.pack("<IIQQQQQQ", 1, 0, 4096, 0, 0, 4096, 4096, 0)
        header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 4, 62, 1, 0, 64, 0, 0, 64,
                             len(segment), 1, 0, 0, 0)
        path.write_bytes((header + segment).ljust(4096, b"\0") + bytes(4096))
        return path

    def test_functions(self):
        """The kinds of their results and arguments, against the compiler's."""
        ours = self.ask("""
def letter(kind):
    code = getattr(kind, "_type_", "P")
    return "" if kind is None else {"z": "P"}.get(code, code) if isinstance(code, str) else "P"
print(json.dumps({name: [letter(kind) for kind in kinds]
                  for name, kinds in library.FUNCTIONS.items()}))""")
        self.assertGreater(len(ours), 30)
        letters = {"void": "", "_Bool": "?", "int": "i", "pid_t": "i", "unsigned int": "I",
                   "uint32_t": "I", "GQuark": "I", "uint64_t": "L", "size_t": "L",
                   "vms_sample_progress": "P"}

        def letter(kind):
            return "P" if "*" in kind else "I" if kind.startswith("enum ") else letters[kind]
        theirs = {name: [letter(kind) for kind in (result, *arguments)]
                  for name, (result, *arguments) in prototypes().items() if name in ours}
        self.assertEqual(ours, theirs)


class Examples(unittest.TestCase):
    """The examples, in C as they are built against what is installed, and in Python."""

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest("6.1")
        cls.addClassCleanup(cls.guest.stop)
        # Nobody else watches the machine: the examples may stop it for a moment.
        cls.guest.qmp.close()

    def programs(self, example):
        """How it is run: with the shared library, with the static one in it, and by Python."""
        for static in False, True:
            program = installed().build(example, static=static)
            self.assertEqual("libvmscope.so.0" in needed(program), not static)
            yield program,
        yield "/usr/bin/python3", PYTHON_EXAMPLES / f"{example}.py"

    def test_sample(self):
        """A guest that computes random numbers."""
        pid = self.guest.run("dd if=/dev/urandom of=/dev/null bs=64k 2>/dev/null & echo $!")
        names = {symbol.name for symbol in self.guest.kallsyms()}
        for program in self.programs("sample"):
            lines = [re.fullmatch(r" *([\d.]+) %  (\S+)(?: \((\S+)\))?", line)
                     for line in installed().run(*program, self.guest.pid, 1).splitlines()]
            self.assertGreater(len(lines), 3)
            shares = [float(line[1]) for line in lines]
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertLess(sum(shares), 101)
            functions = [line for line in lines if line[2] != "[idle]"]
            most = [line[2] for line in functions[:5]]  # it copies what it computes, too
            self.assertTrue(any("chacha" in name for name in most), most)
            kernel = {line[2] for line in functions if not line[3]}
            self.assertEqual(kernel - names, set())
        self.guest.run(f"kill {pid}")

    def sleeping_stacks(self):
        """Of the guest's threads, by the guest itself: (name, functions) by thread."""
        text = self.guest.run("for t in /proc/[0-9]*; do echo = ${t#/proc/} $(cat $t/comm); "
                              "cat $t/stack; done 2>/dev/null", check=False)
        stacks = {}
        for part in text.split("= ")[1:]:
            head, *lines = part.splitlines()
            tid, comm = head.split(" ", 1)
            frames = [match[1] for match in map(re.compile(r"\[<0>\] ([\w.]+)\+").match, lines)
                      if match]
            stacks[int(tid)] = comm, [name for name in frames if name not in NOT_IN_STACK]
        return stacks

    def core(self):
        path = self.guest.directory / "core"
        # A busy disk must not matter.
        vmscope_command.vmscope("core", "-o", path, "--hold-limit", 1000, *self.guest.target, timeout=300)
        return path

    def test_tasks(self):
        before = self.sleeping_stacks()
        core = self.core()
        after = self.sleeping_stacks()
        truth = {tid: said for tid, said in before.items()
                 if after.get(tid) == said and len(said[1]) > 1}
        self.assertGreater(len(truth), 20)
        for program in self.programs("tasks"):
            ours = {}
            said = installed().run(*program, core)
            for part in re.split(r"^(?=\d)", said, flags=re.MULTILINE)[1:]:
                head, *lines = part.splitlines()
                tid, _, comm = head.split(" ", 2)
                ours[int(tid)] = comm, [line.split()[1] for line in lines]
            # /proc has longer names of kernel threads. A few threads were awake in between.
            same = [tid for tid, (comm, frames) in truth.items()
                    if comm.startswith(ours[tid][0]) and ours[tid][1][-len(frames):] == frames]
            self.assertGreater(len(same), 0.9 * len(truth), (truth, ours))

    def test_read_symbol(self):
        banner = self.guest.run("cat /proc/version")
        symbol = next(symbol for symbol in self.guest.kallsyms() if symbol.name == "linux_banner")
        for program in self.programs("read_symbol"):
            address, *values = installed().run(*program, self.guest.pid, "linux_banner",
                                               len(banner)).split()
            self.assertEqual(int(address, 16), symbol.va)
            self.assertEqual(bytes.fromhex("".join(values)).decode(), banner)

    def test_errors(self):
        """One line that tells what is wrong."""
        for program in self.programs("read_symbol"):
            for arguments, words in (((self.guest.pid, "nowhere", 8), "no symbol nowhere"),
                                     ((1 << 22, "jiffies", 8), "no such process|process 4194304")):
                done = subprocess.run([*program, *map(str, arguments)], text=True,
                                      env=installed().environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, f"^.*({words}).*\n$")


if __name__ == "__main__":
    unittest.main()
