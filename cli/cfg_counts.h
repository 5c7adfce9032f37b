/* SPDX-License-Identifier: MIT */
/* How often the blocks of a graph are executed, and which way control goes. */
#pragma once

#include "session.h"

/* What to count. */
struct cfg_counting {
	const char *condition; /* of hits that count, or NULL */
	uint64_t duration_ns;  /* 0: until a signal */
};

struct cfg_counts {
	uint64_t *blocks; /* by block: how often its first instruction was executed */
	uint64_t *left;	  /* by block that leaves the function: how often it did by its end */
	uint64_t *edges;  /* by edge, those of a block behind those of the blocks before it */
	bool *edge_known; /* by edge: false if its count could not be told */
	uint64_t hottest; /* the greatest count of a block */
	uint64_t lost;	  /* hits that were not counted */
};
typedef struct cfg_counts cfg_counts;

/*
 * Counts until the time is over, or the user ends it. Errors: usage (the condition); those of
 * vms_flow_enable.
 */
struct cfg_counts *cfg_counts_take(struct session *session, const struct vms_cfg *cfg,
				   const struct cfg_counting *counting, GError **error);
void cfg_counts_free(struct cfg_counts *counts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(cfg_counts, cfg_counts_free)
