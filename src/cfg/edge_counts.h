/* SPDX-License-Identifier: MIT */
/* Computes how often the edges of a graph were taken, from how often its blocks were executed. */
#pragma once

#include <vmscope/cfg.h>

/*
 * The count of a block is the sum of its incoming edges, and of its outgoing edges. If only one
 * edge of a sum is unknown, the others give its count. Fills `edge_counts` and `known`, which have
 * room for all edges, in the order of blocks: `known` is true if the count of an edge was found. It
 * is not known how often `entry` is entered from outside, and how often the function is left.
 * Counts that were taken while the code ran may contradict each other slightly; an edge whose count
 * would be negative gets 0.
 */
void vms_cfg_count_edges(const struct vms_block *blocks, size_t n, size_t entry,
			 const uint64_t *block_counts, uint64_t *edge_counts, bool *known);
