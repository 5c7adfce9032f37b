/* SPDX-License-Identifier: MIT */
/*
 * Samples threads of a guest that are off the CPU: their kernel's stack from the registers that
 * they have saved, and the program's. Nothing is held. A thread that has not run while its stack
 * was read has it still; one that has not run since its last sample has the same stack as then. One
 * thread at a time.
 */
#pragma once

#include "sample/run.h"

struct vms_guest_waits;

/* Keeps a reference to the run, whose guest the threads are in. */
struct vms_guest_waits *vms_guest_waits_new(struct vms_run *run);
void vms_guest_waits_free(struct vms_guest_waits *waits);
/* Sets which threads are looked at: an array of struct vms_task, in the order of vms_guest_tasks.
 */
void vms_guest_waits_set_threads(struct vms_guest_waits *waits, const GArray *tasks);

/* When threads are looked at. */
struct vms_guest_wait_tick {
	uint64_t time_ns;
	uint64_t skipped; /* ticks before it, at which nobody looked */
	uint64_t period_ns;
	const int *stops; /* atomic: once it is not 0, further threads are left out; or NULL */
};

struct vms_guest_wait_counts {
	uint64_t taken;	 /* samples of this tick */
	uint64_t missed; /* samples that are missing: threads that could not be read, or that ran
			    meanwhile for a moment; skipped ticks of threads that have run since */
};
/*
 * Gives a sample of each thread that is off the CPU, and those of the skipped ticks if it has not
 * run since. Only the frames that its stack has are allocated, so it must not be copied as a whole.
 */
void vms_guest_waits_sample(struct vms_guest_waits *waits, const struct vms_guest_wait_tick *tick,
			    void (*give)(const struct vms_sample_record *sample, uint64_t begin_ns,
					 void *data),
			    void *data, struct vms_guest_wait_counts *counts);
/*
 * Gives the samples since each thread was looked at last, up to `end_ns`, if it has not run since.
 * It reads no stacks, so it is quick.
 */
void vms_guest_waits_finish(struct vms_guest_waits *waits, uint64_t end_ns, uint64_t period_ns,
			    void (*give)(const struct vms_sample_record *sample, uint64_t begin_ns,
					 void *data),
			    void *data, struct vms_guest_wait_counts *counts);
