# SPDX-License-Identifier: MIT
"""`vmscope run`: which agent a QEMU gets, what becomes of one that cannot have it, and how vmscope
stays beside one whose calls it traces."""
import contextlib
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import linux_guest
import qmp_client
import testbed
from vmscope_command import vmscope

QEMU = ("qemu-system-x86_64",)
IDLE = ("-S", "-display", "none", "-nodefaults", "-m", "64")
QEMU_11 = (str(testbed.QEMU_NEW),)
needs_qemu_11 = unittest.skipUnless(testbed.QEMU_NEW.exists(),
                                    "scripts/setup could not get QEMU 11.1 or newer")
# What QEMU says to a plugin (plugins/loader.c), and what vmscope makes of it.
REFUSALS = {
    "no plugins": ("-plugin x: plugin interface not enabled in this build", "without plugins"),
    "before there were any": ("-plugin: invalid option", "without plugins"),
    "8.2": ("Could not load plugin x: plugin requires API version 4, but this QEMU supports only "
            "up to version 1", "too old.* 9.2"),
    "9.0": ("Could not load plugin x: x: undefined symbol: qemu_plugin_mem_get_value",
            "too old.* 9.2"),
    "of the future": ("Could not load plugin x: plugin requires API version 7, but this QEMU "
                      "supports only a minimum version of 9", "too new"),
    "something else": ("no idea what that is", "no idea what that is"),
}


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-run-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        # Killed QEMUs leave their sockets.
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=str(self.directory))
        # Root's have one place, whatever its environment says.
        self.sockets = pathlib.Path("/run") / "vmscope" if os.geteuid() == 0 else self.directory / "vmscope"

    def script(self, name, text):
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def fake(self, refusal):
        """What looks like a QEMU: says `refusal` to a plugin, else how it was started."""
        return self.script("qemu-system-fake", f"""\
case "$*" in *-plugin*) echo "$0: {refusal}" >&2; exit 1;; esac
echo started "$@"
""")

    def start(self, *command, options=(), **environment):
        """Starts a QEMU that stays; its process and the plugin option that it got, or None."""
        process = subprocess.Popen(
            [testbed.VMSCOPE, "run", *options, "--", *map(str, command), *IDLE],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=dict(self.environment, **environment))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

        def arguments():
            self.assertIsNone(process.poll(), "QEMU has ended")
            words = pathlib.Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
            return words if "-qmp" in words else None
        words = testbed.wait_for(arguments, "vmscope to become QEMU")
        return process, words[words.index("-plugin") + 1] if "-plugin" in words else None


