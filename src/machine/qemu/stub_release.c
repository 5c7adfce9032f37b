/* SPDX-License-Identifier: MIT */
/* Releases of a machine that the stub has stopped, also those that QEMU carries out later. */
#include "base/clock.h"
#include "machine/qemu/stub-private.h"
#include <string.h>

/* How long to wait for a job that creates a disk's image. To resume the machine makes it fail. */
#define NEW_IMAGE_NS	  UINT64_C(2000000000)
#define NEW_IMAGE_POLL_US 5000

/* Tells the watchdog that the hold is over. False if the watchdog had ended the hold already. */
bool vms_stub_end_hold(struct vms_qemu_stub *stub)
{
	bool ours = vms_hold_change(vms_stub_hold(stub), VMS_HOLD_HELD, VMS_HOLD_NONE) ||
		    vms_hold_change(vms_stub_hold(stub), VMS_HOLD_OWED, VMS_HOLD_NONE);
	if (!ours)
		vms_hold_begin(vms_stub_hold(stub), VMS_HOLD_NONE, 0, 0);
	return ours;
}

/* True if the last answers of QEMU tell for certain that `cont` undoes our stop, and only that. */
bool vms_stub_may_cont_quickly(struct vms_qemu_stub *stub)
{
	struct vms_qmp *qmp = &stub->qemu.qmp;
	struct vms_qemu_condition now;
	vms_qmp_poll(qmp);
	vms_stub_take_answer(stub, &now);
	return !(stub->gdb.broken || vms_clock_now_ns() > stub->asked_ns + VMS_STUB_FRESH_NS ||
		 qmp->resumes != stub->resumes || qmp->guest_stops != stub->guest_stops ||
		 qmp->jobs != stub->jobs ||
		 vms_hold_phase(atomic_load(&vms_stub_hold(stub)->word)) != VMS_HOLD_HELD);
}

/*
 * Undoes the stop of a hold without asking for the state first, if QEMU was asked for its condition
 * a moment ago, before the stop, along with it, or by the timer. QEMU's monitor refuses `cont`
 * while a migration ends. The monitor behind the stub is quicker than QMP. For a machine that fell
 * asleep in the moment of the hold `cont` does nothing: see vms_stub_mend_sleep. False if the state
 * has to be asked for.
 */
static bool cont_quickly(struct vms_qemu_stub *stub)
{
	if (!vms_stub_may_cont_quickly(stub))
		return false;
	g_autofree char *refusal = vms_gdb_monitor(&stub->gdb, "cont", NULL);
	stub->released = refusal && !*refusal;
	return stub->released;
}

/*
 * Resumes a machine that fell asleep in the moment of the last hold. Its clocks are still stopped
 * by us, and `cont` had no effect: no event has told that it resumed, and all events of that time
 * have been read.
 */
bool vms_stub_mend_sleep(struct vms_qemu_stub *stub, enum vms_run_state state, GError **error)
{
	bool slept = stub->released && stub->qemu.qmp.resumes == stub->resumes &&
		     state == VMS_RUN_SUSPENDED;
	stub->released = false;
	return !slept || vms_qemu_cont(&stub->qemu, state, error);
}

bool vms_stub_has_undone_stop(const struct vms_qemu_stub *stub)
{
	const struct vms_qmp *qmp = &stub->qemu.qmp;
	return stub->released && qmp->resumes == stub->resumes + 1 &&
	       qmp->undone_stops != stub->guest_stops;
}

/* Stops a machine whose own stop was dropped. True: it was, and it stands still again. */
bool vms_stub_stop_again(struct vms_qemu_stub *stub)
{
	if (!vms_stub_has_undone_stop(stub))
		return false;
	stub->released = false;
	json_object_put(vms_qmp_execute(&stub->qemu.qmp, "stop", NULL, -1, NULL));
	return true;
}

/* Waits for a job that creates an image, which has begun meanwhile. */
static void wait_for_new_image(struct vms_qemu_stub *stub)
{
	uint64_t end_ns = vms_clock_now_ns() + NEW_IMAGE_NS;
	struct vms_qemu_condition now;
	while (vms_clock_now_ns() < end_ns && vms_qemu_ask_condition(&stub->qemu, &now, NULL) &&
	       strstr(now.busy, "(create)"))
		g_usleep(NEW_IMAGE_POLL_US);
}

/* Undoes our stop, if the machine still stands still because of it. */
enum vms_undone vms_stub_undo_stop(struct vms_qemu_stub *stub, GError **error)
{
	enum vms_run_state state;
	if (cont_quickly(stub))
		return VMS_STOP_UNDONE;
	if (stub->qemu.qmp.jobs != stub->jobs)
		wait_for_new_image(stub);
	if (!vms_qemu_ask_state(&stub->qemu, &state, error))
		return VMS_STOP_REFUSED;
	/* What has come after the answer, if this thread has waited for its processor. */
	vms_qmp_poll(&stub->qemu.qmp);
	const bool owns_hits = vms_hold_owns_hits(vms_stub_hold(stub));
	/* A breakpoint of ours may have stopped the machine again, whoever resumed it. */
	const bool may_be_hit = owns_hits && vms_run_state_may_follow_hit(state);
	/* The guest has stopped itself: it would stand still without our stop, too. */
	if (stub->qemu.qmp.guest_stops != stub->guest_stops ||
	    (!may_be_hit && vms_stub_was_resumed_by_others(stub)))
		return VMS_STOP_ENDED_BY_OTHERS;
	switch (vms_run_state_release_way(state, owns_hits)) {
	case VMS_RELEASE_NOTHING: return VMS_STOP_ENDED_BY_OTHERS;
	case VMS_RELEASE_CONT:
	case VMS_RELEASE_STOP_CONT:
		stub->released = vms_qemu_cont(&stub->qemu, state, error);
		return stub->released ? VMS_STOP_UNDONE : VMS_STOP_REFUSED;
	case VMS_RELEASE_LATER:
	default:
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_NOT_NOW,
			"cannot release %s yet: a migration is about to end; it goes on if that "
			"fails",
			vms_stub_name(stub));
		return VMS_STOP_REFUSED;
	}
}

