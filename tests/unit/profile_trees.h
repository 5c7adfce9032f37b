/* SPDX-License-Identifier: MIT */
/* The trees of a profile, one by one. */
#ifndef VMS_TEST_PROFILE_TREES_H
#define VMS_TEST_PROFILE_TREES_H

#include "vmscope/profile.h"

static inline size_t count_trees(const struct vms_profile *profile)
{
	size_t n;
	vms_profile_trees(profile, &n);
	return n;
}

static inline const struct vms_profile_tree *get_tree(const struct vms_profile *profile,
						      size_t index)
{
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);
	g_assert_cmpuint(index, <, n);
	return &trees[index];
}

#endif
