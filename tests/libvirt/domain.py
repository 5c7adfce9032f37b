# SPDX-License-Identifier: MIT
"""A libvirt domain under TCG with a Linux guest, as docs/libvirt.md tells libvirt's users to define it.

Every question has two answers here: what libvirt believes and what QEMU says.
"""
import json
import re
import subprocess
import time
from xml.sax.saxutils import quoteattr

import linux_guest
import testbed

NAME = "vmscope-test"
DISK_SIZE = "64M"
SETTLE_SECONDS = 10  # libvirt learns by events
SETTLE_EVENTS_SECONDS = 0.3
EVENT = re.compile(rb"^event 'lifecycle' for domain '[^']*': (\w+)", re.M)
# What `virsh domstate` calls QEMU's states. A domain whose memory was saved may stay where that ended.
STATES = {"running": "running", "paused": "paused", "postmigrate": "paused", None: "shut off"}

XML = """\
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='MiB'>256</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{kernel}</kernel>
    <initrd>{initrd}</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 no_timer_check workload=mix</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='{disk}'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <serial type='file'><source path='{directory}/serial.log' append='on'/></serial>
    <channel type='unix'>
      <source mode='bind' path='{directory}/port'/>
      <target type='virtio' name='port'/>
    </channel>
    <memballoon model='none'/>
  </devices>
  <qemu:commandline>
{arguments}
  </qemu:commandline>
</domain>
"""


class Events:
    """The lifecycle events, as virsh hears of them."""

    def __init__(self, libvirt):
        self._path = libvirt.directory / "events.log"
        with open(self._path, "w") as log:
            self._process = subprocess.Popen(
                ["virsh", "-c", libvirt.uri, "event", "--event", "lifecycle", "--loop"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def names(self, since=0):
        """Those that have arrived, but for the first `since`."""
        return [name.decode() for name in EVENT.findall(self._path.read_bytes())[since:]]

    def settled_names(self, since):
        """Those that arrive until none has come for a while."""
        names = None
        while names != (names := self.names(since)):
            time.sleep(SETTLE_EVENTS_SECONDS)
        return names

    def stop(self):
        self._process.terminate()
        self._process.wait()


class Domain:
    """The domain, defined and running. `agent`: vmscope's agent is in its QEMU."""

    def __init__(self, libvirt, agent, series="6.1"):
        self.libvirt = libvirt
        self.directory = libvirt.directory
        self.qmp_path = self.directory / "qmp"
        self.disk = self.directory / "disk.qcow2"
        self._shell = None
        arguments = ["-qmp", f"unix:{self.qmp_path},server=on,wait=off"]
        if agent:
            arguments += ["-plugin", f"{testbed.BUILD}/agent/libvmscope-agent-api4.so,"
                                     f"socket={self.directory}/agent"]
        release = (testbed.KERNELS / series / "release").read_text().strip()
        self._xml = XML.format(
            name=NAME, disk=self.disk, directory=self.directory,
            kernel=testbed.KERNELS / series / "boot" / f"vmlinuz-{release}",
            initrd=testbed.GUESTS / f"initramfs-{series}.gz",
            arguments="\n".join(f"    <qemu:arg value={quoteattr(argument)}/>"
                                for argument in arguments))
        self.events = Events(libvirt)
        self.start()
        testbed.wait_for(lambda: "Started" in self.events.names(), "libvirt's events to arrive")

    def virsh(self, command, *arguments):
        return self.libvirt.virsh(command, NAME, *arguments)

    # ---- its life ------------------------------------------------------------

    def start(self):
        """Boots the guest from an empty disk, whatever became of it before."""
        self.remove()
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", self.disk, DISK_SIZE],
                       check=True)
        definition = self.directory / "domain.xml"
        definition.write_text(self._xml)
        self.libvirt.virsh("define", definition)
        self.boot()

    def boot(self):
        (self.directory / "serial.log").unlink(missing_ok=True)
        self.virsh("start")
        self.wait_booted(1)
        self.chardevs = self.query_chardevs()

    def boots(self):
        """How often the guest has booted since boot()."""
        return (self.directory / "serial.log").read_bytes().count(b"READY")

    def wait_booted(self, boots):
        testbed.wait_for(lambda: self.boots() >= boots, "the guest to boot", testbed.BOOT_SECONDS)

    def remove(self):
        """Ends and forgets the domain, with its saved states and snapshots."""
        self.disconnect()
        self.libvirt.run("destroy", NAME)
        self.libvirt.run("undefine", NAME, "--managed-save", "--snapshots-metadata")
        for pattern in ("disk*", "saved*", "memory*"):
            for path in self.directory.glob(pattern):
                path.unlink()

    def stop(self):
        self.remove()
        self.events.stop()

    # ---- what libvirt and QEMU say ----------------------------------------------

    def query(self, command, **arguments):
        """Asks QEMU through libvirt's own monitor: the second one is vmscope's."""
        request = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        answer = json.loads(self.virsh("qemu-monitor-command", json.dumps(request)))
        if "error" in answer:
            raise RuntimeError(f"QMP {command}: {answer['error']['desc']}")
        return answer["return"]

    def query_chardevs(self):
        """By their labels. QEMU's first gdb stub brings one without a name that QEMU keeps for ever."""
        return sorted(chardev["label"] for chardev in self.query("query-chardev")
                      if not chardev["label"].startswith("#chr"))

    def settled_state(self):
        """The state that libvirt and QEMU agree on, in libvirt's words; raises where they do not."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            believed = self.virsh("domstate")
            actual = self.query("query-status")["status"] if believed != "shut off" else None
            if STATES.get(actual) == believed:
                return believed
            if time.monotonic() > deadline:
                raise AssertionError(f"libvirt believes '{believed}', QEMU says '{actual}'")
            time.sleep(0.1)

    # ---- what the guest shows -----------------------------------------------------

    def disconnect(self):
        if self._shell:
            self._shell.close()
            self._shell = None

    def run(self, command):
        """Runs a shell command in the guest."""
        if self._shell is None:
            self._shell = linux_guest.Shell(self.directory / "port")
        return self._shell.run_bytes(command).decode(errors="replace")

    def check_ticks(self):
        """Raises unless the guest's clock goes on, on both of its vCPUs."""
        for cpu in (0, 1):
            now, later = map(float, self.run(
                f"taskset {1 << cpu:x} sh -c 'cut -d\" \" -f1 /proc/uptime; sleep 0.1; "
                "cut -d\" \" -f1 /proc/uptime'").split())
            if later <= now:
                raise AssertionError(f"the guest's clock stands still: {now} s, then {later} s")
