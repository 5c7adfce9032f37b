/* SPDX-License-Identifier: MIT */
/*
 * A flame graph in one SVG file. It has a drawing for viewers without scripts, the same tree as
 * data, and a script that draws the data again when the reader zooms or searches.
 */
#include "export/flamegraph.h"
#include "export/export-private.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <vmscope/machine.h>

/* Sizes in pixels. flamegraph.js has the same numbers. */
#define WIDTH	  1200
#define ROW	  18
#define TOP	  70
#define BOTTOM	  58
#define SIDE	  10
#define CHAR	  7.25
#define NARROWEST 0.1

/* Frames with less than 1 / SMALLEST_SHARE of all samples are hardly visible, and left out. */
#define SMALLEST_SHARE 100000

/* The change of a frame's share of all samples, in hundredths of a percentage point. */
struct change {
	int self, total;
	bool is_chance; /* the change of `self` may be chance */
};

struct frame {
	uint32_t depth;
	uint32_t label; /* of the profile; if not below n_labels, an index into `extra` */
	uint64_t total;
	uint64_t start; /* samples left of it */
	struct change change;
};

struct graph {
	const struct vms_profile *profile;
	const char *title;
	const struct vms_comparison *comparison; /* or NULL */
	int largest_change;			 /* of all frames' `self` */
	GArray *frames;				 /* struct frame, parents before their children */
	GArray *edges;	  /* uint64_t by depth: where the next frame begins */
	GPtrArray *extra; /* names of the frames around the trees */
	uint32_t n_labels;
	uint32_t deepest;
	uint64_t samples;
};

/* ---- layout ----------------------------------------------------------- */

/* Adds a frame to the right of the earlier frames of its depth. */
static struct frame *add_frame(struct graph *graph, uint32_t depth, uint32_t label, uint64_t total)
{
	if (graph->edges->len < depth + 2)
		g_array_set_size(graph->edges, depth + 2);
	uint64_t *edge = &g_array_index(graph->edges, uint64_t, depth);
	struct frame frame = { .depth = depth, .label = label, .total = total, .start = edge[0] };
	edge[0] += total;
	edge[1] = frame.start;
	graph->deepest = MAX(graph->deepest, depth);
	g_array_append_val(graph->frames, frame);
	return &g_array_index(graph->frames, struct frame, graph->frames->len - 1);
}

/* Adds a frame that is not in the profile. Takes the name. */
static struct frame *add_extra_frame(struct graph *graph, uint32_t depth, char *name,
				     uint64_t total)
{
	g_ptr_array_add(graph->extra, name);
	return add_frame(graph, depth, graph->n_labels + graph->extra->len - 1, total);
}

static int to_hundredths(const struct vms_compared_change *change)
{
	return (int)lround(100 * (change->after - change->before));
}

/*
 * Sets the change of a frame. The frame is node `node` of tree number `tree`, or the tree itself if
 * `node` is VMS_NO_NODE. Does nothing if there is no comparison.
 */
static void compare_frame(struct graph *graph, struct frame *frame, size_t tree, uint32_t node)
{
	if (!graph->comparison)
		return;
	const struct vms_compared_counts all = vms_comparison_samples(graph->comparison);
	struct vms_compared_counts self, total;
	vms_comparison_node(graph->comparison, tree, node, &self, &total);
	const struct vms_compared_change own = vms_compared_share(self, all),
					 whole = vms_compared_share(total, all);
	frame->change = (struct change) {
		.self = to_hundredths(&own),
		.total = to_hundredths(&whole),
		.is_chance = own.is_chance,
	};
	if (!frame->change.is_chance)
		graph->largest_change = MAX(graph->largest_change, abs(frame->change.self));
}

static void add_tree(struct graph *graph, const struct vms_profile_tree *tree, size_t index)
{
	bool named = tree->vcpu != VMS_ALL_VCPUS;
	unsigned depth = named ? 2 : 1;
	bool skip;

	if (named)
		compare_frame(graph,
			      add_extra_frame(graph, 1, vms_export_tree_name(tree), tree->samples),
			      index, VMS_NO_NODE);
	for (uint32_t i = tree->first_root; i != VMS_NO_NODE;
	     i = vms_export_next(tree, i, skip, &depth)) {
		const struct vms_profile_node *node = &tree->nodes[i];
		skip = node->total < graph->samples / SMALLEST_SHARE;
		if (!skip)
			compare_frame(graph, add_frame(graph, depth, node->label, node->total),
				      index, i);
	}
}

