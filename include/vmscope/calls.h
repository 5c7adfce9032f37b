/* SPDX-License-Identifier: MIT */
/*
 * Call traces: every call and return of a guest's vCPUs, as a data directory of uftrace. Needs a
 * machine that is reached through the agent inside QEMU. A trace is a job: start, progress, stop,
 * wait, finish.
 */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

enum vms_calls_by {
	VMS_CALLS_BY_VCPU,  /* one data file per vCPU */
	VMS_CALLS_BY_LEVEL, /* one per vCPU and privilege level */
	VMS_CALLS_BY_TASK,  /* one per thread of the guest */
};

enum vms_calls_clock {
	VMS_CALLS_CLOCK_HOST,  /* CLOCK_MONOTONIC of the host */
	VMS_CALLS_CLOCK_GUEST, /* the guest's virtual clock: stands while the machine is paused */
	VMS_CALLS_CLOCK_INSTRUCTIONS, /* instructions that the vCPU has executed, one per "ns" */
};

typedef struct vms_calls vms_calls;

struct vms_calls_options {
	size_t size;	       /* sizeof(struct vms_calls_options) */
	const char *directory; /* must not exist yet, or be empty */
	enum vms_calls_by by;
	enum vms_calls_clock clock;
	/* Filters; all NULL or 0: everything. */
	const char *const *only;     /* functions: these and what they call */
	const char *const *without;  /* functions: neither these nor what they call */
	const char *const *start_at; /* functions: tracing begins when one of these is called … */
	const char *const *stop_at;  /* … and ends when one of these is */
	unsigned max_depth;	     /* levels of calls that are recorded */
	uint64_t threshold_ns;	     /* calls shorter than this are not recorded */
	bool kernel_only, user_only;
	const uint32_t *pids; /* only these processes, by the guest's numbers */
	size_t n_pids;	      /* at most 64 */
	uint64_t duration_ns; /* 0: until stopped */
	uint64_t max_bytes;  /* of data files: the trace ends soon after it has them; 0: no limit */
	const char *sysroot; /* directory with the guest's files, whose functions get names; or
				NULL */
};

struct vms_calls_stats {
	uint64_t records;
	uint64_t bytes;	  /* of data files */
	uint64_t lost;	  /* records that found no room */
	unsigned streams; /* data files */
};

enum vms_calls_end {
	VMS_CALLS_STOPPED,  /* vms_calls_stop */
	VMS_CALLS_COMPLETE, /* its time had passed, or a `stop_at` was called */
	VMS_CALLS_GONE,	    /* the machine went away; the trace up to then is kept */
	VMS_CALLS_FULL,	    /* it has reached `max_bytes` */
};

/*
 * Begins to trace: when this returns, every call is recorded. Threads of the trace write it as it
 * goes: the directory can be read by uftrace at any moment, and after this process or QEMU was
 * killed. `guest` may be one in which nothing was recognised yet: it is looked at again while it
 * boots. Nobody else may use it until the trace has ended. `options` are copied. Errors:
 * INVALID_ARGUMENT (the options), UNSUPPORTED (no agent, a filter that needs what this guest does
 * not tell), NOT_FOUND (a function), BUSY (somebody else traces), EXISTS (the directory), IO.
 *
 * All of these may be called from any thread.
 */
struct vms_calls *vms_calls_start(struct vms_guest *guest, const struct vms_calls_options *options,
				  GError **error);
/* How much was written so far. */
void vms_calls_progress(struct vms_calls *calls, struct vms_calls_stats *ret);
/* Ends it: the end is STOPPED. Returns at once; what was recorded is still written then. */
void vms_calls_stop(struct vms_calls *calls);
/*
 * Waits until it has ended, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: without a limit).
 * True when it has ended: the directory is complete.
 */
bool vms_calls_wait(struct vms_calls *calls, uint64_t until_ns);
/*
 * Waits until it has ended: how much it has written, and why it ended. Errors: IO (the disk is
 * full: what was written stays; the guest runs on), and those of the machine.
 */
bool vms_calls_finish(struct vms_calls *calls, struct vms_calls_stats *stats,
		      enum vms_calls_end *end, GError **error);
/* Stops it if it has not ended, and waits for that. */
void vms_calls_free(struct vms_calls *calls);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls, vms_calls_free)

VMS_END_DECLS
