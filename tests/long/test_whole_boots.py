# SPDX-License-Identifier: MIT
"""Call traces of whole boots that take longer than that of tests/integration/test_calls.py."""
import subprocess
import unittest

import calls
import linux_guest
import qemu_machine
import testbed
import test_calls
import uftrace_data


class Repeated(unittest.TestCase):
    """A guest in which nothing depends on the host's time gives the same trace each time."""
    COMMANDS = ("busybox mkdir -p /proc", "busybox mount -t proc proc /proc",
                "busybox modprobe loop", "busybox cat /proc/modules", "busybox poweroff -f")
    # QEMU goes on a little after the guest has turned it off: with what is open then, and returns.
    LAST = 100

    def trace(self, series):
        path = calls.directory(self)
        serial = path.parent / "serial"
        release = (testbed.KERNELS / series / "release").read_text().strip()
        run = subprocess.run(
            [*map(str, calls.launcher(path, "--clock", "instructions")),
             *qemu_machine.ARCHS["x86_64"].qemu, "-accel", "tcg", "-icount", "shift=0,sleep=off",
             "-rtc", "base=2020-01-01,clock=vm", "-smp", "1", "-cpu", "qemu64", "-seed", "1",
             "-m", "256", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-serial", f"file:{serial}",
             "-kernel", str(testbed.KERNELS / series / "boot" / f"vmlinuz-{release}"),
             "-initrd", str(testbed.GUESTS / f"initramfs-{series}.gz"),
             "-append", "console=ttyS0 panic=-1 nokaslr no_timer_check rdinit=/bin/busybox -- "
                        f'sh -c "{"; ".join(self.COMMANDS)}"'],
            stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=testbed.BOOT_SECONDS)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("loop 32768", serial.read_text(errors="replace"))
        trace = uftrace_data.Trace(path)
        return trace, (path / "100.dat").read_bytes()

    def test_linux(self):
        testbed.build_guests()
        trace, first = self.trace("6.1")
        _, second = self.trace("6.1")
        self.assertGreater(len(first), 10_000_000 * 16)
        kept = len(first) - self.LAST * 16
        self.assertTrue(first[:kept] == second[:kept], "other records")
        # It was understood from the begin on: return thunks are no calls, jump_label_cmp is one.
        called = trace.calls(image="vmlinux")
        self.assertGreater(called["jump_label_cmp"], 10_000)
        self.assertEqual({name: n for name, n in called.items() if "return_thunk" in name and
                          n > 10_000}, {})
        self.assertIn("loop_add", trace.calls(image="loop"))  # from the module's first call on


class Boot612Arm(test_calls.Boot, unittest.TestCase):
    series = "6.12"
    arch = "aarch64"


class Resets(unittest.TestCase):
    """A trace goes on through the reset of its machine, and the next kernel has its own names."""

    def test_resets(self):
        path = calls.directory(self)
        guest = linux_guest.LinuxGuest("6.1", boot=True, launcher=(testbed.VMSCOPE, "run", "--"))
        self.addCleanup(guest.stop)
        with calls.tracing(guest, path, "--by", "task", *calls.symbols(),
                           warning="the guest was reset"):
            guest.qmp.command("system_reset")
            guest.wait_until(lambda: guest.serial().count("READY") == 2, "the next boot")
            counted = calls.counts(guest.run("calls"))[0]
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual(test_calls.wrong(trace, "calls", counted), {})
