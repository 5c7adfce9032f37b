#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A core file of a Linux guest in which each of many words is a task.

Usage: task_flood.py VMSCOPE CORE OUT WORDS

Each word points to the next one, so it is a node of the list of processes and of every process's
list of threads. CORE is one of x86-64 that "vmscope core" has written; zeros in it are overwritten.
"""
import json
import mmap
import shutil
import struct
import subprocess
import sys

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
PT_LOAD = 1
PAGE = 4096


def read_segments(core):
    """(file offset, virtual address, size) of what is in the file."""
    header = HEADER.unpack_from(core, 0)
    offset, size, number = header[5], header[9], header[10]
    segments = []
    for i in range(number):
        kind, _, at, va, _, in_file, _, _ = SEGMENT.unpack_from(core, offset + i * size)
        if kind == PT_LOAD and in_file:
            segments.append((at, va, in_file))
    return segments


def find_place(segments, va):
    """The file offset of a virtual address."""
    for at, begin, size in segments:
        if begin <= va < begin + size:
            return at + va - begin
    raise ValueError(f"0x{va:x} is not in the core")


def find_tasks_member(core, segments, init_task, tasks):
    """The offset of task_struct.tasks: the next node of init_task's is that of another task."""
    place = find_place(segments, init_task)
    for offset in range(0, PAGE, 8):
        node = struct.unpack_from("<Q", core, place + offset)[0]
        if node - offset in tasks:
            return offset
    raise ValueError("init_task has no list of tasks")


def find_zeros(core, segments, size):
    """(file offset, virtual address) of so many bytes that are all zero."""
    for at, va, length in segments:
        begin = at
        for page in range(at, at + length - PAGE, PAGE):
            if any(core[page:page + PAGE]):
                begin = page + PAGE
            elif page + PAGE - begin >= size:
                return begin, va + begin - at
    raise ValueError(f"there are no {size} bytes of zeros in the core")


def main():
    vmscope, source, target, words = *sys.argv[1:4], int(sys.argv[4])
    symbols = subprocess.run([vmscope, "symbol", "init_task", "--json", "-c", source], check=True,
                             stdout=subprocess.PIPE).stdout
    init_task = int(json.loads(symbols)[0]["address"], 16)
    listed = subprocess.run([vmscope, "ps", "--json", "-c", source], check=True,
                            stdout=subprocess.PIPE).stdout
    tasks = {int(row["task"], 16) for row in json.loads(listed)}
    shutil.copyfile(source, target)
    with open(target, "r+b") as file, mmap.mmap(file.fileno(), 0) as core:
        segments = read_segments(core)
        member = find_tasks_member(core, segments, init_task, tasks)
        place, va = find_zeros(core, segments, (words + 2 * PAGE) * 8)
        for i in range(words):
            struct.pack_into("<Q", core, place + i * 8, va + (i + 1) * 8)
        struct.pack_into("<Q", core, find_place(segments, init_task) + member, va + PAGE)


main()