static void lay_out_frames(struct graph *graph)
{
	size_t n;
	const struct vms_profile_tree *trees = vms_profile_trees(graph->profile, &n);

	for (size_t i = 0; i < n; i++)
		graph->samples += trees[i].samples;
	graph->n_labels = (uint32_t)vms_export_count_labels(graph->profile);
	add_extra_frame(graph, 0, g_strdup("all"), graph->samples);
	for (size_t i = 0; i < n; i++)
		add_tree(graph, &trees[i], i);
}

/* ---- text ------------------------------------------------------------- */

/*
 * Appends the text of an element, or of a JSON string in an element. Characters that XML cannot
 * hold become '?'.
 */
static void append_escaped_text(GString *out, const char *text, bool json)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);

	for (const char *p = valid; *p; p = g_utf8_next_char(p)) {
		gunichar c = g_utf8_get_char(p);
		if (c < 0x20 || c == 0xfffe || c == 0xffff)
			g_string_append_c(out, '?');
		else if (json && c < 0x80 && strchr("<>&\"\\", (int)c))
			g_string_append_printf(out, "\\u%04x", c);
		else if (c == '<')
			g_string_append(out, "&lt;");
		else if (c == '>')
			g_string_append(out, "&gt;");
		else if (c == '&')
			g_string_append(out, "&amp;");
		else
			g_string_append_unichar(out, c);
	}
}

/* Appends the part of a name that fits into a frame of that width. The script does the same. */
static void append_clipped_name(GString *out, const char *name, double width)
{
	long room = (long)((width - 6) / CHAR);
	g_autofree char *valid = g_utf8_make_valid(name, -1);

	if (g_utf8_strlen(valid, -1) <= room) {
		append_escaped_text(out, valid, false);
	} else if (room >= 3) {
		g_autofree char *begin = g_utf8_substring(valid, 0, room - 1);
		append_escaped_text(out, begin, false);
		g_string_append(out, "\u2026");
	}
}

/* ---- names and colours of frames --------------------------------------- */

static char *make_frame_name(const struct graph *graph, uint32_t label)
{
	if (label >= graph->n_labels)
		return g_strdup(g_ptr_array_index(graph->extra, label - graph->n_labels));
	GString *name = g_string_new(NULL);
	vms_export_append_name(name, vms_profile_label(graph->profile, label));
	return g_string_free(name, FALSE);
}

/* Returns the place of the code: module or mapped file, and source. Newly allocated. */
static char *make_frame_place(const struct graph *graph, uint32_t label)
{
	if (label >= graph->n_labels)
		return g_strdup("");
	const struct vms_label *l = vms_profile_label(graph->profile, label);
	if (l->kind != VMS_LABEL_FUNCTION && l->kind != VMS_LABEL_ADDRESS)
		return g_strdup("");
	const char *place = l->module ? l->module : l->is_user ? "user code" : "kernel";
	return l->source ? g_strdup_printf("%s, %s:%u", place, l->source, l->line)
			 : g_strdup(place);
}

static const char *get_frame_kind(const struct graph *graph, uint32_t label)
{
	if (label >= graph->n_labels)
		return "other";
	const struct vms_label *l = vms_profile_label(graph->profile, label);
	switch (l->kind) {
	case VMS_LABEL_PROCESS: return "process";
	case VMS_LABEL_IDLE: return "idle";
	case VMS_LABEL_MARKER: return "marker";
	case VMS_LABEL_FUNCTION:
	case VMS_LABEL_ADDRESS: break;
	}
	return l->is_user ? "user" : l->module ? "module" : "kernel";
}

/* Appends the style's class. Each kind has four shades, so that neighbours look different. */
static void append_class(GString *out, const struct graph *graph, uint32_t label, const char *name)
{
	g_string_append_printf(out, "%s%u", get_frame_kind(graph, label),
			       g_str_hash(name) >> 4 & 3);
}

/* The number of shades for changes. */
#define SHADES 4

/*
 * Returns the shade for the change of a frame's own samples: above 0 for more than before, below 0
 * for fewer, 0 if the change may be chance.
 */
static int get_shade(const struct graph *graph, const struct frame *frame)
{
	const int change = frame->change.self;
	if (frame->change.is_chance || change == 0)
		return 0;
	const int shade =
		(abs(change) * SHADES + graph->largest_change - 1) / graph->largest_change;
	return change > 0 ? shade : -shade;
}

