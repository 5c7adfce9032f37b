/* SPDX-License-Identifier: MIT */
#include "cfg_formats.h"
#include "json_values.h"
#include <math.h>
#include <unistd.h>

#define HEX "0x%" G_GINT64_MODIFIER "x"
#define BAR 10 /* characters of the bar of the hottest block */

/* Returns an instruction's text, with the name of its target. Newly allocated. */
static char *describe_insn(struct session *session, const struct vms_insn *insn)
{
	struct vms_location location;
	g_autofree char *target = NULL;
	if (insn->branch_target &&
	    session_locate(session, NULL, insn->branch_target, false, &location))
		target = session_name(&location);
	return g_strdup_printf("%s%s%s", insn->text, target ? "  # " : "", target ? target : "");
}

/* A block and its counts. */
struct counted {
	const struct vms_block *block;
	size_t index;
	bool is_entry;
	const struct cfg_counts *counts; /* or NULL */
	size_t first_edge;		 /* index of its edges in `counts` */
};

/* Calls `show` for each block in order. */
static void for_each_block(const struct vms_cfg *cfg, const struct cfg_counts *counts,
			   void (*show)(struct session *session, const struct counted *counted,
					void *data),
			   struct session *session, void *data)
{
	size_t n, edge = 0;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (size_t i = 0; i < n; i++) {
		const struct counted counted = { &blocks[i], i, i == vms_cfg_entry(cfg), counts,
						 edge };
		show(session, &counted, data);
		edge += blocks[i].n_edges;
	}
}

static uint64_t get_count(const struct counted *counted)
{
	return counted->counts->blocks[counted->index];
}

/* Returns the ratio of a count to the hottest block's count on a logarithmic scale: 0 to 1. */
static double compute_heat(const struct cfg_counts *counts, uint64_t count)
{
	return count ? log2((double)count + 1) / log2((double)counts->hottest + 1) : 0;
}

/* Formats the count of an edge: "60", "never", or "?" if it is not known. */
static char *describe_edge(const struct counted *counted, size_t edge)
{
	const size_t index = counted->first_edge + edge;
	if (!counted->counts->edge_known[index])
		return g_strdup("?");
	if (!counted->counts->edges[index])
		return g_strdup("never");
	return g_strdup_printf("%" G_GINT64_MODIFIER "u", counted->counts->edges[index]);
}

/* ---- text ----------------------------------------------------------------------- */

static void append_leaving(struct session *session, const struct vms_block *block)
{
	struct vms_location location;
	g_autofree char *name = NULL;
	if (!block->leaves_to)
		return;
	if (session_locate(session, NULL, block->leaves_to, false, &location))
		name = session_name(&location);
	g_string_append_printf(session->out, "  leaves to %s", name ? name : "?");
}

/* Appends the count of a block, and a bar. */
static void append_count(GString *out, const struct counted *counted)
{
	static const char bar[BAR + 1] = "##########";
	const uint64_t count = get_count(counted);
	const int length = (int)ceil(compute_heat(counted->counts, count) * BAR);
	g_autofree char *number =
		count ? g_strdup_printf("%" G_GINT64_MODIFIER "u", count) : g_strdup("never");
	g_string_append_printf(out, "%-*.*s %12s  ", BAR, length, bar, number);
}

/* Appends one line: how the block ends, and its edges. */
static void append_heading(struct session *session, const struct counted *counted)
{
	GString *out = session->out;
	const struct vms_block *block = counted->block;
	if (counted->counts)
		append_count(out, counted);
	g_string_append_printf(out, "block %zu%s: %s", counted->index,
			       counted->is_entry ? " (entry)" : "", vms_block_end_name(block->end));
	if (counted->counts && counted->counts->left[counted->index])
		g_string_append_printf(out, ", left %" G_GINT64_MODIFIER "u",
				       counted->counts->left[counted->index]);
	for (size_t i = 0; i < block->n_edges; i++) {
		g_autofree char *count = counted->counts ? describe_edge(counted, i) : NULL;
		g_string_append_printf(out, "%s%s %zu", i ? ", " : " -> ",
				       vms_edge_kind_name(block->edges[i].kind),
				       block->edges[i].block);
		if (count)
			g_string_append_printf(out, " (%s)", count);
	}
	if (block->table)
		g_string_append_printf(out, "  table " HEX ", %" G_GINT64_MODIFIER "u entries",
				       block->table, block->n_entries);
	append_leaving(session, block);
	g_string_append_c(out, '\n');
}

static void append_insns(struct session *session, const struct vms_block *block)
{
	for (size_t i = 0; i < block->n_insns; i++) {
		g_autofree char *text = describe_insn(session, &block->insns[i]);
		g_string_append_printf(session->out, "   %016" G_GINT64_MODIFIER "x  %s\n",
				       block->insns[i].va, text);
	}
}

