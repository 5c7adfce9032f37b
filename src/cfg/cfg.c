/* SPDX-License-Identifier: MIT */
#include "base/options.h"
#include "base/search.h"
#include "cfg/explore.h"

struct vms_cfg {
	gatomicrefcount refs;
	char *name;
	GArray *blocks; /* struct vms_block by address */
	GArray *insns;	/* struct vms_insn, block by block */
	GArray *edges;	/* struct vms_edge, block by block */
	size_t entry;
};

const char *vms_block_end_name(enum vms_block_end end)
{
	static const char *const names[VMS_BLOCK_N_ENDS] = { "next", "conditional", "indirect",
							     "exit", "cut" };
	return end < VMS_BLOCK_N_ENDS ? names[end] : "?";
}

const char *vms_edge_kind_name(enum vms_edge_kind kind)
{
	static const char *const names[VMS_EDGE_N_KINDS] = { "next", "jump", "switch", "fault" };
	return kind < VMS_EDGE_N_KINDS ? names[kind] : "?";
}

/* ---- making a graph ------------------------------------------------------------------ */

/* A graph that is being made. Blocks get their arrays at the end, when these no longer move. */
struct builder {
	struct vms_cfg *cfg;
	const struct vms_exploration *from;
	GArray *offsets; /* struct offsets: of each block in the arrays */
};

struct offsets {
	guint insns, edges;
};

static const struct vms_cfg_step *get_step(const struct builder *builder, uint32_t index)
{
	return &g_array_index(builder->from->steps, struct vms_cfg_step, index);
}

static struct vms_block *get_block(const struct vms_cfg *cfg, size_t index)
{
	return &g_array_index(cfg->blocks, struct vms_block, index);
}

static int compare_blocks(gconstpointer a, gconstpointer b)
{
	const struct vms_block *x = a, *y = b;
	return (x->va > y->va) - (x->va < y->va);
}

/* Returns the index of the first block that begins at `va` or later. */
static size_t find_block(const struct vms_cfg *cfg, uint64_t va)
{
	return VMS_SEARCH(cfg->blocks->len, i, get_block(cfg, i)->va < va);
}

static void add_begins(struct builder *builder)
{
	for (uint32_t i = 0; i < builder->from->steps->len; i++) {
		const struct vms_cfg_step *step = get_step(builder, i);
		const struct vms_block block = { .va = step->insn.va, .last = step->insn.va };
		if (step->begins_block)
			g_array_append_val(builder->cfg->blocks, block);
	}
	g_array_sort(builder->cfg->blocks, compare_blocks);
}

/*
 * Adds an edge, unless the block has it already. The search is linear, because a block has few
 * edges or those of one switch.
 */
static void add_edge(struct builder *builder, guint first, uint64_t va, enum vms_edge_kind kind)
{
	const struct vms_edge edge = { find_block(builder->cfg, va), kind };
	if (edge.block == builder->cfg->blocks->len ||
	    get_block(builder->cfg, edge.block)->va != va)
		return; /* beyond the limit: the block with this edge is cut */
	for (guint i = first; i < builder->cfg->edges->len; i++) {
		const struct vms_edge *other =
			&g_array_index(builder->cfg->edges, struct vms_edge, i);
		if (other->block == edge.block && other->kind == kind)
			return;
	}
	g_array_append_val(builder->cfg->edges, edge);
}

static int compare_edges(const void *a, const void *b)
{
	const struct vms_edge *x = a, *y = b;
	return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
				  : (x->block > y->block) - (x->block < y->block);
}

static void add_edges(struct builder *builder, guint first, const struct vms_cfg_step *step)
{
	if (step->goes_on)
		add_edge(builder, first, step->insn.va + step->insn.size, VMS_EDGE_NEXT);
	if (step->target)
		add_edge(builder, first, step->target, VMS_EDGE_JUMP);
	for (guint i = 0; i < step->n_targets; i++)
		add_edge(builder, first,
			 g_array_index(builder->from->targets, uint64_t, step->first_target + i),
			 VMS_EDGE_SWITCH);
}

/* Sets how a block ends. False if the block continues behind this step. */
static bool end_block(struct vms_block *block, const struct vms_cfg_step *step, bool is_last)
{
	if (!step->ends_block && !is_last)
		return false;
	block->end = step->ends_block ? step->end : VMS_BLOCK_NEXT;
	block->leaves_to = step->leaves_to;
	block->table = step->table;
	block->n_entries = step->n_entries;
	return true;
}

