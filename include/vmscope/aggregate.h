/* SPDX-License-Identifier: MIT */
/*
 * Aggregation: a flow that does not record its hits, but counts them by key at the hit. Each key
 * has a row with the number of hits, and sums, extremes and histograms of numbers. This costs less
 * than records, and works for any number of hits.
 *
 * In the agent, each vCPU has its own table, so that no vCPU waits for another. A snapshot merges
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
	VMS_HISTOGRAM_LOG2,   /* cells between powers of two, one for 0, one for all below 0 */
	VMS_HISTOGRAM_LINEAR, /* cells of the same width, one for all below, one for all above */
};

/* How one number is aggregated. Every number has a sum and extremes. */
struct vms_aggregate_number {
	enum vms_aggregate_histogram histogram;
	bool is_unsigned; /* the number has no sign */
	int64_t first;	  /* LINEAR: where the cells begin */
	uint64_t step;	  /* LINEAR: numbers of a cell, from 1 */
	unsigned n_steps; /* LINEAR: cells, without the one below and the one above */
};

struct vms_aggregate_options {
	size_t size; /* sizeof(struct vms_aggregate_options) */
	/*
	 * The values of its entries are the key, with `by_place`. If NULL, all hits have one key.
	 */
	struct vms_probe *key;
	bool by_place; /* the address of the place is part of the key */
	/*
	 * Its entries are the numbers. They must be of kind REGISTER, or EXPRESSION, which also
	 * reads values with types with their sign. If NULL, hits are only counted.
	 */
	struct vms_probe *numbers;
	/* One for each entry of `numbers`. If NULL, all are signed and have no histograms. */
	const struct vms_aggregate_number *kinds;
	unsigned max_keys; /* capacity of each vCPU's table; 0 means 4096 */
};

/*
 * Makes a flow without places aggregate its hits. The flow keeps the probes of `options`, but
 * ignores their conditions. The probes of its places must have no entries. Strings in keys are cut
 * like others; equal strings are one key, whatever their address. A call (vms_flow_add_call) is
 * counted at its return, and all values are read then, when its arguments may be overwritten. A hit
 * with a number that cannot be read is counted as unknown (vms_flow_progress). Errors:
 * INVALID_STATE (there are places, or the flow already aggregates), INVALID_ARGUMENT (invalid
 * options; a key or a table that would be too large; entries of `numbers` that are not registers or
 * expressions, entries of `key` without bytes).
 */
bool vms_flow_aggregate(struct vms_flow *flow, const struct vms_aggregate_options *options,
			GError **error);
/*
 * Takes a snapshot of all counts since vms_flow_aggregate, also while the flow is enabled, or when
 * its machine has ended. vms_flow_clear does not change the counts. Errors: INVALID_STATE (the flow
 * does not aggregate).
 */
struct vms_aggregate *vms_flow_get_aggregate(struct vms_flow *flow, GError **error);

/* The next are for one thread at a time. */

void vms_aggregate_free(struct vms_aggregate *aggregate);
/* Hits that were not counted in a row, because there was no room for their key. */
uint64_t vms_aggregate_unfit(const struct vms_aggregate *aggregate);
/* The number of rows. They are sorted by count, the greatest first. */
size_t vms_aggregate_rows(const struct vms_aggregate *aggregate);

/* The next functions return false if there is no such row, value, number or cell. */

struct vms_aggregate_row {
	uint64_t count; /* hits */
	uint64_t va;	/* the place's, if that is part of the key; else 0 */
};
bool vms_aggregate_get_row(const struct vms_aggregate *aggregate, size_t row,
			   struct vms_aggregate_row *ret);
/* Gets a value of the key, by entry of its probe. The aggregate owns `bytes`. */
bool vms_aggregate_get_key(const struct vms_aggregate *aggregate, size_t row, size_t index,
			   struct vms_flow_value *ret);

/* Signed numbers must be read as int64_t. */
struct vms_aggregate_sum {
	uint64_t sum; /* modulo 2^64 */
	uint64_t min, max;
	double average;
	const uint64_t *cells; /* hits by cell of the histogram; owned by the aggregate */
	unsigned n_cells;      /* 0 without a histogram */
};
bool vms_aggregate_get_sum(const struct vms_aggregate *aggregate, size_t row, size_t index,
			   struct vms_aggregate_sum *ret);
/* Gets the least and the greatest number that a cell counts. */
bool vms_aggregate_cell(const struct vms_aggregate *aggregate, size_t index, unsigned cell,
			uint64_t *first, uint64_t *last);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_aggregate, vms_aggregate_free)

VMS_END_DECLS
