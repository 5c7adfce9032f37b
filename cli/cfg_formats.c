/* SPDX-License-Identifier: MIT */
#include "cfg_formats.h"
#include "json_values.h"
#include <unistd.h>

#define HEX "0x%" G_GINT64_MODIFIER "x"

/* Returns an instruction's text, with the name of what it jumps to or calls. Newly allocated. */
static char *describe_insn(struct session *session, const struct vms_insn *insn)
{
	struct vms_location location;
	g_autofree char *target = NULL;
	if (insn->branch_target &&
	    session_locate(session, NULL, insn->branch_target, false, &location))
		target = session_name(&location);
	return g_strdup_printf("%s%s%s", insn->text, target ? "  # " : "", target ? target : "");
}

/* ---- text ----------------------------------------------------------------------- */

static void text_leaving(struct session *session, const struct vms_block *block)
{
	struct vms_location location;
	g_autofree char *name = NULL;
	if (!block->leaves_to)
		return;
	if (session_locate(session, NULL, block->leaves_to, false, &location))
		name = session_name(&location);
	g_string_append_printf(session->out, "  leaves to %s", name ? name : "?");
}

/* One line: how the block ends, and where control goes from it. */
static void text_heading(struct session *session, const struct vms_block *block, size_t index,
			 bool is_entry)
{
	GString *out = session->out;
	g_string_append_printf(out, "block %zu%s: %s", index, is_entry ? " (entry)" : "",
			       vms_block_end_name(block->end));
	for (size_t i = 0; i < block->n_edges; i++)
		g_string_append_printf(out, "%s %s %zu", i ? "," : " ->",
				       vms_edge_kind_name(block->edges[i].kind),
				       block->edges[i].block);
	if (block->table)
		g_string_append_printf(out, "  table " HEX ", %" G_GINT64_MODIFIER "u entries",
				       block->table, block->n_entries);
	text_leaving(session, block);
	g_string_append_c(out, '\n');
}

static void text_insns(struct session *session, const struct vms_block *block)
{
	for (size_t i = 0; i < block->n_insns; i++) {
		g_autofree char *text = describe_insn(session, &block->insns[i]);
		g_string_append_printf(session->out, "   %016" G_GINT64_MODIFIER "x  %s\n",
				       block->insns[i].va, text);
	}
}

