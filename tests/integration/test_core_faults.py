# SPDX-License-Identifier: MIT
"""What may go wrong while a core file is written or opened. Whatever it is: one line says so, the
guest runs, and nothing is left behind.

A dump that is to be interrupted must last. This one does because it is real work: 64 MiB of
random bytes, which zlib is to compress.
"""
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import termios
import tty
import unittest

from long_tests import takes_long
import qemu_machine
import vmscope_command
from testbed import ANSWER_SECONDS, VMSCOPE, wait_for
from vmscope_command import is_blocked, vmscope

MEMORY = 256 << 20
RANDOM = 64 << 20  # bytes of it, behind what the guest itself uses
COMPRESSED = ("--compress", "zlib")  # of a copy, when the guest runs again
# The guest is held until all is compressed, for there is no memory for what is not.
SLOW = (*COMPRESSED, "--compress-held", "--buffer", "1", "--hold-limit", "1000")


def has_nameless_files(directory):
    """Can a file be written there before it has a name? Then not even kill -9 leaves one."""
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_WRONLY))
        return True
    except OSError:
        return False


def catches(pid, number):
    """Has the process a handler for a signal?"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    caught = re.search(r"SigCgt:\s*(\w+)", status)
    return caught is not None and int(caught[1], 16) >> (number - 1) & 1 == 1


# What a thread that waits for one of these does in the kernel.
TERMINAL = "tty|wait_woken"
FROZEN = "percpu|freeze|jbd2|start_this_handle"


def start_guest():
    """A bare guest in whose memory, a file without a name, there is something to compress."""
    guest = qemu_machine.BareGuest("bare", memory=MEMORY >> 20, extra=(
        "-machine", "memory-backend=mem", "-object",
        f"memory-backend-memfd,id=mem,size={MEMORY},share=on"))
    descriptors = pathlib.Path(f"/proc/{guest.pid}/fd").iterdir()
    memory = next(path for path in descriptors if "memfd:memory-backend" in os.readlink(path))
    block = os.urandom(1 << 20)
    with open(memory, "r+b") as file:
        file.seek(MEMORY - RANDOM)
        for _ in range(RANDOM // len(block)):
            file.write(block)
    return guest


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = start_guest()
        cls.addClassCleanup(cls.guest.stop)

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-core-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = self.directory / "core"

    def dump(self, *options, path=None, check=False, **popen):
        return vmscope("core", "-o", path or self.path, *options, *self.guest.target, check=check,
                       **popen)

    def left(self):
        return sorted(path.name for path in self.directory.iterdir())

    def assert_one_line(self, run, says=None, status=1):
        self.assertEqual(run.status, status, run.out + run.err)
        lines = run.err.strip().splitlines()
        self.assertEqual(len(lines), 1, run.err)
        self.assertTrue(lines[0].startswith("vmscope: "), run.err)
        if says:
            self.assertRegex(lines[0], says)

    def assert_runs(self):
        wait_for(lambda: self.guest.qmp.status() == "running", "the guest to run")

    def start(self, *options, **popen):
        """A dump that has begun: the guest is held, and memory is being copied."""
        self.assertEqual(self.guest.qmp.status(), "running")
        process = vmscope_command.start_vmscope("core", "-o", self.path, *SLOW, *options,
                                        *self.guest.target, **popen)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        # It is held for a moment before, too, to be looked at.
        wait_for(lambda: process.poll() is not None or
                 (catches(process.pid, signal.SIGINT) and self.guest.qmp.status() == "paused"),
                 "the dump to begin")
        self.assertIsNone(process.poll(), "the dump was too quick to be interrupted")
        return process

    def end(self, process):
        out, err = process.communicate(timeout=ANSWER_SECONDS)
        return vmscope_command.Run(process.returncode, out, err)


class Output(Case):
    """Where the file is to go."""

    def test_written(self):
        run = self.dump(check=True)
        self.assertEqual(run.err, "", "no progress where nobody looks")
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        self.assertEqual(self.left(), ["core"])
        self.assert_runs()

    def on_terminal(self, *options):
        """What a dump shows on a terminal, and its standard output."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
                [VMSCOPE, "core", "-o", self.path, *options, *self.guest.target], stderr=theirs,
                stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            os.close(theirs)
            shown = b""
            try:
                while part := os.read(ours, 1 << 16):
                    shown += part
            except OSError:
                pass  # how a terminal says that nobody is there any more
            os.close(ours)
            out = process.stdout.read()
        self.assertEqual(process.returncode, 0)
        return shown.decode(), out.decode()

    def test_options_of_a_conversion(self):
        """It holds nobody."""
        self.dump(check=True)
        for option in ("--hold-limit=1", "--buffer=9", "--compress-held"):
            run = vmscope("core", "convert", option, self.path, f"{self.path}2", check=False)
            self.assertEqual(run.status, 2)
            self.assertIn(option.partition("=")[0], run.err)
        self.assertEqual(self.left(), ["core"])

    def test_progress_on_a_terminal(self):
        shown, out = self.on_terminal(*SLOW)
        self.assertRegex(shown, r"copying \d+ %, .* of 25\d(\.\d)? MiB, .*/s, \d+ s left")
        self.assertNotIn(" 0 B/s", shown)
        self.assertIn("guest held", out)
        self.assertEqual(self.on_terminal("--force", "-q"), ("", ""))

    def test_existing_file(self):
        self.path.write_text("precious")
        self.assert_one_line(self.dump(), re.escape(str(self.path)))
        self.assertEqual(self.path.read_text(), "precious")
        self.path.chmod(0o644)
        self.dump("--force", check=True)
        self.assertEqual(self.path.read_bytes()[:4], b"\x7fELF")
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        self.assertEqual(self.left(), ["core"])

    def test_no_output(self):
        run = vmscope("core", *self.guest.target, check=False)
        self.assert_one_line(run, "--output", status=2)

    def test_no_such_directory(self):
        self.assert_one_line(self.dump(path="/nowhere/core"), "/nowhere")

    def test_directory(self):
        self.assert_one_line(self.dump(path=self.directory), "directory")
        self.assert_one_line(self.dump("--force", path=self.directory), "directory")
        self.assertEqual(self.left(), [])

    def test_unwritable_directory(self):
        self.directory.chmod(0o755)
        program = shutil.copy(VMSCOPE, self.directory)  # where anybody may run it
        closed = self.directory / "closed"
        closed.mkdir(mode=0o555)
        user = {"user": "nobody"} if os.getuid() == 0 else {}
        self.assert_one_line(self.dump(path=closed / "core", program=program, **user),
                             "[Pp]ermission")
        self.assertEqual(list(closed.iterdir()), [])

    def test_pipes_and_devices(self):
        os.mkfifo(self.path)
        for path in (self.path, "/dev/null", "/dev/stdout"):
            for options in ((), ("--force",)):
                self.assert_one_line(self.dump(*options, path=path))
        self.assertTrue(stat.S_ISFIFO(self.path.stat().st_mode))
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_options_that_contradict(self):
        for options in (("--format", "elf", "--compress", "zlib"), ("--format", "no_format"),
                        ("--compress", "no_compression"), ("--thread-ids", "nobody")):
            self.assert_one_line(self.dump(*options), options[-1], status=2)
        self.assertEqual(self.left(), [])


