/* SPDX-License-Identifier: MIT */
/* Sorts the samples of a profile by vCPU or by thread, for formats that show these as tracks. */
#pragma once

#include <vmscope/export.h>

/*
 * A track for each vCPU, or for each thread. Tracks of threads have no samples of idle vCPUs and
 * idle tasks.
 */
typedef struct vms_timeline {
	const struct vms_profile_sample *samples; /* of the profile */
	uint32_t *order; /* indices of samples, track by track, in the order of their times */
	size_t *begin;	 /* the begin of each track in `order`; n_tracks + 1 elements */
	size_t n_tracks;
} vms_timeline;

struct vms_timeline *vms_timeline_new_of_vcpus(const struct vms_profile *profile);
struct vms_timeline *vms_timeline_new_of_threads(const struct vms_profile *profile);
void vms_timeline_free(struct vms_timeline *timeline);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_timeline, vms_timeline_free)

/* Returns the i-th sample of a track. */
static inline const struct vms_profile_sample *vms_timeline_get_sample(
	const struct vms_timeline *line, size_t track, size_t i)
{
	return &line->samples[line->order[line->begin[track] + i]];
}

static inline size_t vms_timeline_length(const struct vms_timeline *line, size_t track)
{
	return line->begin[track + 1] - line->begin[track];
}

/* True if the vCPU was halted. */
bool vms_timeline_is_idle(const struct vms_profile *profile,
			  const struct vms_profile_sample *sample);

/* The time span of the samples. Those without a time count as taken at its end. */
struct vms_timeline_span {
	uint64_t begin_ns,
		last_ns; /* begin of the run or of its first sample, and time of the last one */
};

struct vms_timeline_span vms_timeline_get_span(const struct vms_profile *profile,
					       const struct vms_run_facts *facts);

/* Returns the time of a sample, in ns of CLOCK_MONOTONIC. */
static inline uint64_t vms_timeline_get_time(const struct vms_timeline_span *span,
					     const struct vms_profile_sample *sample)
{
	return sample->time_ns ? sample->time_ns : span->last_ns;
}
