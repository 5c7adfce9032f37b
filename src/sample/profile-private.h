/* SPDX-License-Identifier: MIT */
/* How a profile is made of sampled trees. */
#pragma once

#include "sample/tree.h"
#include <vmscope/sample.h>

struct vms_profile_source {
	struct vms_symbolizer *symbolizer;   /* to name addresses and processes by */
	const struct vms_tree *const *trees; /* of vCPU 0, 1 … */
	size_t n_trees;
	unsigned flags; /* enum vms_profile_flags */
	bool leaf_first;
};

struct vms_profile *vms_profile_new(const struct vms_profile_source *source);
