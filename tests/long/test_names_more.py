# SPDX-License-Identifier: MIT
"""Names of programs: what takes long of test_debug_files.py, test_made_code.py and test_disk_images.py."""
import random
import shutil
import threading
import unittest

import test_debug_files
import test_disk_images
import test_made_code
from test_debug_files import serve
from test_made_code import NAME
from vmscope_command import vmscope


class Servers(test_debug_files.Stripped, unittest.TestCase):
    @unittest.skipUnless(shutil.which("debuginfod-find"), "there is no debuginfod-find")
    def test_server_that_is_gone_or_hangs(self):
        with serve(lambda _path: None) as (url, _asked):
            pass
        self.check_missing(self.ask_server(url))
        answers = threading.Event()
        with serve(lambda _path: answers.wait() and None) as (url, asked):
            self.check_missing(self.ask_server(url, DEBUGINFOD_TIMEOUT="1"))
            self.assertTrue(asked)
            answers.set()

    @unittest.skipUnless(shutil.which("debuginfod-find"), "there is no debuginfod-find")
    def test_server_that_answers_nonsense(self):
        for content in (b"no such thing", b""):
            with serve(lambda _path, content=content: content) as (url, asked):
                self.check_missing(self.ask_server(url))
                self.assertTrue(asked)


class MadeCodeElsewhere(test_made_code.MadeCode612):
    def test_namespace(self):
        """A program that is its namespace's first process writes another number, in a folder of its own."""
        self.start("unshare -p -f -m sh -c 'mount -t tmpfs none /tmp && exec makes_code'")
        self.check_names("/tmp/perf-1.map")

    def test_without_map(self):
        pid = self.start("makes_code")
        self.guest.run(f"rm /tmp/perf-{pid}.map")
        text = vmscope("sample", "-t", "1", "--facts", "none", *self.guest.target).out
        self.assertIn(f"makes_code ({pid})", text)
        self.assertNotIn(NAME, text)


class MadeCode61(MadeCodeElsewhere):
    """Directories are other lists there."""
    series = "6.1"


class MadeCodeAarch64(test_made_code.MadeCode612):
    arch = "aarch64"


class MoreImages(test_disk_images.Images, unittest.TestCase):
    def test_images_that_cannot_be_read(self):
        image = self.make_file_system("-t", "ext4")
        data = self.folder / "data"
        self.refuse("the image is encrypted", image, self.convert(
            image, "--object", "secret,id=s,data=abc", "-o", "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10"))
        self.refuse("has its data in another file", image, self.convert(image, "-o", f"data_file={data}"))
        self.refuse("has subclusters", image, self.convert(image, "-o", "extended_l2=on"))

    def test_damaged(self):
        """Whatever is written over an image, reading it ends, and gives nothing but its bytes or a reason."""
        image = self.make_file_system("-t", "ext4", "-b", "1024")
        uuid, inodes = self.identify(image)
        noise = random.Random(2)
        for source in (image, self.convert(image, "-c", "-o", "cluster_size=4k")):
            content = bytearray(source.read_bytes())
            disk = self.folder / "damaged"
            for _ in range(20):
                damaged = bytearray(content)
                for _ in range(200):
                    damaged[noise.randrange(1100, min(len(damaged), 300000))] = noise.randrange(256)
                disk.write_bytes(damaged)
                found = self.read(uuid, inodes["large"], len(self.contents["large"]), disk)
                self.assertIn(found.returncode, (0, 1), found.stderr)


if __name__ == "__main__":
    unittest.main()
