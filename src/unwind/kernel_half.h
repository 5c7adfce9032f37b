/* SPDX-License-Identifier: MIT */
/* Walks of stacks that kernel and program share, in two parts. */
#pragma once

#include <vmscope/unwind.h>

/*
 * As vms_walk, up to the first user frame, which it leaves out: then it returns true, and `*user`
 * are the registers there.
 */
bool vms_walk_to_user(struct vms_guest *guest, struct vms_memory *memory,
		      const struct vms_regs *regs, unsigned depth, struct vms_stack *ret,
		      struct vms_regs *user);
