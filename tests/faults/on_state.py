# SPDX-License-Identifier: MIT
"""Migrations, snapshots, mirrors and sleep: QEMU's own work on the machine's state."""
from faults import QMP, TCG, Skipped, fault
from guest import DISK, make_empty_disk
from testbed import wait_for
from on_vmscope import kill
from oracle import must_tick
from rounds import Wrong

# ---- migration

BANDWIDTH = 6 << 20  # bytes per second, the smallest


def limit_bandwidth(round_):
    """Such that the migration takes some hundredths of a second, or some seconds."""
    round_.owner("migrate-set-parameters",
                 max_bandwidth=int(BANDWIDTH * 2 ** round_.rng.uniform(0, 6)))


def begin_migration(round_, uri):
    """While vmscope runs, or before it comes."""
    limit_bandwidth(round_)
    first_migrate = round_.rng.random() < 0.25
    if not first_migrate:
        round_.start()
        round_.wait_moment()
    round_.owner("migrate", uri=uri)
    if first_migrate:
        round_.sleep(0.3)
        round_.start()


def migration_status(round_):
    return round_.qmp.command("query-migrate").get("status")


def end_migration(round_):
    """How the migration has ended."""
    status = round_.wait("the migration to end", lambda: migration_status(round_) in
                         ("completed", "failed", "cancelled") and migration_status(round_))
    round_.tell(f"the migration has {status}")
    if status == "failed":
        raise Wrong(f"the migration failed: {round_.qmp.command('query-migrate')}")
    return status


def destination(round_):
    return round_.add(incoming=f"unix:{round_.directory}/migration", disk=round_.guest.disk)


def expect_moved(round_, machine):
    round_.expect(round_.guest, "postmigrate")
    round_.expect(machine, "running")
    must_tick(round_, machine, "at the destination")


def runs(machine):
    """False if its QEMU has ended, as one does whose migration was cancelled."""
    try:
        return machine.qmp.command("query-status")["status"] == "running"
    except (OSError, EOFError):
        return False


# A bare stub has to stop a machine to see that it is migrated (docs/safety.md): engines=QMP.
@fault(engines=QMP, fresh=True, short=1)
def migrate(round_):
    """Live migration to another QEMU of this host."""
    machine = destination(round_)
    begin_migration(round_, f"unix:{round_.directory}/migration")
    end_migration(round_)
    expect_moved(round_, machine)
    round_.finish()


@fault(engines=QMP, fresh=True, short=1)
def migrate_and_kill(round_):
    """Live migration, and kill -9 of vmscope meanwhile."""
    machine = destination(round_)
    begin_migration(round_, f"unix:{round_.directory}/migration")
    round_.sleep(0.3)
    round_.kill()
    end_migration(round_)
    expect_moved(round_, machine)


@fault(engines=QMP, fresh=True, short=1)
def migrate_cancel(round_):
    """Live migration that is cancelled."""
    machine = destination(round_)
    begin_migration(round_, f"unix:{round_.directory}/migration")
    round_.sleep(0.8)
    round_.owner("migrate_cancel")
    if end_migration(round_) == "completed":
        expect_moved(round_, machine)
    elif runs(machine):
        # QEMU had sent all of it when it was told to cancel: the source does not get its disk back.
        must_tick(round_, machine, "at the destination")
    else:
        must_tick(round_, why="after the cancelled migration")
    round_.finish()


@fault(engines=QMP, fresh=True, short=1)
def migrate_postcopy(round_):
    """Live migration that ends as postcopy."""
    machine = destination(round_)
    capability = {"capability": "postcopy-ram", "state": True}
    try:
        for each in (machine, round_.guest):
            round_.owner("migrate-set-capabilities", each, capabilities=[capability])
    except RuntimeError as error:
        raise Skipped(str(error)) from None
    begin_migration(round_, f"unix:{round_.directory}/migration")
    wait_for(lambda: migration_status(round_) not in (None, "setup"), "the migration to be active")
    round_.sleep(0.3)
    round_.owner("migrate-start-postcopy")
    end_migration(round_)
    expect_moved(round_, machine)
    round_.finish()


