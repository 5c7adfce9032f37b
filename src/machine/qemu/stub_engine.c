/* SPDX-License-Identifier: MIT */
/*
 * The engine for a QEMU whose gdb stub holds all vCPUs or none. run_state.h says whether the
 * machine may be stopped, and what undoes a stop. whose_stop.h keeps whose stop it is, for the
 * watchdog. docs/safety.md explains it as a whole.
 *
 * The stub stops the machine, because it tells for certain whether the stop is ours. QEMU's monitor
 * releases it, because `cont` looks at the state first, and the stub's own continue does not.
 */
#include "machine/qemu/stub.h"

#include "base/clock.h"
#include "base/owner.h"
#include "machine/qemu/recover.h"
#include "machine/qemu/stub-private.h"
#include <string.h>
#include <vmscope/log.h>

/* How often to try a hold of a machine that changes its state all the time. */
#define ROUNDS_MAX 20

enum vms_standing vms_stub_standing(struct vms_qemu_stub *stub)
{
	return (enum vms_standing)atomic_load(&stub->standing);
}

struct vms_hold *vms_stub_hold(struct vms_qemu_stub *stub)
{
	return vms_watchdog_hold(stub->watchdog);
}

/* Remembers the counts of events, to see later what has happened since. */
void vms_stub_remember_events(struct vms_qemu_stub *stub)
{
	stub->stops = stub->qemu.qmp.stops;
	stub->resumes = stub->qemu.qmp.resumes;
	stub->guest_stops = stub->qemu.qmp.guest_stops;
	stub->jobs = stub->qemu.qmp.jobs;
}

/* True if somebody has resumed the machine since our stop: what it stands still by is not ours. */
bool vms_stub_was_resumed_by_others(const struct vms_qemu_stub *stub)
{
	return stub->qemu.qmp.resumes != stub->resumes;
}

/* ---- hold ------------------------------------------------------------- */

/* Refuses to stop a machine that another client watches, unless that is allowed. */
bool vms_stub_check_watcher(struct vms_qemu_stub *stub, GError **error)
{
	const bool is_kvm = g_strcmp0(stub->qemu.machine.info.accelerator, "kvm") == 0;
	bool watched;
	if (stub->checked_watcher || stub->qemu.machine.may_stop)
		return true;
	if (!vms_qemu_find_watcher(&stub->qemu, &watched, error))
		return false;
	stub->checked_watcher = !watched;
	if (watched)
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_WATCHED,
			"cannot hold %s: its gdb stub would stop the whole machine, and another "
			"client of its monitor (libvirt?) would take that for a pause; allow it "
			"with --allow-stop%s",
			vms_stub_name(stub),
			is_kvm ? "" : ", or start QEMU with vmscope's agent, which stops nothing");
	return !watched;
}

/* Starts the watchdog and the timer, before there is a stop that they have to end. */
static bool prepare_watchdog(struct vms_qemu_stub *stub, GError **error)
{
	const struct vms_owner self = vms_owner_self();
	if (stub->watchdog)
		return vms_watchdog_check(stub->watchdog, error);
	if (!stub->timer)
		stub->timer = vms_timer_new("vms-hold", vms_stub_check_hold, stub, error);
	if (!stub->timer)
		return false;
	if (!stub->label)
		stub->label = vms_owner_label(&self);
	stub->watchdog = vms_watchdog_new_qmp(&stub->qemu.qmp.stream, &stub->qemu.process,
					      stub->label, error);
	if (!stub->watchdog)
		return false;
	stub->qemu.qmp.tell_resume_us = &vms_stub_hold(stub)->resumed_us;
	return true;
}

/* Adds the stub. Sets *stopped if that has stopped the machine. */
static bool connect_stub(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	if (!vms_qemu_add_stub(stub, stopped, error))
		return false;
	if (stub->gdb.arch == stub->qemu.machine.arch)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
		    "%s: its gdb stub does not have the registers of %s", vms_stub_name(stub),
		    stub->qemu.machine.arch->name);
	return false;
}

/* True if the machine was resumed after the stub had told of our stop, which is over then. */
static bool was_resumed_later(const struct vms_qemu_stub *stub)
{
	return stub->qemu.process.pid && stub->gdb.told_us &&
	       stub->qemu.qmp.last_resume_us > stub->gdb.told_us;
}

