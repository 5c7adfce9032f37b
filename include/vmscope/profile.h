/* SPDX-License-Identifier: MIT */
/*
 * A profile: call trees with names, ready to be printed or exported. A snapshot: it does not change
 * and needs neither the machine nor its guest any more. Several threads may read it at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_profile vms_profile;

enum vms_label_kind {
	VMS_LABEL_PROCESS,  /* a process of the guest: name "md5sum (123)" */
	VMS_LABEL_IDLE,	    /* "[idle]" */
	VMS_LABEL_FUNCTION, /* code with a name: a symbol, or file+offset */
	VMS_LABEL_ADDRESS,  /* code without a name */
	VMS_LABEL_MARKER,   /* "[truncated]", "[unreadable stack]" … */
};

/* What a node is called. Strings are owned by the profile; NULL where unknown. */
struct vms_label {
	enum vms_label_kind kind;
	bool is_user;
	const char *name;   /* symbol, process, marker */
	const char *module; /* NULL: the kernel itself */
	const char *source; /* source file and line, where known */
	unsigned line;
	uint64_t va;	 /* by address: the address; by function: where the function begins */
	uint64_t offset; /* from the symbol; 0 by function */
};

#define VMS_NO_NODE UINT32_MAX

/* Parents come before their children in the array; siblings are sorted by total, then address. */
struct vms_profile_node {
	uint32_t label;
	uint32_t parent, first_child, next_sibling; /* VMS_NO_NODE: none */
	uint64_t total;				    /* samples of the node with what is below it */
	uint64_t self;				    /* samples that end here */
};

/* A function by the samples in which it appears. Its label is that of a function, whatever the
 * nodes of the trees stand for. */
struct vms_profile_function {
	uint32_t label;
	uint64_t self;	/* samples in which it is the leaf */
	uint64_t total; /* samples in which it is anywhere, once each */
};

/* The call tree of one vCPU, or of all. */
struct vms_profile_tree {
	int vcpu; /* or VMS_ALL_VCPUS */
	uint64_t samples;
	const struct vms_profile_node *nodes;
	uint32_t n_nodes;
	uint32_t first_root; /* siblings by next_sibling */
};

void vms_profile_free(struct vms_profile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_profile, vms_profile_free)

/* `label` is that of a node or a function. Owned by the profile. */
const struct vms_label *vms_profile_label(const struct vms_profile *profile, uint32_t label);
/* Is the first frame of a path the leaf, with callers below it? */
bool vms_profile_leaf_first(const struct vms_profile *profile);
/* A tree for each vCPU, or one for all; `*n` of them. Owned by the profile. */
const struct vms_profile_tree *vms_profile_trees(const struct vms_profile *profile, size_t *n);
/* By self, highest first; over all trees; `*n` of them. Owned by the profile. */
const struct vms_profile_function *vms_profile_functions(const struct vms_profile *profile,
							 size_t *n);

VMS_END_DECLS
