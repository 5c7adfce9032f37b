# SPDX-License-Identifier: MIT
"""Recordings of a machine's threads on this host together with its guest: compared with recordings of each
alone, with QEMU's monitor, and with /proc."""
import collections
import gzip
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import fxt_format
import testbed
from qemu_machine import BareGuest
from test_record import MAY
from test_record_guest import folded, report_stats
from vmscope_command import vmscope

HERTZ = 499
ENOUGH = 300


def samples_by_thread(data):
    """Samples of each thread of the host: those of the guest follow records of another provider."""
    counts, provider = collections.Counter(), None
    for item in fxt_format.decode(data):
        if item[0] == fxt_format.METADATA and item[1] in (1, 2):
            provider = item[3]
        elif (provider == 1 and item[0] == fxt_format.LARGE and item[1] == 0 and not item[10][1] and
              not item[11][1]):
            counts[item[9]] += 1
    return counts


def count(stacks, pattern):
    return sum(n for stack, n in stacks if re.search(pattern, stack))


def record_enough(file, *options, seconds):
    """Folded stacks of a recording with enough samples to tell shares, which a busy host takes longer for."""
    while True:
        vmscope("record", *options, "-t", seconds, "-o", file)
        stacks = folded(file)
        if sum(n for _, n in stacks) >= ENOUGH or seconds > 20:
            return stacks
        seconds *= 3


class HostCase(unittest.TestCase):
    """`guest` has a machine, `target` are the options that name it."""
    hertz = HERTZ
    seconds = 1

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.file = cls.folder / "both"
        cls.start()
        cls.pid = cls.guest.process.pid
        cls.stacks = record_enough(cls.file, "--host", *cls.target, "-F", cls.hertz, seconds=cls.seconds)
        cls.whole = sum(n for _, n in cls.stacks)

    def check_threads(self):
        """As many samples of each thread as the file has; its role by QEMU's monitor and by /proc."""
        by_role = collections.Counter()
        for stack, n in self.stacks:
            by_role[stack.split(";")[1]] += n
            self.assertTrue(stack.split(";")[0].endswith(f" ({self.pid})"), stack)
        known = {cpu["thread-id"]: f"[vCPU {cpu['cpu-index']}]"
                 for cpu in self.guest.qmp.command("query-cpus-fast")} | {self.pid: "[main loop]"}
        own = pathlib.Path(f"/proc/{self.pid}/comm").read_text().strip()
        told = collections.Counter()
        for tid, n in samples_by_thread(self.file.read_bytes()).items():
            comm = pathlib.Path(f"/proc/{self.pid}/task/{tid}/comm")
            # A thread of the pool may have ended.
            name = comm.read_text().strip() if comm.exists() else "worker"
            name = re.sub("^IO ", "I/O thread ", name)
            told[known.get(tid) or ("[other thread]" if name == own else f"[{name}]")] += n
        if "[worker]" in told and "[worker]" not in by_role:
            told["[other thread]"] += told.pop("[worker]")
        self.assertEqual(by_role, told)
        self.assertGreater(by_role["[vCPU 0]"], 0)

    def check_counts(self):
        stats = report_stats(self.file)
        self.assertEqual(stats["samples"], self.whole)
        self.assertEqual(stats["in the guest"], count(self.stacks, r";\[guest(: not known)?\]"))
        self.assertEqual(stats["joined"], count(self.stacks, r";\[guest\];"))
        self.assertEqual(stats["not joined"], stats["in the guest"] - stats["joined"])
        self.assertGreater(stats["joined"], 0.6 * stats["in the guest"])

    def host_alone(self, pattern):
        """The share of samples with a function, in a recording of the process as any other."""
        file = self.folder / "host"
        stacks = record_enough(file, "--pid", self.pid, "-F", HERTZ, seconds=0.8)
        return count(stacks, pattern) / sum(n for _, n in stacks)


@unittest.skipUnless(MAY and testbed.have_kvm(), "needs /dev/kvm and perf events")
class Kvm(HostCase):
    """A bare guest: "major" does the work of three "minor"."""

    @classmethod
    def start(cls):
        cls.guest = BareGuest(accel="kvm", smp=2,
                              extra=("-name", f"guest=vmscope-{os.getpid()},debug-threads=on"))
        cls.addClassCleanup(cls.guest.stop)
        cls.target = ("--guest", cls.guest.pid, "--symbols", cls.guest.elf)

    def test_threads(self):
        self.check_threads()

    def test_counts(self):
        self.check_counts()

    def test_shares(self):
        """Of the guest, as a sample of the guest alone has them; of the host, as a recording of the process
        alone. Between them is where the host enters the guest."""
        alone, seconds = [], 0.8
        while count(alone, "major|minor") < ENOUGH and seconds < 20:
            lines = vmscope("sample", "--pid", *self.target[1:], "-F", HERTZ, "-t", seconds, "--format", "folded").out
            alone = [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in lines.splitlines()
                     if not line.startswith("#")]
            seconds *= 2
        joined = [(stack, n) for stack, n in self.stacks if ";[guest];" in stack]
        share = count(joined, ";major") / count(joined, ";(major|minor)")
        self.assertAlmostEqual(share, count(alone, ";major") / count(alone, ";(major|minor)"), delta=0.12)
        self.assertAlmostEqual(share, 3 / 4, delta=0.1)
        for stack, _ in joined:
            self.assertRegex(stack, r";\[vCPU 0\];(.*\bioctl;.*;kvm_arch_vcpu_ioctl_run;.*;)?\[guest\];start64")
        entry = r"kvm_arch_vcpu_ioctl_run;.*x86_emulate_instruction"
        self.assertAlmostEqual(count(self.stacks, entry) / self.whole, self.host_alone(entry), delta=0.1)

    def test_formats(self):
        """Every format has the samples with the guest's functions; a diff with itself has no change."""
        for name in ("perf", "speedscope", "firefox", "svg", "text"):
            self.assertIn("major", vmscope("report", "--format", name, self.file).out, name)
        profile = json.loads(vmscope("report", "--format", "firefox", self.file).out)
        cpus = self.guest.qmp.command("query-cpus-fast")
        self.assertIn(f"qemu-system-x86 [vCPU 0] ({self.pid}/{cpus[0]['thread-id']})",
                      [thread["name"] for thread in profile["threads"]])
        binary = gzip.decompress(subprocess.run(
            [testbed.VMSCOPE, "report", "--format", "pprof", self.file], stdout=subprocess.PIPE,
            check=True).stdout)
        self.assertIn(b"major", binary)
        self.assertRegex(vmscope("diff", "--all", self.file, self.file).out, r"\+0\.00.*work \[bare.elf\] +guest kernel")

    def test_errors(self):
        for arguments, status, message in (
                (("--host",), 2, "--host records the threads of a guest's machine, too: name the guest"),
                (("--host", *self.target, "--pid", 1), 2, "--host records the whole machine"),
                (("--host", *self.target, "--user"), 2, "--host excludes --instructions and --user")):
            run = vmscope("record", "-o", self.folder / "none", *map(str, arguments), check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    unittest.main()
