/* SPDX-License-Identifier: MIT */
/*
 * The interface between a sampler session and its engine. The session owns buffers and states. The
 * engine finds the threads of targets, takes samples, and adds them to the session.
 */
#pragma once

#include "base/histogram.h"
#include "capture/sample_buffer.h"
#include "capture/sample_records.h"
#include <vmscope/sample_record.h>
#include <vmscope/sampler.h>

struct vms_sampler_config {
	uint64_t period_ns;
	uint64_t instructions; /* 0: the period is one of time; else it is this, period_ns is 0 */
	unsigned depth;
	bool user_only;
	bool wall;		     /* give samples of threads that are off the CPU, too */
	struct vms_budget *budget;   /* of what is read of processes and their files */
	struct vms_machine *machine; /* from the options, with references; may be NULL */
	struct vms_guest *guest;
};

/*
 * The system on which the threads run, for readers of the recording. The engine owns the strings.
 */
struct vms_sampler_place {
	const char *system, *release, *version, *host;
	const char *machine;	 /* the processor's architecture */
	const char *guest;	 /* the name of the machine, unless this is a host */
	const char *description; /* the same */
	const char *unwinder;	 /* of the guest's kernel */
};

struct vms_sampler_engine {
	const char *name;
	enum vms_records_system system; /* whose threads it samples */
	/* Returns the number of CPUs on which the threads run. */
	unsigned (*count_cpus)(const struct vms_sampler_config *config);
	/* Makes the engine's part of a session. `sampler` outlives it. */
	void *(*open)(struct vms_sampler *sampler, GError **error);
	void (*close)(void *engine);
	void (*describe)(void *engine, struct vms_sampler_place *ret);
	/* Checks a target, and attaches it if the engine was started. */
	bool (*add)(void *engine, const struct vms_sampler_target *target, GError **error);
	/* Attaches all targets, and begins to sample. */
	bool (*start)(void *engine, GError **error);
	/* Ends sampling. Before it returns, it adds the last samples and all names. */
	void (*stop)(void *engine);
	/* Adds the counts that only the engine has: lost, missed, throttled, user_only. */
	void (*add_stats)(void *engine, struct vms_sampler_stats *stats);
	int (*command_status)(void *engine);
};

/* ---- called by engines ------------------------------------------------------------ */

const struct vms_sampler_config *vms_sampler_config(struct vms_sampler *sampler);
/*
 * Puts a sample into the buffer of its CPU. False if there is no room: then it is counted as lost.
 * Only one thread at a time may call it.
 */
bool vms_sampler_add_sample(struct vms_sampler *sampler, const struct vms_sample_record *sample,
			    uint64_t taken_ns);
/* Counts samples of a CPU as lost. */
void vms_sampler_lose_samples(struct vms_sampler *sampler, uint32_t cpu, uint64_t n);

/* The next functions record processes. `time_ns` is the time of the event. For any thread. */

/*
 * Records that a process was found or begins a program, or, unless `parent` is 0, that it is a copy
 * of its parent. `container` is as in struct vms_process, or "" for none; NULL: that of before, or
 * of the parent.
 */
void vms_sampler_record_process(struct vms_sampler *sampler, uint64_t time_ns, uint32_t pid,
				uint32_t parent, const char *comm, const char *container);
/*
 * Records a file, to which mappings refer by its number. `build_id` may be NULL; then `stamp` may
 * tell whether a file of this host is the same (vms_file_stamp), or is 0.
 */
void vms_sampler_record_file(struct vms_sampler *sampler, uint32_t number, const char *path,
			     const char *build_id, uint64_t stamp);
void vms_sampler_record_mapping(struct vms_sampler *sampler, uint64_t time_ns, uint32_t pid,
				uint64_t start, uint64_t end, uint64_t offset, uint32_t file);
/* Records the name of a thread, which may change. */
void vms_sampler_record_thread(struct vms_sampler *sampler, uint32_t pid, uint32_t tid,
			       const char *name);
/* Adds encoded records to which samples do not refer: names, counts of vCPUs. */
void vms_sampler_add_records(struct vms_sampler *sampler, const GByteArray *records);
/*
 * Records that every target has ended, or, if `failure` is not NULL, why the session cannot
 * continue.
 */
void vms_sampler_record_end(struct vms_sampler *sampler, const char *failure);