static void append_block(struct session *session, const struct counted *counted, void *data)
{
	(void)data;
	append_heading(session, counted);
	append_insns(session, counted->block);
}

void cfg_append_text(struct session *session, const struct vms_cfg *cfg,
		     const struct cfg_counts *counts)
{
	size_t n, n_insns = 0, n_never = 0;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (size_t i = 0; i < n; i++) {
		n_insns += blocks[i].n_insns;
		n_never += counts && !counts->blocks[i];
	}
	g_string_append_printf(session->out, "%s%s: %zu blocks, %zu instructions",
			       session->out->len ? "\n" : "",
			       vms_cfg_name(cfg) ? vms_cfg_name(cfg) : "(no symbol)", n, n_insns);
	if (counts)
		g_string_append_printf(session->out, ", %zu blocks never reached", n_never);
	g_string_append_c(session->out, '\n');
	for_each_block(cfg, counts, append_block, session, NULL);
}

/* ---- pictures --------------------------------------------------------------------- */

static void append_quoted(GString *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			g_string_append_c(out, '\\');
		g_string_append_c(out, *text);
	}
}

static const char *get_edge_style(enum vms_edge_kind kind)
{
	static const char *const styles[VMS_EDGE_N_KINDS] = {
		[VMS_EDGE_NEXT] = "color=\"#555555\"",
		[VMS_EDGE_JUMP] = "color=\"#1f77b4\"",
		[VMS_EDGE_SWITCH] = "color=\"#9467bd\"",
		[VMS_EDGE_FAULT] = "color=\"#d62728\", style=dashed",
	};
	return styles[kind];
}

/* Appends the colours of a block: grey if it was never reached, and red for hot blocks. */
static void append_dot_heat(const struct counted *counted, GString *out)
{
	const double heat = compute_heat(counted->counts, get_count(counted));
	if (heat > 0)
		g_string_append_printf(out, ", fillcolor=\"0.06 %.2f 1.0\"", 0.7 * heat * heat);
	else
		g_string_append(out, ", fillcolor=\"#eeeeee\", fontcolor=\"#888888\", "
				     "color=\"#aaaaaa\"");
}

static void append_dot_edge(const struct counted *counted, size_t edge, GString *out)
{
	const struct vms_edge *to = &counted->block->edges[edge];
	g_string_append_printf(out, "\tb%zu -> b%zu [", counted->index, to->block);
	if (counted->counts) {
		const size_t index = counted->first_edge + edge;
		const bool known = counted->counts->edge_known[index];
		const uint64_t count = counted->counts->edges[index];
		g_autofree char *text = describe_edge(counted, edge);
		g_string_append_printf(out, "label=\"%s\", fontsize=9, ", text);
		if (known && count)
			g_string_append_printf(out, "penwidth=%.1f, ",
					       1 + 5 * compute_heat(counted->counts, count));
		if (known && !count) {
			g_string_append(out, "color=\"#bbbbbb\", fontcolor=\"#888888\"];\n");
			return;
		}
	}
	g_string_append_printf(out, "%s, tooltip=\"%s\"];\n", get_edge_style(to->kind),
			       vms_edge_kind_name(to->kind));
}

static void append_dot_block(struct session *session, const struct counted *counted, void *data)
{
	GString *out = data;
	const struct vms_block *block = counted->block;
	const char *rounded = block->end == VMS_BLOCK_EXIT ? "rounded" : "";
	g_string_append_printf(out, "\tb%zu [label=\"" HEX " %s", counted->index, block->va,
			       vms_block_end_name(block->end));
	if (counted->counts)
		g_string_append_printf(out, ", %" G_GINT64_MODIFIER "u times", get_count(counted));
	g_string_append(out, "\\l");
	for (size_t i = 0; i < block->n_insns; i++) {
		g_autofree char *text = describe_insn(session, &block->insns[i]);
		append_quoted(out, text);
		g_string_append(out, "\\l");
	}
	g_string_append_printf(out, "\", style=\"%s%s%s\"%s", counted->counts ? "filled" : "",
			       counted->counts && *rounded ? "," : "", rounded,
			       counted->is_entry ? ", penwidth=2" : "");
	if (counted->counts)
		append_dot_heat(counted, out);
	if (block->end == VMS_BLOCK_CUT)
		g_string_append(out, ", color=\"#d62728\"");
	g_string_append(out, "];\n");
	for (size_t i = 0; i < block->n_edges; i++)
		append_dot_edge(counted, i, out);
}

static void append_dot_graph(struct session *session, const struct vms_cfg *cfg,
			     const struct cfg_counts *counts, GString *out)
{
	g_string_append(out, "digraph \"");
	append_quoted(out, vms_cfg_name(cfg) ? vms_cfg_name(cfg) : "code");
	g_string_append(out, "\" {\n\tnode [shape=box, fontname=monospace, fontsize=10];\n");
	for_each_block(cfg, counts, append_dot_block, session, out);
	g_string_append(out, "}\n");
}

