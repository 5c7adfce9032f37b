/* SPDX-License-Identifier: MIT */
/* Walks a stack that was copied while its vCPU was there. The vCPU has gone on since. */
#pragma once

#include <vmscope/unwind.h>

/* Stack memory from `va` on. */
struct vms_stack_part {
	uint64_t va;
	const uint8_t *bytes; /* `size` of them, not owned */
	size_t size;
};

struct vms_copied_stack {
	struct vms_regs regs; /* those of vms_walk_registers as far as they are known */
	struct vms_stack_part parts[2];
};

/*
 * Returns the indices of the registers that a walk uses, `*n` of them: the program counter and the
 * stack pointer first. NULL: stacks of this architecture can be walked in a held machine alone.
 */
const uint8_t *vms_walk_registers(const struct vms_arch *arch, size_t *n);
/*
 * As vms_walk, from copied registers and memory. The machine may run: of it, only the kernel's code
 * is read through `memory`. Where the copy ends, the walk ends as UNREADABLE.
 */
void vms_walk_copied(struct vms_guest *guest, struct vms_memory *memory,
		     const struct vms_copied_stack *stack, unsigned depth, struct vms_stack *ret);
/*
 * As vms_walk_copied, up to the first user frame, which it leaves out: then it returns true, and
 * `*user` are the registers there.
 */
bool vms_walk_copied_to_user(struct vms_guest *guest, struct vms_memory *memory,
			     const struct vms_copied_stack *stack, unsigned depth,
			     struct vms_stack *ret, struct vms_regs *user);
/*
 * Walks the user half of a stack whose kernel half vms_walk_to_user has walked, and adds its frames
 * to `ret`. The machine may run: of it, only what its processes map and their files are read, by
 * `memory`, which uses the kernel's page tables. Returns the address behind the highest byte of the
 * copy that it has read, 0 if it has read none.
 */
uint64_t vms_walk_copied_user(struct vms_guest *guest, struct vms_memory *memory,
			      const struct vms_process *process,
			      const struct vms_copied_stack *stack, unsigned depth,
			      struct vms_stack *ret);
