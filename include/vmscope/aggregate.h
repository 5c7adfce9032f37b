/* SPDX-License-Identifier: MIT */
/*
 * Aggregation: a flow that does not record its hits, but adds them up where they happen, by key.
 * Each key has a row with the number of hits, and sums, extremes and histograms of numbers. Hits
 * cost less that way, and it does not matter how many there are.
 *
 * By the agent, each vCPU has a table of its own, so that none waits for another. A snapshot merges
 * them.
 */
#pragma once

#include <vmscope/flow.h>

VMS_BEGIN_DECLS

typedef struct vms_aggregate vms_aggregate;

/* The most numbers of an aggregation, and the most cells of `step` numbers of a histogram. */
#define VMS_AGGREGATE_NUMBERS_MAX 8
#define VMS_AGGREGATE_STEPS_MAX	  1024

enum vms_aggregate_histogram {
	VMS_HISTOGRAM_NONE,
	VMS_HISTOGRAM_LOG2,   /* cells between powers of two, one for 0, one for all below it */
	VMS_HISTOGRAM_LINEAR, /* cells of the same width, one for all below, one for all above */
};

/* What is made of one number. All have a sum and extremes. */
struct vms_aggregate_number {
	enum vms_aggregate_histogram histogram;
	bool is_unsigned; /* the number has no sign */
	int64_t first;	  /* LINEAR: where the cells begin */
	uint64_t step;	  /* LINEAR: numbers of a cell, from 1 */
	unsigned n_steps; /* LINEAR: cells, without the one below and the one above */
};

struct vms_aggregate_options {
	size_t size; /* sizeof(struct vms_aggregate_options) */
	/* The values of its entries are the key, with `place`. NULL: all hits have the same key. */
	struct vms_probe *key;
	bool by_place; /* the address of the place is part of the key */
	/*
	 * Its entries are the numbers: of kind REGISTER and EXPRESSION, which reads what has a type
	 * with its sign, too. NULL: hits are only counted.
	 */
	struct vms_probe *numbers;
	/* By entry of `numbers`. NULL: no histograms, all with a sign. */
	const struct vms_aggregate_number *kinds;
	unsigned max_keys; /* that a table has room for: of each vCPU; 0: 4096 */
};

/*
 * Has a flow that has no place yet add up its hits. It keeps the probes; conditions of theirs do
 * not count, and the probes of its places must have no entries. Strings in keys are cut like
 * others, and are the same key wherever they are. A call (vms_flow_add_call) counts when it
 * returns, and all is read then; its arguments may have gone. A hit with a number that cannot be
 * read is counted as unknown (vms_flow_progress). Errors: INVALID_STATE (there are places, or it
 * aggregates already), INVALID_ARGUMENT (the options; a key or a table that would be too large;
 * entries of `numbers` that are no registers or expressions, entries of `key` that have no bytes).
 */
bool vms_flow_aggregate(struct vms_flow *flow, const struct vms_aggregate_options *options,
			GError **error);
/*
 * Takes a snapshot of what was added up since vms_flow_aggregate, also while the flow is enabled,
 * and when its machine has gone. vms_flow_clear does not touch it. Errors: INVALID_STATE (the flow
 * does not aggregate).
 */
struct vms_aggregate *vms_flow_get_aggregate(struct vms_flow *flow, GError **error);

/* The next are for one thread at a time. */

void vms_aggregate_free(struct vms_aggregate *aggregate);
/* Hits that were not added up, since there was no room for their key. */
uint64_t vms_aggregate_unfit(const struct vms_aggregate *aggregate);
/* The number of rows. They are sorted by count, the greatest first. */
size_t vms_aggregate_rows(const struct vms_aggregate *aggregate);

/* The next return false if there is no such row, value, number or cell. */

struct vms_aggregate_row {
	uint64_t count; /* hits */
	uint64_t va;	/* the place's, if that is part of the key; else 0 */
};
bool vms_aggregate_get_row(const struct vms_aggregate *aggregate, size_t row,
			   struct vms_aggregate_row *ret);
/* Gets a value of the key, by entry of its probe. `bytes` is the aggregate's. */
bool vms_aggregate_get_key(const struct vms_aggregate *aggregate, size_t row, size_t index,
			   struct vms_flow_value *ret);

/* Numbers with a sign are to be read as int64_t. */
struct vms_aggregate_sum {
	uint64_t sum; /* modulo 2^64 */
	uint64_t min, max;
	double average;
	const uint64_t *cells; /* hits by cell of the histogram; the aggregate's */
	unsigned n_cells;      /* 0: no histogram */
};
bool vms_aggregate_get_sum(const struct vms_aggregate *aggregate, size_t row, size_t index,
			   struct vms_aggregate_sum *ret);
/* Gets the least and the greatest number that a cell counts. */
bool vms_aggregate_cell(const struct vms_aggregate *aggregate, size_t index, unsigned cell,
			uint64_t *first, uint64_t *last);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_aggregate, vms_aggregate_free)

VMS_END_DECLS
