/* SPDX-License-Identifier: MIT */
/* The samples of one vCPU: call tree, times, and counts. Any thread may call these functions. */
#pragma once

#include "base/histogram.h"
#include "sample/sample_times.h"
#include "sample/tree.h"
#include <vmscope/sample.h>
#include <vmscope/sample_record.h>

struct vms_samples {
	GMutex lock;
	struct vms_tree *tree;
	struct vms_sample_times times; /* of the samples of `tree` */
	struct vms_sample_stats stats; /* without hold times and missed ticks */
	struct vms_histogram held_ns;
};

/* The tree has at most `node_limit` nodes. The times of the first `time_limit` samples are kept. */
void vms_samples_init(struct vms_samples *samples, uint32_t node_limit, size_t time_limit);
void vms_samples_clear(struct vms_samples *samples);

/*
 * Counts a sample that vms_capture_note_code has seen, and its hold in ns. True if the tree has
 * new nodes.
 */
bool vms_samples_add(struct vms_samples *samples, const struct vms_sample_record *record,
		     bool leaf_first, uint64_t held_ns);
/* Counts a sample and its hold, without the tree. */
void vms_samples_count(struct vms_samples *samples, const struct vms_sample_record *record,
		       uint64_t held_ns);
/*
 * Counts `weight` samples with the stack of a record in a tree, with the process if `space` is
 * known. Returns the node.
 */
uint32_t vms_samples_add_path(struct vms_tree *tree, const struct vms_sample_record *record,
			      bool leaf_first, uint64_t weight);
/* What a sample of a machine's thread on its host has of the guest. */
struct vms_guest_part {
	int role;      /* of the thread, a value of VMS_TREE_ROLE; -1: none */
	bool in_guest; /* the thread executed the guest */
	const struct vms_sample_record *guest; /* what that was; NULL: not known */
};
/* The same for a machine's thread, with the guest's stack above its own. */
uint32_t vms_samples_add_machine_path(struct vms_tree *tree, const struct vms_sample_record *record,
				      const struct vms_guest_part *part, bool leaf_first,
				      uint64_t weight);
/* Counts a failure. */
void vms_samples_fail(struct vms_samples *samples, enum vms_sample_failure reason);
/* Gets the counts without missed ticks, which vms_run_stats adds. */
void vms_samples_stats(struct vms_samples *samples, struct vms_sample_stats *ret);
