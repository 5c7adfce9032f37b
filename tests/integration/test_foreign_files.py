# SPDX-License-Identifier: MIT
"""Files of a recorded process that lie: what vmscope opens of them, what they cost, and that all
else has its names."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from vmscope_command import vmscope

HOSTILE = pathlib.Path(__file__).parents[1] / "hostile"
sys.path.insert(0, str(HOSTILE))
import elf_files  # noqa: E402

IN_OPEN, IN_ACCESS, IN_NONBLOCK = 0x20, 0x1, 0o4000


@contextlib.contextmanager
def mapper(*arguments):
    process = subprocess.Popen([sys.executable, HOSTILE / "mapper.py", *map(str, arguments)],
                               stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the process has not begun")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class OpenWatch:
    """Whether anybody opens a file: the kernel tells it of FIFOs and devices, too."""

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(IN_NONBLOCK)
        if self.libc.inotify_add_watch(self.fd, str(path).encode(), IN_OPEN | IN_ACCESS) < 0:
            raise OSError(ctypes.get_errno(), str(path))

    def was_opened(self):
        try:
            return bool(os.read(self.fd, 4096))
        except BlockingIOError:
            return False
        finally:
            os.close(self.fd)


@unittest.skipUnless(os.geteuid() == 0, "root alone can make devices, roots and mounts")
class ForeignFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_file(self, path, name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(elf_files.make_elf(sum(map(ord, name)), 1, 0, name))

    def record(self, process, seconds=1):
        path = self.folder / "recording"
        run = vmscope("record", "-p", process.pid, "-t", seconds, "-o", path)
        return run, vmscope("report", path).out

    def test_watch(self):
        """The test's own means: an open is seen, and one by O_PATH is not."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        watch = OpenWatch(fifo)
        os.close(os.open(fifo, os.O_PATH))
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        self.assertTrue(watch.was_opened())

    def check_replaced(self, kind, watched, *options, root=""):
        """The file that is mapped keeps its name; what lies in its place is not opened."""
        file = self.folder / "files" / "program"
        self.write_file(pathlib.Path(root + str(file)), "spinning_code")
        with mapper("--replace", kind, *options, file) as process:
            watch = OpenWatch(watched or file)
            self.assertIn("spinning_code", self.record(process)[1])
            self.assertFalse(watch.was_opened())

    def test_fifo(self):
        self.check_replaced("fifo", None)

    def test_device(self):
        self.check_replaced("device", None)

    def test_link(self):
        secret = self.folder / "secret"
        os.mkfifo(secret)
        self.check_replaced(f"={secret}", secret)

    def test_other_root(self):
        """In a root of its own a process names a file as a FIFO of the host is called."""
        for mounts in ([], ["--mounts"]):
            root = self.folder / f"root{len(mounts)}"
            name = self.folder / "files" / "program"
            name.parent.mkdir(exist_ok=True)
            if not name.exists():
                os.mkfifo(name)
            self.write_file(pathlib.Path(f"{root}{name}"), "code_inside")
            watch = OpenWatch(name)
            with mapper("--root", root, *mounts, name) as process:
                self.assertIn("code_inside", self.record(process)[1])
            self.assertFalse(watch.was_opened())

    def test_cut(self):
        """Its owner cuts a file while it is read."""
        file = self.folder / "file"
        self.write_file(file, "cut_code")
        with mapper("--cut", "--links", 300, file) as process:
            for _ in range(3):
                self.record(process, 0.3)

    def test_links(self):
        """Any number of names costs no sample."""
        file = self.folder / "file"
        self.write_file(file, "linked_code")
        with mapper("--links", 2000, file) as process:
            run, report = self.record(process)
        self.assertIn("linked_code", report)
        self.assertIn("(0 lost", run.err)

    def test_symbols(self):
        """Huge tables are cut off, which is said; a good file beside them has its names."""
        elf_files.write_files(self.folder / "huge", 6, 34000)
        good = self.folder / "good"
        self.write_file(good, "good_code")
        with mapper(good, *(self.folder / "huge").iterdir()) as process:
            run, report = self.record(process, 2)
        self.assertIn("left out", run.err)
        self.assertIn("good_code", report)

    def test_packed_symbols(self):
        """Symbols that take long to decompress are cut off as well, which is said of that file."""
        slow, good = self.folder / "slow", self.folder / "good"
        slow.write_bytes(elf_files.make_packed_elf(1, 60 << 20, "slow_code"))
        self.write_file(good, "good_code")
        with mapper(slow, good) as process:
            run, report = self.record(process)
        self.assertRegex(run.err, rf"left out, .*{slow}: more than \S+ s of processor time")
        self.assertIn("good_code", report)


if __name__ == "__main__":
    unittest.main()
