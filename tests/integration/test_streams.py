# SPDX-License-Identifier: MIT
"""Where a command's output goes: pipes that close, streams that are closed, terminals that stop."""
import contextlib
import json
import os
import pathlib
import pty
import signal
import subprocess
import tempfile
import termios
import unittest

import linux_guest
import testbed
import vmscope_command
from testbed import VMSCOPE, wait_for
from vmscope_command import vmscope


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.shared_guest()
        cls.target = cls.guest.target

    def start(self, *arguments, **options):
        process = subprocess.Popen([VMSCOPE, *arguments, *self.target], stdin=subprocess.DEVNULL,
                                   **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class Pipes(Case):
    def assert_nothing_left(self):
        """In QEMU."""
        self.assertEqual([device["label"] for device in self.guest.qmp.command("query-chardev")
                          if "vmscope" in device["label"]], [])

    def write(self, *command, **options):
        """The command, whose standard output nobody reads: its status and what it says."""
        ours, theirs = os.pipe()
        os.close(ours)
        process = self.start(*command, stdout=theirs, stderr=subprocess.PIPE, text=True, **options)
        os.close(theirs)
        _, said = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(self.guest.qmp.status(), "running")
        self.assert_nothing_left()
        return process.returncode, said

    def test_reader_goes_away(self):
        """As `| head`: an end by SIGPIPE, without a word."""
        for command in (("symbol",), ("ps", "--json"), ("dmesg",), ("stack",),
                        ("sample", "-t", "0.2")):
            with self.subTest(command):
                self.assertEqual(self.write(*command), (-signal.SIGPIPE, ""))

    def test_signal_is_ignored(self):
        """Who ignores the signal is told."""
        inherited = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGPIPE, inherited)
        status, said = self.write("stack", restore_signals=False)
        self.assertEqual(status, 1)
        self.assertRegex(said, "^vmscope: cannot write to standard output: Broken pipe\n$")

    def test_disk_is_full(self):
        with open("/dev/full", "w") as full:
            process = self.start("regs", stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertIn("No space left on device", process.stderr.read())
            process.stderr.close()
            self.assertEqual(process.wait(), 1)

    def test_help_into_a_full_disk(self):
        for words in (("--help",), ("help",), ("--version",), ("sample", "--help"),
                      ("core", "--help-all"), ("help", "ps")):
            with self.subTest(words), open("/dev/full", "w") as full:
                run = subprocess.run([VMSCOPE, *words], stdout=full, stderr=subprocess.PIPE,
                                     text=True)
                self.assertEqual(run.stderr, "vmscope: cannot write to standard output: "
                                 "No space left on device\n")
                self.assertEqual(run.returncode, 1)

    def test_reader_that_waits(self):
        """A pager may stay for hours: meanwhile nothing is left in QEMU, and others can use it."""
        pipe = vmscope_command.full_pipe(self)
        process = self.start("symbol", stdout=pipe)
        wait_for(lambda: vmscope_command.is_blocked(process, "pipe_write"), "the output to fill the pipe")
        self.assert_nothing_left()
        self.assertIn("rip", vmscope("regs", "rip", *self.target).out)
        self.assertIsNone(process.poll())


class Closed(Case):
    def run_closed(self, streams, *arguments):
        """With these streams closed; what is left of its output, and its status."""
        def close():
            for stream in streams:
                os.close(stream)
        return subprocess.run([VMSCOPE, *arguments, *self.target], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, preexec_fn=close, text=True)

    def test_not_into_qemu(self):
        """What the guest writes must not come to QEMU's monitor, which would do it."""
        self.guest.run("echo '{\"execute\":\"stop\"}' >/dev/kmsg")
        for streams in ((1,), (2,), (0, 1), (0, 1, 2)):
            for command in ("dmesg", "regs"):
                with self.subTest(streams=streams, command=command):
                    run = self.run_closed(streams, command)
                    self.assertEqual(self.guest.qmp.status(), "running")
                    self.assertEqual(run.returncode, 1 if 1 in streams else 0)
                    if 2 not in streams and 1 in streams:
                        self.assertIn("standard output: Bad file descriptor", run.stderr)

    def test_into_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "out")
            run = self.run_closed((0, 1, 2), "ps", "--json", "-o", path)
            self.assertEqual(run.returncode, 0)
            self.assertIn("kthreadd", [row["comm"] for row in json.loads(path.read_text())])


class Dash(Case):
    def test_standard_output(self):
        with tempfile.TemporaryDirectory() as directory:
            here = {"cwd": directory}
            self.assertIn("kthreadd", vmscope("ps", "-o", "-", *self.target, **here).out)
            run = vmscope("sample", "-t", "0.2", "--facts", "none", "-o", "-", "-o", "x.svg",
                          *self.target, **here)
            self.assertIn("vCPU 0:", run.out)
            self.assertEqual(os.listdir(directory), ["x.svg"])

    def test_core_file(self):
        """It is no stream: parts of it are written later than what lies behind them."""
        with tempfile.TemporaryDirectory() as directory:
            for command in (("core", "-o", "-", *self.target),
                            ("core", "convert", "/dev/null", "-")):
                run = vmscope(*command, check=False, cwd=directory)
                self.assertEqual((run.status, run.out), (2, ""))
                self.assertIn("not written to standard output", run.err)
            self.assertEqual(os.listdir(directory), [])

    def test_directory(self):
        with tempfile.TemporaryDirectory() as directory:
            run = vmscope("calls", "-o", "-", *self.target, check=False, cwd=directory)
            self.assertEqual((run.status, run.out), (2, ""))
            self.assertIn('--output "-": it must be the name of a directory', run.err)
            self.assertEqual(os.listdir(directory), [])


class StoppedTerminal(Case):
    def test_result_is_written(self):
        """Progress is shown on a terminal only while that takes it."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        termios.tcflow(theirs, termios.TCOOFF)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "out")
            process = self.start("sample", "-t", "0.5", "-o", path, stderr=theirs,
                                 stdout=subprocess.DEVNULL)
            wait_for(path.exists, "the report")
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(testbed.ANSWER_SECONDS)
        self.assertEqual(process.poll(), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
