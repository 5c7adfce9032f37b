# SPDX-License-Identifier: MIT
"""libvmscope as others get it: what is installed, what it exports, and programs that use it."""
import functools
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import harness

EXAMPLES = harness.ROOT / "examples"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
NOT_IN_STACK = {"__schedule", "schedule", "schedule_timeout"}  # /proc/PID/stack leaves them out


def run(*command, **options):
    """The command's output; whatever it writes to stderr, or a failure, fails the test."""
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=harness.ANSWER_SECONDS,
                          **{"stdin": subprocess.DEVNULL, **options})
    if done.returncode or done.stderr:
        raise AssertionError(f"{command}: status {done.returncode}: {done.stderr[:4000]}")
    return done.stdout


class Installed:
    """What `make install` puts into a folder, and how others find it there: by pkg-config."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="vmscope-install-")
        self.root = pathlib.Path(self._folder.name)
        run("meson", "install", "-C", harness.BUILD, "--no-rebuild", "--destdir", self.root)
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

    def run(self, program, *arguments):
        """A program's output; it finds the shared library in the folder."""
        return run(program, *arguments,
                   env=dict(os.environ, LD_LIBRARY_PATH=str(self.libraries)))


@functools.cache
def installed():
    return Installed()


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
            path.name for path in (harness.ROOT / "include" / "vmscope").iterdir()))

    def test_c(self):
        self.check("gcc", "c", "c11", self.names)

    def test_cxx(self):
        self.check("clang++", "c++", "c++17", self.names)

    def test_other_compilers(self):
        self.check("clang", "c", "gnu17", ["vmscope.h"])
        self.check("g++", "c++", "c++17", ["vmscope.h"])

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
        """What the compiler finds in the headers: functions, and by their text, tables."""
        with tempfile.NamedTemporaryFile() as prototypes:
            run("gcc", "-fsyntax-only", "-aux-info", prototypes.name, "-x", "c", "-",
                *installed().flags("--cflags"), stdin=None, input="#include <vmscope/vmscope.h>\n")
            text = pathlib.Path(prototypes.name).read_text()
        functions = set(re.findall(r"/include/vmscope/\w+\.h:\d+:NC \*/ extern .*?\b(\w+) \(",
                                   text))
        headers = (installed().prefix / "include" / "vmscope").iterdir()
        return functions | {name for header in headers
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


class Examples(unittest.TestCase):
    """The examples in C, as they are built against what is installed."""

    @classmethod
    def setUpClass(cls):
        cls.guest = harness.LinuxGuest("6.1")
        cls.addClassCleanup(cls.guest.stop)
        # Nobody else watches the machine: the examples may stop it for a moment.
        cls.guest.qmp.close()

    def programs(self, example):
        """How it is run: with the shared library, and with the static one in it."""
        for static in False, True:
            program = installed().build(example, static=static)
            self.assertEqual("libvmscope.so.0" in needed(program), not static)
            yield lambda *arguments: installed().run(program, *arguments)

    def test_sample(self):
        """A guest that computes random numbers."""
        pid = self.guest.run("dd if=/dev/urandom of=/dev/null bs=64k 2>/dev/null & echo $!")
        names = {symbol.name for symbol in self.guest.kallsyms()}
        for sample in self.programs("sample"):
            lines = [re.fullmatch(r" *([\d.]+) %  (\S+)(?: \((\S+)\))?", line)
                     for line in sample(self.guest.pid, 1).splitlines()]
            self.assertGreater(len(lines), 3)
            shares = [float(line[1]) for line in lines]
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertLess(sum(shares), 101)
            functions = [line for line in lines if line[2] != "[idle]"]
            self.assertIn("chacha", functions[0][2])
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
        harness.vmscope("core", "-o", path, "--hold-limit", 1000, *self.guest.target, timeout=300)
        return path

    def test_tasks(self):
        before = self.sleeping_stacks()
        core = self.core()
        after = self.sleeping_stacks()
        truth = {tid: said for tid, said in before.items()
                 if after.get(tid) == said and len(said[1]) > 1}
        self.assertGreater(len(truth), 20)
        for tasks in self.programs("tasks"):
            ours = {}
            for part in re.split(r"^(?=\d)", tasks(core), flags=re.MULTILINE)[1:]:
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
        for read_symbol in self.programs("read_symbol"):
            address, *values = read_symbol(self.guest.pid, "linux_banner", len(banner)).split()
            self.assertEqual(int(address, 16), symbol.va)
            self.assertEqual(bytes.fromhex("".join(values)).decode(), banner)

    def test_errors(self):
        """One line that tells what is wrong."""
        program = installed().build("read_symbol", static=True)
        for arguments, words in (((self.guest.pid, "nowhere", 8), "no symbol nowhere"),
                                 ((1 << 22, "jiffies", 8), "no such process|process 4194304")):
            done = subprocess.run([program, *map(str, arguments)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, f"^.*({words}).*\n$")


if __name__ == "__main__":
    unittest.main()
