#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small ELF files with huge symbol tables. Usage: elf_files.py FOLDER N SYMBOLS [LENGTH]

Writes FOLDER/0 to FOLDER/N-1. Each has code at 0x1000, `dec rdi; jnz; ret`, and SYMBOLS functions
that all share one name of LENGTH bytes, so that a file of 24 bytes a symbol has names of gigabytes.
"""
import lzma
import pathlib
import struct
import sys
import zlib

CODE = bytes.fromhex("48ffcf75fbc3")
NOTE_AT, CODE_AT, SYMBOLS_AT = 0x200, 0x1000, 0x2000


def section(kind, flags, at, size, link=0, entry=0, address=0):
    return struct.pack("<IIQQQQIIQQ", 0, kind, flags, address, at, size, link, 0, 1, entry)


def make_elf(number, symbols, length, name=None):
    name = name or "%04d" % number + "a" * (length - 4)
    strings = b"\0" + name.encode() + b"\0"
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + struct.pack("<Q12x", number + 1)
    table = bytes(24) + b"".join(struct.pack("<IBBHQQ", 1, 0x12, 0, 1, CODE_AT + i % 0x1000, 0x1000)
                                 for i in range(symbols))
    strings_at = SYMBOLS_AT + len(table)
    headers_at = -(-(strings_at + len(strings)) // 8) * 8
    sections = (bytes(64) + section(1, 6, CODE_AT, 0x1000, address=CODE_AT)
                + section(2, 0, SYMBOLS_AT, len(table), 3, 24) + section(3, 0, strings_at, len(strings)))
    segments = (struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x2000, 0x2000, 0x1000)
                + struct.pack("<IIQQQQQQ", 4, 4, NOTE_AT, NOTE_AT, NOTE_AT, len(note), len(note), 4))
    header = (b"\x7fELF\2\1\1" + bytes(9)
              + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, CODE_AT, 64, headers_at, 0, 64, 56, 2, 64, 4, 0))
    data = bytearray(headers_at + len(sections))
    for at, part in ((0, header), (64, segments), (NOTE_AT, note), (CODE_AT, CODE), (SYMBOLS_AT, table),
                     (strings_at, strings), (headers_at, sections)):
        data[at:at + len(part)] = part
    return bytes(data)


def make_packed(size):
    """An xz stream, without its end, of chunks of 13 bytes, each of which makes the reader forget all that it
    has learned: what comes out is small, and takes a hundred times as long as usual."""
    chunk = lzma.compress(b"a" * 40, format=lzma.FORMAT_RAW, filters=[
        {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20, "lc": 4, "lp": 0, "pb": 0}])
    chunk = chunk[:int.from_bytes(chunk[3:5], "big") + 7]  # without the end
    block = b"\2\0\x21\1\x10\0\0\0"
    stream = b"\xfd7zXZ\0\0\0" + struct.pack("<I", zlib.crc32(b"\0\0"))
    stream += block + struct.pack("<I", zlib.crc32(block)) + chunk
    return stream + (b"\xc0" + chunk[1:]) * (size // len(chunk))


def make_packed_elf(number, size, name):
    """A file with the code, whose symbols are in such a stream."""
    data = bytearray(make_elf(number, 0, 0, name))
    packed, names = make_packed(size), b"\0.gnu_debugdata\0"
    packed_at = len(data)
    names_at = packed_at + len(packed)
    headers = bytes(64)
    for word, kind, at, part in ((1, 1, packed_at, packed), (0, 3, names_at, names)):
        headers += struct.pack("<IIQQQQIIQQ", word, kind, 0, 0, at, len(part), 0, 0, 1, 0)
    struct.pack_into("<Q", data, 40, names_at + len(names))
    struct.pack_into("<HHH", data, 58, 64, 3, 2)
    return bytes(data + packed + names + headers)


def write_files(folder, n, symbols, length=4000):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    for number in range(n):
        (folder / str(number)).write_bytes(make_elf(number, symbols, length))


if __name__ == "__main__":
    write_files(sys.argv[1], *map(int, sys.argv[2:]))
