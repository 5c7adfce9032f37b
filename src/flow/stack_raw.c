/* SPDX-License-Identifier: MIT */
#include "flow/stack_raw.h"

#include "guest/processes.h"
#include "probe/program_writer.h"
#include <string.h>

/*
 * Bytes that are copied from the stack pointer upwards if the vCPU executes the kernel: the size of
 * a kernel's stack. TASK_BYTES is the size of the second part, the end of the task's stack. It is
 * copied if the vCPU uses another stack, which interrupts and exceptions have. USER_BYTES are
 * copied from the stack pointer of the program.
 */
#define STACK_BYTES 16384u
#define TASK_BYTES  8192u
#define USER_BYTES  32768u
#define COMM_BYTES  16u /* of task_struct.comm */

/*
 * The raw values after those of registers. RAW_FRAMES is a number: enum vms_stack_frames. RAW_COMM
 * is the name of the process.
 */
enum {
	RAW_STACK,
	RAW_TASK_VA,
	RAW_TASK,
	RAW_FRAMES,
	RAW_MM,
	RAW_TID,
	RAW_PID,
	RAW_COMM,
	RAW_USER_VA,
	RAW_USER,
	N_RAW
};

unsigned vms_stack_raw_count(const struct vms_arch *arch)
{
	size_t n;
	return vms_walk_registers(arch, &n) ? (unsigned)n + N_RAW : 0;
}

/* ---- where the hit happens ------------------------------------------------------------- */

static void push_unknown(GArray *ops)
{
	vms_program_push(ops, 0);
	vms_program_push(ops, 0);
	vms_program_do(ops, VMS_OP_DIVIDE);
}

/* Leaves 1 if the vCPU executes the kernel, as its stack tells, else 0. */
static void push_in_kernel(const struct vms_arch *arch, GArray *ops)
{
	vms_program_register(ops, arch->sp);
	vms_program_push(ops, 63);
	vms_program_do(ops, VMS_OP_SHIFT_RIGHT);
}

/* Leaves the stack pointer. It becomes unknown, by a division by 0, in a program. */
static void push_kernel_stack(const struct vms_arch *arch, GArray *ops)
{
	vms_program_register(ops, arch->sp);
	push_in_kernel(arch, ops);
	vms_program_do(ops, VMS_OP_DIVIDE);
}

/* Leaves the number of `size` bytes at an offset in the current task. */
static void push_of_task(const struct vms_guest *guest, unsigned size, uint32_t offset, GArray *ops)
{
	vms_guest_add_current(guest, ops);
	vms_program_load(ops, size, offset);
}

/*
 * Leaves the address of the part of the task's stack that is copied. The address becomes unknown
 * if the vCPU uses this stack already, or if it executes a program.
 */
static void push_task_part(const struct vms_arch *arch, const struct vms_guest *guest,
			   const struct vms_task_layout *layout, GArray *ops)
{
	const uint32_t size = layout->stack_size ? layout->stack_size : VMS_USUAL_TASK_STACK;
	push_of_task(guest, sizeof(uint64_t), layout->stack, ops);
	vms_program_push(ops, size - MIN(size, TASK_BYTES));
	vms_program_do(ops, VMS_OP_ADD);
	vms_program_push(ops, size);
	vms_program_register(ops, arch->sp);
	push_of_task(guest, sizeof(uint64_t), layout->stack, ops);
	vms_program_do(ops, VMS_OP_SUBTRACT);
	vms_program_do(ops, VMS_OP_LESS_OR_EQUAL); /* size <= sp - stack */
	push_in_kernel(arch, ops);
	vms_program_do(ops, VMS_OP_AND);
	vms_program_do(ops, VMS_OP_DIVIDE);
}

/*
 * Leaves the stack pointer of the program. In the kernel, that is where the kernel has saved it, at
 * the end of the task's stack.
 */
static void push_user_stack(const struct vms_arch *arch, const struct vms_guest *guest,
			    const struct vms_task_layout *layout, GArray *ops)
{
	push_in_kernel(arch, ops);
	const guint skip = ops->len;
	vms_program_do(ops, VMS_OP_SKIP_IF_ZERO); /* leaves 0 */
	push_of_task(guest, sizeof(uint64_t), layout->stack, ops);
	vms_program_load(ops, sizeof(uint64_t), layout->user_sp);
	g_array_index(ops, struct vms_op, skip).value = ops->len - skip - 1;
	vms_program_register(ops, arch->sp);
	push_in_kernel(arch, ops);
	vms_program_do(ops, VMS_OP_IS_ZERO);
	vms_program_do(ops, VMS_OP_MULTIPLY);
	vms_program_do(ops, VMS_OP_ADD);
}

/* Collects which process the vCPU executes. */
static void collect_process(const struct vms_guest *guest, const struct vms_task_layout *layout,
			    GArray *ops)
{
	vms_guest_add_current(guest, ops);
	vms_program_do(ops, VMS_OP_DUPLICATE);
	vms_program_load(ops, sizeof(uint64_t), layout->mm);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	vms_program_do(ops, VMS_OP_DUPLICATE);
	vms_program_load(ops, sizeof(uint32_t), layout->tid);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	vms_program_do(ops, VMS_OP_DUPLICATE);
	vms_program_load(ops, sizeof(uint32_t), layout->pid);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	vms_program_load(ops, sizeof(uint64_t), layout->group_leader);
	vms_program_push(ops, layout->comm);
	vms_program_do(ops, VMS_OP_ADD);
	vms_program_add(ops, VMS_OP_COLLECT_MEMORY, COMM_BYTES, 0);
}