/*
 * Looks whether somebody has resumed the machine since our stop; then *stopped is cleared. What
 * QEMU did before the stop it has told before the stub told of the stop: a resume that is seen only
 * later came after it. Of one that is seen here the order may be unknown: then a machine that
 * stands still is taken to do so by our stop, unless it was resumed after the stub had told of
 * that.
 */
static bool check_resumes(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	enum vms_run_state state;
	vms_qmp_poll(&stub->qemu.qmp);
	if (!vms_stub_was_resumed_by_others(stub))
		return true;
	stub->knows_disks = false;
	if (!vms_qemu_ask_state(&stub->qemu, &state, error))
		return false;
	*stopped = state != VMS_RUN_RUNNING && !was_resumed_later(stub);
	stub->resumes = stub->qemu.qmp.resumes;
	stub->gdb.stopped = *stopped;
	return true;
}

/*
 * Looks whether a disk holds a snapshot, when that may have changed: by a job, or by the monitor,
 * which stops and resumes the machine to save one. QEMU before 5.0 does not tell; it has no job
 * that loads one.
 */
void vms_stub_look_for_snapshots(struct vms_qemu_stub *stub)
{
	if (stub->knows_disks && stub->disk_jobs == stub->qemu.qmp.jobs)
		return;
	stub->disk_jobs = stub->qemu.qmp.jobs;
	stub->knows_disks = true;
	vms_qemu_has_snapshot(&stub->qemu, &stub->has_snapshot, NULL);
}

/*
 * Stops a machine with a snapshot by QMP. A job that loads one may begin at any moment, and QEMU
 * aborts if the stub stops the machine just then. QMP executes commands one after the other.
 */
static bool stop_by_monitor(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	struct vms_qmp_command command = { .name = "stop" };
	bool done = vms_qemu_stop_by(stub, &command, stopped, error);
	json_object_put(command.answer);
	if (!done)
		return false;
	stub->resumes = command.resumes;
	stub->gdb.stopped = *stopped;
	vms_gdb_forget_regs(&stub->gdb);
	return true;
}

/*
 * Stops the machine by the stub. If the hold will last long, as with many vCPUs, which take long to
 * stop, QEMU says in the same round trip whether there is a migration. The monitor behind the stub
 * is quicker than QMP.
 */
static bool interrupt_machine(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	g_autofree char *migration = NULL;
	const bool wants_regs = !vms_stub_reads_state(stub);
	if (wants_regs || !stub->takes_long)
		return vms_gdb_interrupt(&stub->gdb, wants_regs, stopped, error);
	if (!vms_gdb_interrupt_for(&stub->gdb, "info migrate", &migration, stopped, error))
		return false;
	if (*stopped)
		vms_stub_note_migration(stub, migration);
	return true;
}

/*
 * Asks a machine that runs to stop, and waits until it stands: by adding the stub, by the monitor
 * if it has a snapshot, or by the stub. Sets *stopped if the stop is ours.
 */
static bool request_stop(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	if (stub->connected && stub->has_snapshot)
		return stop_by_monitor(stub, stopped, error);
	bool done = stub->connected ? interrupt_machine(stub, stopped, error)
				    : connect_stub(stub, stopped, error);
	return done && (!*stopped || check_resumes(stub, stopped, error));
}

/* Stops a machine that runs. Sets *stopped if the stop is ours. */
static bool stop_machine(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	if (!vms_stub_check_watcher(stub, error) || !prepare_watchdog(stub, error))
		return false;
	vms_stub_look_for_snapshots(stub);
	vms_stub_find_state(stub);
	bool connected = stub->connected;
	vms_stub_remember_events(stub);
	if (connected)
		vms_watchdog_begin_stop(stub->watchdog, stub->qemu.machine.hold_limit_ns);
	stub->qemu.machine.held_from_ns = vms_clock_now_ns();
	vms_stub_set_check(stub); /* this thread may be late for the answer, too */
	GError *failure = NULL;
	bool done = request_stop(stub, stopped, &failure);
	if (!done) {
		/* A request without an answer may still be under way, and stop the machine. */
		vms_stub_abandon(stub, connected || *stopped);
		/* Only the stub has gone, not the machine: the next hold adds it again. */
		if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_CLOSED) &&
		    vms_qemu_ended(&stub->qemu.machine) != VMS_MACHINE_GONE)
			failure->code = VMS_ERROR_PROTOCOL;
		g_propagate_error(error, failure);
	}
	if (done && *stopped)
		vms_stub_set_check(stub);
	else if (done)
		vms_stub_end_hold(stub);
	return done;
}

