/* SPDX-License-Identifier: MIT */
/*
 * Sampler sessions: chosen threads are sampled into a buffer per CPU. The caller can read the
 * buffers at any time. They contain records of the Fuchsia Trace Format, from which
 * <vmscope/recording.h> makes profiles. A session is a job: start, progress, stop, wait.
 *
 * An engine takes the samples. The host's engine samples threads of this host by
 * perf_event_open(2). Without CAP_PERFMON, the sysctl kernel.perf_event_paranoid limits what it
 * sees. The engine of a guest samples each vCPU once per period, and keeps the sample if the vCPU
 * runs a thread of a target.
 *
 * A session of the host and one of a guest may be written into one file, each piece as it was read,
 * in any order. If the host's target is the machine of the guest, the recording has one picture of
 * both: the samples of the host, and in those of a thread that executed the guest, the guest's
 * stack above that of the thread. Both need the same period.
 *
 * Any thread may call these functions. Only one thread at a time may read the buffers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <vmscope/budget.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_sampler vms_sampler;
struct vms_sampler_engine;
struct vms_machine;
struct vms_guest;

#define VMS_SAMPLER_PERIOD_MIN_NS UINT64_C(10000)
#define VMS_SAMPLER_BUFFER_MIN	  (UINT64_C(4) << 10)
#define VMS_SAMPLER_BUFFER_MAX	  (UINT64_C(1) << 30)
#define VMS_SAMPLER_BUFFER	  (UINT64_C(8) << 20)
#define VMS_SAMPLER_DEPTH	  127

enum vms_timebase { VMS_TIMEBASE_NANOSECONDS, VMS_TIMEBASE_INSTRUCTIONS };
enum vms_call_graph { VMS_CALL_GRAPH_FRAME_POINTERS, VMS_CALL_GRAPH_DWARF };

/*
 * What is sampled, and how often. Engines support frame pointers. That of a guest supports
 * instructions, too, where the agent is: each vCPU stops at every multiple of the period until it
 * is sampled, so that the samples of a guest that always does the same are always the same.
 */
struct vms_sample_specification {
	enum vms_timebase timebase;
	/*
	 * In ns of the time that a thread runs, at least PERIOD_MIN_NS; or in instructions of a
	 * vCPU from the start on, at least 1000.
	 */
	uint64_t period;
	enum vms_call_graph call_graph;
};

struct vms_sampler_options {
	size_t size; /* sizeof(struct vms_sampler_options) */
	/* Exactly one. It is copied. */
	const struct vms_sample_specification *specifications;
	size_t n_specifications;
	uint64_t buffer_size; /* bytes per CPU, BUFFER_MIN to BUFFER_MAX; 0: VMS_SAMPLER_BUFFER */
	unsigned depth;	      /* most frames per stack; 0: VMS_SAMPLER_DEPTH, which is the limit */
	bool user_only;	      /* no samples of the kernel, and no frames of it */
	/*
	 * Wall-clock: threads that are off the CPU are sampled, too, once per period, with the
	 * stack that they wait with. Excludes `user_only`.
	 */
	bool wall;
	/* Only for the engine of a guest, which keeps references. */
	struct vms_machine *machine;
	struct vms_guest *guest;
	/*
	 * What may be spent on reading what processes of this host have mapped. It is referenced.
	 * NULL: a budget of its own, of 4 s and 5 % of a processor.
	 */
	struct vms_budget *budget;
};

/*
 * In a guest a thread has no children: the kernel does not keep which thread has started another.
 * The guest's engine has neither control groups nor commands.
 */
enum vms_sampler_target_kind {
	VMS_SAMPLER_THREAD,  /* `id`, with the threads and processes that it starts */
	VMS_SAMPLER_PROCESS, /* all threads of process `id`, with what they start */
	VMS_SAMPLER_JOB,     /* process `id` and all its descendants */
	VMS_SAMPLER_CGROUP,  /* a control group: its folder, or of a guest its path, is `name` */
	VMS_SAMPLER_SYSTEM,  /* everything */
	/*
	 * Process `id`, which runs a virtual machine, with the kernel's workers for it (vhost).
	 * Only the host's engine has it.
	 */
	VMS_SAMPLER_MACHINE,
	VMS_SAMPLER_COMMAND, /* `command`, which ends with NULL; it is started, and sampled as a job
			      */
	/*
	 * Processes that run, or begin to run, a program called `name`, with what they start. The
	 * host's engine finds the first instructions of a program, too, but needs the right to
	 * sample everything, and takes no target of another kind beside.
	 */
	VMS_SAMPLER_NAME,
};

