/* SPDX-License-Identifier: MIT */
/*
 * Samples of one sampling thread whose stacks are not walked to their end yet: the unwind table of
 * a program is not in the guest's memory, and another thread reads it from the disk. Until then its
 * copied stack is kept, and so are the samples after it, so that samples stay in their order.
 *
 * Threads: the caller lets only one thread at a time use it.
 */
#pragma once

#include "capture/capture.h"

/* All samples together that may wait. One has 48 KiB of stacks at most, and its frames. */
#define VMS_LATE_STACKS_LIMIT 512

/* Counts how often files were read. All fields are atomic. */
struct vms_file_readings {
	unsigned begun, done;
};

struct vms_late_stacks {
	GQueue waiting; /* struct late_stack */
	unsigned *n;	/* of all threads together; atomic */
	unsigned tries; /* that a stack has; less while others are never found */
};

/* `n` counts the stacks of all threads, and must outlive this. */
void vms_late_stacks_init(struct vms_late_stacks *late, unsigned *n);
void vms_late_stacks_clear(struct vms_late_stacks *late);

/* True if a sample has to wait: for a table, or for those before it. */
static inline bool vms_late_stacks_must_wait(const struct vms_late_stacks *late,
					     const struct vms_stack *stack)
{
	return stack->end == VMS_WALK_NO_TABLE || !g_queue_is_empty((GQueue *)&late->waiting);
}

/* When a sample was taken. */
struct vms_hold_time {
	uint64_t begin_ns, held_ns;
};

/*
 * Keeps copies of a sample and its copied stack. The first `n_walked` frames are those before the
 * user half. False if there is no room: the first ones must be taken out before.
 */
bool vms_late_stacks_add(struct vms_late_stacks *late, const struct vms_sample_record *record,
			 const struct vms_user_copy *copy, unsigned n_walked,
			 const struct vms_hold_time *time,
			 const struct vms_file_readings *readings);

/* How stacks that wait are walked. */
struct vms_late_walk {
	struct vms_guest *guest;
	struct vms_memory *memory;
	unsigned depth;
	const struct vms_file_readings *readings;
};

/*
 * Takes out the first sample if its stack was walked to its end, or will not be any more. With
 * `must` it is taken out as it is. False if there is none.
 */
bool vms_late_stacks_take(struct vms_late_stacks *late, const struct vms_late_walk *walk, bool must,
			  struct vms_sample_record *ret, struct vms_hold_time *time);