void cfg_text(struct session *session, const struct vms_cfg *cfg)
{
	size_t n, n_insns = 0;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (size_t i = 0; i < n; i++)
		n_insns += blocks[i].n_insns;
	g_string_append_printf(session->out, "%s%s: %zu blocks, %zu instructions\n",
			       session->out->len ? "\n" : "",
			       vms_cfg_name(cfg) ? vms_cfg_name(cfg) : "(no symbol)", n, n_insns);
	for (size_t i = 0; i < n; i++) {
		text_heading(session, &blocks[i], i, i == vms_cfg_entry(cfg));
		text_insns(session, &blocks[i]);
	}
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

static const char *style_of(enum vms_edge_kind kind)
{
	static const char *const styles[VMS_EDGE_N_KINDS] = {
		[VMS_EDGE_NEXT] = "color=\"#555555\"",
		[VMS_EDGE_JUMP] = "color=\"#1f77b4\"",
		[VMS_EDGE_SWITCH] = "color=\"#9467bd\"",
		[VMS_EDGE_FAULT] = "color=\"#d62728\", style=dashed",
	};
	return styles[kind];
}

static void dot_block(struct session *session, const struct vms_block *block, size_t index,
		      bool is_entry, GString *out)
{
	const char *style = is_entry			   ? ", penwidth=2"
			    : block->end == VMS_BLOCK_CUT  ? ", color=\"#d62728\""
			    : block->end == VMS_BLOCK_EXIT ? ", style=rounded"
							   : "";
	g_string_append_printf(out, "\tb%zu [label=\"" HEX " %s\\l", index, block->va,
			       vms_block_end_name(block->end));
	for (size_t i = 0; i < block->n_insns; i++) {
		g_autofree char *text = describe_insn(session, &block->insns[i]);
		append_quoted(out, text);
		g_string_append(out, "\\l");
	}
	g_string_append_printf(out, "\"%s];\n", style);
	for (size_t i = 0; i < block->n_edges; i++)
		g_string_append_printf(out, "\tb%zu -> b%zu [%s, tooltip=\"%s\"];\n", index,
				       block->edges[i].block, style_of(block->edges[i].kind),
				       vms_edge_kind_name(block->edges[i].kind));
}

static void dot_graph(struct session *session, const struct vms_cfg *cfg, GString *out)
{
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	g_string_append(out, "digraph \"");
	append_quoted(out, vms_cfg_name(cfg) ? vms_cfg_name(cfg) : "code");
	g_string_append(out, "\" {\n\tnode [shape=box, fontname=monospace, fontsize=10];\n");
	for (size_t i = 0; i < n; i++)
		dot_block(session, &blocks[i], i, i == vms_cfg_entry(cfg), out);
	g_string_append(out, "}\n");
}

void cfg_dot(struct session *session, const struct vms_cfg *cfg)
{
	dot_graph(session, cfg, session->out);
}

/* Runs dot on a file. Returns its output, newly allocated. */
static char *lay_out(const char *path, GError **error)
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

bool cfg_svg(struct session *session, const struct vms_cfg *cfg, GError **error)
{
	g_autofree char *path = NULL;
	g_autofree char *svg = NULL;
	g_autoptr(GString) dot = g_string_new(NULL);
	int fd = g_file_open_tmp("vmscope-cfg-XXXXXX", &path, error);
	if (fd < 0)
		return false;
	dot_graph(session, cfg, dot);
	const bool written = write(fd, dot->str, dot->len) == (ssize_t)dot->len;
	close(fd);
	if (written)
		svg = lay_out(path, error);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot write %s", path);
	unlink(path);
	if (svg)
		g_string_append(session->out, svg);
	return svg;
}

/* ---- JSON --------------------------------------------------------------------------- */

static struct json_object *json_insns(const struct vms_block *block)
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

static struct json_object *json_edges(const struct vms_block *block)
{
	struct json_object *array = json_object_new_array();
	for (size_t i = 0; i < block->n_edges; i++) {
		const struct vms_edge *edge = &block->edges[i];
		const char *kind = vms_edge_kind_name(edge->kind);
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "block", json_object_new_uint64(edge->block));
		json_object_object_add(object, "kind", json_object_new_string(kind));
		json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *json_block(const struct vms_block *block)
{
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "address", json_address(block->va));
	json_object_object_add(object, "last", json_address(block->last));
	json_object_object_add(object, "size", json_object_new_uint64(block->size));
	json_object_object_add(object, "end",
			       json_object_new_string(vms_block_end_name(block->end)));
	json_object_object_add(object, "edges", json_edges(block));
	json_object_object_add(object, "leaves_to",
			       block->leaves_to ? json_address(block->leaves_to) : NULL);
	json_object_object_add(object, "table", block->table ? json_address(block->table) : NULL);
	json_object_object_add(object, "entries", json_object_new_uint64(block->n_entries));
	json_object_object_add(object, "instructions", json_insns(block));
	return object;
}

void cfg_json(struct session *session, const struct vms_cfg *cfg)
{
	struct json_object *object = json_object_new_object();
	struct json_object *array = json_object_new_array();
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (size_t i = 0; i < n; i++)
		json_object_array_add(array, json_block(&blocks[i]));
	json_object_object_add(object, "function",
			       vms_cfg_name(cfg) ? json_object_new_string(vms_cfg_name(cfg))
						 : NULL);
	json_object_object_add(object, "entry", json_object_new_uint64(vms_cfg_entry(cfg)));
	json_object_object_add(object, "blocks", array);
	g_string_append(session->out,
			json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	json_object_put(object);
}
