# SPDX-License-Identifier: MIT
"""Targets that cannot be opened: each has its own error, in time, and nothing hangs or crashes."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import qemu_machine
import qmp_client
import testbed
import peers
from vmscope_command import vmscope

# What no command may need, whoever its peer is. Generous: the machine may be loaded.
PATIENCE = 60


class Case(unittest.TestCase):
    def fails(self, *arguments, status=1, says=None, **options):
        """The command fails with one line that says why; that line."""
        run = vmscope(*arguments, timeout=PATIENCE, check=False, **options)
        self.assertEqual(run.status, status, f"{arguments}: {run.out}{run.err}")
        lines = run.err.strip().splitlines()
        self.assertTrue(lines and lines[0].startswith("vmscope: "), run.err)
        self.assertEqual(len(lines), 1, run.err)
        if says:
            self.assertRegex(lines[0], says)
        self.assertNotIn("runtime error", run.err)
        return lines[0]


class Usage(Case):
    def test_no_command(self):
        self.assertEqual(vmscope(check=False).status, 2)

    def test_unknown_command(self):
        self.fails("frobnicate", status=2, says="frobnicate")

    def test_unknown_option(self):
        self.fails("stack", "--frobnicate", status=2, says="frobnicate")

    def test_two_targets(self):
        self.fails("stack", "-p", "1", "--qmp", "/nowhere", status=2)

    def test_time(self):
        for wrong in ("soon", "0", "-1", "nan", "inf", "1e400", "1e10"):
            self.fails("sample", "-t", wrong, "-p", "1", status=2,
                       says=f"--time {wrong}: it must be a number of seconds.* at most")

    def test_outputs(self):
        """Each output has a file and a format of its own."""
        with tempfile.TemporaryDirectory() as here:
            for paths in (("y", "y"), ("-", "-"), ("y", f"{here}/./y")):
                outputs = [word for path in paths for word in ("-o", path)]
                self.fails("sample", "-t", "1", *outputs, "-p", "1", status=2, cwd=here,
                           says="given twice")
            for first in ("y.svg", "-"):
                self.fails("sample", "-t", "1", "-o", first, "-o", "y.txt", "--format", "folded",
                           "-p", "1", status=2, cwd=here, says="--format folded: .*more than one")
            self.assertEqual(os.listdir(here), [])

    def test_missing_argument(self):
        self.fails("mem", "-p", "1", status=2)

    def test_help_and_version(self):
        self.assertIn("sample", vmscope("--help").out)
        for target in re.findall(r"--\w+(?==\w)", vmscope("info", "--help-target").out):
            if target != "--memory":  # only together with --pid
                self.assertRegex(vmscope("--help").out, f"{target}|-{target[2]} ")
        self.assertRegex(vmscope("--version").out, r"^vmscope \d+\.\d+")
        for command in ("list", "info", "regs", "stack", "ps", "dmesg", "modules", "symbol", "mem",
                        "disas", "sample", "calls", "run", "core", "core info", "core convert"):
            said = vmscope(*command.split(), "--help").out
            usage = rf"Usage:\n  vmscope {command} \[OPTION.\]"
            if "--help-target" in said:
                usage += r" \[TARGET\]"
            self.assertRegex(said, usage)

    def test_help_of_command(self):
        for words in (("sample",), ("core",), ("core", "convert")):
            self.assertEqual(vmscope("help", *words).out, vmscope(*words, "--help").out)
        self.assertEqual(vmscope("help").out, vmscope("--help").out)
        self.fails("help", "frobnicate", status=2, says="frobnicate")

    def test_manual(self):
        """It knows every command and every option that there is."""
        manual = re.sub(r"\\?Fl -?", "-", (testbed.BUILD / "docs/man/vmscope.1").read_text())
        commands = re.findall(r"^  (\w+(?: \w+)?)  ", vmscope("--help").out, re.M)
        self.assertIn("core convert", commands)
        for command in commands:
            self.assertRegex(manual, rf"Cm {command}\b")
            out = vmscope(*command.split(), "--help-all", check=False).out or \
                vmscope(*command.split(), "--help").out
            options = set(re.findall(r"^  (?:-\w, )?-(-[\w-]+)", out, re.M))
            self.assertIn("-help", options)
            missing = [name for name in options
                       if not re.search(rf"(?<!\w){name}(?![\w-])", manual)]
            self.assertEqual(missing, [], command)

    def test_run_prints_nothing(self):
        self.fails("run", "-o", "/tmp/x", "--", "qemu-system-x86_64", status=2, says="-o")


class NoMachine(Case):
    def test_no_such_process(self):
        with subprocess.Popen(["/bin/true"]) as process:
            process.wait()
        self.fails("stack", "-p", process.pid, says="no such process|no process")

    def test_not_qemu(self):
        with subprocess.Popen(["sleep", "1000"]) as process:
            try:
                self.fails("stack", "-p", process.pid,
                           says=f"process {process.pid} .sleep. is no virtual machine: .*QEMU.*KVM")
            finally:
                process.kill()

    def test_no_process_number(self):
        """Least of all does it mean the only machine."""
        for wrong in ("0", "-1", "", "x"):
            self.fails("stack", "-p", wrong, status=2, says=f"--pid {wrong}: ")

    def test_choice(self):
        """Those that cannot be looked at are no choice."""
        machines = [qemu_machine.Machine("-S", smp=1, memory=16, qmp=qmp) for qmp in (True, True, False)]
        for machine in machines:
            self.addCleanup(machine.stop)
        line = self.fails("regs", status=2, says="choose one with --pid")
        count, names = re.search(r"there are (\d+) machines: .*?: (.*) \(see", line).groups()
        self.assertEqual(len(names.split(", ")), int(count))
        for machine in machines[:2]:
            self.assertIn(f"{machine.pid} (", names)
        self.assertNotIn(f"{machines[2].pid} (", names)

    def test_not_reaped(self):
        with subprocess.Popen(["sleep", "1000"]) as process:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            self.fails("stack", "-p", process.pid, says=f"process {process.pid} has ended")

    def test_qemu_without_qmp(self):
        machine = qemu_machine.Machine("-S", smp=1, memory=64, qmp=False)
        try:
            self.fails("stack", "-p", machine.pid, says="QMP")
        finally:
            machine.stop()

    def test_none_usable(self):
        """However many there are, the error is short. Others are not seen in a PID namespace."""
        qemu = f"{qemu_machine.ARCHS['x86_64'].qemu[0]} -S -accel tcg -m 16 -nodefaults -display none"
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this user may not make a PID namespace")
        for count, says in ((1, r"no virtual machine here can be looked at: \d+ \(one\): .*QMP"),
                            (9, r"none of the 9 virtual machines here can be looked at: \"vmscope list\"")):
            script = f"""
                for i in $(seq {count}); do {qemu} -name one >&2 & done
                until test $({testbed.VMSCOPE} list | wc -l) = {count + 1}; do sleep 0.1; done
                {testbed.VMSCOPE} stack
                kill -KILL 0"""
            run = subprocess.run([*unshare, script], check=False, capture_output=True, text=True,
                                 start_new_session=True, timeout=PATIENCE)
            line = re.search("^vmscope: .*$", run.stderr, re.M)[0]
            self.assertRegex(line, says)
            self.assertLess(len(line), 400)

    def test_no_such_socket(self):
        self.fails("stack", "--qmp", "/nowhere/qmp", says="/nowhere/qmp")
        self.fails("stack", "--gdb", "/nowhere/gdb", says="/nowhere/gdb")

    def test_nobody_listens(self):
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{bound.getsockname()[1]}"
            self.fails("stack", "--qmp", address, says=address)
            self.fails("stack", "--gdb", address, says=address)

    def test_no_port(self):
        """Of a number that is none, no other port is made."""
        for option in ("--qmp", "--gdb"):
            for port in ("65536", "99999", "0", "4294967377"):
                self.fails("stack", option, f"localhost:{port}", status=2,
                           says=f"localhost:{port}: its port must be from 1 to 65535")

    def test_symbols_at_no_address(self):
        """A number that has too many bits, or a sign, is not made another one."""
        machine = qemu_machine.Machine("-S", smp=1, memory=16)
        self.addCleanup(machine.stop)
        for address in ("zz", "-1", "0x10000000000000000", "1 "):
            self.fails("info", *machine.target, "--symbols", f"{testbed.VMSCOPE}@{address}", "os", status=2,
                       says=f'"{address}" is no address')

    def test_not_a_socket(self):
        self.fails("stack", "--qmp", "/etc/passwd", says="/etc/passwd")

    @unittest.skipUnless(os.getuid() == 0, "only root can become somebody without permission")
    def test_no_permission(self):
        machine = qemu_machine.Machine("-S", smp=1, memory=64)
        try:
            machine.directory.chmod(0o755)
            machine.qmp_path.chmod(0o600)
            copy = shutil.copy(testbed.VMSCOPE, machine.directory)  # where anybody may run it
            self.fails("stack", "--qmp", machine.qmp_path, says="[Pp]ermission|permitted",
                       program=copy, user="nobody")
        finally:
            machine.stop()

    def test_run_of_what_is_not_there(self):
        self.fails("run", "--", "/nowhere/qemu", says="/nowhere/qemu")

    def test_start_of_what_ends_at_once(self):
        self.fails("stack", "--", "/bin/false")


class Monitors(Case):
    """QMP monitors that do not behave."""

    def check(self, behave, says=None):
        with peers.Peer(behave) as peer:
            self.fails("stack", "--qmp", peer.path, says=says)

    def test_hangs_up(self):
        self.check(peers.hang_up, "closed|gone|reset")

    def test_silent(self):
        self.check(peers.silent, "answer|respon|s$|client")

    def test_garbage(self):
        self.check(peers.garbage)

    def test_endless_line(self):
        self.check(peers.endless_line)

    def test_deep_json(self):
        self.check(peers.deep_json)

    def test_greets_only(self):
        self.check(peers.greets_only)

    def test_hangs_up_later(self):
        self.check(peers.qmp(peers.hangs_up_later))

    def test_answers_garbage(self):
        self.check(peers.qmp(peers.answers_garbage))

    def test_answers_wrong_types(self):
        self.check(peers.qmp(peers.answers_wrong_types))

    def test_answers_errors(self):
        self.check(peers.qmp(peers.answers_errors))

    def test_stops_answering(self):
        self.check(peers.qmp(peers.stops_answering))

    def test_busy(self):
        """A monitor serves one client; a second one is told so and does not wait for ever."""
        machine = qemu_machine.Machine("-S", smp=1, memory=64)
        try:
            other = qmp_client.Qmp.connect(machine.qmp_path)
            name = pathlib.Path("/proc/self/comm").read_text().strip()
            for target in ("--qmp", machine.qmp_path), ("-p", machine.pid):
                self.fails("stack", *target, says=f"process {os.getpid()} \\({name}\\) is using")
            other.close()
        finally:
            machine.stop()


class Stubs(Case):
    """gdb stubs that do not behave."""

    def check(self, behave):
        with peers.Peer(behave) as peer:
            self.fails("regs", "--gdb", peer.path)

    def test_hangs_up(self):
        self.check(peers.hang_up)

    def test_silent(self):
        self.check(peers.silent)

    def test_garbage(self):
        self.check(peers.garbage)

    def test_unknown(self):
        self.check(peers.gdb(peers.gdb_unknown))

    def test_bad_checksum(self):
        self.check(peers.gdb(peers.gdb_bad_checksum))

    def test_huge(self):
        self.check(peers.gdb(peers.gdb_huge))

    def test_lies(self):
        self.check(peers.gdb(peers.gdb_lies))


class Several(Case):
    def test_no_target_with_several_machines(self):
        """With more than one machine and no target, the error names them."""
        machines = [qemu_machine.Machine("-S", smp=1, memory=64) for _ in range(2)]
        try:
            line = self.fails("stack", status=2)
            for machine in machines:
                self.assertIn(str(machine.pid), line)
        finally:
            for machine in machines:
                machine.stop()


class Hostile(Case):
    """A guest that wants to hang or crash whoever looks at it."""

    @classmethod
    def setUpClass(cls):
        cls.guest = qemu_machine.BareGuest("hostile")

    @classmethod
    def tearDownClass(cls):
        cls.guest.stop()

    def looks(self, *arguments):
        """The command ends by itself, by exit and not by a signal; the guest runs on."""
        run = vmscope(*arguments, "-p", self.guest.pid, timeout=PATIENCE, check=False)
        self.assertIn(run.status, (0, 1), run.err)
        self.assertEqual(self.guest.qmp.status(), "running")
        return run

    def test_inspection(self):
        for command in ("stack", "regs", "ps", "dmesg", "modules", "symbol"):
            with self.subTest(command):
                self.looks(command)

    def test_items(self):
        items = [line.split()[0] for line in
                 vmscope("info", "help", "-p", self.guest.pid).out.splitlines()[1:]]
        self.assertIn("mappings", items)
        for item in items:
            with self.subTest(item):
                self.assertLess(len(self.looks("info", item).out), 64 << 20)

    def test_sample(self):
        run = self.looks("sample", "-F", "99", "-t", "1", "--depth", "1024")
        self.assertEqual(run.status, 0, run.err)


if __name__ == "__main__":
    unittest.main()
