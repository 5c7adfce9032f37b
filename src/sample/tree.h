/* SPDX-License-Identifier: MIT */
/*
 * A call tree as it is sampled, with keys in place of names. All nodes are in one array, a parent
 * always before its children. One hash table finds them by (parent, key). So nothing here is
 * recursive, and finding a child takes the same time however many children there are.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <vmscope/address_space.h>

enum vms_tree_kind {
	VMS_TREE_PROCESS, /* owner: the process's address space */
	VMS_TREE_IDLE,
	VMS_TREE_PC,	 /* value: the program counter */
	VMS_TREE_RETURN, /* value: a return address */
	VMS_TREE_LOADED_PC,
	VMS_TREE_LOADED_RETURN, /* both in loaded kernel code */
	/*
	 * A thread off its CPU. The highest byte of value is its state, below it is the rest of the
	 * kernel address that it waits at, or 0.
	 */
	VMS_TREE_WAIT,
	VMS_TREE_ROLE,	 /* value: which role the thread has in its machine */
	VMS_TREE_GUEST,	 /* value: 1 if it is known what the guest executed, 0 if not */
	VMS_TREE_MARKER, /* value: enum vms_walk_end, or VMS_TREE_OUT_OF_NODES */
	VMS_TREE_LABEL,	 /* value: chosen by the user of the tree */
};

#define VMS_TREE_OUT_OF_NODES UINT64_MAX

/* What a node stands for. */
struct vms_tree_key {
	uint64_t value;
	uint32_t kind; /* enum vms_tree_kind */
	/*
	 * The address space, which may be VMS_KERNEL_SPACE or VMS_NO_SPACE. For loaded kernel code
	 * it is the code's number from vms_symbolizer_note_code.
	 */
	uint32_t owner;
};

#define VMS_TREE_ROOT UINT32_MAX       /* as a parent: the node is outermost */
#define VMS_TREE_FULL (UINT32_MAX - 1) /* as a node: there is no room for it */

struct vms_tree_node {
	struct vms_tree_key key;
	uint64_t self; /* samples that end here */
	uint32_t parent;
};

/* What a node costs, with its slots and the room to grow. */
#define VMS_TREE_NODE_BYTES (2 * (sizeof(struct vms_tree_node) + 2 * sizeof(uint32_t)))

/* The most nodes that a tree may have, which take one GiB. */
#define VMS_TREE_LIMIT (UINT32_C(32) << 20)

typedef struct vms_tree {
	struct vms_tree_node *nodes;
	uint32_t n_nodes;
	uint32_t capacity;
	uint32_t limit;
	uint32_t *slots; /* node index + 1; 0: free */
	uint32_t n_slots;
	uint32_t seed; /* random, so that a guest cannot choose addresses that collide */
} vms_tree;

/* Makes a tree of at most `limit` nodes, 1 to VMS_TREE_LIMIT. */
struct vms_tree *vms_tree_new(uint32_t limit);
void vms_tree_free(struct vms_tree *tree);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_tree, vms_tree_free)

/*
 * Returns the child of `parent` with that key, and makes it if there is none. Returns VMS_TREE_FULL
 * if the limit is reached or memory is out.
 */
uint32_t vms_tree_child(struct vms_tree *tree, uint32_t parent, struct vms_tree_key key);
/*
 * Counts `weight` samples of a path of `n` keys, at least one, outermost first. Without room for
 * the path, they are counted in an outermost marker OUT_OF_NODES instead. Returns the node in which
 * they are counted.
 */
uint32_t vms_tree_add(struct vms_tree *tree, const struct vms_tree_key *path, size_t n,
		      uint64_t weight);
/* Counts samples in the marker OUT_OF_NODES, whatever their path is. Returns its node. */
uint32_t vms_tree_add_out_of_nodes(struct vms_tree *tree, uint64_t weight);
/* Lets the tree have no more nodes than it has now, but for that marker. */
void vms_tree_close(struct vms_tree *tree);
