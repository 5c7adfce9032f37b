/* SPDX-License-Identifier: MIT */
#include "symbol/source_line.h"
#include "base/keyed_hash.h"
#include "base/nearest.h"
#include "symbol/lines.h"
#include "symbol/symbolizer-private.h"
#include <string.h>

#define PATHS_MAX 3 /* that an error names */

/* A row of a table of lines, for the line that is searched for. */
struct row {
	uint64_t va, end;
	bool is_statement;
};

struct search {
	const char *source;
	unsigned line, next_line; /* the next line with code; 0: none */
	const char *last_path;	  /* rows of one file follow each other: its answer */
	bool last_matches;
	GHashTable *paths; /* that match */
	GPtrArray *named;  /* the same, in the order of the files */
	struct vms_nearest nearest;
	GArray *rows; /* struct row */
};

/* True if `path` is `source`, or ends with it after a "/". */
static bool ends_with_path(const char *path, const char *source)
{
	const size_t length = strlen(path), n = strlen(source);
	return n <= length && strcmp(path + length - n, source) == 0 &&
	       (n == length || path[length - n - 1] == '/' || source[0] == '/');
}

static bool matches_source(struct search *search, const char *path)
{
	if (path == search->last_path)
		return search->last_matches;
	search->last_path = path;
	search->last_matches = ends_with_path(path, search->source);
	if (search->last_matches) {
		if (!g_hash_table_contains(search->paths, path)) {
			g_ptr_array_add(search->named, g_strdup(path));
			g_hash_table_add(search->paths,
					 g_ptr_array_index(search->named, search->named->len - 1));
		}
	} else {
		vms_nearest_add(&search->nearest,
				strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	}
	return search->last_matches;
}

static void visit_row(const struct vms_line_row *from, void *data)
{
	struct search *search = data;
	if (!matches_source(search, from->source))
		return;
	const struct row row = { from->va, from->end, from->is_statement };
	if (from->line == search->line)
		g_array_append_val(search->rows, row);
	else if (from->line > search->line &&
		 (!search->next_line || from->line < search->next_line))
		search->next_line = from->line;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	return left->va < right->va ? -1 : left->va > right->va;
}

/* Returns where rows begin, but for those that only go on where another one has ended. */
static GArray *list_begins(GArray *rows)
{
	GArray *begins = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	uint64_t end = 0;
	g_array_sort(rows, compare_rows);
	for (guint i = 0; i < rows->len; i++) {
		const struct row *row = &g_array_index(rows, struct row, i);
		if (row->is_statement && (begins->len == 0 || row->va > end))
			g_array_append_val(begins, row->va);
		end = MAX(end, row->end);
	}
	return begins;
}

static void set_ambiguous(const struct search *search, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);
	for (guint i = 0; i < MIN(search->named->len, PATHS_MAX); i++)
		g_string_append_printf(text, "%s%s", i ? ", " : "",
				       (const char *)search->named->pdata[i]);
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "%u files are called %s: write more of the path of one of %s%s",
		    g_hash_table_size(search->paths), search->source, text->str,
		    g_hash_table_size(search->paths) > PATHS_MAX ? ", …" : "");
}

/* `nearest`: see vms_nearest_end. */
static void set_missing(const struct search *search, const char *nearest, GError **error)
{
	if (!search->last_path)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "%s:%u: no source lines are known: give a file with debugging "
			    "information by --symbols",
			    search->source, search->line);
	else if (g_hash_table_size(search->paths) == 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no symbol file tells of a source called %s%s", search->source,
			    nearest);
	else if (search->next_line)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "%s:%u has no code; the next line with code is %u", search->source,
			    search->line, search->next_line);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "%s:%u has no code, nor has a line below it", search->source,
			    search->line);
}

GArray *vms_symbolizer_line_addresses(struct vms_symbolizer *symbolizer, const char *source,
				      unsigned line, GError **error)
{
	const GArray *files = vms_symbolizer_files(symbolizer);
	g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(struct row));
	g_autoptr(GHashTable) paths = g_hash_table_new(vms_hash_text, g_str_equal);
	g_autoptr(GPtrArray) named = g_ptr_array_new_with_free_func(g_free);
	struct search search = {
		.source = source, .line = line, .paths = paths, .named = named, .rows = rows
	};
	vms_nearest_begin(&search.nearest, source);
	for (guint i = 0; i < files->len; i++)
		vms_symbol_file_each_line(g_array_index(files, struct vms_symbolizer_file, i).file,
					  visit_row, &search);
	g_autofree char *nearest = vms_nearest_end(&search.nearest);
	g_autoptr(GArray) begins = list_begins(rows);
	if (g_hash_table_size(paths) > 1) {
		set_ambiguous(&search, error);
		return NULL;
	}
	if (begins->len == 0) {
		set_missing(&search, nearest, error);
		return NULL;
	}
	return g_steal_pointer(&begins);
}
