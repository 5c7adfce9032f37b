/* SPDX-License-Identifier: MIT */
/* Walks a stack from the registers of a held vCPU to the outermost caller. */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

/* The limit of frames of a stack, and the default. */
#define VMS_STACK_LIMIT	  1024
#define VMS_STACK_DEFAULT 128

struct vms_frame {
	uint64_t pc;
	bool is_return; /* pc is a return address: the call lies before it */
	bool is_user;
	/*
	 * Kernel code: its number from vms_symbolizer_note_code. It is 0 if the address was not
	 * noted, or is in the kernel's image.
	 */
	uint32_t code;
	/*
	 * Stack pointer at `pc`; for a caller, after the call has returned. If only an aarch64
	 * frame record is known, this is the lowest possible value, the end of the callee's record.
	 */
	uint64_t sp;
};

/* How a walk ended. */
enum vms_walk_end {
	VMS_WALK_ROOT,	     /* there is no further caller */
	VMS_WALK_DEPTH,	     /* there are more frames than were asked for */
	VMS_WALK_UNREADABLE, /* the stack's memory is not mapped */
	VMS_WALK_NO_INFO,    /* there is no unwind table entry for the address */
	VMS_WALK_BAD_FRAME,  /* an impossible frame: not code, not further out, or a loop */
	VMS_WALK_NO_TABLE,   /* the unwind table of a user program is not in the guest's memory */
	VMS_WALK_GOROUTINE,  /* callers are on the stack of a goroutine (Go), which was not read */
	VMS_WALK_N_ENDS,
};
/* Returns the end in a few words. */
const char *vms_walk_end_text(enum vms_walk_end end);

struct vms_stack {
	unsigned n;		      /* frames, leaf first */
	unsigned n_kernel;	      /* how many of them are kernel frames */
	enum vms_walk_end kernel_end; /* of the kernel frames; ROOT if there are none */
	enum vms_walk_end end;	      /* of the whole walk */
	struct vms_frame frame[VMS_STACK_LIMIT];
};

/*
 * Walks from `regs` outwards through `memory`, at most `depth` frames (1 to VMS_STACK_LIMIT).
 * Kernel frames are found by the guest's ORC tables if it has them, or else by frame pointers. User
 * frames are found by frame pointers, because their process is not known. The stack has at least
 * the frame of the program counter. Call it from the thread that uses `memory`.
 */
void vms_walk(struct vms_guest *guest, struct vms_memory *memory, const struct vms_regs *regs,
	      unsigned depth, struct vms_stack *ret);

VMS_END_DECLS
