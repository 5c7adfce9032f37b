/* SPDX-License-Identifier: MIT */
#include "capture/capture.h"
#include "guest/kernel_code.h"

void vms_capture_note_code(struct vms_guest *guest, struct vms_stack *stack)
{
	for (unsigned i = 0; i < stack->n_kernel; i++) {
		struct vms_frame *frame = &stack->frame[i];
		frame->code = vms_guest_note_code(guest, frame->pc - frame->is_return);
	}
}
