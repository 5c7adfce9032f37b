/* SPDX-License-Identifier: MIT */
/* What was sampled of one vCPU: its call tree and its counts. For any thread. */
#pragma once

#include "base/histogram.h"
#include "sample/tree.h"
#include <vmscope/sample.h>
#include <vmscope/sample_record.h>

struct vms_samples {
	GMutex lock;
	struct vms_tree *tree;
	struct vms_sample_stats stats; /* without hold times, and what was missed */
	struct vms_histogram held_ns;
};

/* `limit`: nodes that the tree may have. */
void vms_samples_init(struct vms_samples *samples, uint32_t limit);
void vms_samples_clear(struct vms_samples *samples);

/* Counts a sample, whose code was noted; did the tree learn anything new by it? */
bool vms_samples_add(struct vms_samples *samples, const struct vms_sample_record *record,
		     bool leaf_first, uint64_t held_ns);
void vms_samples_fail(struct vms_samples *samples, enum vms_sample_failure reason);
/* All but what was missed: see vms_run_stats. */
void vms_samples_stats(struct vms_samples *samples, struct vms_sample_stats *ret);