void vms_stub_owe_release(struct vms_qemu_stub *stub)
{
	uint64_t word = atomic_load(&vms_stub_hold(stub)->word);
	atomic_store(&vms_stub_hold(stub)->word, vms_hold_in_phase(word, VMS_HOLD_OWED));
	vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
}

bool vms_stub_is_owed(struct vms_qemu_stub *stub)
{
	return stub->watchdog &&
	       vms_hold_phase(atomic_load(&vms_stub_hold(stub)->word)) == VMS_HOLD_OWED;
}

/*
 * Removes a stub that was given up. Only then it is known whether a request that was under way has
 * stopped the machine: that is owed, too.
 */
static bool remove_failed_stub(struct vms_qemu_stub *stub, GError **error)
{
	if (!vms_qemu_remove_stub(stub, error))
		return false;
	if (stub->watchdog)
		vms_hold_change(vms_stub_hold(stub), VMS_HOLD_LOOKING, VMS_HOLD_NONE);
	return true;
}

/* Carries out a release that is owed. */
static bool pay_release(struct vms_qemu_stub *stub, GError **error)
{
	if (!vms_stub_is_owed(stub))
		return true;
	if (vms_stub_undo_stop(stub, error) == VMS_STOP_REFUSED)
		return false;
	vms_stub_end_hold(stub);
	return true;
}

/*
 * A stub that does not answer is removed first: a request that is still under way would stop the
 * machine again. What it owes is paid before the stub is added once more, for the breakpoints that
 * it has left: that stop is another one.
 */
bool vms_stub_settle_release(struct vms_qemu_stub *stub, GError **error)
{
	if (stub->gdb.broken && (!remove_failed_stub(stub, error) || !pay_release(stub, error) ||
				 !vms_stub_clear_lost_points(stub, error)))
		return false;
	if (!pay_release(stub, error))
		return false;
	vms_stub_update_armed(stub);
	return true;
}

/* Sets the error for a hold that ended before its release. Returns false. */
bool vms_stub_set_ended_error(struct vms_qemu_stub *stub, const char *how, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s %s while it was held: what was read may be torn", vms_stub_name(stub), how);
	return false;
}

#define BY_ITSELF "stopped by itself (a shutdown, a panic or an I/O error)"

/* Releases a machine that we have stopped. */
bool vms_stub_release_stop(struct vms_qemu_stub *stub, GError **error)
{
	if (!vms_gdb_receive_awaited(&stub->gdb, error)) {
		vms_stub_abandon(stub, true);
		return false;
	}
	vms_timer_set(stub->timer, vms_stub_may_have_points(stub) ? VMS_STUB_CHECK_NS : 0);
	stub->takes_long = vms_clock_now_ns() > stub->wanted_ns + VMS_STUB_FRESH_NS;
	atomic_store(&stub->standing, VMS_NOT_HELD);
	stub->gdb.stopped = false;
	switch (vms_stub_undo_stop(stub, error)) {
	case VMS_STOP_UNDONE:
		return vms_stub_end_hold(stub) ||
		       vms_stub_set_ended_error(stub, VMS_BY_WATCHDOG, error);
	case VMS_STOP_ENDED_BY_OTHERS:
		stub->knows_disks = false;
		if (!vms_stub_end_hold(stub))
			return vms_stub_set_ended_error(stub, VMS_BY_WATCHDOG, error);
		return vms_stub_set_ended_error(
			stub,
			stub->qemu.qmp.guest_stops == stub->guest_stops ? VMS_BY_OTHERS : BY_ITSELF,
			error);
	case VMS_STOP_REFUSED:
	default: vms_stub_owe_release(stub); return false;
	}
}

/*
 * After the watchdog has released the machine, or has stopped it to remove breakpoints, the last
 * stop may be later than the last resume: then that has not ended it.
 */
static void note_stop_after_watchdog(struct vms_qemu_stub *stub)
{
	const struct vms_hold *hold = vms_stub_hold(stub);
	vms_qmp_poll(&stub->qemu.qmp);
	const enum vms_hold_phase phase = vms_hold_phase(atomic_load(&hold->word));
	if ((phase == VMS_HOLD_TAKEN || phase == VMS_HOLD_OWED) &&
	    atomic_load(&hold->asked_us) > stub->qemu.qmp.last_resume_us)
		stub->resumes = stub->qemu.qmp.resumes;
}

void vms_stub_abandon(struct vms_qemu_stub *stub, bool may_be_ours)
{
	stub->gdb.broken = true;
	atomic_store(&stub->standing, VMS_NOT_HELD);
	if (may_be_ours) {
		note_stop_after_watchdog(stub);
		vms_stub_owe_release(stub);
	} else if (!vms_stub_is_owed(stub)) {
		vms_hold_begin(vms_stub_hold(stub), VMS_HOLD_LOOKING, 0, 0);
	}
	if (!vms_stub_settle_release(stub, NULL))
		vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
}