static void fill_block(struct builder *builder, struct vms_block *block)
{
	struct vms_cfg *cfg = builder->cfg;
	const struct offsets offsets = { cfg->insns->len, cfg->edges->len };
	uint64_t va = block->va;
	bool ended = false;
	while (!ended) {
		const struct vms_cfg_step *step =
			get_step(builder, vms_exploration_find(builder->from, va));
		const uint64_t next_va = va + step->insn.size;
		const uint32_t next = vms_exploration_find(builder->from, next_va);
		ended = end_block(block, step,
				  next == VMS_NO_STEP || get_step(builder, next)->begins_block);
		if (step->insn.size) {
			g_array_append_val(cfg->insns, step->insn);
			block->last = va;
			block->n_insns++;
			block->size += step->insn.size;
		}
		if (step->fixup)
			add_edge(builder, offsets.edges, step->fixup, VMS_EDGE_FAULT);
		if (ended)
			add_edges(builder, offsets.edges, step);
		va = next_va;
	}
	block->n_edges = cfg->edges->len - offsets.edges;
	if (block->n_edges > 0)
		qsort(&g_array_index(cfg->edges, struct vms_edge, offsets.edges), block->n_edges,
		      sizeof(struct vms_edge), compare_edges);
	g_array_append_val(builder->offsets, offsets);
}

static void build_graph(struct vms_cfg *cfg, const struct vms_exploration *from, uint64_t entry)
{
	struct builder builder = { cfg, from, g_array_new(false, false, sizeof(struct offsets)) };
	add_begins(&builder);
	for (guint i = 0; i < cfg->blocks->len; i++)
		fill_block(&builder, get_block(cfg, i));
	for (guint i = 0; i < cfg->blocks->len; i++) {
		const struct offsets *offsets = &g_array_index(builder.offsets, struct offsets, i);
		struct vms_block *block = get_block(cfg, i);
		if (block->n_insns > 0)
			block->insns = &g_array_index(cfg->insns, struct vms_insn, offsets->insns);
		if (block->n_edges > 0)
			block->edges = &g_array_index(cfg->edges, struct vms_edge, offsets->edges);
	}
	cfg->entry = find_block(cfg, entry);
	g_array_unref(builder.offsets);
}

static bool check_options(const struct vms_cfg_options *options, struct vms_cfg_options *ret,
			  GError **error)
{
	*ret = (struct vms_cfg_options) { .size = sizeof(*ret) };
	if (!vms_options_copy(options, ret, sizeof(*ret), "vms_cfg_options", error))
		return false;
	if (ret->bits == 0)
		ret->bits = 64;
	if (ret->bits == 16 || ret->bits == 32 || ret->bits == 64)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "cannot decode code of %u bits: the width must be 16, 32 or 64", ret->bits);
	return false;
}

struct vms_cfg *vms_cfg_new(struct vms_guest *guest, struct vms_memory *memory, uint64_t va,
			    const struct vms_cfg_options *options, GError **error)
{
	struct vms_cfg_options checked;
	struct vms_function_code function;
	struct vms_exploration exploration;
	if (!check_options(options, &checked, error) ||
	    !vms_function_code_read(&function, guest, memory, va, error))
		return NULL;
	const uint64_t entry = function.parts[0].va;
	if (!vms_explore(&function, entry, &checked, &exploration, error)) {
		vms_function_code_clear(&function);
		return NULL;
	}
	struct vms_cfg *cfg = g_new0(struct vms_cfg, 1);
	g_atomic_ref_count_init(&cfg->refs);
	cfg->name = g_steal_pointer(&function.name);
	cfg->blocks = g_array_new(false, false, sizeof(struct vms_block));
	cfg->insns = g_array_new(false, false, sizeof(struct vms_insn));
	cfg->edges = g_array_new(false, false, sizeof(struct vms_edge));
	build_graph(cfg, &exploration, entry);
	vms_exploration_clear(&exploration);
	vms_function_code_clear(&function);
	return cfg;
}

struct vms_cfg *vms_cfg_ref(struct vms_cfg *cfg)
{
	g_atomic_ref_count_inc(&cfg->refs);
	return cfg;
}

void vms_cfg_unref(struct vms_cfg *cfg)
{
	if (!cfg || !g_atomic_ref_count_dec(&cfg->refs))
		return;
	g_array_unref(cfg->blocks);
	g_array_unref(cfg->insns);
	g_array_unref(cfg->edges);
	g_free(cfg->name);
	g_free(cfg);
}

/* ---- reading a graph ------------------------------------------------------------------- */

const char *vms_cfg_name(const struct vms_cfg *cfg)
{
	return cfg->name;
}

const struct vms_block *vms_cfg_blocks(const struct vms_cfg *cfg, size_t *n)
{
	*n = cfg->blocks->len;
	return get_block(cfg, 0);
}

size_t vms_cfg_entry(const struct vms_cfg *cfg)
{
	return cfg->entry;
}
