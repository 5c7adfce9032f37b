/* SPDX-License-Identifier: MIT */
#include "capture/capture.h"
#include "base/clock.h"
#include "guest/kernel_code.h"
#include "guest/unwind_info.h"
#include "machine/memory-private.h"
#include "unwind/copied_stack.h"
#include "unwind/kernel_half.h"
#include "unwind/signal_stack.h"

/*
 * True if the vCPU is waiting in a halt instruction. A halted vCPU looks like one that an interrupt
 * has just woken. Any task can be interrupted behind a halt, but only the idle task waits in one.
 */
static bool is_waiting_in_halt(const struct vms_arch *arch, struct vms_memory *memory,
			       const struct vms_regs *regs, const struct vms_task *task)
{
	uint8_t code[VMS_HALT_BYTES];

	if (task && !task->is_idle)
		return false;
	return vms_memory_read(memory, vms_arch_code_address(arch, regs) - sizeof(code), code,
			       sizeof(code)) &&
	       arch->is_halted(regs, code);
}

/*
 * Notes the last frame of a stack that has more frames than its depth. A walk notes what a frame is
 * in when it steps out of it.
 */
static void note_last_frame(struct vms_guest *guest, struct vms_memory *memory,
			    const struct vms_process *process, const struct vms_stack *stack)
{
	if (stack->end != VMS_WALK_DEPTH || stack->n == stack->n_kernel)
		return;
	const struct vms_frame *last = &stack->frame[stack->n - 1];
	vms_guest_note_address(guest, memory, process, last->pc - last->is_return);
}

/* True if loaded kernel code has changed since it was read, and the stack has some of it. */
static bool has_changed_code(struct vms_guest *guest, struct vms_memory *memory,
			     const struct vms_stack *stack)
{
	for (unsigned i = 0; i < stack->n_kernel; i++)
		if (vms_guest_code_changed(guest, memory,
					   stack->frame[i].pc - stack->frame[i].is_return))
			return true;
	return false;
}

/* The stack pointer of the next sample is expected at most this far below that of the last one. */
#define DEEPER 1024

/* Copies the stack that was interrupted by a signal handler with its own stack. */
static void copy_interrupted_stack(struct vms_memory *memory, uint64_t sp,
				   struct vms_user_copy *copy)
{
	const struct vms_arch *arch = vms_machine_arch(vms_memory_machine(memory));
	const struct vms_stack_part handlers = { sp, copy->bytes, copy->size };
	copy->other_size = 0;
	if (vms_find_interrupted_stack(arch, &handlers, &copy->other_va))
		copy->other_size =
			vms_memory_read_start(memory, copy->other_va, copy->bytes + copy->size,
					      sizeof(copy->bytes) - copy->size);
}

/*
 * Copies the mapped part of the stack from the stack pointer on, by one read. Notes the file that
 * the vCPU executes while the vCPU is held, because the process may end any moment later.
 *
 * A vCPU in a brief hold should not have to wait for that read. As long as it executes the same
 * thread, the walk needs the stack up to the same address. So that part is prefetched.
 */
static void copy_user_stack(struct vms_guest *guest, struct vms_memory *memory,
			    struct vms_user_copy *copy)
{
	const struct vms_arch *arch = vms_machine_arch(vms_memory_machine(memory));
	const uint64_t sp = copy->regs.value[arch->sp];
	const bool is_same = copy->end > sp && copy->end - sp <= VMS_USER_COPY_SIZE;
	const size_t needed = is_same ? copy->end - sp : 0;
	vms_guest_note_address(guest, memory, copy->process, copy->regs.value[arch->pc]);
	if (is_same && vms_memory_read_prefetched(memory, sp, copy->bytes, needed))
		copy->size = needed;
	else
		copy->size = vms_memory_read_start(memory, sp, copy->bytes, VMS_USER_COPY_SIZE);
	if (is_same)
		vms_memory_prefetch(memory, sp - DEEPER, needed + DEEPER);
	copy_interrupted_stack(memory, sp, copy);
}

void vms_capture_stack(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_process *process, const struct vms_regs *regs,
		       unsigned depth, struct vms_stack *ret, struct vms_user_copy *copy)
{
	copy->process = NULL;
	if (!process) {
		vms_walk(guest, memory, regs, depth, ret);
	} else if (vms_walk_to_user(guest, memory, regs, depth, ret, &copy->regs) &&
		   (ret->n_kernel == 0 || vms_guest_enter_process(guest, memory, process))) {
		copy->process = process;
		copy_user_stack(guest, memory, copy);
	}
	if (ret->n_kernel > 0)
		vms_guest_note_kernel_pc(guest, memory, ret->frame[0].pc);
}

/* ---- vCPUs ------------------------------------------------------------ */

bool vms_capture_vcpu(struct vms_machine *machine, struct vms_guest *guest,
		      struct vms_memory *memory, unsigned vcpu, unsigned depth,
		      struct vms_sample_record *ret, struct vms_user_copy *copy, GError **error)
{
	const struct vms_arch *arch = vms_machine_arch(machine);
	struct vms_regs regs;
	struct vms_task task;

	if (!vms_machine_stack_regs(machine, vcpu, &regs, error))
		return false;
	ret->vcpu = vcpu;
	ret->time_ns = vms_clock_now_ns();
	ret->code_changed = false;
	ret->waits = 0;
	ret->wait_frame = VMS_NO_WAIT_FRAME;

	vms_memory_set_regs(memory, &regs);

	bool known = vms_guest_current(guest, memory, &regs, &task);
	const struct vms_process *process = known ? vms_guest_process(guest, &task) : NULL;
	ret->pid = known ? task.pid : 0;
	ret->tid = known ? task.tid : 0;
	ret->space = process ? process->index : VMS_NO_SPACE;
	ret->idle = arch->is_at_reset(&regs) ||
		    is_waiting_in_halt(arch, memory, &regs, known ? &task : NULL);
	if (ret->idle) {
		copy->process = NULL;
		ret->stack.n = ret->stack.n_kernel = 0;
		ret->stack.kernel_end = ret->stack.end = VMS_WALK_ROOT;
		return true;
	}
	vms_capture_stack(guest, memory, process, &regs, depth, &ret->stack, copy);
	ret->code_changed = has_changed_code(guest, memory, &ret->stack);
	return true;
}

void vms_capture_finish(struct vms_guest *guest, struct vms_memory *memory, unsigned depth,
			struct vms_user_copy *copy, struct vms_stack *stack)
{
	struct vms_regs regs;
	if (!copy->process)
		return;
	const struct vms_arch *arch = vms_machine_arch(vms_memory_machine(memory));
	const struct vms_copied_stack copied = {
		.regs = copy->regs,
		.parts = { { copy->regs.value[arch->sp], copy->bytes, copy->size },
			   { copy->other_va, copy->bytes + copy->size, copy->other_size } },
	};
	if (vms_guest_kernel_regs(guest, &regs))
		vms_memory_set_regs(memory, &regs);
	copy->end = vms_walk_copied_user(guest, memory, copy->process, &copied, depth, stack);
	if (stack->end == VMS_WALK_UNREADABLE)
		copy->end = 0;
	note_last_frame(guest, memory, copy->process, stack);
}
