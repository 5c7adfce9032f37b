/* SPDX-License-Identifier: MIT */
/* How often control went along the edges of a graph, by how often its blocks were executed. */
#pragma once

#include <vmscope/cfg.h>

/*
 * What comes into a block goes out of it: where one edge is left that is not known, this tells it.
 * Gets the counts of all edges, those of a block behind those of the blocks before it, and sets
 * `known` where they could be told. They have room for all. What goes into `entry` from outside,
 * and what leaves the function, is not known. Counts that were taken while the code ran may
 * contradict each other by the few that were on their way: then an edge has 0.
 */
void vms_cfg_count_edges(const struct vms_block *blocks, size_t n, size_t entry,
			 const uint64_t *block_counts, uint64_t *edge_counts, bool *known);
