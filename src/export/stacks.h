/* SPDX-License-Identifier: MIT */
/*
 * The distinct stacks of a profile's samples, of all its trees. They are a tree of labels that
 * begins with the outermost caller, even if the profile's trees begin with the leaf.
 */
#pragma once

#include "sample/tree.h"
#include <vmscope/profile.h>

typedef struct vms_stacks {
	const struct vms_profile *profile;
	/* A stack is a node. The stack of its caller is the parent. key.value is a label. */
	struct vms_tree *tree;
	uint32_t **of_node; /* by tree and node: the stack of its samples, or VMS_TREE_ROOT */
	size_t n_trees;
} vms_stacks;

/* Makes the stacks of a profile. Processes are frames only if `with_processes`. */
struct vms_stacks *vms_stacks_new(const struct vms_profile *profile, bool with_processes);
void vms_stacks_free(struct vms_stacks *stacks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_stacks, vms_stacks_free)

/* Returns the stack of a sample, or VMS_TREE_ROOT if there was no room for it. */
static inline uint32_t vms_stacks_get(const struct vms_stacks *stacks,
				      const struct vms_profile_sample *sample)
{
	return stacks->of_node[sample->tree][sample->node];
}

/* Returns the label of a stack's innermost frame. */
static inline const struct vms_label *vms_stacks_label(const struct vms_stacks *stacks,
						       uint32_t stack)
{
	return vms_profile_label(stacks->profile, (uint32_t)stacks->tree->nodes[stack].key.value);
}
