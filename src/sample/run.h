/* SPDX-License-Identifier: MIT */
/*
 * One run of a sample report: its samples, and the threads that take them. There is one thread for
 * every part of the machine that is held by itself: one per vCPU, or one for all, as the engine
 * can. A thread waits for its timer's next tick, holds, captures, releases, and only then adds to
 * the trees, so that the guest stands still no longer than it must.
 */
#pragma once

#include "sample/samples.h"

struct vms_run_options {
	struct vms_machine *machine;
	struct vms_guest *guest;
	uint64_t interval_ns;
	unsigned depth;
	bool leaf_first;
	/* Called from a sampling thread when sampling makes no sense any more. Takes the error. */
	void (*ended)(enum vms_sample_end end, GError *error, void *data);
	void *data;
};

typedef struct vms_run {
	struct vms_run_options options;
	struct vms_samples *vcpus;
	unsigned n_vcpus;
	GMutex lock;			      /* guards all up to `reasons`; taken last */
	uint64_t begin_ns, end_ns;	      /* CLOCK_MONOTONIC; 0: not yet */
	uint64_t limit_ns;		      /* when its time is over; UINT64_MAX: never */
	char *reasons[VMS_SAMPLE_N_FAILURES]; /* what the first failure of each kind said */
	int stop_fd; /* an eventfd, readable when the threads are to stop */
	struct vms_sampler *samplers;
	unsigned n_samplers;
	GRWLock guest_lock; /* read by the sampling threads, written when the guest is refreshed */
	int unnamed;	    /* atomic: kernel code without a name was seen */
	/* When modules were read anew last, and for how long; guarded by the lock. */
	uint64_t refreshed_ns, refresh_took_ns;
} vms_run;

/* Keeps references to machine and guest. Errors: IO. */
struct vms_run *vms_run_new(const struct vms_run_options *options, GError **error);
struct vms_run *vms_run_ref(struct vms_run *run);
/* A run's last reference goes when its threads have been joined. */
void vms_run_unref(struct vms_run *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_run, vms_run_unref)

/*
 * Starts the threads; each takes a first sample at once, however soon the run ends. The run began
 * at `begin_ns` (CLOCK_MONOTONIC) and lasts for `duration_ns` or until it is stopped, if that is
 * sooner or the duration is 0. It has to be stopped in any case. A machine that does not answer is
 * not waited for much beyond its end. Errors: IO; those that were started are joined by
 * vms_run_join.
 */
bool vms_run_begin(struct vms_run *run, uint64_t begin_ns, uint64_t duration_ns, GError **error);
/*
 * Ends the run's time, unless it is over already, and tells the threads to stop. Returns at once:
 * when the run ended, in ns of CLOCK_MONOTONIC. For any thread.
 */
uint64_t vms_run_stop(struct vms_run *run);
/* Waits for the threads: a second at most, where the machine does not answer. */
void vms_run_join(struct vms_run *run);

/*
 * What was sampled of a vCPU. The run's time has a tick at its begin and after every interval, as
 * long as its duration is not over: samples, failures and what was missed add up to these. While it
 * runs, a tick whose sample is still being taken is among those that were missed. For any thread.
 */
void vms_run_stats(struct vms_run *run, unsigned vcpu, struct vms_sample_stats *ret);
/* What the first failure of that kind said; newly allocated, or NULL. For any thread. */
char *vms_run_reason(struct vms_run *run, enum vms_sample_failure failure);

/*
 * If code without a name was seen: reads the guest's modules anew, or looks whether it has booted
 * since nothing was recognised in it. Not now if a sample is just being taken.
 */
void vms_run_refresh_guest(struct vms_run *run);
