/* SPDX-License-Identifier: MIT */
#include "sample/tree.h"

#define FIRST_CAPACITY 64 /* a profile may have thousands of trees */

/* There are twice as many slots as nodes, so the table is never more than half full. */
static void set_capacity(struct vms_tree *tree, struct vms_tree_node *nodes, uint32_t *slots,
			 uint32_t capacity)
{
	tree->nodes = nodes;
	tree->slots = slots;
	tree->capacity = capacity;
	tree->n_slots = capacity * 2;
}

struct vms_tree *vms_tree_new(uint32_t limit)
{
	g_assert(limit >= 1 && limit <= VMS_TREE_LIMIT);
	struct vms_tree *tree = g_new0(struct vms_tree, 1);
	tree->limit = limit;
	tree->seed = g_random_int();
	set_capacity(tree, g_new(struct vms_tree_node, FIRST_CAPACITY),
		     g_new0(uint32_t, FIRST_CAPACITY * 2), FIRST_CAPACITY);
	return tree;
}

void vms_tree_free(struct vms_tree *tree)
{
	if (!tree)
		return;
	g_free(tree->nodes);
	g_free(tree->slots);
	g_free(tree);
}

/* Mixes bits as the finalizer of MurmurHash3 does. */
static uint64_t mix_bits(uint64_t x)
{
	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

static bool equal_keys(const struct vms_tree_key *a, const struct vms_tree_key *b)
{
	return a->value == b->value && a->kind == b->kind && a->owner == b->owner;
}

/* Returns the slot of the child of `parent` with that key, or the free slot where it belongs. */
static uint32_t *find_slot(const struct vms_tree *tree, uint32_t parent,
			   const struct vms_tree_key *key)
{
	uint64_t place = mix_bits((uint64_t)tree->seed << 32 ^ parent);
	uint64_t hash =
		mix_bits(key->value ^ mix_bits(place ^ (uint64_t)key->kind << 32 ^ key->owner));
	for (uint32_t i = (uint32_t)hash;; i++) {
		uint32_t *slot = &tree->slots[i & (tree->n_slots - 1)];
		if (*slot == 0)
			return slot;
		const struct vms_tree_node *node = &tree->nodes[*slot - 1];
		if (node->parent == parent && equal_keys(&node->key, key))
			return slot;
	}
}

/* Doubles the capacity. False if there is no memory for that. */
static bool grow_tree(struct vms_tree *tree)
{
	uint32_t capacity = tree->capacity * 2;
	uint32_t *slots = g_try_new0(uint32_t, (size_t)capacity * 2);
	struct vms_tree_node *nodes =
		slots ? g_try_realloc_n(tree->nodes, capacity, sizeof(*nodes)) : NULL;
	if (!nodes) {
		g_free(slots);
		return false;
	}
	g_free(tree->slots);
	set_capacity(tree, nodes, slots, capacity);
	for (uint32_t i = 0; i < tree->n_nodes; i++)
		*find_slot(tree, nodes[i].parent, &nodes[i].key) = i + 1;
	return true;
}

static const struct vms_tree_key out_of_nodes = {
	.kind = VMS_TREE_MARKER,
	.value = VMS_TREE_OUT_OF_NODES,
	.owner = VMS_KERNEL_SPACE,
};

/* False if there is no room for a node. The last place is kept for the marker that says so. */
static bool make_room(struct vms_tree *tree, const struct vms_tree_key *key)
{
	uint32_t wanted = tree->n_nodes + (equal_keys(key, &out_of_nodes) ? 1 : 2);
	return wanted <= tree->limit && (wanted <= tree->capacity || grow_tree(tree));
}

uint32_t vms_tree_child(struct vms_tree *tree, uint32_t parent, struct vms_tree_key key)
{
	uint32_t found = *find_slot(tree, parent, &key);
	if (found)
		return found - 1;
	if (!make_room(tree, &key))
		return VMS_TREE_FULL;
	uint32_t index = tree->n_nodes++;
	tree->nodes[index] = (struct vms_tree_node) { .key = key, .parent = parent };
	*find_slot(tree, parent, &key) = index + 1; /* make_room may have moved the slots */
	return index;
}

uint32_t vms_tree_add_out_of_nodes(struct vms_tree *tree, uint64_t weight)
{
	const uint32_t node = vms_tree_child(tree, VMS_TREE_ROOT, out_of_nodes);
	tree->nodes[node].self += weight;
	return node;
}

void vms_tree_close(struct vms_tree *tree)
{
	tree->limit = MIN(tree->limit, tree->n_nodes + 1); /* the marker still has room */
}

uint32_t vms_tree_add(struct vms_tree *tree, const struct vms_tree_key *path, size_t n,
		      uint64_t weight)
{
	g_assert(n > 0);
	uint32_t node = VMS_TREE_ROOT;
	for (size_t i = 0; i < n && node != VMS_TREE_FULL; i++)
		node = vms_tree_child(tree, node, path[i]);
	if (node == VMS_TREE_FULL)
		return vms_tree_add_out_of_nodes(tree, weight);
	tree->nodes[node].self += weight;
	return node;
}
