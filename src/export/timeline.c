/* SPDX-License-Identifier: MIT */
#include "export/timeline.h"

#define NO_TRACK SIZE_MAX

bool vms_timeline_is_idle(const struct vms_profile *profile,
			  const struct vms_profile_sample *sample)
{
	size_t n;
	const struct vms_profile_tree *tree = &vms_profile_trees(profile, &n)[sample->tree];
	return vms_profile_label(profile, tree->nodes[sample->node].label)->kind == VMS_LABEL_IDLE;
}

static size_t get_vcpu(const struct vms_profile *profile G_GNUC_UNUSED,
		       const struct vms_profile_sample *sample)
{
	return sample->vcpu;
}

static size_t get_thread(const struct vms_profile *profile, const struct vms_profile_sample *sample)
{
	size_t n;
	const struct vms_profile_thread *threads = vms_profile_threads(profile, &n);
	if (sample->thread == VMS_NO_THREAD || threads[sample->thread].is_idle ||
	    vms_timeline_is_idle(profile, sample))
		return NO_TRACK;
	return sample->thread;
}

/* Sorts the samples by track. The order within a track stays that of the profile. */
static struct vms_timeline *make_timeline(const struct vms_profile *profile, size_t n_tracks,
					  size_t (*get_track)(const struct vms_profile *,
							      const struct vms_profile_sample *))
{
	size_t n;
	struct vms_timeline *line = g_new0(struct vms_timeline, 1);

	line->samples = vms_profile_samples(profile, &n);
	line->n_tracks = n_tracks;
	line->order = g_new(uint32_t, n);
	line->begin = g_new0(size_t, n_tracks + 2);
	/*
	 * begin[t + 2] first counts the samples of track t. Then begin[t + 1] is the next free
	 * place of track t, which ends as the begin of track t + 1.
	 */
	for (size_t i = 0; i < n; i++) {
		size_t track = get_track(profile, &line->samples[i]);
		if (track != NO_TRACK)
			line->begin[track + 2]++;
	}
	for (size_t i = 2; i < n_tracks + 2; i++)
		line->begin[i] += line->begin[i - 1];
	for (size_t i = 0; i < n; i++) {
		size_t track = get_track(profile, &line->samples[i]);
		if (track != NO_TRACK)
			line->order[line->begin[track + 1]++] = (uint32_t)i;
	}
	return line;
}

struct vms_timeline *vms_timeline_new_of_vcpus(const struct vms_profile *profile)
{
	size_t n;
	const struct vms_profile_sample *samples = vms_profile_samples(profile, &n);
	size_t n_vcpus = 0;

	for (size_t i = 0; i < n; i++)
		n_vcpus = MAX(n_vcpus, (size_t)samples[i].vcpu + 1);
	return make_timeline(profile, n_vcpus, get_vcpu);
}

struct vms_timeline *vms_timeline_new_of_threads(const struct vms_profile *profile)
{
	size_t n;

	vms_profile_threads(profile, &n);
	return make_timeline(profile, n, get_thread);
}

void vms_timeline_free(struct vms_timeline *timeline)
{
	if (!timeline)
		return;
	g_free(timeline->order);
	g_free(timeline->begin);
	g_free(timeline);
}

struct vms_timeline_span vms_timeline_get_span(const struct vms_profile *profile,
					       const struct vms_run_facts *facts)
{
	size_t n;
	const struct vms_profile_sample *samples = vms_profile_samples(profile, &n);
	struct vms_timeline_span span = { facts->begin_ns, facts->begin_ns };

	for (size_t i = 0; i < n && samples[i].time_ns; i++)
		span.last_ns = samples[i].time_ns;
	if (n && samples[0].time_ns && (!span.begin_ns || span.begin_ns > samples[0].time_ns))
		span.begin_ns = samples[0].time_ns;
	return span;
}
