# SPDX-License-Identifier: MIT
"""Files in images of disks, as e2fsprogs, sfdisk and qemu-img make them, read by tests/tools/drives.c."""
import functools
import lzma
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from testbed import BUILD

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hostile"))
import disks  # noqa: E402  pylint: disable=wrong-import-position

TOOL = BUILD / "tests" / "tools" / "drives-tool"
SIZE = 16 << 20
MIB = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent


def run(*words, **options):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, **options).stdout


class Images:
    """Images with the same files."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        files = cls.folder / "files"
        files.mkdir()
        noise = random.Random(1)
        (files / "small").write_bytes(b"small\n")
        (files / "large").write_bytes(noise.randbytes((3 << 20) + 77))
        (files / "text").write_bytes(b"".join(b"line %d\n" % i for i in range(100000)))
        with open(files / "holes", "wb") as file:  # whose parts are far from each other
            for at in (0, 70000, 1 << 20, 6 << 20):
                file.seek(at)
                file.write(noise.randbytes(5000))
        cls.contents = {path.name: path.read_bytes() for path in files.iterdir()}

    @classmethod
    @functools.cache
    def make_file_system(cls, *options):
        image = cls.folder / f"fs{len(list(cls.folder.iterdir()))}"
        run("truncate", "-s", SIZE, image)
        run("/sbin/mke2fs", "-q", "-F", "-d", cls.folder / "files", *options, image)
        return image

    def make_disk(self, label, script, image, start):
        disk = self.folder / f"disk{len(list(self.folder.iterdir()))}"
        run("truncate", "-s", SIZE + (8 << 20), disk)
        run("/sbin/sfdisk", "-q", "--label", label, disk, input=script.encode())
        run("dd", f"if={image}", f"of={disk}", f"seek={start}", "bs=512", "conv=notrunc,sparse")
        return disk

    def move_gpt(self, disk):
        """The same partitions, as a disk with sectors of 4096 bytes has them."""
        content = bytearray(disk.read_bytes())
        header, entries = content[512:604], content[1024:1024 + 128 * 128]
        self.assertEqual(header[:8], b"EFI PART")
        for at in range(0, len(entries), 128):
            first, last = struct.unpack_from("<QQ", entries, at + 32)
            struct.pack_into("<QQ", entries, at + 32, first // 8, max((last + 1) // 8 - 1, 0))
        content[512:1024 + 128 * 128] = bytes(512 + 128 * 128)
        content[4096:4096 + len(header)], content[8192:8192 + len(entries)] = header, entries
        disk.write_bytes(content)
        return disk

    def identify(self, image):
        """The UUID of a file system, and its files' inodes, as debugfs tells them."""
        uuid = run("/sbin/dumpe2fs", "-h", image, text=True).split("Filesystem UUID:")[1].split()[0]
        inodes = {name: int(run("/sbin/debugfs", "-R", f"stat /{name}", image, text=True).split()[1])
                  for name in self.contents}
        return uuid.replace("-", ""), inodes

    def read(self, *words):
        return subprocess.run(list(map(str, (TOOL, *words))), capture_output=True, check=False)

    def check(self, file_system, *images):
        uuid, inodes = self.identify(file_system)
        for name, content in self.contents.items():
            found = self.read(uuid, inodes[name], len(content), *images)
            self.assertEqual((found.returncode, found.stderr), (0, b""), name)
            self.assertTrue(found.stdout == content, name)

    def refuse(self, reason, file_system, *images, inode=None, size=None):
        uuid, inodes = self.identify(file_system)
        found = self.read(uuid, inode or inodes["small"], size or len(self.contents["small"]), *images)
        self.assertEqual((found.returncode, found.stdout), (1, b""))
        self.assertIn(reason, found.stderr.decode())

    def convert(self, image, *options):
        converted = self.folder / f"image{len(list(self.folder.iterdir()))}.qcow2"
        run("qemu-img", "convert", "-O", "qcow2", *options, image, converted)
        return converted


