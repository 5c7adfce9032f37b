/* SPDX-License-Identifier: MIT */
/* What the files of the task part share: offsets, and what differs between architectures. */
#pragma once

#include "guest/linux/member.h"
#include "guest/linux/task.h"

struct vms_linux_tasks {
	const struct vms_task_arch *arch;
	uint64_t init_task;
	uint64_t current;      /* the per-CPU variable that points to the current task */
	uint64_t this_cpu_off; /* the one that holds the CPU's own per-CPU base */
	bool smp;	       /* without, per-CPU variables are ordinary ones */

	struct vms_btf_member pid, tgid, mm, comm, state, exit_state, real_parent, group_leader;
	struct vms_btf_member signal, tasks, thread_node, thread_head, on_cpu, pgd;
	/* What a switch away from a task leaves behind; on x86 struct inactive_task_frame. */
	struct vms_btf_member cpu_context; /* on aarch64 */
	struct vms_btf_member thread_sp, frame_bx, frame_bp, frame_r12, frame_r13, frame_r14,
		frame_r15, frame_return;
};

/* What the architectures do differently: task_<architecture>.c. */
struct vms_task_arch {
	const struct vms_arch *arch;
	/* The per-CPU variable that points to the current task. */
	bool (*find_current)(const struct vms_linux *guest, uint64_t *ret);
	/* Address of the task that the vCPU with these registers runs. */
	bool (*current)(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			const struct vms_regs *regs, uint64_t *ret);
	/*
	 * Turns `regs`, any of the kernel's, into those of a task that is switched away from.
	 * `pgd` is the physical address of its own page tables, 0 if it has none.
	 */
	bool (*switched_regs)(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			      uint64_t task, uint64_t pgd, struct vms_regs *regs);
};

extern const struct vms_task_arch vms_task_arch_x86_64;
extern const struct vms_task_arch vms_task_arch_aarch64;
