/* SPDX-License-Identifier: MIT */
#include "calls/call_graph.h"
#include "base/keyed_hash.h"
#include <inttypes.h>

#define RECORD		16
#define MAGIC		5
#define MAX_DEPTH	1023 /* deeper calls are recorded as of this depth */
#define FUNCTIONS_LIMIT (1u << 20)
#define EDGES_LIMIT	(1u << 22)
#define OPEN_LIMIT	(1u << 20)

enum type { ENTRY, EXIT, LOST, EVENT };

/* A call that has not returned. */
struct open_call {
	uint32_t function;
	uint64_t begin_ns;
	uint64_t below_ns, below_calls; /* of the calls that it has made */
};

struct vms_call_graph *vms_call_graph_new(void)
{
	struct vms_call_graph *graph = g_new0(struct vms_call_graph, 1);
	graph->functions = g_array_new(FALSE, FALSE, sizeof(struct vms_called));
	graph->edges = g_array_new(FALSE, FALSE, sizeof(struct vms_call_edge));
	graph->open = g_array_new(FALSE, FALSE, sizeof(struct open_call));
	graph->by_address = g_hash_table_new_full(vms_hash_int64, g_int64_equal, g_free, NULL);
	graph->by_pair = g_hash_table_new_full(vms_hash_int64, g_int64_equal, g_free, NULL);
	return graph;
}

void vms_call_graph_free(struct vms_call_graph *graph)
{
	if (!graph)
		return;
	g_array_unref(graph->functions);
	g_array_unref(graph->edges);
	g_array_unref(graph->open);
	g_hash_table_unref(graph->by_address);
	g_hash_table_unref(graph->by_pair);
	g_free(graph);
}

/* Returns the index of what has that key in an array, and appends `made` if there is none. */
static uint32_t get_index(GHashTable *table, uint64_t key, GArray *array, const void *made)
{
	gpointer found = g_hash_table_lookup(table, &key);
	if (!found) {
		g_array_append_vals(array, made, 1);
		found = GUINT_TO_POINTER(array->len);
		g_hash_table_insert(table, g_memdup2(&key, sizeof(key)), found);
	}
	return GPOINTER_TO_UINT(found) - 1;
}

static struct vms_call_edge *get_edge(struct vms_call_graph *graph, uint32_t caller,
				      uint32_t callee)
{
	const struct vms_call_edge made = { .caller = caller, .callee = callee };
	const uint32_t index =
		get_index(graph->by_pair, (uint64_t)caller << 32 | callee, graph->edges, &made);
	return &g_array_index(graph->edges, struct vms_call_edge, index);
}

/* Ends the innermost call. */
static void close_call(struct vms_call_graph *graph, uint64_t now_ns)
{
	const struct open_call call =
		g_array_index(graph->open, struct open_call, graph->open->len - 1);
	struct vms_called *function =
		&g_array_index(graph->functions, struct vms_called, call.function);
	const uint64_t took_ns = now_ns > call.begin_ns ? now_ns - call.begin_ns : 0;
	function->self_ns += took_ns > call.below_ns ? took_ns - call.below_ns : 0;
	g_array_set_size(graph->open, graph->open->len - 1);
	if (graph->open->len == 0)
		return;
	struct open_call *caller =
		&g_array_index(graph->open, struct open_call, graph->open->len - 1);
	struct vms_call_edge *edge = get_edge(graph, caller->function, call.function);
	edge->calls++;
	edge->total_ns += took_ns;
	edge->total_calls += 1 + call.below_calls;
	caller->below_ns += took_ns;
	caller->below_calls += 1 + call.below_calls;
}

static void open_call(struct vms_call_graph *graph, uint64_t now_ns, uint64_t address)
{
	const struct vms_called made = { .address = address };
	const struct open_call call = {
		.function = get_index(graph->by_address, address, graph->functions, &made),
		.begin_ns = now_ns,
	};
	g_array_index(graph->functions, struct vms_called, call.function).calls++;
	g_array_append_val(graph->open, call);
}

/* Ends calls whose exits are missing, as records were lost: only `depth` calls stay open. */
static void close_calls_above(struct vms_call_graph *graph, unsigned depth, uint64_t now_ns)
{
	while (depth < MAX_DEPTH && graph->open->len > depth)
		close_call(graph, now_ns);
}

static bool check_limits(const struct vms_call_graph *graph, GError **error)
{
	if (graph->functions->len < FUNCTIONS_LIMIT && graph->edges->len < EDGES_LIMIT &&
	    graph->open->len < OPEN_LIMIT)
		return true;
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "there are more functions or open calls than any trace has");
	return false;
}

static bool add_record(struct vms_call_graph *graph, uint64_t now_ns, uint64_t word, GError **error)
{
	const unsigned depth = word >> 6 & MAX_DEPTH;
	const enum type type = (enum type)(word & 3);
	if ((word >> 3 & 7) != MAGIC) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED, "0x%" PRIx64 " is no record",
			    word);
		return false;
	}
	if (word >> 2 & 1) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
				    "records with arguments are not of vmscope");
		return false;
	}
	if (type == LOST || type == EVENT)
		return true;
	graph->last_ns = MAX(graph->last_ns, now_ns);
	if (type == ENTRY) {
		close_calls_above(graph, depth, now_ns);
		open_call(graph, now_ns, word >> 16);
		return check_limits(graph, error);
	}
	close_calls_above(graph, depth + 1, now_ns);
	/* An exit may lack its entry: the call began before the trace, or records were lost. */
	if (graph->open->len > depth || (depth == MAX_DEPTH && graph->open->len))
		close_call(graph, now_ns);
	return true;
}

bool vms_call_graph_add(struct vms_call_graph *graph, struct vms_bytes records, GError **error)
{
	uint64_t now_ns, word;
	for (size_t at = 0;
	     vms_bytes_u64(records, at, &now_ns) && vms_bytes_u64(records, at + 8, &word);
	     at += RECORD)
		if (!add_record(graph, now_ns, word, error))
			return false;
	return true;
}

void vms_call_graph_end_stream(struct vms_call_graph *graph)
{
	while (graph->open->len > 0)
		close_call(graph, graph->last_ns);
	graph->last_ns = 0;
}