class FullDisk(Case):
    def check(self, run):
        self.assert_one_line(run, re.escape(str(self.path)) + r".*\d+(\.\d+)? [KMG]iB")
        self.assertEqual(self.left(), [])
        self.assert_runs()

    def test_largest_file(self):
        """A limit on a file's size, met in the middle."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (50 << 20, 50 << 20))
        for options in ((), ("--format", "vbox"), COMPRESSED, SLOW):
            with self.subTest(options):
                self.check(self.dump(*options, preexec_fn=limit))

    def test_disk(self):
        script = ('mount -t tmpfs -o size=50m none "$1" && shift && "$@"; status=$?; '
                  'ls -A "$0"; exit $status')
        unshare = ["unshare", "--mount", "sh", "-c", script, str(self.directory)]
        probe = subprocess.run([*unshare, str(self.directory), "true"], stderr=subprocess.PIPE)
        if probe.returncode:
            self.skipTest(f"no file system can be mounted here: {probe.stderr.decode().strip()}")
        for options in ((), COMPRESSED, SLOW):
            with self.subTest(options):
                run = subprocess.run(
                    [*unshare, str(self.directory), str(VMSCOPE), "core", "-o", str(self.path),
                     *options, *map(str, self.guest.target)], text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, timeout=ANSWER_SECONDS)
                self.assertEqual(run.stdout, "", "nothing may be left")
                self.check(vmscope_command.Run(run.returncode, run.stdout, run.stderr))


class Interrupted(Case):
    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                process = self.start()
                process.send_signal(number)
                self.assert_runs()
                self.assert_one_line(self.end(process), re.escape(str(self.path)))
                self.assertEqual(self.left(), [])

    def test_existing_file_stays(self):
        self.path.write_text("precious")
        process = self.start("--force")
        process.send_signal(signal.SIGINT)
        self.assert_one_line(self.end(process))
        self.assertEqual(self.path.read_text(), "precious")
        self.assertEqual(self.left(), ["core"])

    def test_killed(self):
        process = self.start()
        process.kill()
        self.assert_runs()
        process.wait(ANSWER_SECONDS)
        self.assertFalse(self.path.exists())
        if has_nameless_files(self.directory):
            self.assertEqual(self.left(), [])
        self.dump(check=True)  # the next one finds it free

    def test_second_interrupt(self):
        """Ends the tool at once, even where the guest's QEMU does not answer."""
        process = self.start()
        os.kill(self.guest.pid, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            wait_for(lambda: not catches(process.pid, signal.SIGINT),
                     "the first interrupt to be taken")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(ANSWER_SECONDS), -signal.SIGINT)
        finally:
            os.kill(self.guest.pid, signal.SIGCONT)
        self.assert_runs()
        self.assertFalse(self.path.exists())

    def test_stopped(self):
        """The guest is not left waiting; the dump, torn then, fails."""
        process = self.start()
        process.send_signal(signal.SIGSTOP)
        self.assert_runs()
        process.send_signal(signal.SIGCONT)
        self.assert_one_line(self.end(process))
        self.assertEqual(self.left(), [])
        self.assert_runs()

    def test_resumed_by_somebody_else(self):
        process = self.start()
        self.guest.qmp.command("cont")
        self.assert_one_line(self.end(process))
        self.assertEqual(self.left(), [])
        self.assert_runs()

    def test_paused_by_its_user(self):
        self.guest.qmp.command("stop")
        self.addCleanup(self.guest.qmp.command, "cont")
        self.dump(check=True)
        self.assertEqual(self.guest.qmp.status(), "paused")
        with vmscope_command.start_vmscope("core", "--force", "-o", self.path, *SLOW,
                                   *self.guest.target) as process:
            process.send_signal(signal.SIGTERM)  # before or after it has begun
        self.assertEqual(self.guest.qmp.status(), "paused")
        self.assertEqual(self.path.read_bytes()[:4], b"\x7fELF", "the first one")


