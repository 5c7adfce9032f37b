/* SPDX-License-Identifier: MIT */
#include "capture/capture.h"

void vms_capture_note_code(struct vms_guest *guest, struct vms_stack *stack)
{
	struct vms_symbolizer *symbolizer = vms_guest_symbolizer(guest);
	for (unsigned i = 0; i < stack->n_kernel; i++) {
		struct vms_frame *frame = &stack->frame[i];
		frame->code = vms_symbolizer_note_code(symbolizer, frame->pc - frame->is_return);
	}
}
