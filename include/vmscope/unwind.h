/* SPDX-License-Identifier: MIT */
/* Walking a stack, from the registers of a held vCPU to the outermost caller. */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

/* Frames kept of one stack. */
#define VMS_STACK_LIMIT	  1024
#define VMS_STACK_DEFAULT 128

struct vms_frame {
	uint64_t pc;
	bool is_return; /* pc is a return address: the call lies before it */
	bool is_user;
	/* Of kernel code: the number of what was loaded there (vms_symbolizer_note_code). 0: it was
	 * not noted, or is the kernel's own. */
	uint32_t code;
	/*
	 * Stack pointer at `pc`: for a caller, once the call has returned. Where an aarch64 frame
	 * record alone tells, the lowest that it can be: the end of the callee's record.
	 */
	uint64_t sp;
};

/* How a walk ended. */
enum vms_walk_end {
	VMS_WALK_ROOT,	     /* there is no further caller */
	VMS_WALK_DEPTH,	     /* more frames than asked for */
	VMS_WALK_UNREADABLE, /* stack memory that is not mapped */
	VMS_WALK_NO_INFO,    /* no unwind table entry for the address */
	VMS_WALK_BAD_FRAME,  /* a frame that cannot be: not code, not further out, a loop */
	VMS_WALK_N_ENDS,
};
const char *vms_walk_end_text(enum vms_walk_end end);

struct vms_stack {
	unsigned n;		      /* frames, leaf first */
	unsigned n_kernel;	      /* how many of them are kernel frames */
	enum vms_walk_end kernel_end; /* of the kernel part; ROOT where there is none */
	enum vms_walk_end end;	      /* of the whole walk */
	struct vms_frame frame[VMS_STACK_LIMIT];
};

/*
 * Walks from `regs` outwards through `memory`, at most `depth` frames (1 to VMS_STACK_LIMIT).
 * Kernel frames by the guest's ORC tables where it has them, else by frame pointers; user frames by
 * frame pointers. Always gives at least the frame of the program counter. For the thread that
 * `memory` belongs to.
 */
void vms_walk(struct vms_guest *guest, struct vms_memory *memory, const struct vms_regs *regs,
	      unsigned depth, struct vms_stack *ret);

VMS_END_DECLS
