/* SPDX-License-Identifier: MIT */
/*
 * Writes the symbol file of an image for uftrace. Every version of uftrace reads lines with three
 * columns. In this form a symbol reaches to the next one, or to a line of type "?".
 */
#include "base/keyed_hash.h"
#include "base/text.h"
#include "calls/directory-private.h"

#include <string.h>

#define NAME_LIMIT    200
#define SYMBOL_LIMIT  2000
#define FOLDERS_LIMIT 10

/* False for characters at which uftrace splits lines and paths. */
static bool is_clean(char c)
{
	return g_ascii_isalnum(c) || (c && strchr("._+-@:,=()", c));
}

char *vms_calls_clean_name(const char *name)
{
	char *clean = g_strndup(name, NAME_LIMIT);
	for (char *c = clean; *c; c++)
		if (!is_clean(*c))
			*c = '_';
	return clean;
}

struct vms_calls_image *vms_calls_image_new(const char *path, const char *name)
{
	struct vms_calls_image *image = g_new0(struct vms_calls_image, 1);
	g_autofree char *folder = g_path_get_dirname(path);
	g_auto(GStrv) parts = g_strsplit(folder, "/", FOLDERS_LIMIT);
	GString *clean = g_string_new(NULL);

	for (char **part = parts; *part; part++) {
		g_autofree char *clean_part = vms_calls_clean_name(*part);
		if (*clean_part && strcmp(clean_part, ".") != 0)
			g_string_append_printf(clean, "/%s", clean_part);
	}
	image->folder = g_string_free(clean, false);
	image->name = g_strdup(name);
	image->entries = g_hash_table_new(vms_hash_direct, NULL);
	return image;
}

void vms_calls_image_free(struct vms_calls_image *image)
{
	vms_symbol_table_unref(image->table);
	g_hash_table_unref(image->entries);
	g_free(image->folder);
	g_free(image->name);
	g_free(image);
}

void vms_calls_image_set_symbols(struct vms_calls_image *image, struct vms_symbol_table *table,
				 uint64_t base)
{
	if (image->table == table && image->base == base)
		return;
	vms_symbol_table_ref(table);
	vms_symbol_table_unref(image->table);
	image->table = table;
	image->base = base;
	image->changed = true;
}

static bool has_symbol(const struct vms_calls_image *image, uint64_t offset)
{
	struct vms_symbol symbol;
	return image->table && vms_symbol_table_find(image->table, image->base + offset, &symbol) &&
	       g_ascii_isalpha(symbol.type) && strchr("tTwWi", symbol.type);
}

bool vms_calls_image_note_entry(struct vms_calls_image *image, uint64_t offset)
{
	if (!g_hash_table_add(image->entries, (gpointer)(uintptr_t)offset))
		return false;
	if (!has_symbol(image, offset))
		image->changed = true;
	return true;
}

/* ---- the file --------------------------------------------------------- */

struct line {
	uint64_t start, end; /* offsets */
	const char *name;    /* NULL if the offset names it */
	char type;
};

static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Returns the lines of the table's functions, by address. Of several at one address, the first. */
static GArray *list_symbol_lines(const struct vms_calls_image *image)
{
	GArray *lines = g_array_new(false, false, sizeof(struct line));
	size_t n = image->table ? vms_symbol_table_count(image->table) : 0;
	for (size_t i = 0; i < n; i++) {
		struct vms_symbol symbol = vms_symbol_table_get(image->table, i);
		bool is_code = symbol.type && strchr("tTwWi", symbol.type);
		const struct line line = {
			.start = symbol.va - image->base,
			.end = symbol.va - image->base + MAX(symbol.size, 1),
			.name = symbol.name,
			.type = g_ascii_islower(symbol.type) ? 't' : 'T',
		};
		bool repeats =
			lines->len > 0 &&
			g_array_index(lines, struct line, lines->len - 1).start == line.start;
		if (is_code && !repeats && symbol.va >= image->base && line.end > line.start)
			g_array_append_val(lines, line);
	}
	return lines;
}

/* Adds lines for functions that were entered and have no symbol, and sorts all lines. */
static void add_entry_lines(const struct vms_calls_image *image, GArray *lines)
{
	GHashTableIter iter;
	gpointer key;
	g_hash_table_iter_init(&iter, image->entries);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		const struct line line = {
			.start = (uintptr_t)key,
			.end = (uint64_t)(uintptr_t)key + 1,
			.type = 't',
		};
		if (!has_symbol(image, line.start))
			g_array_append_val(lines, line);
	}
	g_array_sort(lines, compare_lines);
}

/*
 * True if uftrace treats the function in a special way: it assumes that the function does not
 * return, and drops the open calls. But the trace itself tells how these calls end. So the caller
 * adds a suffix to the name, like a compiler does for variants of a function.
 */
static bool is_special_name(const char *name)
{
	static const char *const names[] = { "execl",	   "execlp",	    "execle",  "execv",
					     "execve",	   "execvp",	    "execvpe", "longjmp",
					     "siglongjmp", "__longjmp_chk", NULL };
	return g_strv_contains(names, name);
}

/* Replaces characters that have a meaning in what uftrace prints for other tools. */
static char *clean_symbol(const char *name)
{
	char *clean = g_strndup(name, SYMBOL_LIMIT);
	vms_text_clean(clean);
	return g_strdelimit(clean, ";\"\\", ':');
}

static void append_line(GString *text, const struct vms_calls_image *image, const struct line *line)
{
	g_string_append_printf(text, "%016" G_GINT64_MODIFIER "x %c ", line->start, line->type);
	if (line->name) {
		g_autofree char *name = clean_symbol(line->name);
		g_string_append_printf(text, "%s%s\n", name, is_special_name(name) ? ".0" : "");
	} else {
		g_string_append_printf(text, "%s+0x%" G_GINT64_MODIFIER "x\n", image->name,
				       line->start);
	}
}

GString *vms_calls_image_text(const struct vms_calls_image *image)
{
	g_autoptr(GArray) lines = list_symbol_lines(image);
	GString *text = g_string_new(NULL);

	add_entry_lines(image, lines);
	for (guint i = 0; i < lines->len; i++) {
		const struct line *line = &g_array_index(lines, struct line, i);
		append_line(text, image, line);
		if (i + 1 == lines->len || line[1].start > line->end)
			g_string_append_printf(text, "%016" G_GINT64_MODIFIER "x ? __end\n",
					       line->end);
	}
	return text;
}
