/* SPDX-License-Identifier: MIT */
/* What the files task*.c share: offsets, and what differs between architectures. */
#pragma once

#include "guest/linux/member.h"
#include "guest/linux/task.h"

struct vms_linux_tasks {
	const struct vms_task_arch *arch;
	uint64_t init_task;
	uint64_t current;      /* the per-CPU variable that points to the current task */
	uint64_t this_cpu_off; /* the per-CPU variable that holds the CPU's own per-CPU base */
	uint64_t run_queue;    /* the per-CPU variable that has the CPU's queue; 0: not known */
	bool smp;	       /* false: per-CPU variables are ordinary variables */

	struct vms_btf_member pid, tgid, mm, comm, state, exit_state, real_parent, group_leader;
	struct vms_btf_member signal, tasks, thread_node, thread_head, on_cpu, pgd, start_code,
		stack, queue_current;
	/* Switches away from a task that went to sleep, and from one that did not want to. */
	struct vms_btf_member voluntary, involuntary, wake_cpu;
	struct {
		uint64_t begin, end; /* both 0 if unknown */
	} sleep_code[2];	     /* wait_channel.c */
	uint64_t stack_size;	     /* bytes of a task's kernel stack; 0: not known */
	uint64_t user_sp;	     /* where it has the program's stack pointer; 0: not known */
	/* Where a switch to another task saves registers; on x86 in struct inactive_task_frame. */
	struct vms_btf_member cpu_context; /* on aarch64 */
	struct vms_btf_member thread_sp, frame_bx, frame_bp, frame_r12, frame_r13, frame_r14,
		frame_r15, frame_return;
};

/* What differs between architectures: see task_<architecture>.c. */
struct vms_task_arch {
	const struct vms_arch *arch;
	/* Finds the per-CPU variable that points to the current task. */
	bool (*find_current)(const struct vms_linux *guest, uint64_t *ret);
	/*
	 * Returns how many bytes are above a program's registers at the end of a task's stack.
	 * NULL: none are.
	 */
	uint64_t (*stack_padding)(const struct vms_linux *guest);
	/* Finds the address of the task that the vCPU with these registers runs. */
	bool (*current)(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			const struct vms_regs *regs, uint64_t *ret);
	/*
	 * Appends operations that leave the address of that task on the stack, for code of the
	 * kernel and of user programs. The value is unknown in a few instructions of entries and
	 * exits.
	 */
	void (*add_current)(const struct vms_linux_tasks *tasks, GArray *ops);
	/*
	 * Makes `regs`, which lead to the kernel's memory, those of a task that does not run.
	 * `pgd` is the physical address of its own page tables, or 0 if it has none.
	 */
	bool (*switched_regs)(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			      uint64_t task, uint64_t pgd, struct vms_regs *regs);
	/* Makes `regs` lead to the memory of the process whose page tables are at `pgd`. */
	void (*set_tables)(struct vms_regs *regs, uint64_t pgd);
	/* Returns what tells page tables apart that `regs` lead to. */
	uint64_t (*tables)(const struct vms_regs *regs);
};

/* Finds the code that only puts tasks to sleep. */
void vms_linux_find_sleep_code(const struct vms_linux *guest, struct vms_linux_tasks *tasks);
/* Returns the letter that the kernel reports for a state. */
char vms_linux_state_letter(uint64_t state, uint64_t exit_state);

extern const struct vms_task_arch vms_task_arch_x86_64;
extern const struct vms_task_arch vms_task_arch_aarch64;