/*
 * Holds a machine that stands still. `resumes`: events of RESUME before it was seen. *held is false
 * if it was taken for one at a breakpoint of ours, and is not: it has to be asked for again.
 */
static bool hold_as_it_is(struct vms_qemu_stub *stub, uint64_t resumes, bool *held, GError **error)
{
	if (vms_stub_may_stand_at_hit(stub) ||
	    (stub->state == VMS_RUN_DEBUG && vms_stub_owns_hits(stub)))
		return vms_stub_hold_at_hit(stub, held, error);
	vms_stub_note_others(stub, resumes);
	vms_stub_remember_events(stub);
	stub->knows_disks = false;
	atomic_store(&stub->standing, VMS_STANDS_BY_OTHERS);
	*held = true;
	return true;
}

static bool stub_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	struct vms_qemu_condition now;
	bool held = false;
	g_clear_pointer(&stub->ended_by, g_free);
	if (vms_stub_is_cleared(stub))
		vms_stub_abandon(stub, vms_stub_is_owed(stub));
	if (!vms_stub_settle_release(stub, error))
		return false;
	vms_gdb_forget_regs(&stub->gdb);
	vms_stub_forget_state(stub);
	vms_qemu_follow_ranges(&stub->qemu);
	if (vms_stub_may_stand_at_hit(stub)) {
		if (!vms_stub_hold_at_hit(stub, &held, error))
			return false;
		if (held)
			return true;
	}
	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		const uint64_t resumes = stub->qemu.qmp.resumes;
		stub->asked_ns = stub->wanted_ns = vms_clock_now_ns();
		bool asked = round == 0 && stub->connected
				     ? vms_qemu_ask_changes(&stub->qemu, &now, error)
				     : vms_qemu_ask_condition(&stub->qemu, &now, error);
		if (asked && vms_stub_stop_again(stub))
			continue;
		if (!asked || !vms_stub_mend_sleep(stub, now.state, error))
			return false;
		stub->state = now.state;
		switch (vms_run_state_hold_way(now.state, *now.busy)) {
		case VMS_HOLD_NOT_NOW: return vms_qemu_refuse_hold(&stub->qemu, &now, error);
		case VMS_HOLD_AS_IT_IS:
			if (!hold_as_it_is(stub, resumes, &held, error))
				return false;
			break;
		case VMS_HOLD_BY_STOP:
		default:
			if (!stop_machine(stub, &held, error))
				return false;
			if (held)
				atomic_store(&stub->standing, VMS_STANDS_BY_US);
			break;
		}
		if (held)
			return true;
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
		    "cannot hold %s: another client stops and resumes it all the time",
		    vms_stub_name(stub));
	return false;
}

static bool stub_observe(struct vms_machine *machine, GError **error)
{
	if (machine->arch != &vms_arch_x86_64) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "QEMU's monitor does not tell enough registers of %s",
			    machine->arch->name);
		return false;
	}
	atomic_store(&vms_stub_of(machine)->standing, VMS_RUNS_ON);
	return true;
}

/* Ends the hold of a machine that we have stopped. */
static bool release_ours(struct vms_qemu_stub *stub, GError **error)
{
	if (!vms_gdb_leave_phys_mode(&stub->gdb, error)) {
		vms_stub_abandon(stub, true);
		return false;
	}
	bool released = vms_stub_release_stop(stub, error) &&
			(!stub->ended_by || vms_stub_set_ended_error(stub, stub->ended_by, error));
	vms_stub_update_armed(stub);
	return released;
}

static bool stub_release(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	enum vms_standing standing = vms_stub_standing(stub);
	if (standing == VMS_STANDS_BY_US)
		return release_ours(stub, error);
	if (standing == VMS_STANDS_AT_HIT)
		return vms_stub_leave_hit(stub, error);
	atomic_store(&stub->standing, VMS_NOT_HELD);
	if (stub->ended_by)
		return vms_stub_set_ended_error(stub, stub->ended_by, error);
	if (standing != VMS_STANDS_BY_OTHERS)
		return true;
	vms_qmp_poll(&stub->qemu.qmp);
	return stub->qemu.qmp.resumes == stub->resumes ||
	       vms_stub_set_ended_error(stub, VMS_BY_OTHERS, error);
}

/* ---- requests to the stub of a machine that is held ------------------- */

