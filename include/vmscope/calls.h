/* SPDX-License-Identifier: MIT */
/*
 * Call traces: every call and return of a guest's vCPUs, as a data directory of uftrace. Needs a
 * machine that is reached through the agent inside QEMU.
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

struct vms_calls_options {
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
	VMS_CALLS_STOPPED,  /* vms_calls_stop, or cancelled by progress */
	VMS_CALLS_COMPLETE, /* its time had passed, or a `stop_at` was called */
	VMS_CALLS_GONE,	    /* the machine went away; the trace up to then is kept */
	VMS_CALLS_FULL,	    /* it has reached `max_bytes` */
};

/* About ten times a second, from the thread of vms_calls_run; false ends the trace. */
typedef bool (*vms_calls_progress)(const struct vms_calls_stats *stats, void *data);

/*
 * Traces until the end, writing as it goes: the directory can be read by uftrace at any moment, and
 * after this process or QEMU was killed. `started` (may be NULL) is called once when every call
 * from now on is recorded, e.g. to let a machine go that was started paused. `guest` may be one
 * in which nothing was recognised yet: it is looked at again while it boots.
 * Errors: UNSUPPORTED (no agent, a filter that needs what this guest does not tell), NOT_FOUND (a
 * function), BUSY (somebody else traces), EXISTS (the directory), IO (the disk is full: what was
 * written stays; the guest runs on).
 */
bool vms_calls_run(struct vms_guest *guest, const struct vms_calls_options *options,
		   bool (*started)(void *data, GError **error), vms_calls_progress progress,
		   void *data, struct vms_calls_stats *stats, enum vms_calls_end *end,
		   GError **error);

VMS_END_DECLS
