/* SPDX-License-Identifier: MIT */
/* Call graphs of records that were written by hand, and the names of a trace's addresses. */
#include "calls/call_graph.h"
#include "calls/trace_names.h"

enum { ENTRY, EXIT, LOST };

struct record {
	uint64_t time_ns;
	unsigned type, depth;
	uint64_t address;
};

static bool add(struct vms_call_graph *graph, const struct record *records, size_t n,
		GError **error)
{
	g_autofree uint64_t *words = g_new(uint64_t, 2 * n);
	for (size_t i = 0; i < n; i++) {
		words[2 * i] = GUINT64_TO_LE(records[i].time_ns);
		words[2 * i + 1] =
			GUINT64_TO_LE((uint64_t)records[i].type | 5 << 3 |
				      (uint64_t)records[i].depth << 6 | records[i].address << 16);
	}
	return vms_call_graph_add(graph, (struct vms_bytes) { (const uint8_t *)words, 16 * n },
				  error);
}
#define ADD(graph, ...)                                                                            \
	g_assert_true(add(graph, (const struct record[]) { __VA_ARGS__ },                          \
			  sizeof((const struct record[]) { __VA_ARGS__ }) / sizeof(struct record), \
			  NULL))

static const struct vms_called *find(const struct vms_call_graph *graph, uint64_t address)
{
	for (guint i = 0; i < graph->functions->len; i++) {
		const struct vms_called *called =
			&g_array_index(graph->functions, struct vms_called, i);
		if (called->address == address)
			return called;
	}
	g_assert_not_reached();
}

static void assert_called(const struct vms_call_graph *graph, uint64_t address, uint64_t calls,
			  uint64_t self_ns)
{
	const struct vms_called *called = find(graph, address);
	g_assert_cmpuint(called->calls, ==, calls);
	g_assert_cmpuint(called->self_ns, ==, self_ns);
}

static void assert_edge(const struct vms_call_graph *graph, uint64_t caller, uint64_t callee,
			uint64_t calls, uint64_t total_ns, uint64_t total_calls)
{
	const struct vms_called *functions = (const void *)graph->functions->data;
	for (guint i = 0; i < graph->edges->len; i++) {
		const struct vms_call_edge *edge =
			&g_array_index(graph->edges, struct vms_call_edge, i);
		if (functions[edge->caller].address != caller ||
		    functions[edge->callee].address != callee)
			continue;
		g_assert_cmpuint(edge->calls, ==, calls);
		g_assert_cmpuint(edge->total_ns, ==, total_ns);
		g_assert_cmpuint(edge->total_calls, ==, total_calls);
		return;
	}
	g_assert_not_reached();
}

/* A calls B twice, which calls C once; the second B is open at the end. */
static void test_calls(void)
{
	g_autoptr(vms_call_graph) graph = vms_call_graph_new();
	ADD(graph, { 100, ENTRY, 0, 0xa }, { 110, ENTRY, 1, 0xb }, { 115, ENTRY, 2, 0xc },
	    { 125, EXIT, 2, 0xc });
	ADD(graph, { 130, EXIT, 1, 0xb }, { 200, ENTRY, 1, 0xb }, { 250, LOST, 0, 3 });
	vms_call_graph_end_stream(graph);
	assert_called(graph, 0xa, 1, 80); /* 100 in all, 20 of them in B */
	assert_called(graph, 0xb, 2, 10);
	assert_called(graph, 0xc, 1, 10);
	assert_edge(graph, 0xa, 0xb, 2, 20, 3);
	assert_edge(graph, 0xb, 0xc, 1, 10, 1);
	/* Another stream has a stack of its own. */
	ADD(graph, { 5, ENTRY, 0, 0xb }, { 9, EXIT, 0, 0xb });
	vms_call_graph_end_stream(graph);
	assert_called(graph, 0xb, 3, 14);
	assert_edge(graph, 0xa, 0xb, 2, 20, 3);
}