struct vms_sampler_target {
	enum vms_sampler_target_kind kind;
	pid_t id;
	const char *name;
	const char *const *command;
};

enum vms_sampler_state { VMS_SAMPLER_READY, VMS_SAMPLER_RUNNING, VMS_SAMPLER_STOPPED };

struct vms_sampler_stats {
	uint64_t collected; /* samples that were put into the buffers */
	uint64_t lost;	    /* that were taken, but found a buffer full */
	/*
	 * Samples that the threads' running time calls for, but that were not taken: the kernel
	 * leaves some out above its limits (kernel.perf_event_max_sample_rate,
	 * perf_cpu_time_max_percent). 0 with `user_only`: the time in the kernel is not known then.
	 */
	uint64_t missed;
	uint64_t throttled;	/* how often the kernel paused sampling for a moment */
	uint64_t mappings_lost; /* records of mappings and births that found no room */
	/* How long the engine took for a sample, in ns. */
	uint64_t sample_ns_mean, sample_ns_median, sample_ns_min, sample_ns_max;
	uint64_t elapsed_ns;
	bool user_only; /* asked for, or the kernel allows no more */
};

/* The engine that samples threads of this host. */
const struct vms_sampler_engine *vms_sampler_engine_host(void);
/* The engine that samples threads of a guest. Its options name a machine and a guest. */
const struct vms_sampler_engine *vms_sampler_engine_guest(void);

/*
 * Makes a session without targets. Errors: INVALID_ARGUMENT (the options; the specification: none,
 * more than one, or one that is not supported), UNSUPPORTED, IO (no memory).
 */
struct vms_sampler *vms_sampler_new(const struct vms_sampler_engine *engine,
				    const struct vms_sampler_options *options, GError **error);
/* Stops the session if it runs. Ends no command that it has started. NULL is allowed. */
void vms_sampler_free(struct vms_sampler *sampler);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_sampler, vms_sampler_free)

/*
 * Adds a target, before the start or while the session runs. Strings are copied. A thread that ends
 * in this moment is not an error. Errors: INVALID_ARGUMENT, NOT_FOUND (no such target when it was
 * added), INVALID_STATE (stopped), PERMISSION, UNSUPPORTED, IO.
 */
bool vms_sampler_add(struct vms_sampler *sampler, const struct vms_sampler_target *target,
		     GError **error);
/*
 * Starts. When it returns, all threads of all targets are sampled. Threads and processes that a
 * target creates later are sampled, too. A session can be started once. Errors: INVALID_STATE (it
 * was started before, or has no target; nothing is changed), NOT_FOUND (every target has ended),
 * PERMISSION and IO, whose messages name the limit of the kernel.
 */
bool vms_sampler_start(struct vms_sampler *sampler, GError **error);
/* Stops. Returns when the last sample is in its buffer. Errors: INVALID_STATE (not running). */
bool vms_sampler_stop(struct vms_sampler *sampler, GError **error);
/*
 * Waits until every target has ended, or until `until_ns` (CLOCK_MONOTONIC). True if they have. A
 * control group and the whole system never end. A name has ended when there was such a program, and
 * all of them have ended.
 */
bool vms_sampler_wait(struct vms_sampler *sampler, uint64_t until_ns);
enum vms_sampler_state vms_sampler_state(struct vms_sampler *sampler);
void vms_sampler_get_stats(struct vms_sampler *sampler, struct vms_sampler_stats *ret);
/*
 * Returns why the session has ended before its targets: the guest was reset, or its machine has
 * ended. Newly allocated. NULL if it has not ended before them.
 */
char *vms_sampler_failure(struct vms_sampler *sampler);
/* The exit status of the last command, as of waitpid(2); -1 if it has not ended. */
int vms_sampler_command_status(struct vms_sampler *sampler);

/*
 * Moves all records in the buffers to the end of `out`, in the Fuchsia Trace Format. The records of
 * a session from its start to its stop, in this order, are a complete file. Those of two sessions
 * may alternate.
 */
void vms_sampler_read(struct vms_sampler *sampler, GByteArray *out);

VMS_END_DECLS
