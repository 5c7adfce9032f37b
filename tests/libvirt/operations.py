# SPDX-License-Identifier: MIT
"""What an owner does to a domain with virsh, and what has to be done before and after.

All operations find the domain running, and leave it running after `after`.
"""
import collections
import time

SNAPSHOT = "snapshot"

# `prepare` and `after` are done with nothing beside them; each is called with the domain. `mistakable`:
# what comes of it depends on whether the domain runs in that very moment, by libvirt's knowledge or
# by QEMU's; so a stop of the machine by somebody else can change it.
Operation = collections.namedtuple("Operation", "name act prepare after mistakable",
                                   defaults=(lambda domain: None, lambda domain: None, False))


def nothing(domain):
    time.sleep(2)


def suspend(domain):
    domain.virsh("suspend")


def resume(domain):
    domain.virsh("resume")


def resume_if_paused(domain):
    if domain.settled_state() == "paused":
        resume(domain)


def save(domain):
    domain.virsh("save", domain.directory / "saved")


def restore(domain):
    domain.libvirt.virsh("restore", domain.directory / "saved")


def managedsave(domain):
    domain.virsh("managedsave")


def start(domain):
    domain.virsh("start")


def create_snapshot(domain):
    domain.virsh("snapshot-create-as", SNAPSHOT)


def revert_snapshot(domain):
    domain.virsh("snapshot-revert", SNAPSHOT)


def delete_snapshot(domain):
    domain.virsh("snapshot-delete", SNAPSHOT)


def create_disk_snapshot(domain):
    domain.virsh("snapshot-create-as", SNAPSHOT, "--no-metadata", "--disk-only",
                 "--diskspec", f"vda,file={domain.directory}/disk-overlay.qcow2")


def create_memory_snapshot(domain):
    domain.virsh("snapshot-create-as", SNAPSHOT, "--no-metadata",
                 "--memspec", f"file={domain.directory}/memory,snapshot=external",
                 "--diskspec", f"vda,file={domain.directory}/disk-overlay.qcow2")


def remove_overlay(domain):
    """Back to the domain's own disk, which a domain that stands still after a migration cannot write."""
    resume_if_paused(domain)
    domain.virsh("blockcommit", "vda", "--active", "--pivot", "--wait")
    (domain.directory / "disk-overlay.qcow2").unlink()
    (domain.directory / "memory").unlink(missing_ok=True)


def copy_disk(domain):
    domain.virsh("blockcopy", "vda", domain.directory / "disk-copy.qcow2", "--transient-job",
                 "--wait", "--finish")


def remove_copy(domain):
    (domain.directory / "disk-copy.qcow2").unlink()


def dump(domain):
    domain.virsh("dump", domain.directory / "memory", "--memory-only")


def remove_dump(domain):
    (domain.directory / "memory").unlink()


def reset(domain):
    """Until the guest has booted again."""
    boots = domain.boots()
    domain.virsh("reset")
    domain.wait_booted(boots + 1)


def destroy(domain):
    domain.virsh("destroy")


def boot(domain):
    domain.boot()


OPERATIONS = (
    Operation("nothing", nothing),
    Operation("suspend", suspend, after=resume_if_paused, mistakable=True),
    Operation("resume", resume, prepare=suspend),
    Operation("save", save, after=restore, mistakable=True),
    Operation("restore", restore, prepare=save),
    Operation("managedsave", managedsave, after=start, mistakable=True),
    Operation("start, of what managedsave saved", start, prepare=managedsave),
    Operation("snapshot-create", create_snapshot, after=delete_snapshot),
    Operation("snapshot-create --memspec", create_memory_snapshot, after=remove_overlay,
              mistakable=True),
    Operation("snapshot-create --disk-only", create_disk_snapshot, after=remove_overlay),
    Operation("snapshot-revert", revert_snapshot, prepare=create_snapshot, after=delete_snapshot),
    Operation("blockcopy", copy_disk, after=remove_copy),
    Operation("dump --memory-only", dump, after=remove_dump),
    Operation("reset", reset),
    Operation("destroy", destroy, after=boot),
)