static void append_shade(GString *out, int shade)
{
	g_string_append_printf(out, "%s%d",
			       shade > 0   ? "more"
			       : shade < 0 ? "less"
					   : "same",
			       abs(shade));
}

/* ---- the file --------------------------------------------------------- */

static void print_frame(GString *out, const struct graph *graph, const struct frame *frame)
{
	double scale = (WIDTH - 2 * SIDE) / (double)MAX(graph->samples, 1);
	double x = SIDE + (double)frame->start * scale, width = (double)frame->total * scale;
	bool leaf_first = vms_profile_leaf_first(graph->profile);
	uint32_t y = TOP + ROW * (leaf_first ? frame->depth : graph->deepest - frame->depth);
	g_autofree char *name = make_frame_name(graph, frame->label);

	if (width < NARROWEST)
		return;
	g_string_append(out, "<g><title>");
	append_escaped_text(out, name, false);
	g_string_append_printf(out, " (%" PRIu64 " %s, %.2f %%", frame->total,
			       frame->total == 1 ? "sample" : "samples",
			       100.0 * (double)frame->total / (double)MAX(graph->samples, 1));
	if (graph->comparison)
		g_string_append_printf(out, ", change %+.2f, of its own %+.2f",
				       frame->change.total / 100.0, frame->change.self / 100.0);
	g_string_append_printf(out,
			       ")</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" "
			       "rx=\"2\" class=\"",
			       x, y, width, ROW - 1);
	if (graph->comparison)
		append_shade(out, get_shade(graph, frame));
	else
		append_class(out, graph, frame->label, name);
	g_string_append_printf(out, "\"/><text x=\"%.2f\" y=\"%u\">", x + 4, y + 13);
	append_clipped_name(out, name, width);
	g_string_append(out, "</text></g>\n");
}

static void print_legend_item(GString *out, unsigned x, unsigned y, const char *class,
			      const char *text)
{
	g_string_append_printf(out,
			       "<rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\" rx=\"2\" "
			       "class=\"%s\"/><text x=\"%u\" y=\"%u\">%s</text>\n",
			       x, y - 10, class, x + 17, y, text);
}

/* Prints the meaning of colours: kinds of frames, or changes. */
static void print_legend(GString *out, const struct graph *graph, unsigned y)
{
	static const struct {
		const char *class, *text;
	} kinds[] = { { "process0", "process" }, { "user0", "user" },	  { "kernel0", "kernel" },
		      { "module0", "module" },	 { "marker0", "marker" }, { "idle0", "idle" } },
	  changes[] = { { "more4", "more" }, { "same0", "the same" }, { "less4", "less" } };
	unsigned x = SIDE;

	g_string_append(out, "<g id=\"legend\">\n");
	for (size_t i = 0; !graph->comparison && i < G_N_ELEMENTS(kinds); i++, x += 90)
		print_legend_item(out, x, y, kinds[i].class, kinds[i].text);
	for (size_t i = 0; graph->comparison && i < G_N_ELEMENTS(changes); i++, x += 90)
		print_legend_item(out, x, y, changes[i].class, changes[i].text);
	g_string_append(out, "</g>\n");
}

/* Appends the shade of each frame, and its changes with and without callees. */
static void print_changes(struct vms_export_sink *sink, const struct graph *graph)
{
	GString *out = sink->text;
	g_string_append(out, ",\n\"changes\":[");
	for (guint i = 0; i < graph->frames->len && vms_export_drain(sink); i++) {
		const struct frame *frame = &g_array_index(graph->frames, struct frame, i);
		g_string_append_printf(out, "%s%s%d,%d,%d", i ? "," : "", i % 16 ? "" : "\n",
				       get_shade(graph, frame), frame->change.total,
				       frame->change.self);
	}
	g_string_append(out, "]");
}

