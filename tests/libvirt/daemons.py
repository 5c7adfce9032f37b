# SPDX-License-Identifier: MIT
"""A libvirt of our own: its daemons run in a private directory and a mount namespace.

All that libvirt keeps (/run, /var/lib, /var/log, /var/cache, /etc/libvirt) is empty and private to
these daemons and to the QEMUs that they start. A libvirt that the host runs is never touched, nor
does ours see the host's firewall: of its drivers it has the one for QEMU alone.
"""
import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import testbed

DRIVERS = pathlib.Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver")
PROGRAMS = ("libvirtd", "virtlogd", "virsh", "qemu-img", "unshare")
START_SECONDS = 30
VIRSH_SECONDS = 120  # generous: the machine may be busy

LIBVIRTD = """\
unix_sock_dir = "{directory}"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
admin_min_workers = 1
log_outputs = "3:file:{directory}/libvirtd.log"
"""
# libvirt's defaults, as far as they need neither systemd nor a security module. The sandbox of
# system calls and the private /dev of each QEMU are among them.
QEMU = """\
security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = []
remember_owner = 0
"""
# libvirtd does not start without the account that Debian's libvirt-daemon-system creates.
ACCOUNT = {"passwd": "libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin\n",
           "group": "libvirt-qemu:x:64055:\n"}


def missing():
    """The programs that are not installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [name for name in PROGRAMS if not shutil.which(name, path=path)]


class Libvirt:
    """libvirtd and virtlogd. `directory` holds what belongs to the tests, too."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vmscope-libvirt-"))
        self._processes = []
        atexit.register(self.stop)
        configuration = self.directory / "etc"
        drivers = self.directory / "drivers"
        configuration.mkdir()
        drivers.mkdir()
        (drivers / "libvirt_driver_qemu.so").symlink_to(DRIVERS / "libvirt_driver_qemu.so")
        (configuration / "libvirtd.conf").write_text(LIBVIRTD.format(directory=self.directory))
        (configuration / "qemu.conf").write_text(QEMU)
        for name, line in ACCOUNT.items():
            (self.directory / name).write_text(pathlib.Path("/etc", name).read_text() + line)
        (configuration / "virtlogd.conf").write_text(
            f'log_outputs = "3:file:{self.directory}/virtlogd.log"\n')
        self.uri = f"qemu+unix:///system?socket={self.directory}/libvirt-sock"
        self._start(f"""
            for directory in /run /var/lib /var/log /var/cache; do
                mount -t tmpfs tmpfs $directory
            done
            mount --bind {configuration} /etc/libvirt
            mount --bind {self.directory}/passwd /etc/passwd
            mount --bind {self.directory}/group /etc/group
            mkdir -p /run/libvirt /run/lock
            virtlogd --pid-file {self.directory}/virtlogd.pid &
            while [ ! -S /run/libvirt/virtlogd-sock ]; do sleep 0.05; done
            exec libvirtd --pid-file {self.directory}/libvirtd.pid
            """, LIBVIRT_DRIVER_DIR=str(drivers))
        testbed.wait_for(self._answers, "libvirtd to answer", START_SECONDS)

    def _start(self, script, **environment):
        with open(self.directory / "daemons.log", "w") as log:
            self._processes.append(subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
                env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=testbed.die_with_parent))

    def _answers(self):
        if self._processes[0].poll() is not None:
            raise RuntimeError(f"libvirtd did not start: {self.log()}")
        return self.run("uri").returncode == 0

    def log(self):
        return "\n".join(path.read_text(errors="replace")
                         for path in sorted(self.directory.glob("*.log")))

    def run(self, *arguments):
        """virsh, whatever comes of it."""
        return subprocess.run(["virsh", "-q", "-c", self.uri, *map(str, arguments)], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=VIRSH_SECONDS)

    def virsh(self, *arguments):
        """What virsh prints; raises with what it says when it fails."""
        run = self.run(*arguments)
        if run.returncode:
            raise RuntimeError(f"virsh {' '.join(map(str, arguments))}: {run.stdout.strip()}")
        return run.stdout.strip()

    def stop(self):
        if not self._processes:
            return
        for domain in self.run("list", "--name").stdout.split():
            self.run("destroy", domain)
        for name in ("libvirtd", "virtlogd"):
            try:
                os.kill(int((self.directory / f"{name}.pid").read_text()), signal.SIGTERM)
            except (FileNotFoundError, ValueError, ProcessLookupError):
                pass
        for process in self._processes:
            process.wait(START_SECONDS)
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)
