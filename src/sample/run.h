/* SPDX-License-Identifier: MIT */
/*
 * One run of a sample report: its samples, and the threads that take them. There is one thread per
 * vCPU if the engine can hold each vCPU by itself, or else one thread for all. A thread waits for
 * its timer's next tick, holds, captures and releases. Only then does it add to the trees, so that
 * the guest stands still as briefly as possible.
 */
#pragma once

#include "sample/late_stacks.h"
#include "sample/samples.h"

struct vms_turns;

struct vms_run_options {
	struct vms_machine *machine;
	struct vms_guest *guest;
	uint64_t interval_ns;
	/* NULL: a tick per interval. Else vCPUs are sampled at their turns. The caller owns it. */
	struct vms_turns *turns;
	unsigned depth;
	bool leaf_first;
	/*
	 * Receives the samples, which are not kept then. NULL: samples are kept. Called from a
	 * sampling thread after the release, with a sample that vms_capture_note_code has seen, and
	 * the time at which its hold began. Returns true if the sample has new addresses.
	 */
	bool (*take)(const struct vms_sample_record *record, uint64_t begin_ns, void *data);
	/* Called for a sample while its vCPU is held, to read more of `memory`. May be NULL. */
	void (*look)(const struct vms_sample_record *record, struct vms_memory *memory, void *data);
	/* Called from a sampling thread when sampling cannot go on. Takes the error. */
	void (*ended)(enum vms_sample_end end, GError *error, void *data);
	void *data;
};

typedef struct vms_run {
	struct vms_run_options options;
	struct vms_samples *vcpus;
	unsigned n_vcpus;
	GMutex lock;		   /* guards all up to `reasons`; taken after other locks */
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; 0 before it happens */
	uint64_t limit_ns;	   /* when its time is over, or UINT64_MAX */
	char *reasons[VMS_SAMPLE_N_FAILURES]; /* the message of the first failure of each kind */
	int stop_fd;			      /* an eventfd; readable when the threads must stop */
	struct vms_sampler *samplers;
	unsigned n_samplers;
	GRWLock guest_lock; /* sampling threads read; a refresh of the guest writes */
	int unnamed;	    /* atomic: kernel code without a name was seen */
	struct vms_file_readings readings;
	unsigned n_late; /* stacks that wait for an unwind table; atomic */
	int paused;	 /* atomic: the last tick has found the machine paused by others */
	/* When the guest was last refreshed, and how long that took. Guarded by guest_lock. */
	uint64_t refreshed_ns, refresh_took_ns;
} vms_run;

/* Makes a run, which keeps references to machine and guest. Errors: IO. */
struct vms_run *vms_run_new(const struct vms_run_options *options, GError **error);
struct vms_run *vms_run_ref(struct vms_run *run);
/* The last reference must not be dropped before vms_run_join. */
void vms_run_unref(struct vms_run *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_run, vms_run_unref)

/*
 * Starts the threads. Each takes a first sample at once, however soon the run ends. The run begins
 * at `begin_ns` (CLOCK_MONOTONIC) and lasts for `duration_ns`, or until it is stopped if that is
 * sooner. A duration of 0 has no limit. The caller must call vms_run_stop in any case. A machine
 * that does not answer delays the end by a second at most. Errors: IO; vms_run_join then joins the
 * threads that were started.
 */
bool vms_run_begin(struct vms_run *run, uint64_t begin_ns, uint64_t duration_ns, GError **error);
/*
 * Ends the run's time, unless it is over already, and tells the threads to stop, but does not wait
 * for them. Returns when the run ended, in ns of CLOCK_MONOTONIC. Call it from any thread.
 */
uint64_t vms_run_stop(struct vms_run *run);
/* Waits for the threads, which takes a second at most if the machine does not answer. */
void vms_run_join(struct vms_run *run);

/*
 * Gets the counts of a vCPU. The run has a tick at its begin and after every interval until its
 * duration is over. The sum of samples, failures and missed ticks is the number of ticks. While the
 * run goes on, a tick counts as missed until its sample has been taken. Call it from any thread.
 */
void vms_run_stats(struct vms_run *run, unsigned vcpu, struct vms_sample_stats *ret);
/* Returns the first failure's message of that kind, newly allocated, or NULL. For any thread. */
char *vms_run_reason(struct vms_run *run, enum vms_sample_failure failure);

/*
 * Refreshes the guest if code without a name was seen: reads its modules again, or finds a kernel
 * that has booted since. Does nothing while a sample is being taken: the next call does it.
 */
void vms_run_refresh_guest(struct vms_run *run);
/* True if the machine was paused by others at the last tick. Call it from any thread. */
bool vms_run_is_paused(const struct vms_run *run);
/*
 * As long as a thread has the guest locked, nobody reads anew what is known of it. Sampling threads
 * go on. Call it briefly, from any thread.
 */
void vms_run_lock_guest(struct vms_run *run);
void vms_run_unlock_guest(struct vms_run *run);
/* Like vms_guest_tasks, during the run. A list may be torn. */
GArray *vms_run_read_tasks(struct vms_run *run, GError **error);
/* Opens the files behind the user addresses that were seen: see vms_guest_read_files. */
void vms_run_read_files(struct vms_run *run);
/*
 * Keeps the samples that wait for an unwind table. Call it at the end, after vms_run_join and
 * vms_run_read_files. Reads files again.
 */
void vms_run_finish_late(struct vms_run *run);
/* True if samples wait for an unwind table that was not in memory. Call it from any thread. */
bool vms_run_lacks_files(const struct vms_run *run);
