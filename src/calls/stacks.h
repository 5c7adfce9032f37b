/* SPDX-License-Identifier: MIT */
/* Finds the calls of every task and vCPU of the guest that are open when tracing starts. */
#pragma once

#include "calls/abi.h"
#include <vmscope/unwind.h>

/*
 * Appends the frames of a walked stack, outermost first: struct vms_agent_frame. A call has ended
 * when the stack pointer has moved above its slot. If a slot is not known exactly, it is the lowest
 * possible one, so that the return is not missed.
 */
void vms_calls_append_frames(struct vms_guest *guest, const struct vms_calls_abi *abi,
			     const struct vms_stack *walked, GByteArray *ret);

/*
 * Makes the table that VMS_AGENT_CALLS_STACKS sends: struct vms_agent_stack, each followed by its
 * frames. The caller holds the machine. Stacks that cannot be walked are left out. Errors: those of
 * the machine.
 */
GByteArray *vms_calls_list_stacks(struct vms_guest *guest, const struct vms_calls_abi *abi,
				  GError **error);
