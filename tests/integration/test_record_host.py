# SPDX-License-Identifier: MIT
"""Recordings of a machine's threads on this host together with its guest: compared with a recording of the
process alone at the same time, with the samples in the file by a second decoder, with QEMU's monitor, and with
/proc."""
import bisect
import collections
import gzip
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import fxt_format
import testbed
from qemu_machine import BareGuest
from test_record import MAY
from test_record_guest import folded, report_stats, start_recording
from vmscope_command import vmscope

HERTZ = 499
ENOUGH = 300


def samples_of(data):
    """(whether it is the guest's, time in ns, thread, arguments, program counters) of each sample. Those of the
    guest follow records of another provider."""
    provider = None
    for item in fxt_format.decode(data):
        if item[0] == fxt_format.METADATA and item[1] in (1, 2):
            provider = item[3]
        elif item[0] == fxt_format.LARGE and item[1] == 0 and not item[10][1] and not item[11][1]:
            arguments = {name[1].decode(): value for _, name, value in item[12]}
            pcs = struct.unpack(f"<{len(item[13]) // 8}Q", item[13])
            yield provider != 1, item[5], item[9], arguments, pcs


def samples_by_thread(data):
    """Samples of each thread of the host."""
    return collections.Counter(tid for is_guest, _, tid, _, _ in samples_of(data) if not is_guest)


class Symbols:
    """Functions by address, as nm and /proc/kallsyms list them."""

    def __init__(self, lines):
        rows = (line.split()[:3] for line in lines)
        self.rows = sorted((int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tTwW")

    def names(self, pcs):
        """Of a stack, leaf first; other frames than the leaf are return addresses."""
        found = (bisect.bisect(self.rows, (pc - (i > 0), "\x7f")) - 1 for i, pc in enumerate(pcs))
        return [self.rows[i][1] if i >= 0 else "" for i in found]


def shown_stacks(file):
    """Of each sample, by thread and time in us: what `report --format perf` shows, leaf first."""
    shown = {}
    for block in vmscope("report", "--format", "perf", file).out.split("\n\n"):
        head, *frames = block.strip("\n").split("\n")
        found = re.match(r".* \d+/(\d+) +\[\d+\] +(\d+)\.(\d{6}): ", head)
        if found:
            names = [frame.split(None, 1)[1].rsplit(" (", 1)[0].split(" [")[0] if "\t" in frame else "" for frame in frames]
            shown[int(found[1]), int(found[2] + found[3])] = names
    return shown


def count(stacks, pattern):
    return sum(n for stack, n in stacks if re.search(pattern, stack))


def record_both(pid, file, alone, *options, seconds):
    """Records a machine with its guest, and at the same time its process alone, so that both see the same load.
    Folded stacks of both, enough of them to tell shares, which a busy host takes longer for."""
    while True:
        recordings = [start_recording("--host", *options, "-o", file),
                      start_recording("--pid", pid, "-F", HERTZ, "-o", alone)]
        time.sleep(seconds)
        for recording in recordings:
            recording.send_signal(signal.SIGINT)
        for recording in recordings:
            recording.communicate(timeout=testbed.ANSWER_SECONDS)
        stacks = folded(file)
        if sum(n for _, n in stacks) >= ENOUGH or seconds > 20:
            return stacks, folded(alone)
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
        cls.stacks, cls.alone = record_both(cls.pid, cls.file, cls.folder / "alone", *cls.target, "-F", cls.hertz,
                                            seconds=cls.seconds)
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
        """The share of samples with a function, in a recording of the process as any other at the same time."""
        return count(self.alone, pattern) / count(self.alone, "")


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
        """Of the guest, as its program is known to have them; of the host, as a recording of the process alone
        has them. Between both is where the host enters the guest."""
        joined = [(stack, n) for stack, n in self.stacks if ";[guest];" in stack]
        self.assertAlmostEqual(count(joined, ";major") / count(joined, ";(major|minor)"), 3 / 4, delta=0.1)
        for stack, _ in joined:
            self.assertRegex(stack, r";\[vCPU 0\];(.*\bioctl;.*;kvm_arch_vcpu_ioctl_run;.*;)?\[guest\];start64")
        entry = r"kvm_arch_vcpu_ioctl_run;.*x86_emulate_instruction"
        self.assertAlmostEqual(count(self.stacks, entry) / self.whole, self.host_alone(entry), delta=0.12)

    def test_join(self):
        """Each sample has the host's frames up to the entry of the guest, and then what the guest executed right
        before or after: in the nearer sample, if that is at most half a period away."""
        samples = list(samples_of(self.file.read_bytes()))
        nm = subprocess.run(["nm", self.guest.elf], stdout=subprocess.PIPE, text=True, check=True).stdout
        guest_symbols = Symbols(nm.splitlines())
        host_symbols = Symbols(pathlib.Path("/proc/kallsyms").read_text().splitlines())
        guest = sorted((when, guest_symbols.names(pcs), bool(arguments.get("idle")))
                       for is_guest, when, _, arguments, pcs in samples if is_guest and not arguments.get("cpu"))
        tid = self.guest.qmp.command("query-cpus-fast")[0]["thread-id"]
        shown, half_ns, joined = shown_stacks(self.file), 5e8 / self.hertz, 0
        for is_guest, when, thread, arguments, pcs in samples:
            if is_guest or thread != tid:
                continue
            names = shown[tid, when // 1000]
            own = host_symbols.names(pcs[:arguments.get("kernel", 0)])
            if "x86_emulate_instruction" in own:
                at = next(i for i, name in enumerate(names) if name.startswith("[guest"))
                below = own[own.index("x86_emulate_instruction"):]
                self.assertEqual(names[at + 1:at + 1 + len(below)], below)
            mark = next((i for i, name in enumerate(names) if name.startswith("[guest")), None)
            if mark is None:
                self.assertFalse(arguments.get("in guest"), names)
                continue
            after = bisect.bisect(guest, (when,))
            near = sorted((abs(moment[0] - when), moment[1]) for moment in guest[max(after - 1, 0):after + 1]
                          if not moment[2])
            if near and near[0][0] <= half_ns:
                near = near[:1]
            if names[mark] == "[guest]":
                joined += 1
                self.assertIn(names[:mark], [stack for _, stack in near])
            else:
                self.assertFalse(near and near[0][0] <= half_ns, near)
        self.assertEqual(joined, report_stats(self.file)["joined"])

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
