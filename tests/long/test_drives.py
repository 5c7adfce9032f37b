# SPDX-License-Identifier: MIT
"""What is not in a guest's memory of its files is read from its disk (images of all kinds:
test_disk_images.py), while the guest uses it. The pages of a program are thrown out of memory."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import linux_guest
from test_names import read_functions
from testbed import GUESTS
from vmscope_command import vmscope

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hostile"))
import disks  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = GUESTS / "workload"
FUNCTION = "count_on_all"
SIZE = 24 << 20


def run(*words, **options):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, **options).stdout


class Drives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest("6.12")
        cls.addClassCleanup(cls.guest.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.empty = cls.folder / "empty"
        cls.empty.mkdir()
        cls.place, = (place for place, names in read_functions(PROGRAM).items() if FUNCTION in names)

    def make_file_system(self, name, *options):
        """A file system with the program in it."""
        files, image = self.folder / f"{name}-files", self.folder / name
        files.mkdir()
        shutil.copy(PROGRAM, files / "program")
        image.touch()
        run("truncate", "-s", SIZE, image)
        run("/sbin/mke2fs", "-q", "-F", "-d", files, *options, image)
        return image

    def attach(self, path, driver):
        """Plugs a disk into the running guest; its name there."""
        before = set(self.guest.run("ls /sys/block").split())
        node = path.name
        self.guest.qmp.command("blockdev-add", **{
            "driver": driver, "node_name": node, "file": {"driver": "file", "filename": str(path)}})
        self.guest.qmp.command("device_add", driver="virtio-blk-pci", drive=node, id=f"d-{node}")
        return self.guest.run("until ls /sys/block | grep -q vd; do sleep 0.1; done; sleep 0.3; ls /sys/block") and (
            set(self.guest.run("ls /sys/block").split()) - before).pop()

    def detach(self, node):
        self.guest.run("killall -9 program; sleep 0.2; umount /mnt/disk", check=False)
        self.guest.qmp.command("device_del", id=f"d-{node}")
        self.guest.wait_until(lambda: self.drop_node(node), "the disk to be unplugged")

    def drop_node(self, node):
        try:
            self.guest.qmp.command("blockdev-del", node_name=node)
        except RuntimeError:
            return False
        return True

    def start_program(self, device, options="ro"):
        """Starts the program from a disk, and throws what it does not use out of memory."""
        self.guest.run(f"mkdir -p /mnt/disk && mount -o {options} /dev/{device} /mnt/disk")
        pid = self.guest.run("/mnt/disk/program sleep >/dev/null 2>&1 & echo $!").strip()
        self.guest.run("sleep 0.3; sync; echo 3 >/proc/sys/vm/drop_caches")
        return pid

    def symbol(self, pid, *options):
        return vmscope("symbol", "--task", pid, FUNCTION, "--debug-dir", self.empty, *options,
                       *self.guest.target, check=False)

    def check_disk(self, path, driver="raw", options="ro"):
        device = self.attach(path, driver)
        self.addCleanup(self.detach, path.name)
        pid = self.start_program(device, options)
        before = path.stat()
        found = self.symbol(pid)
        self.assertEqual(found.out, f"{self.place:016x} t {FUNCTION}\t[/mnt/disk/program]\n", found.err)
        if options == "ro":
            self.assertEqual(path.stat().st_mtime_ns, before.st_mtime_ns)
        return pid

    def test_whole_disk(self):
        self.check_disk(self.make_file_system("ext4", "-t", "ext4"), options="rw")

    def test_qcow2(self):
        """Compressed, with a base, a cluster of which was written anew."""
        raw = self.make_file_system("ext2", "-t", "ext2")
        base, top = self.folder / "base.qcow2", self.folder / "top.qcow2"
        run("qemu-img", "convert", "-c", "-O", "qcow2", "-o", "compression_type=zstd", raw, base)
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "base.qcow2", top)
        self.check_disk(top, "qcow2", options="rw")

    def test_encrypted(self):
        """What cannot be read is said once, and names that are in memory stay."""
        image = self.make_file_system("plain", "-t", "ext4")
        device = self.attach(image, "raw")
        self.addCleanup(self.detach, image.name)
        pid = self.start_program(device, "rw")
        with open(image, "r+b") as file:  # as somebody who cannot read it would see it
            header = file.read(4096)
            file.seek(0)
            file.write(b"LUKS\xba\xbe" + bytes(4090))
            file.flush()
            found = self.symbol(pid)
            file.seek(0)
            file.write(header)
        self.assertEqual(found.err.count("cannot be read from its disk"), 1, found.err)
        self.assertIn(f"{image}: it is encrypted (LUKS)", found.err)
        self.assertIn("no function", found.err)

    def test_another_content(self):
        """The disk says something else than memory, as while the guest writes to it."""
        image = self.make_file_system("torn", "-t", "ext4")
        pid = self.start_program(self.attach(image, "raw"))
        self.addCleanup(self.detach, image.name)
        content = image.read_bytes()
        begin = content.index(PROGRAM.read_bytes()[:1024])
        with open(image, "r+b") as file:
            file.seek(begin + 900)  # of the file's first page, which every program has in memory
            file.write(b"x" * 100)
        found = self.symbol(pid)
        self.assertIn("says something else than the guest's memory", found.err)
        self.assertNotIn("[/mnt/disk/program]", found.out)

    def test_hostile_disks(self):
        """Disks that cost much are beside a good one: its names are all there, and no sample waits."""
        for kind, n in (("areas", 240), ("compressed", 400)):
            hostile = self.folder / kind
            hostile.write_bytes(disks.KINDS[kind](n))
            self.attach(hostile, "raw")
            self.addCleanup(self.detach, kind)
        self.check_disk(self.make_file_system("good", "-t", "ext4"))
        run = vmscope("sample", "-t", "2", "--facts", "none", *self.guest.target)
        samples, missed = (int(re.search(pattern, run.out)[1]) for pattern in
                           (r"(\d+) samples", r"(\d+) missed"))
        self.assertGreater(samples, 5 * missed, run.out)
        self.assertRegex(run.out + run.err, r"the guest's disk \S*/(areas|compressed): more than")

    def test_copy(self):
        """A disk with the same UUID is plugged in first. Its program is another one."""
        image = self.make_file_system("original", "-t", "ext4")
        changed = self.folder / "copy"
        changed.write_bytes(image.read_bytes().replace(FUNCTION.encode(), FUNCTION[:-3].encode() + b"XXX"))
        run("/sbin/debugfs", "-w", "-R", "set_inode_field /program ctime 20200101", changed)
        self.attach(changed, "raw")
        self.addCleanup(self.detach, "copy")
        self.check_disk(image)

    def test_same_copies(self):
        """Two disks that memory does not tell apart: what they have in common is read, and no more."""
        image = self.make_file_system("one", "-t", "ext4")
        other = self.folder / "other"
        other.write_bytes(image.read_bytes())
        self.attach(other, "raw")
        self.addCleanup(self.detach, "other")
        pid = self.check_disk(image)
        content = image.read_bytes().replace(FUNCTION.encode(), FUNCTION[:-3].encode() + b"XXX")
        other.write_bytes(content)
        found = self.symbol(pid)
        self.assertNotIn("XXX", found.out + found.err)

    def test_late(self):
        """Symbols that come into memory while a guest is sampled, and are on no disk that can be read."""
        image = self.make_file_system("late", "-t", "ext4")
        device = self.attach(image, "raw")
        self.addCleanup(self.detach, image.name)
        self.guest.run(f"mkdir -p /mnt/disk && mount /dev/{device} /mnt/disk")
        with open(image, "r+b") as file:
            super_block = file.read(4096)
            file.seek(0)
            file.write(bytes(4096))
        self.guest.run("/mnt/disk/program sort >/dev/null 2>&1 & sleep 0.5; echo 3 >/proc/sys/vm/drop_caches")
        self.guest.send("sleep 1; cat /mnt/disk/program >/dev/null")
        text = vmscope("sample", "-t", "6", "--debug-dir", self.empty, "--processes", "none", "--facts", "none",
                       *self.guest.target).out
        self.assertRegex(text, r"compare_words(\+0x[0-9a-f]+)? \(/mnt/disk/program\)")
        self.guest.connect_again()
        with open(image, "r+b") as file:
            file.write(super_block)


if __name__ == "__main__":
    unittest.main()
