/* SPDX-License-Identifier: MIT */
/*
 * A call tree as it is sampled: keys, not names. Nodes lie in one array, a parent always before its
 * children, and are found by (parent, key) in one hash table. So nothing here is recursive, and
 * finding a child costs the same however many there are.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <vmscope/address_space.h>

enum vms_tree_kind {
	VMS_TREE_PROCESS, /* process: its index */
	VMS_TREE_IDLE,
	VMS_TREE_PC,	 /* value: the program counter */
	VMS_TREE_RETURN, /* value: a return address */
	VMS_TREE_LOADED_PC,
	VMS_TREE_LOADED_RETURN, /* the same in loaded kernel code */
	VMS_TREE_MARKER,	/* value: enum vms_walk_end, or VMS_TREE_OUT_OF_NODES */
	VMS_TREE_LABEL,		/* value: what the user of the tree likes */
};

#define VMS_TREE_OUT_OF_NODES UINT64_MAX

/* What a node stands for. Without padding, compared member by member nevertheless. */
struct vms_tree_key {
	uint64_t value;
	uint32_t kind; /* enum vms_tree_kind */
	/* The address space, VMS_KERNEL_SPACE and VMS_NO_SPACE included; of loaded kernel code its
	 * number (vms_symbolizer_note_code). */
	uint32_t owner;
};

#define VMS_TREE_ROOT UINT32_MAX       /* as a parent: the node is outermost */
#define VMS_TREE_FULL (UINT32_MAX - 1) /* as a node: there is no room for it */

struct vms_tree_node {
	struct vms_tree_key key;
	uint64_t self; /* samples that end here */
	uint32_t parent;
};

/* Nodes that a tree may ever have: one GiB of them. */
#define VMS_TREE_LIMIT (UINT32_C(32) << 20)

typedef struct vms_tree {
	struct vms_tree_node *nodes;
	uint32_t n_nodes;
	uint32_t capacity;
	uint32_t limit;
	uint32_t *slots; /* node index + 1; 0: free */
	uint32_t n_slots;
	uint32_t seed; /* against guests that choose their addresses to collide */
} vms_tree;

/* `limit`: 1 to VMS_TREE_LIMIT nodes. */
struct vms_tree *vms_tree_new(uint32_t limit);
void vms_tree_free(struct vms_tree *tree);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_tree, vms_tree_free)

/* The child of `parent` with that key, made if need be; FULL beyond the limit or out of memory. */
uint32_t vms_tree_child(struct vms_tree *tree, uint32_t parent, struct vms_tree_key key);
/*
 * Counts `weight` samples of a path of `n` keys, one at least, outermost first. When there is no
 * room for it they are counted in an outermost marker OUT_OF_NODES instead.
 */
void vms_tree_add(struct vms_tree *tree, const struct vms_tree_key *path, size_t n,
		  uint64_t weight);
