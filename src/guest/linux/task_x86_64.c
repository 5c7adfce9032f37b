/* SPDX-License-Identifier: MIT */
#include "arch/x86_64.h"
#include "guest/linux/task-private.h"
#include "probe/program_writer.h"

#define KERNEL_CS  0x10
#define CR3_TABLES UINT64_C(0x000ffffffffff000)
#define CPL_MASK   3 /* of CS: the privilege level, 0 in the kernel */

/* Finds the variable that points to the current task. It is in struct pcpu_hot from 6.2 to 6.14. */
static bool find_current(const struct vms_linux *guest, uint64_t *ret)
{
	struct vms_btf_member member;
	if (!vms_linux_symbol(guest, "pcpu_hot", ret))
		return vms_linux_symbol(guest, "current_task", ret);
	if (!vms_btf_member(guest->btf, "pcpu_hot", "current_task", &member))
		return false;
	*ret += member.offset;
	return true;
}

/*
 * Finds a CPU's per-CPU base. It is in GS while the CPU runs the kernel, and in KERNEL_GS_BASE
 * while it runs a user program. It is the other way round for a few instructions of an entry or
 * exit. A user program may set GS to anything. So a base is believed only if the variable
 * this_cpu_off at this base repeats it. That is enough for one that is assumed (vcpu_bases.c), too.
 *
 * Addresses of per-CPU variables begin at zero. From 6.15 on, they begin where the kernel was
 * linked, and the bases are lower by as much ("x86/percpu/64: Use relative percpu offsets"). The
 * sum of base and address is right for both.
 */
static bool find_percpu_base(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			     const struct vms_regs *regs, uint64_t *ret)
{
	bool in_kernel = vms_arch_x86_64.in_kernel(regs);
	const unsigned order[] = {
		in_kernel ? GS_BASE : K_GS_BASE,
		in_kernel ? K_GS_BASE : GS_BASE,
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(order); i++) {
		uint64_t base = regs->value[order[i]], repeated;
		if ((vms_regs_have(regs, order[i]) || base != 0) &&
		    vms_arch_x86_64.is_kernel_address(base + tasks->this_cpu_off) &&
		    vms_memory_read_u64(memory, base + tasks->this_cpu_off, &repeated) &&
		    repeated == base) {
			*ret = base;
			return true;
		}
	}
	return false;
}

/* THREAD_SIZE in asm/page_64_types.h; with KASAN it is more. */
#define STACK_SIZE 16384

/* True if the kernel's stack of a task has this address. */
static bool has_stack(const struct vms_linux_tasks *tasks, struct vms_memory *memory, uint64_t task,
		      uint64_t sp)
{
	uint64_t stack;
	return vms_member_read(memory, task, &tasks->stack, &stack) && sp - stack < STACK_SIZE;
}

/*
 * A switch changes the stack first and the current task some hundred instructions later
 * (__switch_to). Whose the stack is, the run queue tells, which was told before.
 */
static uint64_t find_task_of_stack(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
				   const struct vms_regs *regs, uint64_t base, uint64_t current)
{
	uint64_t next;
	if (!vms_arch_x86_64.in_kernel(regs) || tasks->run_queue == 0 ||
	    has_stack(tasks, memory, current, regs->value[RSP]) ||
	    !vms_member_read(memory, base + tasks->run_queue, &tasks->queue_current, &next) ||
	    !has_stack(tasks, memory, next, regs->value[RSP]))
		return current;
	return next;
}

static bool find_x86_current(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			     const struct vms_regs *regs, uint64_t *ret)
{
	uint64_t base = 0;
	if (tasks->smp && !find_percpu_base(tasks, memory, regs, &base))
		return false;
	if (!vms_memory_read_u64(memory, base + tasks->current, ret))
		return false;
	*ret = find_task_of_stack(tasks, memory, regs, base, *ret);
	return true;
}

/* Appends: GS if the vCPU is in the kernel, else KERNEL_GS_BASE. */
static void add_percpu_base(GArray *ops)
{
	const struct {
		unsigned reg;
		bool if_kernel;
	} parts[] = { { GS_BASE, true }, { K_GS_BASE, false } };
	for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
		vms_program_register(ops, parts[i].reg);
		vms_program_register(ops, CS);
		vms_program_push(ops, CPL_MASK);
		vms_program_do(ops, VMS_OP_AND);
		vms_program_do(ops, VMS_OP_IS_ZERO);
		if (!parts[i].if_kernel)
			vms_program_do(ops, VMS_OP_IS_ZERO);
		vms_program_do(ops, VMS_OP_MULTIPLY);
	}
	vms_program_do(ops, VMS_OP_ADD);
}

/* As find_x86_current, with one base. A division by 0 makes a false base unknown. */
static void add_x86_current(const struct vms_linux_tasks *tasks, GArray *ops)
{
	if (tasks->smp) {
		add_percpu_base(ops);
		vms_program_do(ops, VMS_OP_DUPLICATE);
		vms_program_do(ops, VMS_OP_DUPLICATE);
		vms_program_load(ops, 8, tasks->this_cpu_off);
		vms_program_do(ops, VMS_OP_EQUAL);
		vms_program_do(ops, VMS_OP_DIVIDE);
	} else {
		vms_program_push(ops, 0);
	}
	vms_program_load(ops, 8, tasks->current);
}

static void set_tables(struct vms_regs *regs, uint64_t pgd)
{
	vms_regs_set(regs, CR3, pgd);
}

static uint64_t get_tables(const struct vms_regs *regs)
{
	return regs->value[CR3] & CR3_TABLES;
}

/* Reads what __switch_to_asm pushed: struct inactive_task_frame (asm/switch_to.h). */
static bool make_x86_switched_regs(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
				   uint64_t task, uint64_t pgd, struct vms_regs *regs)
{
	const struct {
		unsigned reg;
		const struct vms_btf_member *member;
	} saved[] = {
		{ RBX, &tasks->frame_bx },     { RBP, &tasks->frame_bp },
		{ R12, &tasks->frame_r12 },    { R13, &tasks->frame_r13 },
		{ R14, &tasks->frame_r14 },    { R15, &tasks->frame_r15 },
		{ RIP, &tasks->frame_return },
	};
	uint64_t frame;
	if (!vms_member_read(memory, task, &tasks->thread_sp, &frame))
		return false;
	for (unsigned reg = RAX; reg <= RIP; reg++)
		vms_regs_forget(regs, reg);
	for (unsigned i = 0; i < G_N_ELEMENTS(saved); i++) {
		uint64_t value;
		if (!vms_member_read(memory, frame, saved[i].member, &value))
			return false;
		vms_regs_set(regs, saved[i].reg, value);
	}
	vms_regs_set(regs, RSP, frame + tasks->frame_return.offset + tasks->frame_return.size);
	vms_regs_set(regs, CS, KERNEL_CS);
	if (pgd)
		set_tables(regs, pgd);
	return true;
}

/* Kernels with FRED keep 16 bytes there (TOP_OF_KERNEL_STACK_PADDING, asm/thread_info.h). */
static uint64_t get_stack_padding(const struct vms_linux *guest)
{
	uint64_t va;
	return vms_linux_symbol(guest, "asm_fred_entrypoint_user", &va) ? 16 : 0;
}

const struct vms_task_arch vms_task_arch_x86_64 = {
	.arch = &vms_arch_x86_64,
	.find_current = find_current,
	.current = find_x86_current,
	.add_current = add_x86_current,
	.stack_padding = get_stack_padding,
	.switched_regs = make_x86_switched_regs,
	.set_tables = set_tables,
	.tables = get_tables,
};