static void print_data(struct vms_export_sink *sink, const struct graph *graph)
{
	const uint32_t n_labels = graph->n_labels + graph->extra->len;
	GString *out = sink->text;
	g_string_append_printf(out,
			       "<script type=\"application/json\" id=\"data\">\n"
			       "{\"leafFirst\":%s,\"labels\":[",
			       vms_profile_leaf_first(graph->profile) ? "true" : "false");
	for (uint32_t i = 0; i < n_labels && vms_export_drain(sink); i++) {
		g_autofree char *name = make_frame_name(graph, i);
		g_autofree char *place = make_frame_place(graph, i);
		g_string_append(out, i ? ",\n[\"" : "\n[\"");
		append_escaped_text(out, name, true);
		g_string_append(out, "\",\"");
		append_escaped_text(out, place, true);
		g_string_append(out, "\",\"");
		append_class(out, graph, i, name);
		g_string_append(out, "\"]");
	}
	g_string_append(out, "],\n\"nodes\":[");
	for (guint i = 0; i < graph->frames->len && vms_export_drain(sink); i++) {
		const struct frame *frame = &g_array_index(graph->frames, struct frame, i);
		g_string_append_printf(out, "%s%s%u,%u,%" PRIu64, i ? "," : "", i % 16 ? "" : "\n",
				       frame->depth, frame->label, frame->total);
	}
	g_string_append(out, "]");
	if (graph->comparison)
		print_changes(sink, graph);
	g_string_append(out, "}\n</script>\n");
}

static void print_graph(struct vms_export_sink *sink, const struct graph *graph)
{
	GString *out = sink->text;
	unsigned height = TOP + ROW * (graph->deepest + 1) + BOTTOM;

	g_string_append_printf(
		out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"viewBox=\"0 0 %d %u\">\n<style><![CDATA[\n%s]]></style>\n"
		"<rect id=\"background\" width=\"%d\" height=\"%u\"/>\n"
		"<text id=\"title\" x=\"%d\" y=\"28\">%s%s</text>\n"
		"<text id=\"subtitle\" x=\"%d\" y=\"48\">",
		WIDTH, height, WIDTH, height, vms_flamegraph_css, WIDTH, height, SIDE,
		graph->comparison ? "Differential flame graph" : "Flame graph",
		vms_profile_leaf_first(graph->profile) ? ", leaf first" : "", SIDE);
	append_escaped_text(out, graph->title, false);
	g_string_append(
		out,
		"</text>\n<g id=\"buttons\" style=\"display:none\">\n"
		"<foreignObject id=\"box\" style=\"display:none\" x=\"-402\" y=\"10\" "
		"width=\"230\" height=\"24\"/>\n"
		"<g id=\"reset\" class=\"button\"><rect x=\"-164\" y=\"10\" width=\"96\" "
		"height=\"24\" rx=\"4\"/><text x=\"-152\" y=\"26\">reset zoom</text></g>\n"
		"<g id=\"search\" class=\"button\"><rect x=\"-60\" y=\"10\" width=\"60\" "
		"height=\"24\" rx=\"4\"/><text x=\"-52\" y=\"26\">search</text></g>\n"
		"<text id=\"found\" y=\"64\" text-anchor=\"end\"/>\n</g>\n<g id=\"frames\">\n");
	for (guint i = 0; i < graph->frames->len && vms_export_drain(sink); i++)
		print_frame(out, graph, &g_array_index(graph->frames, struct frame, i));
	g_string_append_printf(out, "</g>\n<text id=\"details\" x=\"%d\" y=\"%u\"/>\n", SIDE,
			       height - 36);
	print_legend(out, graph, height - 12);
	g_string_append(out, "<g id=\"tip\"/>\n");
	print_data(sink, graph);
	g_string_append_printf(out, "<script><![CDATA[\n%s]]></script>\n</svg>\n",
			       vms_flamegraph_js);
}

static void write_flamegraph(const struct vms_profile *profile, const struct vms_run_facts *facts,
			     const struct vms_export_options *options, struct vms_export_sink *out)
{
	struct graph graph = {
		.profile = profile,
		.title = facts->title,
		.comparison = options->comparison,
		.frames = g_array_new(FALSE, FALSE, sizeof(struct frame)),
		.edges = g_array_new(FALSE, TRUE, sizeof(uint64_t)),
		.extra = g_ptr_array_new_with_free_func(g_free),
	};
	lay_out_frames(&graph);
	print_graph(out, &graph);
	g_array_unref(graph.frames);
	g_array_unref(graph.edges);
	g_ptr_array_unref(graph.extra);
}

const struct vms_exporter vms_exporter_flamegraph = {
	.name = "svg",
	.suffix = ".svg",
	.help = "an interactive flame graph in one file",
	.compares = true,
	.write = write_flamegraph,
};
