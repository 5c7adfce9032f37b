# SPDX-License-Identifier: MIT
"""What the integration tests stand on: where things lie, how long to wait, what this host has."""
import ctypes
import fcntl
import functools
import os
import pathlib
import signal
import subprocess
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VMSCOPE_BUILD", ROOT / "build"))
VMSCOPE = BUILD / "cli" / "vmscope"
GUESTS = BUILD / "guests"
KERNELS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"),
                       "vmscope", "kernels")
QEMU_NEW = KERNELS.parent / "qemu-new" / "qemu-system-x86_64"  # of plugin API 7, where it could be had
SERIES = ("6.1", "6.12")
NEWEST = "sid"  # Debian's, whichever it is, where it could be had
BOOT_SECONDS = 180  # generous: a loaded machine must not fail a test
ANSWER_SECONDS = 60

_libc = ctypes.CDLL(None, use_errno=True)


@functools.cache
def build_guests():
    """Brings the test guests up to date. Test runs that begin at the same time take turns."""
    GUESTS.mkdir(parents=True, exist_ok=True)
    with open(GUESTS / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", str(ROOT / "tests" / "guests"), f"OUT={GUESTS}"],
                       check=True)


def wait_for(condition, what, seconds=ANSWER_SECONDS):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def die_with_parent():
    """Run in a child before its program: it is killed when its parent ends."""
    pr_set_pdeathsig = 1
    _libc.prctl(pr_set_pdeathsig, signal.SIGKILL)


def path_of(file):
    """By which other processes can open a file of ours that has no name."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def has_newest():
    return (KERNELS / NEWEST / "release").exists()


needs_newest = unittest.skipUnless(has_newest(), "scripts/setup could not get Debian sid's kernel")


def have_kvm():
    return os.access("/dev/kvm", os.R_OK | os.W_OK)
