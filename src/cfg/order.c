/* SPDX-License-Identifier: MIT */
/* Visits the blocks of a graph in different orders. */
#include <vmscope/cfg.h>

typedef bool (*visitor)(size_t block, void *data);

static void visit_by_address(size_t n, bool down, visitor each, void *data)
{
	for (size_t i = 0; i < n && each(down ? n - 1 - i : i, data); i++)
		;
}

/* A block whose edges are being followed. */
struct visit {
	size_t block, edge;
};

static void visit_depth_first(const struct vms_block *blocks, size_t entry, bool *seen,
			      visitor each, void *data)
{
	g_autoptr(GArray) stack = g_array_new(false, false, sizeof(struct visit));
	struct visit first = { entry, 0 };
	seen[entry] = true;
	bool go_on = each(entry, data);
	g_array_append_val(stack, first);
	while (go_on && stack->len > 0) {
		struct visit *visit = &g_array_index(stack, struct visit, stack->len - 1);
		const struct vms_block *block = &blocks[visit->block];
		if (visit->edge == block->n_edges) {
			g_array_set_size(stack, stack->len - 1);
			continue;
		}
		struct visit next = { block->edges[visit->edge++].block, 0 };
		if (seen[next.block])
			continue;
		seen[next.block] = true;
		go_on = each(next.block, data);
		g_array_append_val(stack, next);
	}
}

static void visit_breadth_first(const struct vms_block *blocks, size_t entry, bool *seen,
				visitor each, void *data)
{
	g_autoptr(GArray) queue = g_array_new(false, false, sizeof(size_t));
	seen[entry] = true;
	g_array_append_val(queue, entry);
	for (guint i = 0; i < queue->len; i++) {
		const size_t at = g_array_index(queue, size_t, i);
		if (!each(at, data))
			return;
		for (size_t j = 0; j < blocks[at].n_edges; j++) {
			const size_t next = blocks[at].edges[j].block;
			if (!seen[next])
				g_array_append_val(queue, next);
			seen[next] = true;
		}
	}
}

void vms_cfg_each(const struct vms_cfg *cfg, enum vms_cfg_order order, visitor each, void *data)
{
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	g_autofree bool *seen = g_new0(bool, n);
	switch (order) {
	case VMS_CFG_DEPTH_FIRST:
		visit_depth_first(blocks, vms_cfg_entry(cfg), seen, each, data);
		break;
	case VMS_CFG_BREADTH_FIRST:
		visit_breadth_first(blocks, vms_cfg_entry(cfg), seen, each, data);
		break;
	case VMS_CFG_UP:
	case VMS_CFG_DOWN:
	default: visit_by_address(n, order == VMS_CFG_DOWN, each, data);
	}
}
