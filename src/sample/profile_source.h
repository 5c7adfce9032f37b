/* SPDX-License-Identifier: MIT */
/* What a profile is made of. */
#pragma once

#include "sample/sample_times.h"
#include "sample/tree.h"
#include <vmscope/symbolizer.h>

struct vms_profile_source {
	struct vms_symbolizer *symbolizer;	     /* names addresses and processes */
	const struct vms_tree *const *trees;	     /* of vCPU 0, 1 …; NULL: no samples */
	const struct vms_sample_times *const *times; /* of each tree; NULL: not known */
	size_t n_trees;
	unsigned flags; /* enum vms_profile_flags */
	bool leaf_first;
	const GPtrArray *roles; /* names of the values of VMS_TREE_ROLE; may be NULL */
	/* Returns the role of a thread, index in `roles`; -1: none. NULL if no thread has one. */
	int (*role_of)(void *data, uint32_t pid, uint32_t tid);
	void *data;
	struct vms_budget *budget; /* pays for names and trees; NULL: they are ours */
};