class BlockedTerminal(Case):
    """Nobody takes what vmscope prints: the guest has nothing to do with it."""

    def open_terminal(self):
        """A terminal after Ctrl-S."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        tty.setraw(theirs)
        termios.tcflow(theirs, termios.TCOOFF)
        self.addCleanup(termios.tcflow, theirs, termios.TCOON)
        return theirs

    def test_dump_ends(self):
        terminal = self.open_terminal()
        process = self.start(stderr=terminal)
        self.assert_runs()
        self.assertEqual(process.wait(ANSWER_SECONDS), 0)
        self.assertTrue(self.path.exists())

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                terminal = self.open_terminal()
                process = self.start(stderr=terminal)
                process.send_signal(number)
                self.assert_runs()
                wait_for(lambda p=process: is_blocked(p, TERMINAL), "the error to be printed")
                termios.tcflow(terminal, termios.TCOON)
                self.assertEqual(process.wait(ANSWER_SECONDS), 1)
                self.assertEqual(self.left(), [])

    def test_verbose(self):
        process = self.start("-v", stderr=vmscope_command.full_pipe(self))
        self.assert_runs()
        wait_for(self.path.exists, "the core file")
        self.assertIsNone(process.poll())


class SlowDisk(Case):
    def test_limit(self):
        """What takes too long ends: the guest runs, and there is no file."""
        self.assert_one_line(self.dump(*SLOW, "--hold-limit", "0.3"), "limit of 300 ms")
        self.assertEqual(self.left(), [])
        self.assert_runs()

    def test_too_long(self):
        """A limit that cannot be kept: the guest is not even held."""
        self.guest.qmp.command("query-status")
        self.guest.qmp.events.clear()
        self.assert_one_line(self.dump("--hold-limit", "0.001"), "longer than the limit")
        self.assertEqual(self.left(), [])

    def test_options(self):
        for options in (("--hold-limit", "0"), ("--hold-limit", "soon"), ("--buffer", "0")):
            self.assert_one_line(self.dump(*options), options[0], status=2)

    def test_announced(self):
        run = self.dump("-v", check=True)
        self.assertRegex(run.err, r"is about to be held for .* to copy [67]\d.* MiB; 10.0 s")
        run = self.dump("-v", "--force", "--buffer", "1", check=True)
        self.assertRegex(run.err, "at the speed of the disk")


class HungDisk(Case):
    """A file system that takes nothing any more, until it is thawed."""

    def setUp(self):
        super().setUp()
        image, disk = self.directory / "image", self.directory / "disk"
        with open(image, "wb") as file:
            file.truncate(1 << 30)
        disk.mkdir()
        for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, disk]):
            run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if run.returncode:
                self.skipTest(f"no file system can be made here: {run.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        self.disk = disk
        self.path = disk / "core"

    def freeze(self):
        subprocess.run(["fsfreeze", "-f", self.disk], check=True)
        self.addCleanup(subprocess.run, ["fsfreeze", "-u", self.disk],
                        stderr=subprocess.DEVNULL)

    def thaw(self):
        subprocess.run(["fsfreeze", "-u", self.disk], check=True)

    def left(self):
        return [name for name in sorted(os.listdir(self.disk)) if name != "lost+found"]

    def test_limit(self):
        process = self.start("--hold-limit", "2")
        self.freeze()
        self.assert_runs()
        self.assertFalse(self.path.exists())
        self.thaw()
        self.assert_one_line(self.end(process), "limit of 2.0 s")
        self.assertEqual(self.left(), [])

    def test_interrupted(self):
        process = self.start("--hold-limit", "1000")
        self.freeze()
        process.send_signal(signal.SIGINT)
        self.assert_runs()
        self.thaw()
        self.assert_one_line(self.end(process), re.escape(str(self.path)))
        self.assertEqual(self.left(), [])

    def test_room_in_memory(self):
        """What the disk does not take goes to memory, and to the disk when it can."""
        for options in ((), ("--compress", "zlib", "--compress-held")):
            with self.subTest(options):
                process = vmscope_command.start_vmscope("core", "-o", self.path, "--hold-limit", "1000",
                                                *options, *self.guest.target)
                self.addCleanup(process.communicate)
                self.addCleanup(process.kill)
                files = pathlib.Path(f"/proc/{process.pid}/fd")
                wait_for(lambda f=files: any(os.readlink(path).startswith(str(self.disk))
                                             for path in f.iterdir()), "the file")
                self.freeze()
                wait_for(lambda p=process: is_blocked(p, FROZEN), "the disk to block it")
                self.assert_runs()
                self.assertIsNone(process.poll(), "the disk takes nothing")
                self.thaw()
                run = self.end(process)
                self.assertEqual((run.status, run.err), (0, ""))
                core = json.loads(vmscope("core", "info", self.path, "--json").out)
                self.assertEqual(core["damage"], [])
                self.path.unlink()


class Compressing(Case):
    """What is compressed is a copy: the guest has nothing to do with it any more."""

    def start(self):
        """A dump that compresses, as it says on the terminal; the rest of what it says follows."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([VMSCOPE, "core", "-o", self.path, *COMPRESSED,
                                    *self.guest.target], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=theirs)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.addCleanup(os.close, ours)
        os.close(theirs)
        shown = b""
        while b"compressing" not in shown:
            shown += os.read(ours, 1 << 16)
        return process, ours

    def end(self, process, terminal):
        """Its status, and its last line."""
        shown = b""
        try:
            while part := os.read(terminal, 1 << 16):
                shown += part
        except OSError:
            pass  # how a terminal says that nobody is there any more
        lines = shown.decode().replace("\r", "\n").split("\n")
        return process.wait(ANSWER_SECONDS), [line for line in lines if line.strip()][-1]

    def test_interrupted(self):
        process, terminal = self.start()
        self.assertEqual(self.guest.qmp.status(), "running")
        process.send_signal(signal.SIGINT)
        status, line = self.end(process, terminal)
        self.assertEqual((status, line), (1, f"vmscope: interrupted: {self.path} was not written"))
        self.assertEqual(self.left(), [])
        self.assert_runs()

    def test_killed(self):
        process, _ = self.start()
        process.kill()
        process.wait(ANSWER_SECONDS)
        self.assertFalse(self.path.exists())
        if has_nameless_files(self.directory):
            self.assertEqual(self.left(), [])
        self.assert_runs()

    @takes_long
    def test_without_the_guest(self):
        self.guest = start_guest()
        self.addCleanup(self.guest.stop)
        process, terminal = self.start()
        self.guest.process.kill()
        status, line = self.end(process, terminal)
        self.assertEqual(status, 0, line)
        self.assertEqual(json.loads(vmscope("core", "info", self.path, "--json").out)["damage"], [])