/*
 * Makes a stop ours that requests have caused: the owner or the watchdog had resumed the machine
 * just before they arrived.
 */
static void take_over_stop(struct vms_qemu_stub *stub)
{
	if (!stub->gdb.stopped_by_request)
		return;
	bool taken = vms_hold_phase(atomic_load(&vms_stub_hold(stub)->word)) == VMS_HOLD_TAKEN;
	if (vms_stub_is_ours(stub) && !stub->ended_by)
		stub->ended_by = g_strdup(taken ? VMS_BY_WATCHDOG : VMS_BY_OTHERS);
	stub->gdb.stopped_by_request = false;
	stub->asked_ns = 0;
	vms_watchdog_begin_stop(stub->watchdog, stub->qemu.machine.hold_limit_ns);
	atomic_store(&stub->standing, VMS_STANDS_BY_US);
	/* The resume that came before it has been told by now. */
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = stub->qemu.qmp.resumes;
	vms_stub_set_check(stub);
}

bool vms_stub_check_still(struct vms_qemu_stub *stub, GError **error)
{
	if (stub->ended_by)
		return vms_stub_set_ended_error(stub, stub->ended_by, error);
	if (vms_stub_is_ours(stub))
		return vms_hold_phase(atomic_load(&vms_stub_hold(stub)->word)) != VMS_HOLD_TAKEN ||
		       vms_stub_set_ended_error(stub, VMS_BY_WATCHDOG, error);
	vms_qmp_poll(&stub->qemu.qmp);
	return stub->qemu.qmp.resumes == stub->resumes ||
	       vms_stub_set_ended_error(stub, VMS_BY_OTHERS, error);
}

/*
 * Connects to the stub of a machine that somebody else has stopped. The machine must not sleep: the
 * stub would wake it up.
 */
static bool connect_to_stopped(struct vms_qemu_stub *stub, GError **error)
{
	bool stopped = false;
	if (!prepare_watchdog(stub, error))
		return false;
	vms_hold_begin(vms_stub_hold(stub), VMS_HOLD_LOOKING, 0, 0);
	bool done = stub->connected || connect_stub(stub, &stopped, error);
	/* The owner may have resumed the machine just before the stub was added. */
	stub->gdb.stopped_by_request |= stopped;
	if (!done) {
		stub->gdb.broken = true;
		if (stub->gdb.stopped_by_request)
			vms_stub_owe_release(stub);
		stub->gdb.stopped_by_request = false;
		if (!vms_stub_settle_release(stub, NULL))
			vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
	}
	take_over_stop(stub);
	return done;
}

/* A request without an answer may still be under way, until its stub is removed. */
void vms_stub_end_requests(struct vms_qemu_stub *stub)
{
	take_over_stop(stub);
	if (vms_stub_has_failed_stub(stub))
		vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
	else
		vms_hold_change(vms_stub_hold(stub), VMS_HOLD_LOOKING, VMS_HOLD_NONE);
}

/* Makes sure that the stub can be used, and adds it if it is not there, or has failed. */
bool vms_stub_begin_requests(struct vms_qemu_stub *stub, GError **error)
{
	if (vms_stub_is_ours(stub))
		return vms_stub_check_still(stub, error);
	return vms_stub_settle_release(stub, error) && vms_stub_check_still(stub, error) &&
	       connect_to_stopped(stub, error);
}

/*
 * True if only QEMU's monitor may be used to read registers. The stub would wake up a machine that
 * sleeps, and its requests would stop a machine that its owner resumes.
 */
bool vms_stub_is_monitor_only(struct vms_qemu_stub *stub)
{
	if (vms_stub_is_ours(stub))
		return false;
	return vms_stub_standing(stub) == VMS_RUNS_ON || stub->state == VMS_RUN_SUSPENDED ||
	       !vms_stub_check_watcher(stub, NULL);
}

static void warn_of_slow_memory(struct vms_qemu_stub *stub)
{
	if (stub->told_slow)
		return;
	stub->told_slow = true;
	vms_log(VMS_LOG_WARNING,
		"%s: memory is read through the gdb stub, which is slow; run as the user that "
		"runs QEMU, or as root, to read it from QEMU's process",
		vms_stub_name(stub));
}

/*
 * Reads memory through the stub, which works only while the machine stands still. Memory whose
 * place in QEMU's process is known is not read here: if that cannot be read, QEMU has ended.
 */
