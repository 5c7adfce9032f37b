# SPDX-License-Identifier: MIT
"""A guest that is a whole Debian, made by scripts/setup --debian-guest: systemd, servers, interpreters."""
import shutil
import subprocess
import tempfile
import unittest

import linux_guest
from testbed import GUESTS, KERNELS, build_guests

IMAGES = KERNELS.parent / "debian-guest"
FIRST_BYTE = 2048 * 512  # of the file system, on its disk

# What the programs of the guest do all the time, by the name of the program that shows in a sample.
WORK = {
    "nginx": "while :; do ab -q -n 2000 -c 4 http://127.0.0.1/ >/dev/null; done",
    "redis-server": "while :; do redis-benchmark -q -n 5000 -c 4 >/dev/null; done",
    "python3": "python3 -c 'while 1: sorted(str(n) for n in range(20000)); \"xaab\" in \"ab\" * 9999'",
    "sqlite3": "while :; do printf 'create table t(a,b); with recursive c(x) as (select 1 union all"
               " select x+1 from c where x<20000) insert into t select x, hex(x*x) from c; select"
               " count(distinct b) from t order by a;' | sqlite3 >/dev/null; done",
    "openssl": "while :; do openssl speed -seconds 1 sha256 rsa1024 >/dev/null 2>&1; done",
}


def has_debian():
    return (IMAGES / "disk.img").exists()


needs_debian = unittest.skipUnless(has_debian(), "scripts/setup --debian-guest has not been run")


class DebianGuest(linux_guest.CommandedGuest):
    """Its disk is the image itself; what it writes there is dropped with it."""

    def __init__(self, **options):
        build_guests()
        self._tests = tempfile.NamedTemporaryFile(prefix="vmscope-tests-", suffix=".img")
        programs = tempfile.mkdtemp(prefix="vmscope-tests-")
        try:
            for name in ("agent", "workload", "probed"):
                shutil.copy(GUESTS / name, programs)
            subprocess.run(["/sbin/mkfs.ext4", "-q", "-O", "^has_journal", "-d", programs,
                            self._tests.name, "32M"], check=True)
        finally:
            shutil.rmtree(programs)
        options.setdefault("memory", 1024)
        super().__init__(
            "-kernel", IMAGES / "vmlinuz", "-initrd", IMAGES / "initrd.img",
            "-append", "root=/dev/vda1 ro console=ttyS0 quiet panic=-1 no_timer_check",
            "-drive", f"file={IMAGES / 'disk.img'},format=raw,if=virtio,snapshot=on",
            "-drive", f"file={self._tests.name},format=raw,if=virtio,readonly=on", **options)
        self.wait_ready()

    def stop(self):
        super().stop()
        self._tests.close()

    def start_work(self, *names):
        """Has programs work until the guest ends: those of WORK, or some of them."""
        for name in names or WORK:
            self.run(f"( {WORK[name]} ) >/dev/null 2>&1 </dev/null &")
