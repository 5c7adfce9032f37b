/* SPDX-License-Identifier: MIT */
#include "cfg/edge_counts.h"

/* The sum of a block's incoming or outgoing edges, which equals the count of the block. */
struct sum {
	bool is_valid;
	uint64_t known;	  /* sum of the known edges */
	size_t n_unknown; /* number of unknown edges */
	size_t unknown;	  /* index of the last unknown edge */
};

struct solver {
	const struct vms_block *blocks;
	size_t n;
	const uint64_t *block_counts;
	uint64_t *edge_counts;
	bool *known;
	struct sum *in, *out; /* by block */
};

/* True if control leaves a block only by its edges. */
static bool stays_inside(const struct vms_block *block)
{
	return (block->end == VMS_BLOCK_NEXT || block->end == VMS_BLOCK_CONDITIONAL ||
		block->end == VMS_BLOCK_INDIRECT) &&
	       block->n_edges && !block->leaves_to;
}

/* True if the function has a jump with unknown targets, which may lead to any block. */
static bool has_unknown_targets(const struct vms_block *blocks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (blocks[i].end == VMS_BLOCK_INDIRECT && !blocks[i].n_edges)
			return true;
	return false;
}

static void add_edge(struct sum *sum, size_t edge, bool known, uint64_t count)
{
	if (known) {
		sum->known += count;
	} else {
		sum->n_unknown++;
		sum->unknown = edge;
	}
}

static void sum_edges(struct solver *solver)
{
	size_t edge = 0;
	for (size_t i = 0; i < solver->n; i++) {
		solver->in[i] = (struct sum) { .is_valid = solver->in[i].is_valid };
		solver->out[i] = (struct sum) { .is_valid = solver->out[i].is_valid };
	}
	for (size_t i = 0; i < solver->n; i++)
		for (size_t j = 0; j < solver->blocks[i].n_edges; j++, edge++) {
			const bool known = solver->known[edge];
			const uint64_t count = solver->edge_counts[edge];
			add_edge(&solver->out[i], edge, known, count);
			add_edge(&solver->in[solver->blocks[i].edges[j].block], edge, known, count);
		}
}

/* Computes the only unknown edge of a sum. False if there is none, or there are several. */
static bool solve_edge(struct solver *solver, const struct sum *sum, uint64_t total)
{
	if (!sum->is_valid || sum->n_unknown != 1 || solver->known[sum->unknown])
		return false;
	solver->edge_counts[sum->unknown] = total > sum->known ? total - sum->known : 0;
	solver->known[sum->unknown] = true;
	return true;
}

/* Marks edges from and to blocks that were never executed as known. Their count is 0. */
static void mark_idle_edges(struct solver *solver)
{
	size_t edge = 0;
	for (size_t i = 0; i < solver->n; i++)
		for (size_t j = 0; j < solver->blocks[i].n_edges; j++, edge++)
			solver->known[edge] =
				!solver->block_counts[i] ||
				!solver->block_counts[solver->blocks[i].edges[j].block];
}

void vms_cfg_count_edges(const struct vms_block *blocks, size_t n, size_t entry,
			 const uint64_t *block_counts, uint64_t *edge_counts, bool *known)
{
	g_autofree struct sum *in = g_new0(struct sum, n), *out = g_new0(struct sum, n);
	struct solver solver = { blocks, n, block_counts, edge_counts, known, in, out };
	const bool in_is_known = !has_unknown_targets(blocks, n);
	size_t edge = 0;
	for (size_t i = 0; i < n; i++) {
		in[i].is_valid = in_is_known && i != entry;
		out[i].is_valid = stays_inside(&blocks[i]);
		for (size_t j = 0; j < blocks[i].n_edges; j++)
			edge_counts[edge++] = 0;
	}
	mark_idle_edges(&solver);
	for (bool goes_on = true; goes_on;) {
		goes_on = false;
		sum_edges(&solver);
		for (size_t i = 0; i < n; i++) {
			goes_on |= solve_edge(&solver, &in[i], block_counts[i]);
			goes_on |= solve_edge(&solver, &out[i], block_counts[i]);
		}
	}
}
