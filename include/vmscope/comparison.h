/* SPDX-License-Identifier: MIT */
/*
 * Comparisons of two profiles: which functions and stacks have more or fewer samples than before.
 * Functions are the same if their names and those of their modules are, whatever their addresses
 * and folders are. So the profiles may be of different kernels, programs and machines. Processes
 * are the same by what their labels say: make the profiles by VMS_PROFILE_BY_COMM to compare
 * processes with different numbers.
 *
 * A comparison is a snapshot. Several threads may read it at once.
 */
#pragma once

#include <vmscope/profile.h>

VMS_BEGIN_DECLS

typedef struct vms_comparison vms_comparison;

/* Samples in the first profile and in the second one. */
struct vms_compared_counts {
	uint64_t before, after;
};

/* A function in a process. The comparison owns the strings. They are NULL if unknown. */
struct vms_compared_function {
	const char *name;
	const char *module;  /* NULL for the kernel itself */
	const char *process; /* NULL for what runs in no process */
	bool is_user;
	struct vms_compared_counts self;  /* samples in which it is the leaf */
	struct vms_compared_counts total; /* samples in which it is anywhere; each counts once */
};

/* How a measure has changed. */
struct vms_compared_change {
	double before, after;
	/*
	 * Half the width of the interval in which the true change lies with a probability of 95 %,
	 * if samples are independent of each other.
	 */
	double error;
	bool is_chance; /* that interval has 0 in it: there may be no change */
};

/*
 * Compares `after` with `before`. Both must begin with the outermost caller, not with the leaf, and
 * live as long as the comparison. Trees are compared with that of the same vCPU. Errors:
 * INVALID_ARGUMENT (a profile begins with the leaf).
 */
struct vms_comparison *vms_comparison_new(const struct vms_profile *before,
					  const struct vms_profile *after, GError **error);
void vms_comparison_free(struct vms_comparison *comparison);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_comparison, vms_comparison_free)

/* Returns all functions of both profiles, `*n` of them, in no order. The comparison owns them. */
const struct vms_compared_function *vms_comparison_functions(
	const struct vms_comparison *comparison, size_t *n);
/* Returns the samples of both profiles. */
struct vms_compared_counts vms_comparison_samples(const struct vms_comparison *comparison);
/*
 * Gets the samples of a node of the second profile, and those of the same stack in the first one.
 * For VMS_NO_NODE they are those of the tree.
 */
void vms_comparison_node(const struct vms_comparison *comparison, size_t tree, uint32_t node,
			 struct vms_compared_counts *self, struct vms_compared_counts *total);

/*
 * Returns the change of `part` as a share of `all`, in percent and percentage points. The interval
 * is that of Agresti and Caffo, which is good for few samples, too.
 */
struct vms_compared_change vms_compared_share(struct vms_compared_counts part,
					      struct vms_compared_counts all);
/*
 * Returns the change of `part` as a rate: `scale_before` and `scale_after` are what one sample
 * stands for, such as milliseconds of processor time in a second of the recording.
 */
struct vms_compared_change vms_compared_rate(struct vms_compared_counts part, double scale_before,
					     double scale_after);

VMS_END_DECLS