void cfg_append_dot(struct session *session, const struct vms_cfg *cfg,
		    const struct cfg_counts *counts)
{
	append_dot_graph(session, cfg, counts, session->out);
}

/* Runs dot on a file. Returns its output, newly allocated. */
static char *run_dot(const char *path, GError **error)
{
	char dot[] = "dot", svg_option[] = "-Tsvg";
	char *argv[] = { dot, svg_option, (char *)path, NULL };
	char *svg = NULL;
	int status;
	g_autoptr(GError) failure = NULL;
	if (!g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &svg, NULL, &status,
			  &failure)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "cannot draw the graph: %s: install graphviz, or use --format dot",
			    failure->message);
		return NULL;
	}
	if (g_spawn_check_wait_status(status, &failure))
		return svg;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot draw the graph: dot: %s",
		    failure->message);
	g_free(svg);
	return NULL;
}

bool cfg_append_svg(struct session *session, const struct vms_cfg *cfg,
		    const struct cfg_counts *counts, GError **error)
{
	g_autofree char *path = NULL;
	g_autofree char *svg = NULL;
	g_autoptr(GString) dot = g_string_new(NULL);
	int fd = g_file_open_tmp("vmscope-cfg-XXXXXX", &path, error);
	if (fd < 0)
		return false;
	append_dot_graph(session, cfg, counts, dot);
	const bool written = write(fd, dot->str, dot->len) == (ssize_t)dot->len;
	close(fd);
	if (written)
		svg = run_dot(path, error);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot write %s", path);
	unlink(path);
	if (svg)
		g_string_append(session->out, svg);
	return svg;
}

/* ---- JSON --------------------------------------------------------------------------- */

static struct json_object *make_json_insns(const struct vms_block *block)
{
	struct json_object *array = json_object_new_array();
	for (size_t i = 0; i < block->n_insns; i++) {
		const struct vms_insn *insn = &block->insns[i];
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "address", json_address(insn->va));
		json_object_object_add(object, "size", json_object_new_int((int)insn->size));
		json_object_object_add(object, "text", json_object_new_string(insn->text));
		json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *make_json_edges(const struct counted *counted)
{
	const struct vms_block *block = counted->block;
	const struct cfg_counts *counts = counted->counts;
	struct json_object *array = json_object_new_array();
	for (size_t i = 0; i < block->n_edges; i++) {
		const struct vms_edge *edge = &block->edges[i];
		const char *kind = vms_edge_kind_name(edge->kind);
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "block", json_object_new_uint64(edge->block));
		json_object_object_add(object, "kind", json_object_new_string(kind));
		if (counts) {
			const size_t index = counted->first_edge + i;
			json_object_object_add(
				object, "count",
				counts->edge_known[index]
					? json_object_new_uint64(counts->edges[index])
					: NULL);
		}
		json_object_array_add(array, object);
	}
	return array;
}

static void add_json_block(struct session *session, const struct counted *counted, void *array)
{
	(void)session;
	const struct vms_block *block = counted->block;
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "address", json_address(block->va));
	json_object_object_add(object, "last", json_address(block->last));
	json_object_object_add(object, "size", json_object_new_uint64(block->size));
	json_object_object_add(object, "end",
			       json_object_new_string(vms_block_end_name(block->end)));
	json_object_object_add(object, "edges", make_json_edges(counted));
	json_object_object_add(object, "leaves_to",
			       block->leaves_to ? json_address(block->leaves_to) : NULL);
	json_object_object_add(object, "table", block->table ? json_address(block->table) : NULL);
	json_object_object_add(object, "entries", json_object_new_uint64(block->n_entries));
	json_object_object_add(object, "instructions", make_json_insns(block));
	if (counted->counts) {
		json_object_object_add(object, "count", json_object_new_uint64(get_count(counted)));
		json_object_object_add(
			object, "left",
			json_object_new_uint64(counted->counts->left[counted->index]));
	}
	json_object_array_add(array, object);
}

void cfg_append_json(struct session *session, const struct vms_cfg *cfg,
		     const struct cfg_counts *counts)
{
	struct json_object *object = json_object_new_object();
	struct json_object *array = json_object_new_array();
	for_each_block(cfg, counts, add_json_block, session, array);
	json_object_object_add(object, "function",
			       vms_cfg_name(cfg) ? json_object_new_string(vms_cfg_name(cfg))
						 : NULL);
	json_object_object_add(object, "entry", json_object_new_uint64(vms_cfg_entry(cfg)));
	json_object_object_add(object, "blocks", array);
	if (counts)
		json_object_object_add(object, "lost", json_object_new_uint64(counts->lost));
	g_string_append(session->out,
			json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	json_object_put(object);
}
