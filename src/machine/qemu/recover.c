/* SPDX-License-Identifier: MIT */
/* Puts right what a tool that died together with its watchdog has left in a QEMU. */
#include "machine/qemu/recover.h"

#include "machine/qemu/hold_record.h"
#include "machine/qemu/stub.h"
#include <vmscope/log.h>

/*
 * Resumes a machine that stands still by the dead tool's stop. `may_be_paused`: not only a
 * breakpoint of the tool's may have stopped it. False if that cannot be done now. *resumed: it did
 * stand still.
 */
static bool resume_machine(struct vms_qemu *qemu, bool may_be_paused, const struct vms_hold *hold,
			   bool *resumed)
{
	const bool owns_hits = vms_hold_owns_hits(hold);
	enum vms_run_state state;
	if (!vms_qemu_ask_state(qemu, &state, NULL))
		return false;
	/* Nobody has looked since: a machine that was reset was probably stopped by a breakpoint.
	 */
	const bool may_be_hit = owns_hits && vms_run_state_may_follow_hit(state) &&
				(state == VMS_RUN_DEBUG || !atomic_load(&hold->is_left));
	if (!may_be_paused && !may_be_hit)
		return true;
	switch (vms_run_state_release_way(state, owns_hits)) {
	case VMS_RELEASE_NOTHING: return true;
	case VMS_RELEASE_STOP_CONT:
	case VMS_RELEASE_CONT: break;
	case VMS_RELEASE_LATER:
	default: return false;
	}
	*resumed = vms_qemu_cont(qemu, state, NULL);
	return *resumed;
}

/* Cleans up by one record. True if nothing is left to do. */
static bool recover_record(struct vms_record *record, const char *label, void *data)
{
	struct vms_qemu *qemu = data;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&record->hold.word));
	vms_qemu_close_descriptor(qemu, label);
	if (atomic_load(&record->hold.stub) && !vms_qemu_remove_server(qemu, label, NULL))
		return false;
	bool stopped = false, resumed = false;
	if (atomic_load(&record->hold.has_breakpoints) &&
	    !vms_qemu_clear_breakpoints(qemu, label, &record->hold, &stopped, NULL))
		return false;
	if (!stopped && !vms_hold_may_be_ours(phase) && !vms_hold_owns_hits(&record->hold))
		return true;
	if (!resume_machine(qemu, stopped || vms_hold_may_be_ours(phase), &record->hold, &resumed))
		return false;
	vms_hold_begin(&record->hold, VMS_HOLD_NONE, 0, 0);
	if (resumed)
		vms_log(VMS_LOG_WARNING,
			"%s runs again: a vmscope that was killed together with its watchdog had "
			"stopped it",
			qemu->machine.info.name);
	return true;
}

void vms_qemu_recover(struct vms_qemu *qemu)
{
	vms_record_each_left(&qemu->process, recover_record, qemu);
}
