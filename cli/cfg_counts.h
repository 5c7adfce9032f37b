/* SPDX-License-Identifier: MIT */
/* Counts how often the blocks and edges of a graph are executed. */
#pragma once

#include "session.h"

/* What to count. */
struct cfg_counting {
	const char *condition; /* of hits, or NULL */
	uint64_t duration_ns;  /* 0: until a signal */
};

struct cfg_counts {
	uint64_t *blocks; /* by block: how often its first instruction was executed */
	uint64_t *left;	  /* by block that leaves the function: how often its end was reached */
	uint64_t *edges;  /* by edge, in the order of the blocks */
	bool *edge_known; /* by edge: false if its count cannot be derived */
	uint64_t hottest; /* the greatest count of a block */
	uint64_t lost;	  /* hits that were not counted */
};
typedef struct cfg_counts cfg_counts;

/*
 * Counts until the time is over, or a signal comes. The caller owns the result. Errors: usage (the
 * condition); those of vms_flow_enable.
 */
struct cfg_counts *cfg_counts_measure(struct session *session, const struct vms_cfg *cfg,
				      const struct cfg_counting *counting, GError **error);
void cfg_counts_free(struct cfg_counts *counts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(cfg_counts, cfg_counts_free)
