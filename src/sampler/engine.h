/* SPDX-License-Identifier: MIT */
/*
 * What an engine of sampler sessions does. The session owns buffers and states; the engine finds
 * the threads of targets, takes samples, and gives them to the session's sink.
 */
#pragma once

#include "base/histogram.h"
#include "capture/sample_buffer.h"
#include <vmscope/sample_record.h>
#include <vmscope/sampler.h>

struct vms_sampler_config {
	uint64_t period_ns;
	unsigned depth;
	bool user_only;
	struct vms_machine *machine; /* references of the options; NULL: none was given */
	struct vms_guest *guest;
};

/* Where the threads run, for readers of the recording. The engine owns the strings. */
struct vms_sampler_place {
	const char *system, *release, *version, *host;
	const char *machine;	 /* the processor's architecture */
	const char *guest;	 /* the name of the machine, if it is no host */
	const char *description; /* the same */
	const char *unwinder;	 /* of the guest's kernel */
};

struct vms_sampler_engine {
	const char *name;
	/* Returns how many CPUs the threads run on. */
	unsigned (*count_cpus)(const struct vms_sampler_config *config);
	/* Makes the engine's part of a session. `sampler` outlives it. */
	void *(*open)(struct vms_sampler *sampler, GError **error);
	void (*close)(void *engine);
	void (*describe)(void *engine, struct vms_sampler_place *ret);
	/* Checks a target, and attaches it if the engine was started. */
	bool (*add)(void *engine, const struct vms_sampler_target *target, GError **error);
	/* Attaches all targets, and begins to sample. */
	bool (*start)(void *engine, GError **error);
	/* Ends sampling. Gives the last samples, and all names that it has, before it returns. */
	void (*stop)(void *engine);
	/* Adds the counts that the session does not have: lost, missed, throttled, user_only. */
	void (*add_stats)(void *engine, struct vms_sampler_stats *stats);
	int (*command_status)(void *engine);
};

/* ---- what a session gives its engine ---------------------------------------------- */

const struct vms_sampler_config *vms_sampler_config(struct vms_sampler *sampler);
/* Puts a sample into the buffer of its CPU. One thread at a time gives samples. */
void vms_sampler_give(struct vms_sampler *sampler, const struct vms_sample_record *sample,
		      uint64_t taken_ns);

/* Tell of processes. `time_ns` is when it happened. For any thread. */

/* A process begins to run a program, or was found. `parent`: it is a copy of that one; or 0. */
void vms_sampler_tell_process(struct vms_sampler *sampler, uint64_t time_ns, uint32_t pid,
			      uint32_t parent, const char *comm);
/* A file, which mappings name by its number. `build_id` may be NULL. */
void vms_sampler_tell_file(struct vms_sampler *sampler, uint32_t number, const char *path,
			   const char *build_id);
void vms_sampler_tell_mapping(struct vms_sampler *sampler, uint64_t time_ns, uint32_t pid,
			      uint64_t start, uint64_t end, uint64_t offset, uint32_t file);
/* Tells of records as they are, which are nothing that samples need: names, counts of vCPUs. */
void vms_sampler_tell_records(struct vms_sampler *sampler, const GByteArray *records);
/* Every target has ended, or the session cannot go on: `failure` says why, else it is NULL. */
void vms_sampler_tell_end(struct vms_sampler *sampler, const char *failure);
