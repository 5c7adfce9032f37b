/* SPDX-License-Identifier: MIT */
#include "export/stacks.h"

/* Returns the stack of a frame that `parent` has called. Without room it is that of the caller. */
static uint32_t add_frame(struct vms_stacks *stacks, uint32_t parent, uint32_t label,
			  bool with_processes)
{
	const struct vms_tree_key key = { .kind = VMS_TREE_LABEL, .value = label };

	if (!with_processes && vms_profile_label(stacks->profile, label)->kind == VMS_LABEL_PROCESS)
		return parent;
	uint32_t stack = vms_tree_child(stacks->tree, parent, key);
	return stack == VMS_TREE_FULL ? parent : stack;
}

static uint32_t *add_tree(struct vms_stacks *stacks, const struct vms_profile_tree *tree,
			  bool with_processes)
{
	uint32_t *of_node = g_new(uint32_t, tree->n_nodes);

	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_profile_node *node = &tree->nodes[i];
		uint32_t parent =
			node->parent == VMS_NO_NODE ? VMS_TREE_ROOT : of_node[node->parent];
		of_node[i] = add_frame(stacks, parent, node->label, with_processes);
	}
	return of_node;
}

/* The same for a tree that begins with the leaf: goes from each node with samples to its root. */
static uint32_t *add_reversed_tree(struct vms_stacks *stacks, const struct vms_profile_tree *tree,
				   bool with_processes)
{
	uint32_t *of_node = g_new(uint32_t, tree->n_nodes);

	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		of_node[i] = VMS_TREE_ROOT;
		for (uint32_t up = i; tree->nodes[i].self && up != VMS_NO_NODE;
		     up = tree->nodes[up].parent)
			of_node[i] = add_frame(stacks, of_node[i], tree->nodes[up].label,
					       with_processes);
	}
	return of_node;
}

struct vms_stacks *vms_stacks_new(const struct vms_profile *profile, bool with_processes)
{
	struct vms_stacks *stacks = g_new0(struct vms_stacks, 1);
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &stacks->n_trees);

	stacks->profile = profile;
	stacks->tree = vms_tree_new(VMS_TREE_LIMIT);
	stacks->of_node = g_new(uint32_t *, stacks->n_trees);
	for (size_t i = 0; i < stacks->n_trees; i++)
		stacks->of_node[i] = vms_profile_leaf_first(profile)
					     ? add_reversed_tree(stacks, &trees[i], with_processes)
					     : add_tree(stacks, &trees[i], with_processes);
	return stacks;
}

void vms_stacks_free(struct vms_stacks *stacks)
{
	if (!stacks)
		return;
	for (size_t i = 0; i < stacks->n_trees; i++)
		g_free(stacks->of_node[i]);
	g_free(stacks->of_node);
	vms_tree_free(stacks->tree);
	g_free(stacks);
}