class DiskImages(Images, unittest.TestCase):
    # ---- file systems

    def test_file_systems(self):
        for options in (("-t", "ext4"), ("-t", "ext4", "-b", "1024"), ("-t", "ext4", "-O", "^64bit,^metadata_csum"),
                        ("-t", "ext4", "-b", "2048", "-I", "128"), ("-t", "ext3", "-b", "1024"),
                        ("-t", "ext2"), ("-t", "ext4", "-O", "bigalloc"), ("-t", "ext4", "-g", "1024", "-b", "1024")):
            with self.subTest(options):
                image = self.make_file_system(*options)
                self.check(image, image)

    def test_no_such_file(self):
        image = self.make_file_system("-t", "ext4")
        self.refuse("is no regular file", image, image, inode=2)
        self.refuse("is no regular file", image, image, inode=10**9)
        self.refuse("another size", image, image, size=7)

    def test_unknown(self):
        """The file system is on no disk that can be read: what there is, is told."""
        image = self.make_file_system("-t", "ext4")
        for content, reason in ((b"LUKS\xba\xbe", "it is encrypted (LUKS)"),
                                (b"XFSB", "is xfs"), (bytes(0x10040) + b"_BHRfS_M", "is btrfs")):
            disk = self.folder / "unknown"
            disk.write_bytes(content.ljust(1 << 20, b"\0"))
            self.refuse(f"{disk}: ", image, disk)
            self.refuse(reason, image, disk)
        features = self.make_file_system("-t", "ext4", "-O", "meta_bg,^resize_inode")
        self.refuse("features that are not understood", features, features)

    # ---- partitions

    def test_partitions(self):
        image = self.make_file_system("-t", "ext4")
        first = "start=2048, size=2048\n"
        self.check(image, self.make_disk("gpt", first + "start=4096\n", image, 4096))
        self.check(image, self.move_gpt(self.make_disk("gpt", "start=4096\n", image, 4096)))
        self.check(image, self.make_disk("dos", first + "start=4096\n", image, 4096))
        logical = f"x1 : {first}x2 : start=4096, type=5\nx5 : start=6144, size=1000\nx6 : start=10240\n"
        self.check(image, self.make_disk("dos", logical, image, 10240))

    # ---- logical volumes

    # What lvm2 2.03.16 has written to the begin of two physical volumes, and what its lvs says of the group:
    # LV      Start PE Ranges                 Ext
    # root        0 /dev/vdb:3-7              1.00m
    # root        5 /dev/vdc:0-5              1.00m
    # root       11 /dev/vdb:8-12             1.00m
    # striped     0 /dev/vdb:0-1 /dev/vdc:6-7 1.00m
    ROOT = ((0, 3, 5), (1, 0, 6), (0, 8, 5))

    def make_physical_volumes(self, image):
        """Two physical volumes, with a file system in the logical volume "root"."""
        content, at, volumes = image.read_bytes(), 0, []
        for i in range(2):
            begin = lzma.decompress((HERE / "lvm" / f"volume{i}.xz").read_bytes())
            volumes.append(bytearray(begin.ljust(40 * MIB, b"\0")))
        for i, extent, n in self.ROOT:
            place = (1 + extent) * MIB  # pe_start is 2048 sectors
            volumes[i][place:place + n * MIB] = content[at:at + n * MIB]
            at += n * MIB
        return volumes

    def write_disks(self, volumes):
        paths = []
        for volume in volumes:
            paths.append(self.folder / f"volume{len(list(self.folder.iterdir()))}")
            paths[-1].write_bytes(volume)
        return paths

    def test_logical_volumes(self):
        image = self.make_file_system("-t", "ext4")
        first, second = self.write_disks(self.make_physical_volumes(image))
        self.check(image, second, first)
        partitioned = self.folder / "partitioned"
        run("truncate", "-s", "48M", partitioned)
        run("/sbin/sfdisk", "-q", "--label", "dos", partitioned,
            input=b"x1 : start=2048, size=2048\nx2 : start=4096, type=5\nx5 : start=6144, type=8e\n")
        run("dd", f"if={first}", f"of={partitioned}", "seek=6144", "bs=512", "conv=notrunc,sparse")
        self.check(image, partitioned, second)
        self.refuse("debian-vg/root: a disk of its group is missing", image, first)
        self.refuse("debian-vg/striped: it is not linear", image, first)

    def test_description_of_volumes(self):
        """The newest text counts; it goes round at the end of its area; what is damaged is left out."""
        image = self.make_file_system("-t", "ext4")
        first, second = self.make_physical_volumes(image)
        area, = struct.unpack_from("<Q", first, 512 + 32 + 40 + 2 * 16)
        at, size = struct.unpack_from("<QQ", first, area + 40)
        text = bytes(first[area + at:area + at + size])
        self.assertTrue(text.startswith(b"debian-vg {"))
        older = text.replace(b"seqno = 8", b"seqno = 7").replace(b"start_extent = 5", b"start_extent = 9")
        self.assertNotEqual(older, text)
        end, = struct.unpack_from("<Q", first, area + 32)
        first[area + at:area + at + size] = bytes(size)
        first[area + end - 777:area + end] = text[:777]
        first[area + 512:area + 512 + size - 777] = text[777:]
        struct.pack_into("<Q", first, area + 40, end - 777)
        second[area + at:area + at + size] = older
        self.check(image, *self.write_disks((second, first)))
        second[area + at:area + at + size] = text[:-200].ljust(size, b"{")
        self.check(image, *self.write_disks((second, first)))
        first[area + end - 777:area + end - 767] = b"}" * 10
        self.refuse("none of the disks", image, *self.write_disks((second, first)))

    def describe_volumes(self, volumes):
        """The begin of a physical volume whose group has these volumes. Its extents of 1 MiB begin at 1 MiB."""
        disk = disks.Disk()
        text = (b'vg{id="x" seqno=1 extent_size=2048 physical_volumes{pv0{id="' + b"%032d" % 0 +
                b'" pe_start=2048}}logical_volumes{' + volumes + b"}}")
        disk.put_label(512, 0, [(4096, 65536)])
        disk.put_area(4096, 512, len(text))
        disk.put(4096 + 512, text)
        return disk.content().ljust(MIB, b"\0")

    @staticmethod
    def describe_linear(name, status, first=0):
        return (f'{name}{{status=[{status}] segment1{{start_extent=0 extent_count=16 type="striped" stripe_count=1 '
                f'stripes=["pv0",{first}]}}}}').encode()

    def test_thin_volume(self):
        """The data of a pool look like a file system, but its blocks lie elsewhere."""
        image = self.make_file_system("-t", "ext4")
        thin = (b'root{status=["VISIBLE"] segment1{start_extent=0 extent_count=16 type="thin" thin_pool="pool" '
                b'device_id=1}}pool{status=["VISIBLE"] segment1{start_extent=0 extent_count=16 type="thin-pool" '
                b'metadata="pool_tmeta" pool="pool_tdata"}}')
        for status in ('"READ", "WRITE"', '"READ", "VISIBLE"'):  # also one that only its use shows
            disk, = self.write_disks([self.describe_volumes(thin + self.describe_linear("pool_tdata", status)) +
                                      image.read_bytes()])
            self.refuse("vg/root: it is a thin volume, which is not read", image, disk)
        plain = self.describe_linear("pool_tdata", '"READ", "VISIBLE"')
        self.check(image, *self.write_disks([self.describe_volumes(plain) + image.read_bytes()]))

    def test_snapshot(self):
        """The origin of a snapshot is read, but not where the snapshot keeps what was changed."""
        image = self.make_file_system("-t", "ext4")
        for origin, store in (("root", "snap"), ("snap", "root")):
            text = (self.describe_linear("root", '"VISIBLE"') + self.describe_linear("snap", '"VISIBLE"', 16) +
                    f'snapshot0{{status=["READ"] segment1{{type="snapshot" origin="{origin}" '
                    f'cow_store="{store}"}}}}'.encode())
            disk, = self.write_disks([self.describe_volumes(text) + image.read_bytes()])
            if origin == "root":
                self.check(image, disk)
            else:
                self.refuse("on none of the disks", image, disk)

    # ---- copies of disks, and disks that cost those who read them

    def test_copies(self):
        """Of disks with the same UUID each can be read: who asks for a file chooses by its bytes."""
        image = self.make_file_system("-t", "ext4")
        changed = image.read_bytes().replace(b"line 12345\n", b"LINE 12345\n")
        uuid, inodes = self.identify(image)
        content = self.contents["text"]
        other = content.replace(b"line 12345\n", b"LINE 12345\n")
        text = self.describe_volumes(self.describe_linear("root", '"VISIBLE"'))
        for begin in (b"", text):
            paths = self.write_disks([begin + changed, begin + image.read_bytes()])
            found = [self.read("-c", i, uuid, inodes["text"], len(content), *paths) for i in range(3)]
            self.assertEqual({copy.stdout for copy in found[:2]}, {content, other})
            self.assertIn(b"it has no more copies", found[2].stderr)

    def test_hostile_disks(self):
        """A disk that costs much costs nothing of another one, and what was left out is said."""
        image = self.make_file_system("-t", "ext4")
        uuid, inodes = self.identify(image)
        content = self.contents["large"]
        for kind, n in (("areas", 60), ("segments", 15), ("logical", 400), ("compressed", 400)):
            hostile = self.folder / f"{kind}-{n}"
            hostile.write_bytes(disks.KINDS[kind](n))
            for options in ((), ("-j",)):
                with self.subTest(kind, options=options):
                    found = self.read(*options, uuid, inodes["large"], len(content), hostile, image)
                    self.assertEqual((found.returncode, found.stdout == content), (0, True), found.stderr)
                    self.assertIn(f"left out: the guest's disk {hostile}: more than", found.stderr.decode())

    def test_many_blocks_with_extents(self):
        """Only those of the blocks that are read are looked at; the budget ends a read of all."""
        hostile = self.folder / "extents"
        hostile.write_bytes(disks.make_extents(400))
        size = 400 * 8 * 4096
        found = self.read("-s", disks.UUID.hex(), 12, size, hostile)
        self.assertEqual(found.returncode, 1)
        self.assertIn("left out: the guest's disk", found.stderr.decode())
        few = self.folder / "few"
        few.write_bytes(disks.make_extents(8))
        found = self.read(disks.UUID.hex(), 12, 8 * 8 * 4096, few)
        self.assertEqual((found.returncode, len(found.stdout)), (0, 8 * 8 * 4096), found.stderr)

    def test_steps(self):
        """Twice as much costs at most twice as many steps and a little."""
        for kind, n in (("areas", 2), ("segments", 2), ("logical", 20), ("compressed", 20), ("extents", 4)):
            costs = []
            for i in (n, 2 * n):
                disk = self.folder / "doubled"
                disk.write_bytes(disks.KINDS[kind](i))
                found = self.read("-s", disks.UUID.hex(), 12, i * 8 * 4096, disk).stderr.decode()
                costs.append(int(re.search(r"(\d+) steps", found)[1]))
            with self.subTest(kind, costs=costs):
                self.assertLess(costs[1], 2.2 * costs[0])

    def test_in_a_jail(self):
        image = self.make_file_system("-t", "ext4")
        first, second = self.write_disks(self.make_physical_volumes(image))
        uuid, inodes = self.identify(image)
        for paths in ((image,), (second, first), (self.convert(image, "-c"),)):
            for name, content in self.contents.items():
                found = self.read("-j", uuid, inodes[name], len(content), *paths)
                self.assertEqual((found.returncode, found.stderr, found.stdout == content), (0, b"", True))

    # ---- images

    def test_qcow2(self):
        image = self.make_file_system("-t", "ext4")
        for options in (("-o", "compat=0.10"), ("-o", "cluster_size=512"), ("-o", "cluster_size=2M"),
                        ("-c",), ("-c", "-o", "compression_type=zstd"), ("-c", "-o", "cluster_size=4k"),
                        ("-o", "lazy_refcounts=on,preallocation=metadata")):
            with self.subTest(options):
                self.check(image, self.convert(image, *options))

    def test_based_on_another(self):
        """A file is written to the upper image only, and to the file that it is based on something else."""
        image = self.make_file_system("-t", "ext4")
        changed = self.folder / "changed"
        run("cp", image, changed)
        run("/sbin/debugfs", "-w", "-R", "clri /small", changed)
        for base in (changed, self.convert(changed, "-c")):
            kind = "qcow2" if base.suffix else "raw"
            top = self.folder / f"top{len(list(self.folder.iterdir()))}"
            run("qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", base.name, top)
            self.refuse("is no regular file", image, top, base)
            # What is different is written over it: now it is as the whole image.
            run("qemu-io", "-f", "qcow2", "-c", f"write -s {image} 0 {SIZE}", top)
            self.check(image, base, top)
            self.refuse("it is based on", image, top)


if __name__ == "__main__":
    unittest.main()