class GuestDies(Case):
    def test_killed(self):
        process = self.start()
        self.guest.process.kill()
        self.assert_one_line(self.end(process))
        self.assertEqual(self.left(), [])


class Input(unittest.TestCase):
    """Files that are no core files."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-core-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def file(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return path

    def bad_files(self):
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        header = struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 4, 0, 0, 0)
        yield self.directory
        yield self.directory / "missing"
        yield self.file("empty", b"")
        yield self.file("one", b"\x7f")
        yield self.file("garbage", os.urandom(100000))
        yield self.file("text", b"This is no core file.\n" * 100)
        yield self.file("zeros", bytes(1 << 20))
        yield self.file("ident", ident)
        yield self.file("header", ident + header)
        yield self.file("kdump", b"KDUMP   " + bytes(100))
        yield self.file("flattened", b"makedumpfile\0\0\0\0" + bytes(100))
        yield VMSCOPE  # ELF, but a program
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        yield fifo
        yield pathlib.Path("/dev/zero")

    def test_bad_files(self):
        out = self.directory / "out"
        for path in self.bad_files():
            for command in (("info", "-c", path), ("regs", "-c", path), ("core", "info", path),
                            ("core", "convert", path, out), ("core", "-c", path, "-o", out)):
                with self.subTest(command):
                    run = vmscope(*command, check=False)
                    lines = run.err.strip().splitlines()
                    self.assertEqual((run.status, len(lines)), (1, 1), run.err)
                    self.assertIn(str(path), lines[0])
                    self.assertFalse(out.exists())

    def test_core_does_not_run(self):
        path = self.file("core", b"whatever")
        for command in (("sample",), ("run",)):
            for option in (("-c", path), (f"--core={path}",)):
                run = vmscope(*command, *option, check=False)
                self.assertEqual(run.status, 1)
                self.assertEqual(len(run.err.strip().splitlines()), 1, run.err)
                self.assertIn("a core file does not run", run.err)
            self.assertNotIn("--core", vmscope(*command, "--help").out)


if __name__ == "__main__":
    unittest.main()
