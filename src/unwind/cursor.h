/* SPDX-License-Identifier: MIT */
/* Where a walk stands, and how it steps outwards. */
#pragma once

#include "guest/unwind_info.h"
#include <vmscope/unwind.h>

struct vms_cursor {
	struct vms_guest *guest;
	const struct vms_arch *arch;
	struct vms_memory *memory;
	struct vms_reader virt; /* the same, to read stacks */
	struct vms_regs regs;	/* of this frame, as far as they are known */
	bool is_return;		/* the program counter is a return address */
	bool is_user;
};

/*
 * A step moves the cursor to the caller's frame and returns true; or returns false, *end telling
 * why there is none. The cursor is undefined then.
 */

/*
 * How an architecture steps out of a frame of Linux's kernel: by its unwind tables or its frame
 * pointers, through the frames of interrupts, exceptions and system calls up to user mode. That a
 * step leads outwards is checked by the walk.
 */
struct vms_kernel_unwinder {
	const struct vms_arch *arch;
	bool (*step)(struct vms_cursor *cursor, enum vms_walk_end *end);
};

extern const struct vms_kernel_unwinder vms_kernel_unwinder_x86_64;
extern const struct vms_kernel_unwinder vms_kernel_unwinder_aarch64;