class Agent(Case):
    """The object that a QEMU takes is found by asking it."""

    def check(self, *command, of):
        """It gets the object of the interface that QEMUs of this version have, and loads it."""
        version = subprocess.run([*of, "--version"], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        major, minor = map(int, re.search(r"version (\d+)\.(\d+)", version).groups())
        name = f"libvmscope-agent-api{7 if (major, minor) >= (11, 1) else 4}.so"
        process, plugin = self.start(*command)
        path, control = re.fullmatch(r"(.*),socket=(.*)", plugin).groups()
        self.assertEqual(path, str((testbed.BUILD / "agent" / name).resolve()))
        testbed.wait_for(lambda: name in pathlib.Path(f"/proc/{process.pid}/maps").read_text(),
                         "QEMU to load the agent")
        testbed.wait_for(lambda: pathlib.Path(control).is_socket(), "the agent's socket")
        self.assertEqual(pathlib.Path(control).parent.stat().st_mode & 0o777, 0o700)

    def test_qemu(self):
        self.check(*QEMU, of=QEMU)

    def test_machine_that_must_be_named(self):
        self.check("qemu-system-aarch64", "-M", "virt", of=("qemu-system-aarch64",))

    def test_behind_another_command(self):
        self.check("env", "SOME=THING", *QEMU, of=QEMU)

    def test_script_with_options(self):
        """The machine "none" does not take the options of this one's machine."""
        script = self.script("start-vm", "exec qemu-system-x86_64 -machine pc,smm=off \"$@\"")
        self.check(script, of=QEMU)

    @needs_qemu_11
    def test_qemu_11(self):
        self.check(*QEMU_11, of=QEMU_11)

    def test_commas(self):
        """In an option of QEMU a comma ends a value. (Those of the sockets: tests/unit/launch.c)"""
        agents = self.directory / "a,b"
        agents.symlink_to(testbed.BUILD / "agent")
        process, plugin = self.start(*QEMU, VMSCOPE_AGENT_DIR=str(agents))
        self.assertIn("a,,b", plugin)
        testbed.wait_for((self.sockets / f"{process.pid}.agent").exists, "the agent's socket")

    def test_installed(self):
        """`make install` puts the objects where the installed vmscope looks for them."""
        subprocess.run(["meson", "install", "-C", testbed.BUILD, "--no-rebuild", "--destdir",
                        self.directory], check=True, stdout=subprocess.DEVNULL)
        program, = self.directory.rglob("bin/vmscope")
        first, second = sorted(self.directory.rglob("libvmscope-agent-*.so"))
        self.assertEqual(first.parent, second.parent)
        place = f"/{first.parent.relative_to(self.directory)}"
        self.assertIn(f"\0{place}\0".encode(), program.read_bytes())

    def test_sockets_of_the_dead(self):
        """The next run removes those of a QEMU that was killed, and nothing else."""
        def sockets(*processes):
            """Those of these processes: root's other machines have theirs there, too."""
            return {path.name for process in processes for path in self.sockets.glob(f"{process.pid}.*")}
        alive, _ = self.start(*QEMU)
        dead, _ = self.start(*QEMU)
        names = [f"{{}}.{name}" for name in ("qmp0", "qmp1", "qmp2", "qmp3", "agent")]
        testbed.wait_for(lambda: len(sockets(alive, dead)) == 10, "the sockets of two QEMUs")
        dead.kill()
        dead.wait()
        # That of somebody who lives, under the name of one who does not; and what is no socket.
        taken, file = self.sockets / f"{dead.pid}.agent", self.sockets / f"{dead.pid}.qmp9"
        taken.unlink()
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(taken))
        file.touch()
        for path in (taken, file):
            self.addCleanup(path.unlink)
        last, _ = self.start(*QEMU)
        testbed.wait_for(lambda: f"{last.pid}.agent" in sockets(last), "the last one's sockets")
        self.assertEqual(sockets(alive, dead, last), {name.format(process.pid) for process in (alive, last)
                                                      for name in names} | {taken.name, file.name})

    def test_not_wanted(self):
        _, plugin = self.start(*QEMU, options=("--no-agent",))
        self.assertIsNone(plugin)


class WithoutAgent(Case):
    """A QEMU that cannot take the agent is started without it; not if its calls are wanted."""

    def check(self, *command, says, warns=True, **environment):
        environment = dict(self.environment, **environment)
        run = vmscope("run", "--", *command, env=environment)
        self.assertRegex(run.out, r"^started .*-qmp ")
        if warns:
            self.assertRegex(run.err, f"^vmscope: warning: .*without the agent.*{says}.*\n$")
        else:
            self.assertEqual(run.err, "")
            told = vmscope("run", "-v", "--", *command, env=environment)
            self.assertRegex(told.err, says)
        run = vmscope("run", "--calls", self.directory / "trace", "--", *command, check=False,
                      env=environment)
        self.assertEqual((run.status, run.out), (1, ""))
        self.assertRegex(run.err, f"^vmscope: .*{says}.*\n$")
        self.assertFalse((self.directory / "trace").exists())

    def test_target(self):
        """A target that is started needs the agent only where the command does."""
        fake = self.fake(REFUSALS["no plugins"][0])
        run = vmscope("calls", "-o", self.directory / "trace", "--", fake, check=False,
                      env=self.environment)
        self.assertRegex(run.err, "^vmscope: .*without plugins.*\n$")
        run = vmscope("stack", "--", fake, check=False, env=self.environment)
        self.assertRegex(run.err, "^vmscope: .*ended before.*\n$")

    def test_refused(self):
        for name, (refusal, says) in REFUSALS.items():
            with self.subTest(name):
                self.check(self.fake(refusal), says=says)

    def test_other_accelerator(self):
        """Its QEMU would load the plugin and never call it. It is not even asked."""
        fake = self.fake("must not be asked")
        for options in (("-accel", "kvm"), ("-enable-kvm",), ("-machine", "q35,accel=kvm"),
                        ("-accel", "hvf")):
            with self.subTest(options):
                self.check(fake, *options, says="TCG|tcg", warns=False)

    def test_other_processor(self):
        """QEMU would take the plugin, but the agent does not know what the machine has."""
        _, plugin = self.start("qemu-system-i386")
        self.assertIsNone(plugin)
        run = vmscope("run", "--calls", self.directory / "trace", "--", "qemu-system-i386", *IDLE,
                      check=False, env=self.environment)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, "^vmscope: .*i386 .*processor")

    def test_object_not_there(self):
        self.check(self.fake("must not be asked"), says="/nowhere/libvmscope-agent-api4.so",
                   VMSCOPE_AGENT_DIR="/nowhere")

    def test_object_that_is_none(self):
        (self.directory / "libvmscope-agent-api4.so").write_text("not a shared object")
        run = vmscope("run", "--calls", self.directory / "trace", "--", *QEMU, *IDLE, check=False,
                      env=dict(self.environment, VMSCOPE_AGENT_DIR=str(self.directory)))
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, "libvmscope-agent-api4.so")


