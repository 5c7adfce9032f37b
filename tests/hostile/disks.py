# SPDX-License-Identifier: MIT
"""Disks that cost those who read them: python3 disks.py KIND OUT N. Each is small, and its cost grows with N.

areas: N groups of LVM, each in a metadata area of its own, of 65,000 nodes. The texts share one body.
segments: N groups, each with 2,600 segments, which are looked for among many sections.
logical: N logical volumes, each with the same table of 256 partitions.
compressed: the same in a qcow2 image of clusters of 2 MiB, each of which is decompressed for a read of 1 KiB.
extents: an ext4 file system whose file 12 has N blocks with extents, each in a compressed cluster of its own."""
import argparse
import struct
import sys
import zlib

SECTOR, MIB = 512, 1 << 20
CLUSTER_BITS = 21
CLUSTER = 1 << CLUSTER_BITS
AREAS = 15  # of a physical volume
UUID = bytes(range(16))


class Disk:
    def __init__(self):
        self.parts, self.size = {}, 0

    def put(self, at, content):
        self.parts[at] = bytes(content)
        self.size = max(self.size, at + len(content))

    def content(self):
        content = bytearray(-(-(self.size + 65536) // SECTOR) * SECTOR)
        for at, part in self.parts.items():
            content[at:at + len(part)] = part
        return bytes(content)

    def put_partitions(self, at, firsts, last):
        """A GPT whose partitions begin at these sectors, and all end with `last`."""
        record, header = bytearray(SECTOR), bytearray(SECTOR)
        record[450] = 0xee
        record[510:] = b"\x55\xaa"
        header[:8] = b"EFI PART"
        struct.pack_into("<QII", header, 72, 2, len(firsts), 128)
        entries = b"".join((b"\1" * 32 + struct.pack("<QQ", first, last)).ljust(128, b"\0") for first in firsts)
        self.put(at, record)
        self.put(at + SECTOR, bytes(header) + entries)

    def put_label(self, at, volume, areas):
        """The label of a physical volume with metadata areas (offset and size)."""
        label = bytearray(SECTOR)
        label[:8], label[20:24], label[24:32] = b"LABELONE", struct.pack("<I", 32), b"LVM2 001"
        label[32:64] = b"%032d" % volume
        for i, (offset, size) in enumerate(areas):
            struct.pack_into("<QQ", label, 88 + 16 * i, offset, size)
        self.put(at, label)

    def put_area(self, at, text_at, text_size):
        area = bytearray(SECTOR)
        area[4:20] = b" LVM2 x[5A%r0N*>"
        struct.pack_into("<QQ", area, 40, text_at, text_size)
        self.put(at, area)


def make_groups(n, body):
    """N groups whose texts have an own begin, and one body. The text goes round: first its begin, then the body."""
    disk = Disk()
    n_volumes = -(-n // AREAS)
    headers = (66 + n_volumes) * SECTOR
    text = headers + n * SECTOR
    disk.put(text, b"\n" + body + b"\n")
    begins = -(-(text + len(body) + 2) // 4096) * 4096
    for volume in range(n_volumes):
        areas, start = [], (66 + volume) * SECTOR
        for i in range(volume * AREAS, min(n, (volume + 1) * AREAS)):
            header = headers + i * SECTOR
            begin = b'g{id="%06x" seqno=1 #' % i  # a comment: what is between the header and the body
            place = begins + i * 32 - header
            disk.put(header + place, begin)
            # Bytes of other headers are in the comment, where a 10 would end it.
            size = len(begin) + text + len(body) + 1 - header - SECTOR
            disk.put_area(header, place, size)
            areas.append((header - start, place + len(begin)))
        disk.put_label(start, volume, areas)
    disk.put_partitions(0, [66 + i for i in range(n_volumes)], -(-disk.size // SECTOR))
    return disk.content()


def make_areas(n):
    return make_groups(n, b"a{}" * 65000 + b"}")


def make_segments(n):
    segments = b"".join(b'segment%d{type="striped" stripe_count=1 start_extent=%d extent_count=1 stripes=["p",%d]}' %
                        (i, i, i) for i in range(2600))
    return make_groups(n, b"extent_size=8 " + b"a{}" * 16000 + b"physical_volumes{" + b"a{}" * 16000 + b'p{id="' +
                       b"%032d" % 0 + b'" pe_start=8}}logical_volumes{v{status=["VISIBLE"]' + segments + b"}}}")


def make_logical(n):
    disk = Disk()
    disk.put_partitions(4 * MIB, [2 * MIB // SECTOR - 3] * 256, 8 * MIB // SECTOR - 1)
    volumes = b"".join(b'v%d{status=["VISIBLE"]segment1{type="striped" stripe_count=1 start_extent=0 extent_count=2048 '
                       b'stripes=["p",0]}}' % i for i in range(n))
    text = (b'g{id="x" seqno=1 extent_size=8 physical_volumes{p{id="' + b"%032d" % 0 + b'" pe_start=8192}}'
            b"logical_volumes{" + volumes + b"}}")
    disk.put_label(0, 0, [(4096, 2 * MIB)])
    disk.put_area(4096, SECTOR, len(text))
    disk.put(4096 + SECTOR, text)
    disk.put(13 * MIB, b"\0")
    return disk.content()


def compress(content):
    """An image of compressed clusters. What is zeros is filled with text that takes long to decompress."""
    noise = bytes(b"abcdefgh"[i * i * 7 % 61 % 8] for i in range(4096))
    image, table = bytearray(2 * CLUSTER), []
    for at in range(0, len(content), CLUSTER):
        cluster = bytearray(content[at:at + CLUSTER].ljust(CLUSTER, b"\0"))
        for page in range(0, CLUSTER, 4096):
            if not any(cluster[page:page + 4096]):
                cluster[page:page + 4096] = noise
        packer = zlib.compressobj(9, zlib.DEFLATED, -12)
        packed = packer.compress(bytes(cluster)) + packer.flush()
        place = len(image)
        image += packed + bytes(-len(packed) % SECTOR)
        sectors = (len(image) - 1) // SECTOR - place // SECTOR
        table.append(1 << 62 | sectors << (62 - (CLUSTER_BITS - 8)) | place)
    struct.pack_into(">4sI", image, 0, b"QFI\xfb", 2)
    struct.pack_into(">IQ", image, 20, CLUSTER_BITS, len(content))
    struct.pack_into(">IQ", image, 36, 1, CLUSTER - SECTOR)
    struct.pack_into(">Q", image, CLUSTER - SECTOR, CLUSTER)
    struct.pack_into(f">{len(table)}Q", image, CLUSTER, *table)
    return bytes(image) + bytes(CLUSTER)


def make_extents(n):
    """A file whose root has 4 blocks, each of which leads to a quarter of the blocks with extents."""
    block = 4096
    disk = Disk()
    super_block, inode = bytearray(1024), bytearray(256)
    struct.pack_into("<I", super_block, 0, 64)
    struct.pack_into("<I", super_block, 24, 2)
    struct.pack_into("<I", super_block, 40, 64)
    struct.pack_into("<H", super_block, 56, 0xef53)
    struct.pack_into("<I", super_block, 76, 1)
    struct.pack_into("<HHI", super_block, 88, 256, 0, 0)
    struct.pack_into("<I", super_block, 96, 0x40)
    super_block[104:120] = UUID

    def node(depth, entries):
        return struct.pack("<HHHHI", 0xf30a, len(entries), 340, depth, 0) + b"".join(entries)

    leaves = [1 + i for i in range(n)]  # clusters, in each of which a leaf is the second block
    quarter = -(-n // 4)
    index = []
    for i in range(0, n, quarter):
        place = 16 + len(index)
        disk.put(place * block, node(1, [struct.pack("<IIHH", 8 * j, leaves[j] * (CLUSTER // block) + 1, 0, 0)
                                         for j in range(i, min(n, i + quarter))]))
        index.append(struct.pack("<IIHH", 8 * i, place, 0, 0))
    for i, leaf in enumerate(leaves):
        disk.put(leaf * CLUSTER + block, node(0, [struct.pack("<IHHI", 8 * i, 8, 0, 32)]))
    struct.pack_into("<H", inode, 0, 0x81ed)
    struct.pack_into("<I", inode, 4, n * 8 * block)
    struct.pack_into("<I", inode, 32, 0x80000)
    inode[40:40 + 12 + 12 * len(index)] = node(2, index)
    disk.put(1024, super_block)
    disk.put(block, struct.pack("<III", 0, 0, 2))  # the table of inodes is block 2
    disk.put(2 * block + 11 * 256, inode)
    return compress(disk.content())


KINDS = {"areas": make_areas, "segments": make_segments, "logical": make_logical,
         "compressed": lambda n: compress(make_logical(n)), "extents": make_extents}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out")
    parser.add_argument("n", type=int)
    options = parser.parse_args()
    with open(options.out, "wb") as file:
        file.write(KINDS[options.kind](options.n))


if __name__ == "__main__":
    sys.exit(main())
