/* SPDX-License-Identifier: MIT */
/* How a flow aggregates: the shape of its tallies, and what its places collect for them. */
#pragma once

#include "flow/probe.h"
#include "probe/tally.h"
#include <vmscope/aggregate.h>

/* An aggregation. It is reference-counted, because aggregates outlive the flow. */
typedef struct vms_aggregation {
	gatomicrefcount refs;
	struct vms_probe *key, *numbers; /* or NULL */
	bool by_place;			 /* the first value of a key is the place's address */
	struct vms_tally_shape shape;
	struct vms_tally_layout layout;
} vms_aggregation;

/* Errors: INVALID_ARGUMENT, as vms_flow_aggregate. */
struct vms_aggregation *vms_aggregation_new(const struct vms_aggregate_options *options,
					    GError **error);
struct vms_aggregation *vms_aggregation_ref(struct vms_aggregation *aggregation);
void vms_aggregation_unref(struct vms_aggregation *aggregation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_aggregation, vms_aggregation_unref)
/*
 * Appends operations that collect the numbers, then the key, to an array of struct vms_op. They can
 * be part of any program for the place.
 */
void vms_aggregation_add_values(const struct vms_aggregation *aggregation, uint64_t va,
				GArray *ops);
/* Appends the numbers of the first raw values of stacks (stack.h) to an array of unsigned. */
void vms_aggregation_find_stacks(const struct vms_aggregation *aggregation,
				 const struct vms_arch *arch, GArray *stacks);
/* True if the key has a stack. Stacks are walked in vmscope, so its hits are counted there, too. */
bool vms_aggregation_has_stacks(const struct vms_aggregation *aggregation);