@fault(engines=QMP, fresh=True, short=1)
def migrate_to_destination(round_):
    """Live migration, and vmscope looks at the destination."""
    machine = destination(round_)
    limit_bandwidth(round_)
    round_.start(machine)
    round_.wait_moment(running=False)
    round_.owner("migrate", uri=f"unix:{round_.directory}/migration")
    end_migration(round_)
    expect_moved(round_, machine)
    round_.finish()


@fault(engines=QMP, fresh=True, short=0)
def migrate_to_file(round_):
    """Migration to a file, from which another QEMU goes on."""
    path = round_.directory / "state"
    begin_migration(round_, f"file:{path}")
    end_migration(round_)
    round_.finish()
    round_.expect(round_.guest, "postmigrate")
    round_.wait_ended()
    machine = round_.add(incoming=f"file:{path}", disk=round_.guest.disk)
    expect_moved(round_, machine)


@fault(engines=QMP, fresh=True, short=0)
def migrate_paused(round_):
    """Migration of a guest that its owner has paused."""
    machine = destination(round_)
    round_.owner("stop")
    begin_migration(round_, f"unix:{round_.directory}/migration")
    end_migration(round_)
    round_.expect(round_.guest, "postmigrate")
    round_.expect(machine, "paused")
    round_.finish()


# ---- snapshots


def run_job(round_, name, **arguments):
    """A job of QEMU's, to its end."""
    round_.owner(name, job_id="job", **arguments)

    def concluded():
        return [job for job in round_.qmp.command("query-jobs") if job["status"] == "concluded"]
    job, = round_.wait(f"{name} to end", concluded)
    round_.qmp.command("job-dismiss", id="job")
    if "error" in job:
        raise Wrong(f"{name}: {job['error']}")


def save_and_load(round_, load):
    place = {"tag": "snapshot", "devices": [DISK]}
    round_.start()
    round_.wait_moment()
    run_job(round_, "snapshot-save", vmstate=DISK, **place)
    must_tick(round_, why="after snapshot-save")
    if load:
        round_.sleep(0.2)
        run_job(round_, "snapshot-load", vmstate=DISK, **place)
        must_tick(round_, why="after snapshot-load")
    run_job(round_, "snapshot-delete", **place)
    round_.finish()


@fault(engines=TCG, short=1)
def snapshot_jobs(round_):
    """snapshot-save and snapshot-delete."""
    save_and_load(round_, load=False)


@fault(engines=TCG, short=0)
def snapshot_load_job(round_):
    """snapshot-load. Not in the short form: it can still end wrong (docs/safety.md)."""
    save_and_load(round_, load=True)


def run_monitor_line(round_, line):
    round_.tell(f"owner: {line}")
    if text := round_.qmp.hmp(line):
        raise Wrong(f"{line}: {text}")


@fault(engines=TCG, short=0)
def snapshot_monitor(round_):
    """savevm and loadvm."""
    round_.start()
    round_.wait_moment()
    run_monitor_line(round_, "savevm snapshot")
    must_tick(round_, why="after savevm")
    if round_.rng.random() < 0.6:
        round_.sleep(0.2)
        run_monitor_line(round_, "loadvm snapshot")
        must_tick(round_, why="after loadvm")
    run_monitor_line(round_, "delvm snapshot")
    round_.finish()


# ---- disks


