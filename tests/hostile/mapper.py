#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A process that maps files and executes in them. Usage: mapper.py [OPTION]... FILE...

--root DIR       goes into DIR as its root, after the files' names were taken inside of it
--mounts         has a mount namespace of its own, where DIR (--root) is a file system of its own
--replace KIND   replaces each file once it is mapped: by a "fifo", a "device" (that of /dev/null), or
                 "=TARGET", a link
--cut            cuts the first file and writes it again, for ever
--links N        makes N hard links of the first file, whose names collide, and maps each of them
Prints "ready".
"""
import argparse
import contextlib
import ctypes
import mmap
import os
import resource
import stat
import threading
import time

CODE_AT = 0x1000
CLONE_NEWNS = 0x20000


def map_file(path):
    fd = os.open(path, os.O_RDONLY)
    mapped = mmap.mmap(fd, 0x2000, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC | mmap.PROT_WRITE)
    os.close(fd)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    return mapped, ctypes.CFUNCTYPE(None, ctypes.c_long)(address + CODE_AT)


def replace(path, kind):
    os.unlink(path)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    else:
        os.symlink(kind[1:], path)


def colliding_name(number):
    """A name for each number, all of one hash by h * 33 + c."""
    return "".join("b@" if number >> bit & 1 else "aa" for bit in range(16))


def cut_for_ever(path, data):
    fd = os.open(path, os.O_RDWR)
    while True:
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)


def main():
    parser = argparse.ArgumentParser()
    for option in ("--root", "--replace"):
        parser.add_argument(option)
    parser.add_argument("--links", type=int, default=0)
    for option in ("--mounts", "--cut"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # each mapping has a descriptor in Python
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if options.mounts:
        libc = ctypes.CDLL(None, use_errno=True)
        contents = {file: open(options.root + file, "rb").read() for file in options.files}
        if (libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None)
                or libc.mount(b"tmpfs", options.root.encode(), b"tmpfs", 0, None)):
            raise OSError(ctypes.get_errno(), "a mount namespace")
        for file, data in contents.items():
            os.makedirs(os.path.dirname(options.root + file), exist_ok=True)
            with open(options.root + file, "wb") as out:
                out.write(data)
    if options.root:
        os.chroot(options.root)
        os.chdir("/")
    first = options.files[0]
    with open(first, "rb") as file:
        data = file.read()
    if options.cut:
        mapped = []
        threading.Thread(target=cut_for_ever, args=(first, data), daemon=True).start()
    else:
        mapped = [map_file(path) for path in options.files]
    links = []
    for i in range(options.links):
        name = first + "-" + colliding_name(i)
        os.link(first, name)
        fd = os.open(name, os.O_RDONLY)
        while len(links) == i:
            with contextlib.suppress(ValueError):  # the file is cut just now
                links.append(mmap.mmap(fd, 0x2000, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
        os.close(fd)
    if options.replace:
        for path in options.files:
            replace(path, options.replace)
    print("ready", flush=True)
    while True:
        for _, code in mapped:
            end = time.monotonic() + 0.04
            while time.monotonic() < end:
                code(1000000)
        if not mapped:
            time.sleep(0.01)


if __name__ == "__main__":
    main()
