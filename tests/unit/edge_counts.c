/* SPDX-License-Identifier: MIT */
/* Counts of edges by counts of blocks: what can be told, and what cannot. */
#include "cfg/edge_counts.h"

#define NOT_KNOWN UINT64_MAX

/* A graph, what its blocks count, and what its edges must. */
struct graph {
	const char *name;
	size_t n;
	struct vms_block blocks[6];
	uint64_t counts[6];
	uint64_t edges[10];
};

static const struct vms_edge to_0[] = { { 0, VMS_EDGE_JUMP } }, to_1[] = { { 1, VMS_EDGE_NEXT } },
			     to_2[] = { { 2, VMS_EDGE_JUMP } }, to_3[] = { { 3, VMS_EDGE_NEXT } },
			     to_12[] = { { 1, VMS_EDGE_NEXT }, { 2, VMS_EDGE_JUMP } },
			     to_21[] = { { 2, VMS_EDGE_NEXT }, { 1, VMS_EDGE_JUMP } },
			     to_11[] = { { 1, VMS_EDGE_NEXT }, { 1, VMS_EDGE_JUMP } },
			     to_34[] = { { 3, VMS_EDGE_NEXT }, { 4, VMS_EDGE_JUMP } };

#define BLOCK(kind, to)                                                                            \
	{                                                                                          \
		.end = VMS_BLOCK_##kind, .edges = to, .n_edges = G_N_ELEMENTS(to)                  \
	}
#define EXIT                                                                                       \
	{                                                                                          \
		.end = VMS_BLOCK_EXIT                                                              \
	}

static const struct graph graphs[] = {
	{ "if and else",
	  4,
	  { BLOCK(CONDITIONAL, to_12), BLOCK(NEXT, to_3), BLOCK(NEXT, to_3), EXIT },
	  { 10, 7, 3, 10 },
	  { 7, 3, 7, 3 } },
	{ "if without else",
	  3,
	  { BLOCK(CONDITIONAL, to_12), BLOCK(NEXT, to_2), EXIT },
	  { 10, 4, 10 },
	  { 4, 6, 4 } },
	{ "a loop",
	  3,
	  { BLOCK(NEXT, to_1), BLOCK(CONDITIONAL, to_21), EXIT },
	  { 5, 105, 5 },
	  { 5, 5, 100 } },
	{ "a jump out of the function",
	  4,
	  { { .end = VMS_BLOCK_CONDITIONAL, .edges = to_1, .n_edges = 1, .leaves_to = 1 },
	    BLOCK(NEXT, to_2),
	    BLOCK(NEXT, to_3),
	    EXIT },
	  { 10, 4, 4, 4 },
	  { 4, 4, 4 } },
	{ "both ways to the same block",
	  2,
	  { BLOCK(CONDITIONAL, to_11), EXIT },
	  { 10, 10 },
	  { NOT_KNOWN, NOT_KNOWN } },
	{ "a loop to the entry: how often it is called is not known, the loop is",
	  3,
	  { BLOCK(CONDITIONAL, to_12), BLOCK(NEXT, to_0), EXIT },
	  { 10, 8, 2 },
	  { 8, 2, 8 } },
	{ "never executed",
	  3,
	  { BLOCK(CONDITIONAL, to_12), BLOCK(NEXT, to_2), EXIT },
	  { 0 },
	  { 0 } },
	{ "two ways cross, and the counts tell neither",
	  5,
	  { BLOCK(CONDITIONAL, to_12), BLOCK(CONDITIONAL, to_34), BLOCK(CONDITIONAL, to_34), EXIT,
	    EXIT },
	  { 10, 5, 5, 5, 5 },
	  { 5, 5, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN } },
	{ "a jump that may lead anywhere: only what goes out is certain",
	  4,
	  { BLOCK(CONDITIONAL, to_12), { .end = VMS_BLOCK_INDIRECT }, BLOCK(NEXT, to_3), EXIT },
	  { 10, 4, 8, 8 },
	  { NOT_KNOWN, NOT_KNOWN, 8 } },
	{ "counted while it ran: no less than nothing",
	  3,
	  { BLOCK(CONDITIONAL, to_12), BLOCK(NEXT, to_2), EXIT },
	  { 10, 11, 9 },
	  { 11, 0, 11 } },
};

static void test_graph(gconstpointer data)
{
	const struct graph *graph = data;
	uint64_t edges[G_N_ELEMENTS(graph->edges)];
	bool known[G_N_ELEMENTS(graph->edges)];
	size_t edge = 0;
	vms_cfg_count_edges(graph->blocks, graph->n, 0, graph->counts, edges, known);
	for (size_t i = 0; i < graph->n; i++)
		for (size_t j = 0; j < graph->blocks[i].n_edges; j++, edge++)
			g_assert_cmpuint(known[edge] ? edges[edge] : NOT_KNOWN, ==,
					 graph->edges[edge]);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(graphs); i++) {
		g_autofree char *path = g_strconcat("/edge_counts/", graphs[i].name, NULL);
		g_test_add_data_func(path, &graphs[i], test_graph);
	}
	return g_test_run();
}
