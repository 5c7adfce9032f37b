/* SPDX-License-Identifier: MIT */
/*
 * The raw values of a stack: at the hit, a program collects the registers that a walk needs, which
 * process executes, and copies of the stack of the kernel, of the task and of the program.
 */
#pragma once

#include "probe/program.h"
#include "unwind/copied_stack.h"
#include <vmscope/flow.h>

/* Returns how many raw values a stack has, or 0 if the architecture does not support copying. */
unsigned vms_stack_raw_count(const struct vms_arch *arch);
/* Appends operations that collect the raw values to an array of struct vms_op. */
void vms_stack_raw_collect(const struct vms_arch *arch, const struct vms_guest *guest,
			   enum vms_stack_frames frames, GArray *ops);

/* Values that are taken one after another. */
struct vms_taken {
	const uint8_t *at, *end;
};
/* Takes any value. False if it is not complete. */
bool vms_taken_value(struct vms_taken *values, struct vms_value_head *head, const uint8_t **bytes);

/* What the raw values of a stack say. */
struct vms_stack_raw {
	struct vms_copied_stack kernel; /* `regs` are those of the hit */
	struct vms_stack_part user;
	uint64_t frames; /* enum vms_stack_frames */
	struct vms_task task;
	bool has_process; /* `task` is that of a process */
};
/*
 * Takes the raw values. The other registers of `raw->kernel.regs` are set before, and all else is
 * zeroed. False if they are not complete.
 */
bool vms_stack_raw_take(struct vms_taken *values, const struct vms_arch *arch,
			struct vms_stack_raw *raw);
