/* SPDX-License-Identifier: MIT */
/* Walks of which is known whose user half they have. */
#pragma once

#include <vmscope/unwind.h>

/* As vms_walk. User frames are found by the unwind tables of what `process` maps. */
void vms_walk_process(struct vms_guest *guest, struct vms_memory *memory,
		      const struct vms_process *process, const struct vms_regs *regs,
		      unsigned depth, struct vms_stack *ret);
/*
 * As vms_walk, up to the first user frame, which it leaves out: then it returns true, and `*user`
 * are the registers there.
 */
bool vms_walk_to_user(struct vms_guest *guest, struct vms_memory *memory,
		      const struct vms_regs *regs, unsigned depth, struct vms_stack *ret,
		      struct vms_regs *user);
