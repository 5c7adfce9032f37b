/* SPDX-License-Identifier: MIT */
#include "cfg_counts.h"
#include "base/clock.h"
#include "base/keyed_hash.h"
#include "cfg/edge_counts.h"
#include "interrupts.h"

#define POLL_INTERVAL_NS (UINT64_C(50) * 1000 * 1000) /* between checks for the end */

/* A counter of hits at an address, before or after its instruction. */
struct counter {
	uint64_t va;
	uint64_t *count;
};

/* The counters of a function. The thread of the flow increments them. */
struct count_run {
	const struct vms_cfg *cfg;
	struct cfg_counts *counts;
	GHashTable *before, *after; /* va → struct counter */
};

static void add_counter(GHashTable *counters, uint64_t va, uint64_t *count)
{
	struct counter *counter = g_new(struct counter, 1);
	*counter = (struct counter) { va, count };
	g_hash_table_insert(counters, &counter->va, counter);
}

static void count_hit(struct vms_flow_record *record, void *data)
{
	const struct count_run *run = data;
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	struct counter *counter =
		g_hash_table_lookup(hit.is_after ? run->after : run->before, &hit.va);
	if (counter)
		++*counter->count;
}

/* ---- the flow --------------------------------------------------------------------------- */

/*
 * Adds all blocks of the graph. vms_flow_add_graph counts a block that leaves the function at its
 * end. Here it is also counted at its begin, because some blocks never reach their end.
 */
static bool add_blocks(struct vms_flow *flow, const struct vms_cfg *cfg, struct vms_probe *probe,
		       GError **error)
{
	size_t n, n_cut;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	if (!vms_flow_add_graph(flow, cfg, probe, probe, probe, &n_cut, error))
		return false;
	for (size_t i = 0; i < n; i++)
		if (blocks[i].end == VMS_BLOCK_EXIT && i != vms_cfg_entry(cfg) &&
		    !vms_flow_add(flow, blocks[i].va, VMS_FLOW_BEFORE, probe, error))
			return false;
	if (n_cut)
		vms_log(VMS_LOG_WARNING,
			"%zu blocks could not be decoded to their end: the code after them is not "
			"counted",
			n_cut);
	return true;
}

static struct vms_flow *make_flow(struct session *session, struct count_run *run,
				  const struct cfg_counting *counting, GError **error)
{
	const struct vms_flow_options options = {
		.size = sizeof(options), .without_tasks = true, .each = count_hit, .data = run
	};
	g_autoptr(vms_probe) probe = vms_probe_new(session->machine, session->guest, NULL);
	if (counting->condition && !vms_probe_set_condition(probe, counting->condition, error))
		return NULL;
	g_autoptr(vms_flow) flow = vms_flow_new(session->machine, session->guest, &options, error);
	return flow && add_blocks(flow, run->cfg, probe, error) ? g_steal_pointer(&flow) : NULL;
}

static void wait_for_end(struct vms_flow *flow, uint64_t duration_ns)
{
	const uint64_t end_ns = duration_ns ? vms_clock_now_ns() + duration_ns : UINT64_MAX;
	vms_log(VMS_LOG_INFO, "the probes are armed");
	while (!interrupts_came() && vms_clock_now_ns() < end_ns &&
	       !vms_flow_wait(flow, MIN(vms_clock_now_ns() + POLL_INTERVAL_NS, end_ns)))
		;
}

/* Runs the flow until the time is over or Ctrl-C. Both keep the counts. */
static bool count_until_end(struct session *session, struct vms_flow *flow, uint64_t duration_ns,
			    GError **error)
{
	struct interrupts interrupts;
	interrupts_catch(&interrupts, session->budget);
	/* Counted records need not be kept. */
	bool done = vms_flow_enable(flow, 0, 1, error);
	if (done) {
		wait_for_end(flow, duration_ns);
		done = vms_flow_disable(flow, error);
	}
	interrupts_release(&interrupts);
	return done;
}

/* ---- counts ------------------------------------------------------------------------------ */

static struct cfg_counts *new_counts(const struct vms_cfg *cfg)
{
	struct cfg_counts *counts = g_new0(struct cfg_counts, 1);
	size_t n, n_edges = 0;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (size_t i = 0; i < n; i++)
		n_edges += blocks[i].n_edges;
	counts->blocks = g_new0(uint64_t, n);
	counts->left = g_new0(uint64_t, n);
	counts->edges = g_new0(uint64_t, n_edges);
	counts->edge_known = g_new0(bool, n_edges);
	return counts;
}

void cfg_counts_free(struct cfg_counts *counts)
{
	if (!counts)
		return;
	g_free(counts->blocks);
	g_free(counts->left);
	g_free(counts->edges);
	g_free(counts->edge_known);
	g_free(counts);
}

static bool count_blocks(struct session *session, struct count_run *run,
			 const struct cfg_counting *counting, GError **error)
{
	struct vms_flow_progress progress;
	g_autoptr(vms_flow) flow = make_flow(session, run, counting, error);
	if (!flow || !count_until_end(session, flow, counting->duration_ns, error))
		return false;
	vms_flow_get_progress(flow, &progress);
	run->counts->lost = progress.lost + progress.unknown;
	if (run->counts->lost)
		vms_log(VMS_LOG_WARNING,
			"%" G_GINT64_MODIFIER "u hits are not counted: they were lost, or their "
			"condition could not be evaluated",
			run->counts->lost);
	return true;
}

struct cfg_counts *cfg_counts_measure(struct session *session, const struct vms_cfg *cfg,
				      const struct cfg_counting *counting, GError **error)
{
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	g_autoptr(cfg_counts) counts = new_counts(cfg);
	g_autoptr(GHashTable) before =
		g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, g_free);
	g_autoptr(GHashTable) after =
		g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, g_free);
	struct count_run run = { cfg, counts, before, after };
	for (size_t i = 0; i < n; i++) {
		add_counter(before, blocks[i].va, &counts->blocks[i]);
		add_counter(after, blocks[i].last, &counts->left[i]);
	}
	if (!count_blocks(session, &run, counting, error))
		return NULL;
	for (size_t i = 0; i < n; i++)
		counts->hottest = MAX(counts->hottest, counts->blocks[i]);
	vms_cfg_count_edges(blocks, n, vms_cfg_entry(cfg), counts->blocks, counts->edges,
			    counts->edge_known);
	return g_steal_pointer(&counts);
}
