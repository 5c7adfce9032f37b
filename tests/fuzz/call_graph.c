/* SPDX-License-Identifier: MIT */
/*
 * A trace's map and symbols, each up to a NUL, and its records.
 *
 * Covers: src/calls/call_graph.c, src/calls/trace_names.c.
 */
#include "calls/call_graph.h"
#include "calls/trace_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the text up to a NUL, newly allocated, and cuts both off. */
static char *take_text(struct vms_bytes *rest)
{
	const size_t length = strnlen((const char *)rest->data, rest->size);
	char *text = g_strndup((const char *)rest->data, length);
	vms_bytes_slice(*rest, MIN(length + 1, rest->size),
			rest->size - MIN(length + 1, rest->size), rest);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_bytes rest = { data, size };
	if (size == 0)
		return 0;
	g_autofree char *map = take_text(&rest), *symbols = take_text(&rest);
	g_autoptr(vms_trace_names) names = vms_trace_names_new();
	g_autoptr(vms_call_graph) graph = vms_call_graph_new();
	vms_trace_names_add_map(names, map);
	g_autoptr(GPtrArray) images = vms_trace_names_images(names);
	if (images->len)
		vms_trace_names_add_symbols(names, g_ptr_array_index(images, 0), symbols);
	vms_call_graph_add(graph, rest, NULL);
	vms_call_graph_end_stream(graph);
	uint64_t calls = 0;
	for (guint i = 0; i < graph->functions->len; i++) {
		const struct vms_called *called =
			&g_array_index(graph->functions, struct vms_called, i);
		const char *image;
		g_autofree char *name = vms_trace_names_find(names, called->address, &image);
		g_assert_true(g_utf8_validate(name, -1, NULL));
		calls += called->calls;
	}
	for (guint i = 0; i < graph->edges->len; i++) {
		const struct vms_call_edge *edge =
			&g_array_index(graph->edges, struct vms_call_edge, i);
		g_assert_cmpuint(edge->caller, <, graph->functions->len);
		g_assert_cmpuint(edge->callee, <, graph->functions->len);
		g_assert_cmpuint(edge->calls, <=, calls);
	}
	return 0;
}
