/* SPDX-License-Identifier: MIT */
#include "arch/aarch64.h"
#include "guest/linux/task-private.h"
#include "probe/program_writer.h"

/* Indices in struct cpu_context (asm/processor.h), which begins with x19 to x28. */
#define SAVED	 13
#define SAVED_FP 10
#define SAVED_SP 11
#define SAVED_PC 12

#define TTBR_TABLES UINT64_C(0x0000fffffffffffe) /* without the address space's number, and CnP */

/*
 * Finds the address that the entry from user mode loads the current task from. Before it sets
 * SP_EL0 to the task, it makes the address: adrp x28, PAGE; add x28, x28, OFFSET (kernel_entry in
 * entry.S).
 */
static bool find_in_entry_code(const struct vms_linux *guest, uint64_t *ret)
{
	enum { INSNS = 128 };
	const uint32_t set_sp_el0 = 0xd518411c;
	uint32_t code[INSNS];
	uint64_t start, page = 0, offset = 0;
	if (!vms_linux_symbol(guest, "el0t_64_sync", &start) ||
	    !vms_memory_read(guest->memory, start, code, sizeof(code)))
		return false;
	for (size_t i = 0; i < INSNS && code[i] != set_sp_el0; i++) {
		if (vms_aarch64_adrp(code[i], start + i * sizeof(*code), X28, &page))
			offset = 0;
		else if ((code[i] & 0xffc003ff) == 0x9100039c) /* add x28, x28, # */
			offset = code[i] >> 10 & 0xfff;
	}
	*ret = page + offset;
	return page != 0;
}

static bool find_current(const struct vms_linux *guest, uint64_t *ret)
{
	return vms_linux_symbol(guest, "__entry_task", ret) || find_in_entry_code(guest, ret);
}

/* True if there is a task at `va` that a CPU runs. */
static bool is_running_task(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			    uint64_t va)
{
	uint64_t on_cpu;
	return vms_arch_aarch64.is_kernel_address(va) &&
	       vms_member_read(memory, va, &tasks->on_cpu, &on_cpu) && on_cpu == 1;
}

/*
 * In the kernel, SP_EL0 points to the current task. In a user program, it is the stack pointer. On
 * entry, the kernel loads it from the per-CPU variable __entry_task (entry.S). TPIDR_EL1 is the
 * per-CPU base.
 */
static bool find_aarch64_current(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
				 const struct vms_regs *regs, uint64_t *ret)
{
	*ret = regs->value[SP_EL0];
	if (vms_regs_have(regs, SP_EL0) && vms_arch_aarch64.in_kernel(regs) &&
	    is_running_task(tasks, memory, *ret))
		return true;
	return vms_regs_have(regs, TPIDR_EL1) &&
	       vms_memory_read_u64(memory, regs->value[TPIDR_EL1] + tasks->current, ret) &&
	       is_running_task(tasks, memory, *ret);
}

/* Appends: 1 if the vCPU is in the kernel, else 0. */
static void add_in_kernel(GArray *ops)
{
	vms_program_register(ops, CPSR);
	vms_program_push(ops, CPSR_EL_MASK);
	vms_program_do(ops, VMS_OP_AND);
	vms_program_do(ops, VMS_OP_IS_ZERO);
	vms_program_do(ops, VMS_OP_IS_ZERO);
}

/* As find_aarch64_current, without a look at the task. */
static void add_aarch64_current(const struct vms_linux_tasks *tasks, GArray *ops)
{
	vms_program_register(ops, SP_EL0);
	add_in_kernel(ops);
	vms_program_do(ops, VMS_OP_MULTIPLY);
	vms_program_register(ops, TPIDR_EL1);
	vms_program_load(ops, 8, tasks->current);
	add_in_kernel(ops);
	vms_program_do(ops, VMS_OP_IS_ZERO);
	vms_program_do(ops, VMS_OP_MULTIPLY);
	vms_program_do(ops, VMS_OP_ADD);
}

static void set_tables(struct vms_regs *regs, uint64_t pgd)
{
	vms_aarch64_set_root(regs, TTBR0_EL1, pgd);
}

static uint64_t get_tables(const struct vms_regs *regs)
{
	return regs->value[TTBR0_EL1] & TTBR_TABLES;
}

static bool make_aarch64_switched_regs(const struct vms_linux_tasks *tasks,
				       struct vms_memory *memory, uint64_t task, uint64_t pgd,
				       struct vms_regs *regs)
{
	uint64_t saved[SAVED];
	if (tasks->cpu_context.size < sizeof(saved) ||
	    !vms_memory_read(memory, task + tasks->cpu_context.offset, saved, sizeof(saved)))
		return false;
	for (unsigned reg = X0; reg <= PC; reg++)
		vms_regs_forget(regs, reg);
	for (unsigned reg = X19; reg <= X28; reg++)
		vms_regs_set(regs, reg, saved[reg - X19]);
	vms_regs_set(regs, X29, saved[SAVED_FP]);
	vms_regs_set(regs, SP, saved[SAVED_SP]);
	vms_regs_set(regs, PC, saved[SAVED_PC]);
	vms_regs_set(regs, CPSR, CPSR_EL1H);
	if (pgd)
		set_tables(regs, pgd);
	return true;
}

const struct vms_task_arch vms_task_arch_aarch64 = {
	.arch = &vms_arch_aarch64,
	.find_current = find_current,
	.current = find_aarch64_current,
	.add_current = add_aarch64_current,
	.switched_regs = make_aarch64_switched_regs,
	.set_tables = set_tables,
	.tables = get_tables,
};
