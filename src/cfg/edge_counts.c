/* SPDX-License-Identifier: MIT */
#include "cfg/edge_counts.h"

/* A sum of edges that is the count of a block: of all that come in, or all that go out. */
struct sum {
	bool is_valid;
	uint64_t known;	  /* sum of the known ones */
	size_t n_unknown; /* edges */
	size_t unknown;	  /* index of the last of them */
};

struct solver {
	const struct vms_block *blocks;
	size_t n;
	const uint64_t *block_counts;
	uint64_t *edge_counts;
	bool *known;
	struct sum *in, *out; /* by block */
};

/* True if control goes from a block to its edges alone. */
static bool stays_inside(const struct vms_block *block)
{
	return (block->end == VMS_BLOCK_NEXT || block->end == VMS_BLOCK_CONDITIONAL ||
		block->end == VMS_BLOCK_INDIRECT) &&
	       block->n_edges && !block->leaves_to;
}

/* True if a jump of the function may lead to any block. */
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

static void sum_up(struct solver *solver)
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

/* Tells the one edge of a sum that is not known. */
static bool tell_edge(struct solver *solver, const struct sum *sum, uint64_t total)
{
	if (!sum->is_valid || sum->n_unknown != 1 || solver->known[sum->unknown])
		return false;
	solver->edge_counts[sum->unknown] = total > sum->known ? total - sum->known : 0;
	solver->known[sum->unknown] = true;
	return true;
}

/* Edges from and to blocks that were never executed. */
static void tell_idle_edges(struct solver *solver)
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
	tell_idle_edges(&solver);
	for (bool goes_on = true; goes_on;) {
		goes_on = false;
		sum_up(&solver);
		for (size_t i = 0; i < n; i++) {
			goes_on |= tell_edge(&solver, &in[i], block_counts[i]);
			goes_on |= tell_edge(&solver, &out[i], block_counts[i]);
		}
	}
}