class Options(Case):
    """Those of a call trace, which `calls` and `run --calls` have."""
    BAD = (
        ("--by", "function"), ("--by", ""), ("--clock", "sundial"),
        ("--depth", "0"), ("--depth", "1025"), ("--depth", "-1"), ("-D", "1.5"), ("-D", "many"),
        ("--min-time", "0"), ("--min-time", "-1us"), ("--min-time", "10m"),
        ("--min-time", "us"), ("--min-time", "1e30s"), ("--min-time", "nan"), ("--min-time", ""),
        ("--process", "0"), ("--process", "-1"), ("--process", "init"),
        ("--process", "4194305"), (*("--process", "1") * 65,),
        ("--max-size", "0"), ("--max-size", "-1G"), ("--max-size", "10X"), ("--max-size", "1GG"),
        ("--max-size", "nan"), ("--max-size", ""), ("--max-size", "all"),
        ("--only", ""), ("--not", ""), ("--start-at", ""), ("--stop-at", ""),
        ("--kernel", "--user"), ("--frobnicate",), ("argument",),
    )

    def refused(self, *arguments):
        run = vmscope(*arguments, check=False, env=self.environment)
        self.assertEqual((run.status, run.out), (2, ""), run.err)
        self.assertRegex(run.err, r"\Avmscope: .* \(see \"vmscope (run|calls) --help\"\)\n\Z")
        self.assertFalse((self.directory / "trace").exists())
        return run.err

    def test_bad(self):
        trace = self.directory / "trace"
        fake = self.fake("must not be asked")
        for options in self.BAD:
            with self.subTest(options):
                self.refused("calls", "-o", trace, *options)
                self.refused("run", "--calls", trace, *options, "--", fake)

    def test_time(self):
        for seconds in ("0", "-1", "soon", "1e300"):
            self.refused("calls", "-o", self.directory / "trace", "-t", seconds)

    def test_no_directory(self):
        self.assertRegex(self.refused("calls", "-t", "1"), "--output DIR")
        self.refused("calls", "-o", self.directory / "trace", "-o", self.directory / "other")

    def test_without_trace(self):
        """Options of a trace, and none asked for; a trace, and the agent refused."""
        for options in (("--only", "main"), ("--kernel",), ("--symbols", "x")):
            self.assertRegex(self.refused("run", *options, "--", "/bin/true"), "--calls DIR")
        self.refused("run", "--calls", self.directory / "trace", "--no-agent", "--", "/bin/true")
        self.refused("run", "--calls", self.directory / "trace")

    def test_daemon(self):
        """vmscope could neither wait for it nor let it go."""
        self.assertRegex(self.refused("run", "--calls", self.directory / "trace", "--",
                                      self.fake("must not be asked"), "-daemonize"), "-daemonize")

    def test_directory_that_is_used(self):
        (self.directory / "file").touch()
        fake = self.fake("must not be asked")
        for path in (self.directory, self.directory / "file"):
            for command in (("calls", "-o", path), ("run", "--calls", path, "--", fake)):
                run = vmscope(*command, check=False, env=self.environment)
                self.assertEqual((run.status, run.out), (1, ""))
                self.assertRegex(run.err, f"^vmscope: {re.escape(str(path))} is there already")

    def test_no_such_function(self):
        """Nothing is left behind that would be in the way of another try."""
        guest = linux_guest.LinuxGuest("6.1", launcher=(testbed.VMSCOPE, "run", "--"))
        self.addCleanup(guest.stop)
        run = vmscope("calls", "-p", guest.pid, "--only", "no_such_function",
                      "-o", self.directory / "trace", check=False)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, "^vmscope: .*no_such_function")
        self.assertFalse((self.directory / "trace").exists())

    def test_core_file(self):
        run = vmscope("calls", "-c", "/some/core", "-o", self.directory / "trace", check=False)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, "core file does not run")


