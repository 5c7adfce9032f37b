# SPDX-License-Identifier: MIT
"""User stacks of real programs of Debian, without frame pointers: gdb finds the same in the same stopped
guest, from the files themselves."""
import collections
import json
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import time
import unittest

import debian_guest
import vmscope_command

HERE = pathlib.Path(__file__).resolve().parent
PARTITION = 2048 * 512  # see tests/guests/make-debian
WANTED_PERCENT = 97
STACKS, FEWEST = 40, 15  # of each program
DONE = "vmscope-gdb-done"

# One process each, that computes for minutes: who calls whom is different from one moment to the next.
PROGRAMS = {
    "python3": "python3 -c 'import re; [(sorted((str(n) for n in range(5000)), key=lambda s: s[::-1]),"
               " re.sub(\"a+b\", lambda m: str(max(m.span())), \"aab\" * 999)) for _ in iter(int, 1)]'",
    "sqlite3": "sqlite3 :memory: 'create table t(a, b); with recursive c(x) as (select 1 union all"
               " select x+1 from c where x<99999999) insert into t select x, hex(x*x) from c;'",
    "openssl": "openssl speed -seconds 100 rsa1024 ecdsap256 sha256",
    "throws": "/tmp/throws",
}
THROWS = r"""
#include <map>
#include <stdexcept>
#include <string>
struct guard { std::string s; explicit guard(int n) : s(n + 50, 'x') {} ~guard() { asm volatile("" ::"r"(&s)); } };
__attribute__((noinline)) int fall(int depth, std::map<int, std::string> &m)
{
	guard g(depth);
	if (depth == 0)
		throw std::runtime_error(g.s);
	m[depth] = g.s;
	return fall(depth - 1, m) + (int)m.size();
}
int main()
{
	std::map<int, std::string> m;
	for (volatile unsigned n = 0;; n++)
		try {
			fall(n % 20, m);
		} catch (const std::exception &e) {
			m[(int)n % 100] = e.what();
		}
}
"""


def bias_of(file, start):
    """What an ELF file is moved by whose begin is mapped at `start`."""
    data = file.read_bytes()
    at, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    for i in range(n):
        kind, _, offset, va = struct.unpack_from("<IIQQ", data, at + i * size)
        if kind == 1 and offset == 0:
            return start - va
    raise ValueError(f"{file} has no segment for its begin")


class Gdb:
    """A gdb that knows the files of one process."""

    def __init__(self, files):
        self.process = subprocess.Popen(["gdb", "-q", "-nx"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in ("set confirm off", "set pagination off", "set architecture i386:x86-64",
                     "set backtrace past-main on", "set backtrace past-entry on",
                     f"source {HERE / 'gdb_user_stack.py'}"):
            self.run(line)
        for file, bias in files:
            self.run(f"add-symbol-file {file} -o {bias:#x}")

    def run(self, line):
        self.process.stdin.write(f"{line}\necho {DONE}\\n\n")
        self.process.stdin.flush()
        output = []
        while DONE not in (text := self.process.stdout.readline()):
            if not text:
                raise EOFError("gdb has gone: " + "".join(output)[-500:])
            output.append(text)
        return "".join(output)

    def stack(self, socket, file):
        file.unlink(missing_ok=True)
        output = self.run(f"target remote {socket}") + self.run(f"user-stack {file}") + self.run("disconnect")
        if not file.exists():
            raise RuntimeError(f"gdb: {output}")
        return json.loads(file.read_text())

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@debian_guest.needs_debian
class UserStacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.guest = debian_guest.DebianGuest(smp=1)
        cls.addClassCleanup(cls.guest.stop)
        cls.guest.run("mount -t tmpfs none /tmp")

    def copy_out(self, path):
        """A file of the guest's disk, or one that was copied there."""
        file = self.directory / path.lstrip("/").replace("/", "_")
        if not file.exists():
            subprocess.run(["/sbin/debugfs", "-R", f"dump {path} {file}",
                            f"{debian_guest.IMAGES / 'disk.img'}?offset={PARTITION}"], check=True,
                           stderr=subprocess.DEVNULL)
        return file

    def files_of(self, pid):
        files = []
        for line in self.guest.run(f"cat /proc/{pid}/maps").splitlines():
            match = re.fullmatch(r"([0-9a-f]+)-\S+ \S+ 00000000 \S+ \S+ +(/\S+)", line)
            if match and (file := self.copy_out(match[2])).exists() and file.read_bytes()[:4] == b"\x7fELF":
                self.guest.run(f"cat {match[2]} >/dev/null")  # the tables are to be in memory
                files.append((file, bias_of(file, int(match[1], 16))))
        return files

    def put_in(self, file, path):
        """Through the shell, as base64."""
        text = subprocess.run(["base64", "-w", "0", file], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.guest.run(f": >{path}.b64")
        for at in range(0, len(text), 2000):
            self.guest.run(f"printf %s '{text[at:at + 2000]}' >>{path}.b64")
        self.guest.run(f"base64 -d {path}.b64 >{path}; chmod +x {path}")

    def both(self, gdb, pid):
        """Stacks of one moment in user mode of this process, or None: vmscope's and gdb's."""
        socket = self.guest.directory / "gdb"
        self.guest.qmp.command("stop")
        try:
            rows = json.loads(vmscope_command.vmscope("stack", *self.guest.target, "--json", timeout=300).out)
            if rows[0]["pid"] != pid or rows[0]["mode"] != "user":
                return None
            self.guest.qmp.hmp(f"gdbserver unix:{socket},server=on,wait=off")
            theirs = gdb.stack(socket, self.directory / "stack.json")
            self.guest.qmp.hmp("gdbserver none")
        finally:
            self.guest.qmp.command("cont")
        return rows, theirs

    def compare(self, name):
        command = PROGRAMS[name]
        pid = int(self.guest.run(f"{command} >/dev/null 2>&1 </dev/null & echo $!"))
        time.sleep(5)
        gdb = Gdb(self.files_of(pid))
        self.addCleanup(gdb.close)
        total = equal = complete = frames = 0
        depths, differences = collections.Counter(), []
        deadline = time.monotonic() + 300
        while total < STACKS and time.monotonic() < deadline:
            time.sleep(random.uniform(0.02, 0.1))
            found = self.both(gdb, pid)
            if not found:
                continue
            rows, theirs = found
            ours = [int(row["address"], 16) for row in rows]
            total += 1
            equal += ours == theirs
            complete += rows[-1]["end"] == "complete"
            frames += len(ours)
            depths[len(ours)] += 1
            if ours != theirs:
                differences.append((rows[-1]["end"], [(row["address"], row["symbol"], row["module"])
                                                      for row in rows], list(map(hex, theirs))))
        self.guest.run(f"kill -9 {pid}", check=False)
        print(f"{name}: {equal} of {total} stacks equal gdb's, {complete} complete, {frames / max(total, 1):.1f}"
              f" frames each")
        self.assertGreaterEqual(total, FEWEST)
        self.assertGreater(frames / total, 3)
        self.assertGreaterEqual(100 * equal / total, WANTED_PERCENT, differences[:5])

    def test_python(self):
        self.compare("python3")

    def test_sqlite(self):
        self.compare("sqlite3")

    def test_openssl(self):
        self.compare("openssl")

    def test_throwing_program(self):
        source, program = self.directory / "throws.cc", self.directory / "tmp_throws"
        source.write_text(THROWS)
        subprocess.run(["g++", "-O2", "-s", "-fomit-frame-pointer", "-o", program, source], check=True)
        self.put_in(program, "/tmp/throws")
        self.compare("throws")


if __name__ == "__main__":
    unittest.main()
