/* SPDX-License-Identifier: MIT */
/* Takes one sample of one vCPU: the process, the program counter, and the callers. */
#pragma once

#include <vmscope/sample_record.h>

/* Copied bytes of a program's stack, and of another stack that a signal has interrupted. */
#define VMS_USER_COPY_SIZE  32768u
#define VMS_OTHER_COPY_SIZE 16384u

/* The user half of a stack, copied under the hold, until it is walked. Must be zeroed at first. */
struct vms_user_copy {
	const struct vms_process *process; /* NULL: nothing was copied */
	struct vms_regs regs;
	uint64_t end;	   /* end of the part that the last walk has used; 0: unknown */
	size_t size;	   /* copied bytes from the stack pointer on */
	uint64_t other_va; /* address of the copied part of the interrupted stack */
	size_t other_size; /* bytes of that part, which follow the others */
	/* The last member, so that a copy of the struct may omit its end. */
	uint8_t bytes[VMS_USER_COPY_SIZE + VMS_OTHER_COPY_SIZE];
};

/*
 * Walks the kernel's half of a stack of a held machine from `regs` outwards, and copies the user
 * half. `process` is the owner of the stack. If it is NULL, which means unknown, both halves are
 * walked at once. The stack has at most `depth` frames (1 to VMS_STACK_LIMIT).
 */
void vms_capture_stack(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_process *process, const struct vms_regs *regs,
		       unsigned depth, struct vms_stack *ret, struct vms_user_copy *copy);
/*
 * Takes a sample of a vCPU that the caller holds. The stack has at most `depth` frames (1 to
 * VMS_STACK_LIMIT). `memory` is the caller's, one per thread; afterwards it uses this vCPU's page
 * tables. The user half of the stack is only copied: vms_capture_finish walks it after the hold.
 * Errors: those of vms_machine_regs. A stack that cannot be walked is not an error; its end says
 * why.
 */
bool vms_capture_vcpu(struct vms_machine *machine, struct vms_guest *guest,
		      struct vms_memory *memory, unsigned vcpu, unsigned depth,
		      struct vms_sample_record *ret, struct vms_user_copy *copy, GError **error);
/*
 * Adds the user half to the stack. `memory` is the caller's, but not the one of the hold. The
 * machine may run. Notes user addresses, so that the guest's symbolizer can name them.
 */
void vms_capture_finish(struct vms_guest *guest, struct vms_memory *memory, unsigned depth,
			struct vms_user_copy *copy, struct vms_stack *stack);

/*
 * Notes which loaded kernel code the stack's addresses belong to, so that they can still be named
 * when other code lies there. The machine may run. Any thread may call it while no thread refreshes
 * the modules.
 */
void vms_capture_note_code(struct vms_guest *guest, struct vms_stack *stack);
