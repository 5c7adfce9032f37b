# SPDX-License-Identifier: MIT
"""What vmscope may do: the jail that parses recordings, the capabilities that commands keep, and
the rights of what it starts for its user."""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import testbed
from qemu_machine import Machine
from test_record import MAY
from vmscope_command import start_vmscope, vmscope

# Numbers of linux/capability.h.
DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, SYS_PTRACE, SYS_NICE, PERFMON, CHECKPOINT_RESTORE = \
    1, 2, 3, 19, 23, 38, 40
SYS_ADMIN, NET_ADMIN, SYS_MODULE, SETUID = 21, 12, 16, 7
SPIN = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"


def status_of(pid):
    """/proc/PID/status by name."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def capabilities(pid, name="CapEff"):
    """Their numbers."""
    mask = int(status_of(pid)[name], 16)
    return {number for number in range(64) if mask >> number & 1}


def children(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def is_confined(pid):
    try:
        return status_of(pid)["Seccomp"] == "2"
    except (OSError, KeyError):
        return False


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Jail(unittest.TestCase):
    """The process that parses recordings."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.file = cls.folder / "recording"
        vmscope("record", "-F", "9999", "-o", cls.file, "--", "sh", "-c", SPIN)

    def report_stopped(self, *options):
        """A report whose jail stands still: (the command, the jail's pid)."""
        for _ in range(50):  # it may be done before it is seen
            process = start_vmscope("report", *options, self.file)
            while process.poll() is None:
                for child in children(process.pid):
                    if comm(child) == "vms-jail" and is_confined(child):
                        os.kill(int(child), signal.SIGSTOP)
                        self.addCleanup(process.communicate)
                        self.addCleanup(process.kill)
                        return process, int(child)
            process.communicate()
        raise AssertionError("no jail was seen")

    def test_has_no_rights(self):
        _, jail = self.report_stopped()
        status = status_of(jail)
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))
        for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        files = {os.readlink(path) for path in pathlib.Path(f"/proc/{jail}/fd").iterdir()}
        files = {re.sub(r"\d+", "N", name) for name in files if str(self.file) != name}
        self.assertLessEqual(files, {"/dev/null", "socket:[N]"})
        limits = pathlib.Path(f"/proc/{jail}/limits").read_text(encoding="utf-8")
        self.assertRegex(limits, r"Max file size +0 ")
        self.assertRegex(limits, r"Max core file size +0 ")
        environment = pathlib.Path(f"/proc/{jail}/environ").read_bytes()
        self.assertNotIn(b"HOME=", environment)

    def test_death_is_a_message(self):
        process, jail = self.report_stopped()
        os.kill(jail, signal.SIGKILL)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual((process.returncode, out), (1, ""))
        self.assertRegex(err, r"\Avmscope: cannot read .*recording: the process that reads it was ended "
                              r"by signal 9 \(Killed\)\n\Z")

    def test_ends_with_the_command(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            process, jail = self.report_stopped()
            process.send_signal(number)
            self.assertEqual(process.wait(testbed.ANSWER_SECONDS), -number)
            testbed.wait_for(lambda jail=jail: not pathlib.Path(f"/proc/{jail}").exists(), "the jail's end")

    def test_goes_on(self):
        process, jail = self.report_stopped()
        os.kill(jail, signal.SIGCONT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(out, vmscope("report", self.file).out)

    def test_lower_limits(self):
        """Limits of the user's that are lower than the jail's stay as they are."""
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
        self.assertIn("Processes of", vmscope("report", self.file, preexec_fn=limit).out)

    def test_outputs(self):
        """They are written by the command, whole, and belong to its user."""
        folded, picture = self.folder / "out.folded", self.folder / "out.svg"
        run = vmscope("report", "-o", folded, "-o", picture, "-o", "-", self.file)
        self.assertIn("Functions by self", run.out)
        self.assertEqual(folded.read_text(encoding="utf-8"),
                         vmscope("report", "--format", "folded", self.file).out)
        self.assertTrue(picture.read_text(encoding="utf-8").rstrip().endswith("</svg>"))
        self.assertEqual(picture.stat().st_mode & 0o777, 0o600)


@unittest.skipUnless(os.geteuid() == 0, "only root has capabilities to drop")
class Capabilities(unittest.TestCase):
    def test_of_a_run(self):
        machine = Machine()
        self.addCleanup(machine.stop)
        with tempfile.TemporaryDirectory() as folder:
            for words, kept, dropped in (
                    (("sample", "-o", f"{folder}/out", "-p", machine.pid),
                     {SYS_PTRACE, DAC_READ_SEARCH, SYS_NICE}, {PERFMON, SETUID}),
                    (("top", "-p", machine.pid, "--json", "-o", f"{folder}/top"), {SYS_PTRACE}, {PERFMON}),
                    (("record", "-p", machine.pid, "-o", f"{folder}/rec"), {PERFMON, CHECKPOINT_RESTORE},
                     {SETUID})):
                process = start_vmscope(*words)
                try:
                    testbed.wait_for(lambda pid=process.pid: SYS_ADMIN not in capabilities(pid)
                                     or process.poll() is not None, "the drop")
                    for name in ("CapEff", "CapPrm"):
                        has = capabilities(process.pid, name)
                        self.assertLessEqual(kept, has, words[0])
                        self.assertFalse(has & (dropped | {SYS_ADMIN, NET_ADMIN, SYS_MODULE}), words[0])
                    time.sleep(0.5)  # side processes, as the watchdog, have no more than the tool
                    for child in children(process.pid):
                        self.assertLessEqual(capabilities(child), capabilities(process.pid), comm(child))
                finally:
                    process.send_signal(signal.SIGINT)
                    process.communicate(timeout=testbed.ANSWER_SECONDS)


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Started(unittest.TestCase):
    """What vmscope starts for its user has that user's rights, and no filter of ours."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def record(self, *command, **options):
        return vmscope("record", "-o", self.folder / "recording", "--", *command, **options)

    def test_by_record(self):
        own = status_of("self")
        run = self.record("cat", "/proc/self/status")
        for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp"):
            self.assertRegex(run.out, rf"(?m)^{name}:\t{own[name]}$")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a program that becomes root")
    def test_setuid_program_by_record(self):
        """As a setuid program of a user: it gets root's rights."""
        self.folder.chmod(0o755)
        program = self.folder / "id"
        shutil.copy(shutil.which("id"), program)
        program.chmod(0o4755)
        output = self.folder / "of-nobody"
        output.mkdir()
        output.chmod(0o777)
        run = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                              str(testbed.VMSCOPE), "record", "-o", str(output / "recording"), "--",
                              str(program), "-u"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, timeout=testbed.ANSWER_SECONDS, check=False)
        self.assertEqual(run.stdout.strip(), "0", run.stderr)

    def test_by_run(self):
        own = status_of("self")
        process = start_vmscope("run", "--", "qemu-system-x86_64", "-display", "none", "-S")
        try:
            qemu = testbed.wait_for(lambda: [child for child in children(process.pid)
                                             if comm(child).startswith("qemu")], "QEMU")[0]
            status = status_of(qemu)
            for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp"):
                self.assertEqual(status[name], own[name], name)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=testbed.ANSWER_SECONDS)