static bool stub_read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	bool was_held = vms_stub_standing(stub) != VMS_NOT_HELD;
	if (stub->ended_by || vms_ram_covers(vms_qemu_ram(&stub->qemu), pa, size) ||
	    !vms_machine_is_memory(machine, pa, size))
		return false;
	warn_of_slow_memory(stub);
	if (!was_held && !stub_hold(machine, VMS_ALL_VCPUS, NULL))
		return false;
	bool read = !vms_stub_is_monitor_only(stub) && vms_stub_begin_requests(stub, NULL);
	if (read) {
		read = vms_gdb_read_phys(&stub->gdb, pa, buf, size, NULL);
		/* The release does not do that for a machine that others have stopped. */
		if (vms_stub_standing(stub) == VMS_STANDS_BY_OTHERS)
			vms_gdb_leave_phys_mode(&stub->gdb, NULL);
		vms_stub_end_requests(stub);
	}
	return (was_held || stub_release(machine, VMS_ALL_VCPUS, NULL)) && read;
}

/* ---- the machine ------------------------------------------------------ */

static bool stub_is_paused(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	enum vms_standing standing = vms_stub_standing(stub);
	enum vms_run_state state;
	if (standing == VMS_NOT_HELD)
		return vms_qemu_ask_state(&stub->qemu, &state, NULL) && state != VMS_RUN_RUNNING;
	return standing == VMS_STANDS_BY_OTHERS;
}

/* The timer's thread may set the timer until it has ended: the pointer stays valid until then. */
static void stub_end_threads(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	vms_timer_free(stub->timer);
	stub->timer = NULL;
}

static void stub_close(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	enum vms_run_state state;
	if (stub->released && vms_qemu_ask_state(&stub->qemu, &state, NULL) &&
	    !vms_stub_stop_again(stub))
		vms_stub_mend_sleep(stub, state, NULL);
	if (vms_stub_settle_release(stub, NULL))
		vms_stub_take_probes_away(stub, "the end of vmscope's work");
	if (vms_stub_is_ours(stub)) {
		if (vms_stub_undo_stop(stub, NULL) != VMS_STOP_REFUSED)
			vms_stub_end_hold(stub);
		else
			vms_hold_change(vms_stub_hold(stub), VMS_HOLD_HELD, VMS_HOLD_OWED);
	}
	if (vms_stub_settle_release(stub, NULL))
		vms_qemu_remove_stub(stub, NULL);
	vms_gdb_close(&stub->gdb);
	stub->qemu.qmp.tell_resume_us = NULL;
	vms_watchdog_free(stub->watchdog, stub->qemu.qmp.stream.is_late);
	vms_qemu_close(&stub->qemu);
	vms_stub_close_probes(stub);
	g_free(stub->state_regs);
	g_free(stub->label);
	g_free(stub->ended_by);
	g_free(stub);
}

static const struct vms_engine engine = {
	.name = "qemu",
	.hold = stub_hold,
	.observe = stub_observe,
	.release = stub_release,
	.regs = vms_stub_regs,
	.stack_regs = vms_stub_stack_regs,
	.system_regs = vms_stub_system_regs,
	.wide_regs = vms_stub_wide_regs,
	.check_ranges = vms_qemu_check_ranges,
	.update_ranges = vms_qemu_update_ranges,
	.check_vcpus = vms_qemu_check_vcpus,
	.read_ram = vms_qemu_read_ram,
	.read_parts = vms_qemu_read_parts,
	.next_data = vms_qemu_next_data,
	.read_phys = stub_read_phys,
	.held_read_max = VMS_GDB_HELD_READ_MAX,
	.is_paused = stub_is_paused,
	.ended = vms_qemu_ended,
	.resets = vms_qemu_resets,
	.pause_reason = vms_qemu_pause_reason,
	.item_text = vms_qemu_item_text,
	.probes = &vms_stub_probe_engine,
	.end_threads = stub_end_threads,
	.close = stub_close,
};

struct vms_machine *vms_qemu_stub_open(const char *const *addresses, pid_t pid, GError **error)
{
	struct vms_qemu_stub *stub = g_new0(struct vms_qemu_stub, 1);
	if (!vms_qemu_open(&stub->qemu, addresses, pid, error)) {
		stub_close(&stub->qemu.machine);
		return NULL;
	}
	vms_qemu_recover(&stub->qemu);
	vms_stub_init_probes(stub);
	vms_machine_init(&stub->qemu.machine, &engine);
	return &stub->qemu.machine;
}
