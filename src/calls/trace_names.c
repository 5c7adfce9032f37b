/* SPDX-License-Identifier: MIT */
#include "calls/trace_names.h"
#include "base/keyed_hash.h"
#include "base/text.h"
#include <inttypes.h>
#include <vmscope/symbol.h>

#define ADDRESS	     ((UINT64_C(1) << 48) - 1)
#define IMAGES_LIMIT 4096

struct image {
	uint64_t start, end;
	char *name; /* of its file, without folders */
};

struct vms_trace_names {
	GArray *images;	     /* struct image, in the map's order: the first that fits counts */
	GHashTable *symbols; /* struct vms_symbol_table by the image's name */
};

static void clear_image(void *data)
{
	g_free(((struct image *)data)->name);
}

static void unref_table(void *table)
{
	vms_symbol_table_unref(table);
}

struct vms_trace_names *vms_trace_names_new(void)
{
	struct vms_trace_names *names = g_new(struct vms_trace_names, 1);
	names->images = g_array_new(FALSE, FALSE, sizeof(struct image));
	g_array_set_clear_func(names->images, clear_image);
	names->symbols = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, unref_table);
	return names;
}

void vms_trace_names_free(struct vms_trace_names *names)
{
	if (!names)
		return;
	g_array_unref(names->images);
	g_hash_table_unref(names->symbols);
	g_free(names);
}

/* Cuts off the first line. Returns it, or NULL at the end of the text. */
static char *take_line(char **text)
{
	char *line = *text, *end;
	if (!line || !*line)
		return NULL;
	end = strchr(line, '\n');
	*text = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return line;
}

/* Parses "START-END rwxp OFFSET MAJOR:MINOR INODE PATH", of which the path has no blanks. */
static bool parse_mapping(char *line, struct image *ret)
{
	char *rest;
	ret->start = g_ascii_strtoull(line, &rest, 16) & ADDRESS;
	if (rest == line || *rest != '-')
		return false;
	ret->end = g_ascii_strtoull(rest + 1, &rest, 16) & ADDRESS;
	for (int word = 0; word < 5; word++) {
		rest += strspn(rest, " ");
		if (word < 4)
			rest += strcspn(rest, " ");
	}
	rest[strcspn(rest, " ")] = '\0';
	const char *slash = strrchr(rest, '/');
	ret->name = (char *)(slash ? slash + 1 : rest);
	return ret->end > ret->start && ret->name[0] && rest[0] != '[';
}

void vms_trace_names_add_map(struct vms_trace_names *names, char *text)
{
	char *line;
	while ((line = take_line(&text)) && names->images->len < IMAGES_LIMIT) {
		struct image image;
		if (!parse_mapping(line, &image))
			continue;
		image.name = g_strdup(image.name);
		g_array_append_val(names->images, image);
	}
}

GPtrArray *vms_trace_names_images(const struct vms_trace_names *names)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(vms_hash_text, g_str_equal);
	GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i < names->images->len; i++) {
		char *name = g_array_index(names->images, struct image, i).name;
		if (g_hash_table_add(seen, name))
			g_ptr_array_add(list, g_strdup(name));
	}
	return list;
}

/* Parses "ADDRESS [SIZE] TYPE NAME". A symbol of type '?' only ends the one before it. */
static void add_symbol(struct vms_symbol_table *table, char *line)
{
	char *rest;
	const uint64_t address = g_ascii_strtoull(line, &rest, 16);
	if (rest == line || *rest++ != ' ')
		return;
	if (g_ascii_isxdigit(rest[0]) && rest[1] && rest[1] != ' ') /* the size */
		rest += strcspn(rest, " ") + (strchr(rest, ' ') != NULL);
	if (!rest[0] || rest[1] != ' ' || !rest[2])
		return;
	if (rest[0] == '?')
		vms_symbol_table_add_bound(table, address);
	else
		vms_symbol_table_add(table, rest + 2, address, 0, rest[0]);
}

void vms_trace_names_add_symbols(struct vms_trace_names *names, const char *image, char *text)
{
	struct vms_symbol_table *table = vms_symbol_table_new(image);
	char *line;
	while ((line = take_line(&text)))
		if (line[0] != '#')
			add_symbol(table, line);
	vms_symbol_table_finish(table, UINT64_MAX);
	g_hash_table_replace(names->symbols, g_strdup(image), table);
}

static const struct image *find_image(const struct vms_trace_names *names, uint64_t address)
{
	for (guint i = 0; i < names->images->len; i++) {
		const struct image *image = &g_array_index(names->images, struct image, i);
		if (address >= image->start && address < image->end)
			return image;
	}
	return NULL;
}

char *vms_trace_names_find(const struct vms_trace_names *names, uint64_t address,
			   const char **image)
{
	const struct image *found = find_image(names, address);
	const struct vms_symbol_table *table =
		found ? g_hash_table_lookup(names->symbols, found->name) : NULL;
	struct vms_symbol symbol;
	*image = found ? found->name : NULL;
	if (!table || !vms_symbol_table_find(table, address - found->start, &symbol))
		return g_strdup_printf("0x%" PRIx64, address);
	char *name = g_strdup(symbol.name);
	vms_text_clean(name);
	return name;
}
