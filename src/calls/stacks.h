/* SPDX-License-Identifier: MIT */
/* The calls that are open when tracing starts, of every task and vCPU of the guest. */
#pragma once

#include "calls/abi.h"
#include <vmscope/unwind.h>

/*
 * Appends the frames of a walked stack, outermost first: struct vms_agent_frame. Slots that
 * are not known exactly are the lowest that they can be, so that the return is not missed: a frame
 * is over when its stack is cut back past its slot.
 */
void vms_calls_frames(struct vms_guest *guest, const struct vms_calls_abi *abi,
		      const struct vms_stack *walked, GByteArray *ret);

/*
 * What VMS_AGENT_CALLS_STACKS sends: struct vms_agent_stack, each followed by its frames. For a
 * machine that is held. Errors: those of the machine; what cannot be walked is left out.
 */
GByteArray *vms_calls_stacks(struct vms_guest *guest, const struct vms_calls_abi *abi,
			     GError **error);
