# SPDX-License-Identifier: MIT
"""Coverage of Linux guests: the truth is QEMU's own log, and what the guest says of itself."""
import os
import pathlib
import re
import signal
import tempfile
import unittest

import coverage
import linux_guest
from long_tests import takes_long
import qemu_machine
import test_modules
import testbed
from vmscope_command import Run, start_vmscope, vmscope

AGENT = (testbed.VMSCOPE, "run", "--")
LOGGED = 1 << 18  # bytes of code of which QEMU logs every block
MODULES = ("raid6_pq", "xor")
XOR_INIT = {"calibrate_xor_blocks"}


def end_for_sure(process):
    process.kill()
    process.communicate()


class Files(unittest.TestCase):
    """The class's directory for what is written."""

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-coverage-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)


class Running:
    """On a guest that all tests of a class share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        symbols = linux_guest.booted("6.1", cls.arch).kallsyms
        va = next(symbol.va for symbol in symbols if symbol.name == "vfs_read")
        cls.logged = range(va - LOGGED // 2 & ~0xfff, (va - LOGGED // 2 & ~0xfff) + LOGGED)
        cls.log = cls.directory / "qemu.log"
        cls.guest = linux_guest.LinuxGuest(
            "6.1", arch=cls.arch, launcher=AGENT,
            beside=("-dfilter", f"{cls.logged.start:#x}+{LOGGED:#x}", "-D", cls.log))
        cls.addClassCleanup(cls.guest.stop)

    def start(self, *arguments):
        """Returns when what runs is covered."""
        process = start_vmscope("coverage", "-v", "-p", self.guest.pid, *arguments)
        self.addCleanup(end_for_sure, process)
        for line in process.stderr:
            if coverage.BEGUN in line:
                return process
        raise AssertionError(f"it has not begun: status {process.wait()}")

    def end(self, process):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.BOOT_SECONDS)
        return Run(process.returncode, out, err)

    def cover(self, command, *arguments):
        """What ran while the guest ran a command: totals, functions, blocks."""
        path, drcov = self.directory / "table", self.directory / "drcov"
        process = self.start("--json", "-o", path, "--drcov", drcov, *arguments)
        self.guest.run(command)
        ended = self.end(process)
        self.assertEqual(ended.status, 0, ended.err)
        totals, table = coverage.read_table(path)
        self.assertEqual(totals["lost"], 0)
        return totals, table, coverage.read_drcov(drcov)

    def monitor(self, line):
        self.assertEqual(self.guest.qmp.command("human-monitor-command", command_line=line), "")

    def test_same_as_log(self):
        """While both QEMU's log and vmscope are on, the same blocks."""
        path = self.directory / "same"
        self.guest.qmp.command("stop")
        self.monitor("log exec,nochain")
        process = self.start("--drcov", path)
        self.guest.qmp.command("cont")
        self.guest.run("ls -l /proc/self /bin; cat /proc/version; echo x >/tmp/x")
        self.guest.qmp.command("stop")
        ended = self.end(process)
        self.monitor("log none")
        self.guest.qmp.command("cont")
        self.assertEqual(ended.status, 0, ended.err)
        logged = set(coverage.ExecLog(self.log).blocks)
        self.assertGreater(len(logged), 200)
        covered = {block.va for block in coverage.read_drcov(path) if block.va in self.logged}
        self.assertEqual(covered, logged)

    def test_functions(self):
        """What a command needs has run; each function of the kernel either ran or did not."""
        _, table, _ = self.cover("echo x >/tmp/x; rm /tmp/x")
        ran = {function["function"]: function for function in table}
        self.assertLessEqual({"vfs_write", "do_unlinkat", "do_filp_open"}, set(ran))
        for function in table:
            if function["blocks"] is not None:
                self.assertLessEqual(function["ran"], function["blocks"])
        _, never, _ = self.cover("echo x >/tmp/x; rm /tmp/x", "--never")
        names = {function["function"] for function in never}
        self.assertTrue({"panic", "sys_reboot", "kernel_restart"} & names)
        self.assertFalse({"vfs_write", "do_unlinkat"} & names)
        known = {symbol.name for symbol in self.guest.kallsyms()}
        self.assertLessEqual(names, known)

    def test_pattern(self):
        _, table, _ = self.cover("echo x >/tmp/x; rm /tmp/x", "--functions", "vfs_*")
        names = {function["function"] for function in table}
        self.assertIn("vfs_write", names)
        self.assertEqual({name for name in names if not name.startswith("vfs_")}, set())

    def test_between(self):
        """From the removal of a file to its end: nothing of what came before."""
        process = self.start("--json", "--from", "do_unlinkat", "--to", "vfs_unlink")
        self.guest.run("cat /proc/version; echo x >/tmp/x")
        self.assertIsNone(process.poll())
        self.guest.run("rm /tmp/x")
        out, err = process.communicate(timeout=testbed.BOOT_SECONDS)
        self.assertEqual(process.returncode, 0, err)
        _, table = coverage.read_table(self.written("between", out))
        ran = {function["function"] for function in table}
        self.assertIn("do_unlinkat", ran)
        self.assertFalse({"vfs_unlink", "vfs_write", "vfs_create"} & ran)

    def test_between_the_same(self):
        """From one execution of an instruction to the next one."""
        process = self.start("--from", "vfs_unlink", "--to", "vfs_unlink")
        self.guest.run("echo x >/tmp/x; rm /tmp/x")
        self.assertIsNone(process.poll())
        self.guest.run("echo x >/tmp/x; rm /tmp/x")
        out, err = process.communicate(timeout=testbed.BOOT_SECONDS)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("do_unlinkat", out)

    def written(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def test_modules(self):
        """Modules that come and go, one where another one was: the names of each are its own."""
        names = test_modules.functions(self.kernel, self.nm, MODULES)
        for module in MODULES:
            self.guest.run(f"modprobe -r {module}", check=False)
        process = self.start("--json")
        for _ in range(3):
            for module in MODULES:
                self.guest.run(f"modprobe {module} && modprobe -r {module}")
        ended = self.end(process)
        self.assertEqual(ended.status, 0, ended.err)
        _, table = coverage.read_table(self.written("modules", ended.out))
        for module in MODULES:
            found = {function["function"] for function in table if function["module"] == module}
            self.assertTrue(found & (test_modules.INIT | XOR_INIT), module)
            self.assertEqual(found - names[module] - test_modules.INIT, set(), module)
        self.assertTrue({name for name in names["raid6_pq"] if "gen_syndrome" in name} &
                        {f["function"] for f in table if f["module"] == "raid6_pq"})

    # ---- when something goes wrong ----

    def test_one_at_a_time(self):
        process = self.start()
        second = vmscope("coverage", "-p", self.guest.pid, "-t", "1", check=False)
        self.assertEqual(second.status, 1)
        self.assertIn(f"process {process.pid} already does so", second.err)
        self.assertEqual(self.end(process).status, 0)

    def test_killed(self):
        """Whoever covers is killed: the guest runs on, and the next one begins anew."""
        for _ in range(3):
            process = self.start()
            end_for_sure(process)
            self.guest.run("true")
        _, table, _ = self.cover("echo x >/tmp/x; rm /tmp/x")
        self.assertIn("do_unlinkat", {function["function"] for function in table})

    def test_full_disk(self):
        process = self.start("--lcov", "/dev/full")
        ended = self.end(process)
        self.assertEqual(ended.status, 1)
        self.assertIn("No space left on device", ended.err)
        self.assertIn("functions ran", ended.out)

    def test_no_such_folder(self):
        """That is said before anything is measured, not after it."""
        for option in ("--lcov", "--drcov"):
            run = vmscope("coverage", "-p", self.guest.pid, option, "/no/such/file", check=False)
            self.assertEqual((run.status, run.out), (1, ""))
            self.assertIn("/no/such/file", run.err)

    def test_unknown_place(self):
        run = vmscope("coverage", "-p", self.guest.pid, "--from", "no_such_place", check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("no_such_place", run.err)


class X86(Running, Files):
    arch = "x86_64"
    kernel, nm = "6.1", "nm"


class Ending(Files):
    """The machine ends before the coverage does."""

    def start(self, *arguments):
        guest = linux_guest.LinuxGuest("6.1", launcher=AGENT)
        self.addCleanup(guest.stop)
        process = start_vmscope("coverage", "-v", "-p", guest.pid, "--json", *arguments)
        self.addCleanup(end_for_sure, process)
        for line in process.stderr:
            if coverage.BEGUN in line:
                break
        guest.run("echo x >/tmp/x; rm /tmp/x")
        return guest, process

    def check(self, process, status):
        out, err = process.communicate(timeout=testbed.BOOT_SECONDS)
        self.assertEqual(process.returncode, status, err)
        path = self.directory / "table"
        path.write_text(out)
        totals, table = coverage.read_table(path)
        self.assertEqual(totals["lost"], 0)
        self.assertLessEqual({"do_unlinkat", "vfs_unlink"}, {f["function"] for f in table})
        return err

    def test_killed(self):
        """All that ran is told, although QEMU could say nothing more."""
        guest, process = self.start()
        os.kill(guest.pid, signal.SIGKILL)
        self.assertIn("has ended, and the coverage with it", self.check(process, 1))

    @takes_long
    def test_quit(self):
        guest, process = self.start()
        guest.qmp.quit()
        self.assertIn("has ended, and the coverage with it", self.check(process, 1))

    @takes_long
    def test_reset(self):
        """What ran before a reset is told, too, and what the guest runs when it boots again."""
        guest, process = self.start()
        before = guest.serial().count("READY")
        guest.qmp.command("system_reset")
        guest.wait_until(lambda: guest.serial().count("READY") > before, "the guest to boot again")
        process.send_signal(signal.SIGINT)
        self.assertIn("the guest was reset", self.check(process, 0))

    def test_stopped_qemu(self):
        """A QEMU that a signal has stopped answers nothing: what ran is told all the same."""
        guest, process = self.start()
        os.kill(guest.pid, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            self.check(process, 0)
        finally:
            os.kill(guest.pid, signal.SIGCONT)
        guest.run("true")


class Boot:
    """A whole boot: the kernel says itself which functions it called."""

    def test_boot(self):
        path = self.directory / "boot"
        guest = linux_guest.LinuxGuest("6.1", arch=self.arch, append="initcall_debug",
                                       launcher=coverage.launcher(path))
        self.addCleanup(guest.stop)
        log = guest.run("dmesg")
        guest.qmp.quit()
        self.assertEqual(guest.process.wait(testbed.BOOT_SECONDS), 0, guest.log())
        totals, table = coverage.read_table(f"{path}.json")
        self.assertEqual(totals["lost"], 0)
        ran = {function["function"] for function in table}
        called = {name for name, module in re.findall(r"calling +(\w+)\+\S+( \[\w+\])? @", log)
                  if not module}
        self.assertGreater(len(called), 200)
        self.assertEqual(called - ran, set())
        self.assertLessEqual({"start_kernel", "kernel_init", "run_init_process"}, ran)
        never = coverage.Lcov(f"{path}.info")
        self.assertEqual({f: r for f, (_, r) in never.functions["vmlinux"].items()
                          if f in called and not r}, {})
        self.assertFalse(dict(never.functions["vmlinux"])["panic"][1])
        self.assertGreater(len(coverage.read_drcov(f"{path}.drcov")), 10000)


@takes_long
class X86Boot(Boot, Files):
    arch = "x86_64"


class Refusals(unittest.TestCase):
    def test_no_agent(self):
        guest = qemu_machine.BareGuest()
        self.addCleanup(guest.stop)
        run = vmscope("coverage", *guest.target, "-t", "1", check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("vmscope run", run.err)

    def test_options_without_coverage(self):
        run = vmscope("run", "--never", "--", "qemu-system-x86_64", check=False)
        self.assertEqual(run.status, 2)
        self.assertIn("options of coverage need --coverage FILE", run.err)


if __name__ == "__main__":
    unittest.main()