class RunCalls(Case):
    """With --calls vmscope stays, and is to whoever started it as QEMU would be."""
    # What these machines execute first of all, at their reset vector.
    EXIT_33 = b"\xb0\x10\xe6\xf4\xf4"  # mov $16, %al; out %al, $0xf4; hlt: status 2 * 16 + 1
    LOOP = b"\xeb\xfe"

    def setUp(self):
        super().setUp()
        self.trace = self.directory / "trace"

    def machine(self, code, *options):
        """A QEMU whose firmware is that code."""
        bios = self.directory / "bios"
        bios.write_bytes(bytes(0xfff0) + code.ljust(16, b"\0"))
        return (*QEMU, "-m", "16", "-display", "none", "-nodefaults", "-bios", bios,
                "-device", "isa-debug-exit,iobase=0xf4", *options)

    def begin(self, *command):
        """A traced machine that runs; vmscope's process and that of QEMU."""
        process = subprocess.Popen(
            [testbed.VMSCOPE, "run", "--calls", self.trace, "--", *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process, self.qemu_of(process.pid, process=process)

    def qemu_of(self, pid, status="running", process=None):
        """The child that is QEMU, once its machine runs; ended with the test."""
        def child():
            if process and process.poll() is not None:
                self.fail(f"vmscope has ended: {process.communicate()[1]}")
            for number in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                with contextlib.suppress(FileNotFoundError):  # a QEMU that was only asked
                    if "-S" in pathlib.Path(f"/proc/{number}/cmdline").read_text().split("\0"):
                        return int(number)
        qemu = testbed.wait_for(child, "QEMU to be started")
        self.addCleanup(self.kill, qemu)
        testbed.wait_for(lambda: child() and self.status(pid) == status,
                         f"the machine to be {status}")
        return qemu

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def qmp(self, pid):
        """One of the sockets of vmscope's QEMU, that neither vmscope nor its engine takes."""
        return self.sockets / f"{pid}.qmp2"

    def status(self, pid):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.qmp(pid)))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            qmp = qmp_client.Qmp(connection)
            status = qmp.status()
            qmp.close()
            return status

    def check_end(self, process, status):
        _, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, status, err)
        self.assertIn(f"in {self.trace}", err)
        self.assertTrue((self.trace / "info").exists())

    def test_exit_status(self):
        run = vmscope("run", "--calls", self.trace, "--", *self.machine(self.EXIT_33), check=False,
                      env=self.environment)
        self.assertEqual(run.status, 33, run.err)
        self.assertTrue((self.trace / "info").exists())

    @needs_qemu_11
    def test_qemu_11(self):
        _, *options = self.machine(self.EXIT_33)
        run = vmscope("run", "--calls", self.trace, "--", *QEMU_11, *options, check=False,
                      env=self.environment)
        self.assertEqual(run.status, 33, run.err)
        self.assertTrue((self.trace / "info").exists())

    def test_signals(self):
        """Those that end QEMU end it, as its own doing; the trace is complete then."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                self.trace = self.directory / f"trace{number}"
                process, _ = self.begin(*self.machine(self.LOOP))
                process.send_signal(number)
                self.check_end(process, 0)

    def test_qemu_killed(self):
        process, qemu = self.begin(*self.machine(self.LOOP))
        os.kill(qemu, signal.SIGKILL)
        self.check_end(process, 128 + signal.SIGKILL)

    def test_vmscope_killed(self):
        process, qemu = self.begin(*self.machine(self.LOOP))
        process.kill()
        process.wait()
        self.assertEqual(self.status(process.pid), "running")
        self.assertTrue((self.trace / "info").exists())

    def test_paused_by_its_user(self):
        """Who says -S says cont."""
        process = subprocess.Popen(
            [testbed.VMSCOPE, "run", "--calls", self.trace, "--",
             *map(str, self.machine(self.EXIT_33, "-S"))],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(process.kill)
        self.qemu_of(process.pid, "prelaunch")
        testbed.wait_for(lambda: (self.trace / "info").exists(), "the trace to begin")
        self.assertEqual(self.status(process.pid), "prelaunch")
        qmp = qmp_client.Qmp.connect(self.qmp(process.pid))
        qmp.command("cont")
        qmp.close()
        self.check_end(process, 33)

    def on_terminal(self, *options):
        """The same on a terminal of its own: vmscope's process id, and the other end."""
        pid, terminal = pty.fork()
        if pid == 0:
            command = ["vmscope", "run", "--calls", self.trace, "--",
                       *self.machine(self.LOOP, *options)]
            os.execve(testbed.VMSCOPE, list(map(str, command)), self.environment)
        self.addCleanup(os.close, terminal)
        return pid, terminal

    def wait_on_terminal(self, pid):
        def ended():
            done, status = os.waitpid(pid, os.WNOHANG)
            return done and (os.waitstatus_to_exitcode(status),)
        return testbed.wait_for(ended, "vmscope to end")[0]

    def test_interrupt_on_terminal(self):
        pid, terminal = self.on_terminal("-serial", "null")
        self.qemu_of(pid)
        os.write(terminal, b"\3")
        self.assertEqual(self.wait_on_terminal(pid), 0)
        self.assertTrue((self.trace / "info").exists())

    def test_interrupt_for_the_guest(self):
        """QEMU makes the terminal the guest's: Ctrl-C ends nothing; Ctrl-A x does."""
        pid, terminal = self.on_terminal("-serial", "mon:stdio")
        self.qemu_of(pid)
        os.write(terminal, b"\3\1h")
        read = b""
        while b"C-a x" not in read:  # its answer to C-a h
            read += os.read(terminal, 4096)
        self.assertEqual(self.status(pid), "running")
        os.write(terminal, b"\1x")
        self.assertEqual(self.wait_on_terminal(pid), 0)

    def test_bad_option_of_qemu(self):
        run = vmscope("run", "--calls", self.trace, "--", *QEMU, "-frobnicate", check=False,
                      env=self.environment)
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, "frobnicate.*\nvmscope: .*ended before")
        self.assertFalse(self.trace.exists())

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_full_disk(self):
        """The trace ends with one message, the guest boots on."""
        disk = self.directory / "disk"
        disk.mkdir()
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], text=True,
                               stderr=subprocess.PIPE)
        if mount.returncode:
            self.skipTest(f"cannot mount a file system: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        testbed.build_guests()
        self.trace = disk / "trace"
        serial = self.directory / "serial"
        kernel = testbed.KERNELS / "6.1"
        release = (kernel / "release").read_text().strip()
        process, _ = self.begin(
            *QEMU, "-m", "512", "-cpu", "max", "-display", "none", "-nodefaults",
            "-kernel", kernel / "boot" / f"vmlinuz-{release}",
            "-initrd", testbed.GUESTS / "initramfs-6.1.gz",
            "-append", "console=ttyS0 quiet panic=-1 no_timer_check", "-serial", f"file:{serial}")
        testbed.wait_for(lambda: "READY" in serial.read_text(), "the guest to boot",
                         testbed.BOOT_SECONDS)
        process.terminate()
        _, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 1, err)
        lines = [line for line in err.splitlines() if line.startswith("vmscope:")]
        self.assertEqual(len(lines), 1, err)
        self.assertRegex(lines[0], "No space left")
        self.assertGreater(sum(file.stat().st_size for file in self.trace.glob("*.dat")), 1 << 20)


if __name__ == "__main__":
    unittest.main()
