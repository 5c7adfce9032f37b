/* SPDX-License-Identifier: MIT */
/* The state of a walk at one frame, and the steps to the next frame outwards. */
#pragma once

#include "guest/unwind_info.h"
#include <vmscope/unwind.h>

#define VMS_CURSOR_MAPPINGS 4 /* a program and its libraries call each other back and forth */

struct vms_cursor {
	struct vms_guest *guest;
	const struct vms_arch *arch;
	struct vms_memory *memory;
	struct vms_reader virt; /* reads stacks from `memory` */
	struct vms_regs regs;	/* of this frame, as far as they are known */
	bool is_return;		/* the program counter is a return address */
	bool is_user;		/* the frame is of user mode */
	bool is_after_signal;	/* the last step left a signal's handler, maybe to another stack */
	/* User mode: whose it is, and what was found to be mapped. NULL: nothing is known. */
	const struct vms_process *process;
	struct vms_mapping mappings[VMS_CURSOR_MAPPINGS];
	unsigned n_mappings;
};

/*
 * Steps out of frames of Linux's kernel on one architecture. It uses unwind tables or frame
 * pointers, and goes through the frames of interrupts, exceptions and system calls up to user mode.
 */
struct vms_kernel_unwinder {
	const struct vms_arch *arch;
	/* The registers that its steps and the walk may use, `n_regs` indices. */
	const uint8_t *regs;
	size_t n_regs;
	/*
	 * Moves the cursor to the caller's frame and returns true. If there is no caller, it
	 * returns false, *end tells why, and the cursor is undefined. It need not check that the
	 * step leads outwards: the walk does that.
	 */
	bool (*step)(struct vms_cursor *cursor, enum vms_walk_end *end);
};

extern const struct vms_kernel_unwinder vms_kernel_unwinder_x86_64;
extern const struct vms_kernel_unwinder vms_kernel_unwinder_aarch64;