@fault(engines=TCG, short=1)
def mirror(round_):
    """drive-mirror or drive-backup of the guest's disk."""
    name = round_.rng.choice(("drive-mirror", "drive-backup"))
    round_.start()
    round_.wait_moment()
    round_.owner(name, job_id="mirror", device=DISK, sync="full", format="qcow2",
                 target=f"{round_.directory}/target", speed=round_.rng.randrange(8 << 20, 64 << 20))
    if name == "drive-mirror":
        round_.wait("the mirror to be ready", lambda: any(
            job["ready"] for job in round_.qmp.command("query-block-jobs")))
        round_.sleep(0.2)
        round_.owner("block-job-cancel", device="mirror")  # the copy is complete
    round_.wait("the job to end", lambda: not round_.qmp.command("query-block-jobs"))
    must_tick(round_, why=f"after {name}")
    round_.finish()


@fault(engines=TCG, fresh=True, short=0)
def mirror_pivot(round_):
    """blockdev-mirror, after which the guest has another disk."""
    round_.start()
    round_.wait_moment()
    target = round_.directory / "target.qcow2"
    make_empty_disk(target)
    round_.owner("blockdev-add", driver="qcow2", node_name="target",
                 file={"driver": "file", "filename": str(target)})
    round_.owner("blockdev-mirror", job_id="mirror", device=DISK, target="target", sync="full",
                 speed=round_.rng.randrange(8 << 20, 64 << 20))
    round_.wait("the mirror to be ready", lambda: any(
        job["ready"] for job in round_.qmp.command("query-block-jobs")))
    round_.sleep(0.2)
    round_.owner("block-job-complete", device="mirror")
    round_.wait("the job to end", lambda: not round_.qmp.command("query-block-jobs"))
    must_tick(round_, why="after blockdev-mirror")
    round_.finish()


# ---- sleep, and Linux


def looks(command):
    """Not one that would write all of a larger guest's memory; none by the slowest engine."""
    return command.makes != "core" and command.engine != "gdb"


@fault(engines=TCG, short=1)
def sleep(round_):
    """The guest goes to sleep (S3)."""
    round_.start()
    round_.wait_moment()
    round_.let_sleep()
    round_.expect(round_.guest, "suspended")
    round_.finish()


@fault(engines=TCG, short=0)
def asleep(round_):
    """A guest that sleeps (S3), with kill -9 of vmscope or without."""
    round_.let_sleep()
    round_.start()
    round_.expect(round_.guest, "suspended")
    if round_.rng.random() < 0.5:
        round_.wait_moment(running=False)
        round_.kill()
    round_.finish()


def wake_up(round_):
    """QEMU's own stub stops a sleeping guest when a client connects, and QEMU refuses to wake it
    until vmscope has undone that: the owner of a guest that has such a stub tries again."""
    def accepted():
        try:
            round_.owner("system_wakeup")
        except RuntimeError:
            if round_.guest.engine != "gdb":
                raise
            return False
        return True

    round_.wait("QEMU to wake the guest up", accepted, 5)


@fault(engines=TCG, short=0)
def wakeup(round_):
    """A guest that sleeps (S3); its owner wakes it up."""
    round_.let_sleep()
    wakes = round_.guest.read_ticks().wakes
    round_.start()
    round_.wait_moment(running=False)
    wake_up(round_)
    round_.wait("the guest to wake up", lambda: round_.guest.read_ticks().wakes > wakes)
    must_tick(round_, why="after it was woken up")
    round_.finish()


@fault(engines=TCG, linux=True, only=looks, short=0)
def linux_sleep(round_):
    """A Linux guest goes to sleep (S3)."""
    sleep(round_)


@fault(engines=TCG, linux=True, only=looks, short=0)
def linux_asleep(round_):
    """A Linux guest that sleeps (S3), with kill -9 of vmscope or without."""
    asleep(round_)


@fault(engines=TCG, linux=True, only=looks, short=0)
def linux_wakeup(round_):
    """A Linux guest that sleeps (S3); its owner wakes it up."""
    wakeup(round_)


@fault(engines=TCG, linux=True, only=looks, short=1, long=200)
def linux_kill(round_):
    """A Linux guest; kill -9 of vmscope."""
    kill(round_)