/* Exits are missing, and entries: depths tell which calls are open. */
static void test_lost(void)
{
	g_autoptr(vms_call_graph) graph = vms_call_graph_new();
	ADD(graph, { 10, EXIT, 3, 0xd }, { 20, ENTRY, 0, 0xa }, { 30, ENTRY, 1, 0xb },
	    { 40, ENTRY, 2, 0xc }, { 50, LOST, 0, 7 }, { 60, ENTRY, 1, 0xd }, { 70, EXIT, 1, 0xd },
	    { 90, EXIT, 0, 0xa });
	vms_call_graph_end_stream(graph);
	assert_called(graph, 0xb, 1, 10);
	assert_called(graph, 0xc, 1, 20);
	assert_edge(graph, 0xa, 0xb, 1, 30, 2);
	assert_edge(graph, 0xa, 0xd, 1, 10, 1);
	assert_called(graph, 0xa, 1, 30);
}

/* All calls at the deepest level are recorded as of that. */
static void test_deepest(void)
{
	g_autoptr(vms_call_graph) graph = vms_call_graph_new();
	for (unsigned i = 0; i < 1100; i++)
		ADD(graph, { i, ENTRY, MIN(i, 1023), 0xa });
	for (unsigned i = 1100; i-- > 0;)
		ADD(graph, { 2200 - i, EXIT, MIN(i, 1023), 0xa });
	g_assert_cmpuint(graph->open->len, ==, 0);
	vms_call_graph_end_stream(graph);
	assert_called(graph, 0xa, 1100, 2200);
	g_assert_cmpuint(g_array_index(graph->edges, struct vms_call_edge, 0).calls, ==, 1099);
}

static void test_malformed(void)
{
	const uint64_t words[] = { 1, 3 }, with_arguments[] = { 1, 5 << 3 | 1 << 2 };
	const struct vms_bytes no_record = { (const uint8_t *)words, 16 },
			       arguments = { (const uint8_t *)with_arguments, 16 };
	g_autoptr(vms_call_graph) graph = vms_call_graph_new();
	g_autoptr(GError) error = NULL, other = NULL;
	g_assert_false(vms_call_graph_add(graph, no_record, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_assert_false(vms_call_graph_add(graph, arguments, &other));
	g_assert_error(other, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
}

static void assert_name(const struct vms_trace_names *names, uint64_t address, const char *name,
			const char *image)
{
	const char *found_image;
	g_autofree char *found = vms_trace_names_find(names, address, &found_image);
	g_assert_cmpstr(found, ==, name);
	g_assert_cmpstr(found_image, ==, image);
}

static void test_names(void)
{
	char map[] = "1000-3000 r-xp 00000000 00:00 0    guest:/bin/prog build-id:ab\n"
		     "no mapping\n\n"
		     "ffff800000000000-ffff800000001000 r-xp 00000000 00:00 0 vmlinux\n"
		     "2000-4000 r-xp 00000000 00:00 0 guest:/lib/late.so\n"
		     "5000-6000 rw-p 00000000 00:00 0 [stack]\n";
	char symbols[] = "# symbols: 4\n"
			 "0000000000000100 T main\n"
			 "0000000000000180 00000010 t with a size\n"
			 "0000000000000200 ? __sym_end\n"
			 "nonsense\n0000000000000300\n0000000000000300 \n0000000000000300 T\n";
	g_autoptr(vms_trace_names) names = vms_trace_names_new();
	vms_trace_names_add_map(names, map);
	g_autoptr(GPtrArray) images = vms_trace_names_images(names);
	g_assert_cmpuint(images->len, ==, 3);
	g_assert_cmpstr(g_ptr_array_index(images, 0), ==, "prog");
	vms_trace_names_add_symbols(names, "prog", symbols);
	assert_name(names, 0x1100, "main", "prog");
	assert_name(names, 0x117f, "main", "prog");
	assert_name(names, 0x1190, "with a size", "prog");
	assert_name(names, 0x10ff, "0x10ff", "prog");
	assert_name(names, 0x1200, "0x1200", "prog"); /* behind the end */
	assert_name(names, 0x2100, "0x2100", "prog"); /* of two images the first */
	assert_name(names, 0x3100, "0x3100", "late.so");
	assert_name(names, 0x800000000010, "0x800000000010", "vmlinux");
	assert_name(names, 0x5100, "0x5100", NULL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/call-graph/calls", test_calls);
	g_test_add_func("/call-graph/lost", test_lost);
	g_test_add_func("/call-graph/deepest", test_deepest);
	g_test_add_func("/call-graph/malformed", test_malformed);
	g_test_add_func("/call-graph/names", test_names);
	return g_test_run();
}
