/* SPDX-License-Identifier: MIT */
/*
 * A profile: call trees with names, ready to be printed or exported. It is a snapshot: it does not
 * change, and it needs neither the machine nor its guest. Several threads may read it at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_profile vms_profile;

enum vms_label_kind {
	VMS_LABEL_PROCESS,  /* a process of the guest, like "md5sum (123)" */
	VMS_LABEL_IDLE,	    /* "[idle]" */
	VMS_LABEL_FUNCTION, /* code with a name: a symbol, or file+offset */
	VMS_LABEL_ADDRESS,  /* code without a name */
	VMS_LABEL_MARKER,   /* "[truncated]", "[waiting: S pipe_read]" … */
};

/* The name of a node. The profile owns the strings. They are NULL if unknown. */
struct vms_label {
	enum vms_label_kind kind;
	bool is_user;
	const char *name;   /* symbol, process, marker */
	const char *module; /* NULL for the kernel itself */
	const char *source; /* source file, with `line` */
	unsigned line;
	uint64_t va;	       /* the address if by address; the function's begin if by function */
	uint64_t offset;       /* from the symbol's begin; 0 if by function */
	const char *container; /* of a process: its container or service; NULL: none */
};

#define VMS_NO_NODE UINT32_MAX

/* In the array, parents come before their children. Siblings are sorted by total, then address. */
struct vms_profile_node {
	uint32_t label;
	uint32_t parent, first_child, next_sibling; /* or VMS_NO_NODE */
	uint64_t total;				    /* samples of the node and all below it */
	uint64_t self;				    /* samples that end here */
};

/*
 * A function, and the samples in which it appears. Its label is always that of a function, even if
 * the trees have a node per address.
 */
struct vms_profile_function {
	uint32_t label;
	uint64_t self;	/* samples in which it is the leaf */
	uint64_t total; /* samples in which it is anywhere; each counts once */
};

/* The call tree of one vCPU, or of all vCPUs. */
struct vms_profile_tree {
	int vcpu; /* its number, or VMS_ALL_VCPUS */
	uint64_t samples;
	const struct vms_profile_node *nodes;
	uint32_t n_nodes;
	uint32_t first_root; /* the first outermost node; next_sibling leads to the others */
};

/* A thread that was sampled. The profile owns the strings. */
struct vms_profile_thread {
	const char *comm;  /* the name of its process; NULL if unknown */
	uint32_t pid, tid; /* 0 if unknown, and for idle tasks */
	bool is_idle;	   /* the idle task of a CPU */
	const char *role;  /* in its machine, as "[vCPU 0]"; NULL: it is of no machine */
};

#define VMS_NO_THREAD UINT32_MAX

/*
 * A sample, or several with the same stack whose times are not known. `node` is where the tree
 * counts it in `self`: the leaf, or what is outermost if trees begin with the leaf.
 */
struct vms_profile_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0 if unknown */
	uint64_t weight;  /* number of samples; 1 if the time is known */
	uint32_t tree;	  /* index of the tree */
	uint32_t node;	  /* index of the node in the tree */
	uint32_t vcpu;
	uint32_t thread; /* index of the thread, or VMS_NO_THREAD */
};

void vms_profile_free(struct vms_profile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_profile, vms_profile_free)

/* Returns a label of a node or a function. The profile owns it. */
const struct vms_label *vms_profile_label(const struct vms_profile *profile, uint32_t label);
/* True if trees begin with the leaf and have its callers below it. */
bool vms_profile_leaf_first(const struct vms_profile *profile);
/* Returns a tree for each vCPU, or one for all, `*n` of them. The profile owns them. */
const struct vms_profile_tree *vms_profile_trees(const struct vms_profile *profile, size_t *n);
/* Returns the functions of all trees, `*n` of them, highest self first. The profile owns them. */
const struct vms_profile_function *vms_profile_functions(const struct vms_profile *profile,
							 size_t *n);

/*
 * Returns all samples, `*n` of them: those whose time is known in the order of their times, then
 * the others. Their weights in a node add up to its `self`. The profile owns them.
 */
const struct vms_profile_sample *vms_profile_samples(const struct vms_profile *profile, size_t *n);
/* Returns the threads that were sampled, `*n` of them. The profile owns them. */
const struct vms_profile_thread *vms_profile_threads(const struct vms_profile *profile, size_t *n);

VMS_END_DECLS
