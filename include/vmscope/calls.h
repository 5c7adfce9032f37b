/* SPDX-License-Identifier: MIT */
/*
 * Call traces: every call and return of a guest's vCPUs, in a data directory of uftrace. A trace
 * needs a machine that is reached through the agent inside QEMU. It is a job: start, progress,
 * stop, wait, finish.
 */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

enum vms_calls_by {
	VMS_CALLS_BY_VCPU,  /* one data file per vCPU */
	VMS_CALLS_BY_LEVEL, /* one data file per vCPU and privilege level */
	VMS_CALLS_BY_TASK,  /* one data file per thread of the guest */
};

enum vms_calls_clock {
	VMS_CALLS_CLOCK_HOST,	      /* CLOCK_MONOTONIC of the host */
	VMS_CALLS_CLOCK_GUEST,	      /* the guest's virtual clock; stops while it is paused */
	VMS_CALLS_CLOCK_INSTRUCTIONS, /* instructions that the vCPU has executed, one per "ns" */
};

typedef struct vms_calls vms_calls;

struct vms_calls_options {
	size_t size;	       /* sizeof(struct vms_calls_options) */
	const char *directory; /* must not exist yet, or be empty */
	enum vms_calls_by by;
	enum vms_calls_clock clock;
	/* Filters. If all are NULL or 0, everything is recorded. */
	const char *const *only;     /* records these functions and what they call */
	const char *const *without;  /* records neither these functions nor what they call */
	const char *const *start_at; /* tracing begins when one of these functions is called */
	const char *const *stop_at;  /* tracing ends when one of these functions is called */
	unsigned max_depth;	     /* levels of calls that are recorded */
	uint64_t threshold_ns;	     /* calls shorter than this are not recorded */
	bool kernel_only, user_only;
	const uint32_t *pids; /* records only these processes, by the guest's process ids */
	size_t n_pids;	      /* at most 64 */
	uint64_t duration_ns; /* 0: no limit */
	uint64_t max_bytes;   /* the trace ends soon after its data files have them; 0: no limit */
	/* Directory with the guest's files, whose functions it names; or NULL. */
	const char *sysroot;
};

struct vms_calls_stats {
	uint64_t records;
	uint64_t bytes;	  /* of data files */
	uint64_t lost;	  /* records that were lost for lack of room */
	unsigned streams; /* data files */
};

enum vms_calls_end {
	VMS_CALLS_STOPPED,  /* vms_calls_stop */
	VMS_CALLS_COMPLETE, /* its duration was over, or a `stop_at` function was called */
	VMS_CALLS_GONE,	    /* the machine has ended; the trace until then is kept */
	VMS_CALLS_FULL,	    /* it has reached `max_bytes` */
};

/*
 * Begins to trace. When this returns, every call is recorded. Threads of the trace write the
 * directory continuously: uftrace can read it at any moment, even after this process or QEMU was
 * killed. If nothing was recognised in `guest` yet, it is examined again while it boots. No thread
 * of the caller may use `guest` until the trace has ended. `options` are copied. Errors:
 * INVALID_ARGUMENT (the options), UNSUPPORTED (no agent, or a filter that needs facts that this
 * guest lacks), NOT_FOUND (a function), BUSY (another client traces), EXISTS (the directory), IO.
 *
 * All of these may be called from any thread.
 */
struct vms_calls *vms_calls_start(struct vms_guest *guest, const struct vms_calls_options *options,
				  GError **error);
/* Gets how much was written so far. */
void vms_calls_progress(struct vms_calls *calls, struct vms_calls_stats *ret);
/* Ends the trace (STOPPED). Returns at once, and threads still write what was recorded. */
void vms_calls_stop(struct vms_calls *calls);
/*
 * Waits until the trace has ended, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: no limit).
 * True if it has ended: the directory is complete.
 */
bool vms_calls_wait(struct vms_calls *calls, uint64_t until_ns);
/*
 * Waits until the trace has ended, and gets how much it has written and why it ended. Errors: IO
 * (the disk is full: what was written stays, and the guest runs on), and those of the machine.
 */
bool vms_calls_finish(struct vms_calls *calls, struct vms_calls_stats *stats,
		      enum vms_calls_end *end, GError **error);
/* Stops the trace if it has not ended, waits for its end, and frees it. NULL is allowed. */
void vms_calls_free(struct vms_calls *calls);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls, vms_calls_free)

/*
 * Appends the call graph of a trace's directory to `out`, in callgrind's format, which KCachegrind
 * opens: calls and times in ns by function, and of each function by its callers. Errors: NOT_FOUND
 * (no trace, or one without calls), IO, MALFORMED (a data file), UNSUPPORTED (not of vmscope).
 */
bool vms_calls_write_callgrind(const char *directory, GString *out, GError **error);

VMS_END_DECLS
