/* SPDX-License-Identifier: MIT */
/* Makes the list of a profile's samples and threads. */
#pragma once

#include "base/texts.h"
#include "sample/profile_source.h"
#include <vmscope/profile.h>

struct vms_profile_samples {
	const struct vms_profile_source *source;
	struct vms_texts *strings; /* of the profile */
	GArray *timed, *others;	   /* struct vms_profile_sample */
	GArray *threads;	   /* struct vms_profile_thread */
	struct vms_tree *keys;	   /* the index of a thread's key is that of the thread */
};

void vms_profile_samples_init(struct vms_profile_samples *samples,
			      const struct vms_profile_source *source, struct vms_texts *strings);
/*
 * Adds the samples of a sampled tree, which is that of `vcpu`. `to` has, for each of its nodes, the
 * node of the profile's tree number `index`, or VMS_TREE_ROOT if that had no room. `times` may be
 * NULL.
 */
void vms_profile_samples_add(struct vms_profile_samples *samples, const struct vms_tree *tree,
			     const struct vms_sample_times *times, const uint32_t *to,
			     uint32_t index, uint32_t vcpu);
/* Orders the samples. Then all of them are in `timed`. */
void vms_profile_samples_finish(struct vms_profile_samples *samples);
void vms_profile_samples_clear(struct vms_profile_samples *samples);
