/* SPDX-License-Identifier: MIT */
/* Puts right what a tool has left in a QEMU that died together with its watchdog. */
#include "machine/qemu/recover.h"

#include "machine/qemu/record.h"
#include "machine/qemu/stub.h"
#include <vmscope/log.h>

/* A machine that stands still by a stop of the dead goes on. False: not now. */
static bool let_go_on(struct vms_qemu *qemu)
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

static bool put_right(const struct vms_record *record, const char *label, void *data)
{
	struct vms_qemu *qemu = data;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&record->hold.word));
	vms_qemu_close_descriptor(qemu, label);
	if (atomic_load(&record->hold.stub) && !vms_qemu_remove_server(qemu, label, NULL))
		return false;
	if (!vms_hold_may_be_ours(phase))
		return true;
	if (!let_go_on(qemu))
		return false;
	vms_log(VMS_LOG_WARNING,
		"a vmscope that was killed together with its watchdog had stopped this machine: "
		"it runs again");
	return true;
}

void vms_qemu_recover(struct vms_qemu *qemu)
{
	vms_record_each_left(&qemu->process, put_right, qemu);
}
