/* SPDX-License-Identifier: MIT */
/* Puts right what a tool that died together with its watchdog has left in a QEMU. */
#include "machine/qemu/recover.h"

#include "machine/qemu/hold_record.h"
#include "machine/qemu/stub.h"
#include <vmscope/log.h>

/* Resumes a machine that stands still by the dead tool's stop. False if that cannot be done now. */
static bool resume_machine(struct vms_qemu *qemu)
{
	enum vms_run_state state;
	if (!vms_qemu_ask_state(qemu, &state, NULL))
		return false;
	switch (vms_run_state_release_way(state)) {
	case VMS_RELEASE_NOTHING: return true;
	case VMS_RELEASE_STOP_CONT:
	case VMS_RELEASE_CONT: break;
	case VMS_RELEASE_LATER:
	default: return false;
	}
	return vms_qemu_cont(qemu, state, NULL);
}

/* Cleans up by one record. True if nothing is left to do. */
static bool recover_record(const struct vms_record *record, const char *label, void *data)
{
	struct vms_qemu *qemu = data;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&record->hold.word));
	vms_qemu_close_descriptor(qemu, label);
	if (atomic_load(&record->hold.stub) && !vms_qemu_remove_server(qemu, label, NULL))
		return false;
	if (!vms_hold_may_be_ours(phase))
		return true;
	if (!resume_machine(qemu))
		return false;
	vms_log(VMS_LOG_WARNING,
		"%s runs again: a vmscope that was killed together with its watchdog had stopped "
		"it",
		qemu->machine.info.name);
	return true;
}

void vms_qemu_recover(struct vms_qemu *qemu)
{
	vms_record_each_left(&qemu->process, recover_record, qemu);
}
