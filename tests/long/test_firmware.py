# SPDX-License-Identifier: MIT
"""A guest that UEFI firmware has started: flash below 4 GiB, devices far above all memory."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import linux_guest
import qemu_machine
from vmscope_command import vmscope

CODE, VARIABLES = (pathlib.Path("/usr/share/OVMF", name)
                   for name in ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"))
FLASH_END = 1 << 32  # the firmware's code ends there
LAYOUTS = ("elf", "vbox", "kdump")


class Uefi(unittest.TestCase):
    """Without the package ovmf, which scripts/setup installs, this fails."""

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="vmscope-uefi-", dir="/var/tmp")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        variables = shutil.copy(VARIABLES, cls.directory)
        cls.guest = linux_guest.LinuxGuest("6.12", extra=(
            "-machine", "q35", "-drive", f"if=pflash,format=raw,readonly=on,file={CODE}",
            "-drive", f"if=pflash,format=raw,file={variables}"))
        cls.addClassCleanup(cls.guest.stop)
        cls.log = cls.guest.run("dmesg").splitlines()
        cls.guest.qmp.command("stop")
        cls.monitor = [qemu_machine.monitor_registers(cls.guest, vcpu) for vcpu in range(2)]
        cls.live = {command: vmscope(command, *cls.guest.target).out
                    for command in ("ps", "dmesg", "modules", "stack")}
        cls.paths = {layout: cls.directory / layout for layout in LAYOUTS}
        for layout, path in cls.paths.items():
            vmscope("core", "-o", path, "--format", layout, *cls.guest.target)

    def test_guest_is_what_it_is_live(self):
        self.assertTrue(any("efi: EFI v2" in line for line in self.log))
        for layout, path in self.paths.items():
            for command, shown in self.live.items():
                with self.subTest(layout=layout, command=command):
                    self.assertEqual(vmscope(command, "-c", path).out, shown)

    def test_registers(self):
        for layout, path in self.paths.items():
            rows = json.loads(vmscope("regs", "-c", path, "--json").out)
            for vcpu, theirs in enumerate(self.monitor):
                with self.subTest(layout=layout, vcpu=vcpu):
                    ours = {row["register"]: int(row["value"], 16) for row in rows
                            if row["vcpu"] == vcpu}
                    self.assertEqual({name: ours.get(name) for name in theirs}, theirs)

    def test_flash(self):
        """The firmware's code is in the file, byte by byte."""
        code = CODE.read_bytes()
        for layout, path in self.paths.items():
            with self.subTest(layout=layout):
                out = self.directory / "flash"
                vmscope("mem", "--physical", "--raw", "-o", out, hex(FLASH_END - len(code)),
                        len(code), "-c", path)
                self.assertTrue(out.read_bytes() == code)

    def test_devices(self):
        """They are where QEMU has them, and none makes a file, or its headers, large."""
        for layout, path in self.paths.items():
            with self.subTest(layout=layout):
                rows = json.loads(vmscope("core", "info", path, "--json").out)["ranges"]
                devices = [int(row["address"], 16) for row in rows if row["kind"] == "mmio"]
                self.assertIn(0xFEE00000, devices)
                self.assertGreater(max(devices), 1 << 36)
                self.assertLess(path.stat().st_size, 600 << 20)

    def test_tools(self):
        for layout in ("elf", "vbox"):
            output = subprocess.run(["readelf", "-hlW", str(self.paths[layout])], check=True,
                                    text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertNotRegex(output.stdout, "(?i)warning|error")
        log = self.directory / "log"
        for layout in ("elf", "kdump"):
            with self.subTest(layout=layout):
                log.unlink(missing_ok=True)
                subprocess.run(["makedumpfile", "--message-level", "0", "--dump-dmesg",
                                str(self.paths[layout]), str(log)], check=True)
                self.assertIn("efi: EFI v2", log.read_text())


if __name__ == "__main__":
    unittest.main()