static void collect_no_process(GArray *ops)
{
	for (unsigned i = RAW_MM; i <= RAW_PID; i++) {
		push_unknown(ops);
		vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	}
	push_unknown(ops);
	vms_program_add(ops, VMS_OP_COLLECT_MEMORY, COMM_BYTES, 0);
}

/* Leaves the stack pointer. It becomes unknown, by a division by 0, in the kernel. */
static void push_program_stack(const struct vms_arch *arch, GArray *ops)
{
	vms_program_register(ops, arch->sp);
	push_in_kernel(arch, ops);
	vms_program_do(ops, VMS_OP_IS_ZERO);
	vms_program_do(ops, VMS_OP_DIVIDE);
}

/* Collects the address on the stack, and `size` bytes there. */
static void collect_memory_part(GArray *ops, unsigned size)
{
	vms_program_do(ops, VMS_OP_DUPLICATE);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	vms_program_add(ops, VMS_OP_COLLECT_READABLE, size, 0);
}

void vms_stack_raw_collect(const struct vms_arch *arch, const struct vms_guest *guest,
			   enum vms_stack_frames frames, GArray *ops)
{
	struct vms_task_layout layout = { 0 };
	size_t n;
	const uint8_t *regs = vms_walk_registers(arch, &n);
	const bool has_tasks = vms_guest_task_layout(guest, &layout);
	const bool has_user = has_tasks && frames != VMS_STACK_KERNEL;
	for (size_t i = 0; i < n; i++) {
		vms_program_register(ops, regs[i]);
		vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	}
	push_kernel_stack(arch, ops);
	vms_program_add(ops, VMS_OP_COLLECT_READABLE, STACK_BYTES, 0);
	if (has_tasks && layout.stack)
		push_task_part(arch, guest, &layout, ops);
	else
		push_unknown(ops);
	collect_memory_part(ops, TASK_BYTES);
	vms_program_push(ops, frames);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	if (has_user)
		collect_process(guest, &layout, ops);
	else
		collect_no_process(ops);
	if (frames == VMS_STACK_KERNEL)
		push_unknown(ops);
	else if (has_tasks && layout.stack && layout.user_sp)
		push_user_stack(arch, guest, &layout, ops);
	else
		push_program_stack(arch, ops);
	collect_memory_part(ops, frames == VMS_STACK_KERNEL ? 1 : USER_BYTES);
}

/* ---- values that come ------------------------------------------------------------------- */

bool vms_taken_value(struct vms_taken *values, struct vms_value_head *head, const uint8_t **bytes)
{
	if ((size_t)(values->end - values->at) < sizeof(*head))
		return false;
	memcpy(head, values->at, sizeof(*head));
	*bytes = values->at + sizeof(*head);
	if (head->size > (size_t)(values->end - *bytes))
		return false;
	values->at = *bytes + head->size;
	return true;
}

/* Takes a number. Sets it to 0 and `*is_known` to false if it could not be read. */
static bool take_number(struct vms_taken *values, uint64_t *ret, bool *is_known)
{
	struct vms_value_head head;
	const uint8_t *bytes;
	*ret = 0;
	if (!vms_taken_value(values, &head, &bytes))
		return false;
	*is_known = head.size == sizeof(*ret);
	if (*is_known)
		memcpy(ret, bytes, sizeof(*ret));
	return true;
}

static bool take_part(struct vms_taken *values, uint64_t va, struct vms_stack_part *ret)
{
	struct vms_value_head head;
	if (!vms_taken_value(values, &head, &ret->bytes))
		return false;
	ret->va = va;
	ret->size = head.size;
	return true;
}

/* Takes registers. `regs` has the other registers already. */
static bool take_registers(struct vms_taken *values, const struct vms_arch *arch,
			   struct vms_regs *regs)
{
	size_t n;
	const uint8_t *indices = vms_walk_registers(arch, &n);
	bool is_known;
	uint64_t value;
	for (size_t i = 0; i < n; i++) {
		if (!take_number(values, &value, &is_known))
			return false;
		if (is_known)
			vms_regs_set(regs, indices[i], value);
		else
			vms_regs_assume(regs, indices[i], 0);
	}
	return true;
}

/* Takes the process. */
static bool take_process(struct vms_taken *values, struct vms_stack_raw *raw)
{
	struct vms_value_head head;
	const uint8_t *comm;
	uint64_t tid, pid;
	bool has_mm, is_known;
	if (!take_number(values, &raw->task.mm, &has_mm) || !take_number(values, &tid, &is_known) ||
	    !take_number(values, &pid, &is_known) || !vms_taken_value(values, &head, &comm))
		return false;
	raw->task.tid = (uint32_t)tid;
	raw->task.pid = (uint32_t)pid;
	memcpy(raw->task.process_comm, comm, MIN(head.size, sizeof(raw->task.process_comm) - 1));
	raw->has_process = has_mm && raw->task.mm && head.size;
	return true;
}

bool vms_stack_raw_take(struct vms_taken *values, const struct vms_arch *arch,
			struct vms_stack_raw *raw)
{
	bool is_known;
	uint64_t va;
	return take_registers(values, arch, &raw->kernel.regs) &&
	       take_part(values, raw->kernel.regs.value[arch->sp], &raw->kernel.parts[0]) &&
	       take_number(values, &va, &is_known) &&
	       take_part(values, va, &raw->kernel.parts[1]) &&
	       take_number(values, &raw->frames, &is_known) && take_process(values, raw) &&
	       take_number(values, &va, &is_known) && take_part(values, va, &raw->user);
}
