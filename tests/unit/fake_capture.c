/* SPDX-License-Identifier: MIT */
/*
 * Samples that a test has written down (fake_guest_set_samples). Takes the place of the library's
 * capturing in the programs that link it.
 */
#include "capture/capture.h"
#include "fake_guest.h"

bool vms_capture_vcpu(struct vms_machine *machine, struct vms_guest *guest,
		      struct vms_memory *memory G_GNUC_UNUSED, unsigned vcpu, unsigned depth,
		      struct vms_sample_record *ret, struct vms_user_copy *copy G_GNUC_UNUSED,
		      GError **error)
{
	struct vms_regs regs;
	if (!vms_machine_regs(machine, vcpu, &regs, error))
		return false;

	const struct fake_sample *sample = fake_guest_next_sample(guest, vcpu);
	struct vms_stack *stack = &ret->stack;

	ret->vcpu = vcpu;
	ret->code_changed = sample->code_changed;
	ret->idle = sample->idle;
	ret->pid = sample->process ? sample->process->pid : 0;
	ret->tid = ret->pid;
	ret->space = sample->process ? sample->process->index : VMS_NO_SPACE;
	stack->n = stack->n_kernel = 0;
	stack->end = stack->kernel_end = sample->end;
	for (const struct vms_frame *frame = sample->frames; frame->pc; frame++) {
		if (stack->n == depth) {
			stack->end = stack->kernel_end = VMS_WALK_DEPTH;
			break;
		}
		stack->n_kernel += !frame->is_user;
		stack->frame[stack->n++] = *frame;
	}
	return true;
}

/* Samples of a test are whole at once. */
void vms_capture_finish(struct vms_guest *guest G_GNUC_UNUSED,
			struct vms_memory *memory G_GNUC_UNUSED, unsigned depth G_GNUC_UNUSED,
			struct vms_user_copy *copy G_GNUC_UNUSED,
			struct vms_stack *stack G_GNUC_UNUSED)
{
}
