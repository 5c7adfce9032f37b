/* SPDX-License-Identifier: MIT */
#include "machine/qemu/hmp.h"

#include "base/text.h"
#include <string.h>

/* Takes `prefix` off the beginning of *text. False if it is not there. */
static bool skip(const char **text, const char *prefix)
{
	if (!g_str_has_prefix(*text, prefix))
		return false;
	*text += strlen(prefix);
	return true;
}

/* Takes a hexadecimal number off the beginning of *text. False if there is none. */
static bool skip_hex(const char **text, uint64_t *ret)
{
	char *end;
	if (!g_ascii_isxdigit(**text))
		return false;
	size_t digits = strspn(*text, G_CSET_DIGITS "abcdefABCDEF");
	*ret = g_ascii_strtoull(*text, &end, 16);
	*text += digits;
	return digits <= 16 && end == *text;
}

/* Parses a type, by the names of QEMU's memory_region_type(). */
static bool parse_type(const char *type, enum vms_range_kind *ret)
{
	static const struct {
		const char *name;
		enum vms_range_kind kind;
	} types[] = {
		{ "ram", VMS_RANGE_RAM },      { "nv-ram", VMS_RANGE_RAM },
		{ "rom", VMS_RANGE_ROM },      { "romd", VMS_RANGE_ROM },
		{ "nv-rom", VMS_RANGE_ROM },   { "nv-romd", VMS_RANGE_ROM },
		{ "i/o", VMS_RANGE_MMIO },     { "nv-i/o", VMS_RANGE_MMIO },
		{ "ramd", VMS_RANGE_MMIO }, /* a passed-through device: reading has effects */
		{ "nv-ramd", VMS_RANGE_MMIO },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
		if (strcmp(type, types[i].name) == 0) {
			*ret = types[i].kind;
			return true;
		}
	}
	return false;
}

/* Parses "  0000000000100000-000000003fffffff (prio 0, ram): pc.ram @0000000000100000". */
static bool parse_range(const char *line, GStringChunk *names, struct vms_range *ret)
{
	uint64_t first, last;
	if (!skip(&line, "  ") || !skip_hex(&line, &first) || !skip(&line, "-") ||
	    !skip_hex(&line, &last) || !skip(&line, " (prio ") || last < first ||
	    last - first == G_MAXUINT64)
		return false;
	line += strspn(line, "-" G_CSET_DIGITS);
	const char *end = strstr(line, "): ");
	if (!skip(&line, ", ") || !end || end < line)
		return false;
	g_autofree char *type = g_strndup(line, (size_t)(end - line));
	if (!parse_type(type, &ret->kind))
		return false;
	line = end + strlen("): ");
	const char *offset = g_strrstr(line, " @");
	g_autofree char *name = g_strndup(line, offset ? (size_t)(offset - line) : strlen(line));
	vms_text_clean(name);
	ret->pa = first;
	ret->size = last - first + 1;
	ret->name = g_string_chunk_insert(names, name);
	return true;
}

/* Finds the lines of the view that has a line " AS "memory", root: …"; NULL if there is none. */
static char **find_memory_view(char **lines)
{
	char **view = NULL;
	for (; *lines; lines++) {
		if (g_str_has_prefix(*lines, "FlatView #"))
			view = lines + 1;
		else if (view && g_str_has_prefix(*lines, " AS \"memory\", root: "))
			return view;
	}
	return NULL;
}

GArray *vms_hmp_parse_mtree(const char *text, GStringChunk *names, GError **error)
{
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	char **line = find_memory_view(lines);
	uint64_t end = 0; /* of the last range; 0 after one that ends with the address space */
	while (line && *line && g_str_has_prefix(*line, " ") && !g_str_has_prefix(*line, "  "))
		line++; /* skip the names of address spaces and of the root region */
	for (; line && *line && **line; line++) {
		struct vms_range range = { 0 };
		if (ranges->len >= VMS_HMP_RANGES_MAX || !parse_range(*line, names, &range) ||
		    (ranges->len && (end == 0 || range.pa < end))) {
			line = NULL;
			break;
		}
		end = range.pa + range.size;
		g_array_append_val(ranges, range);
	}
	if (line && ranges->len)
		return g_steal_pointer(&ranges);
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "cannot understand QEMU's `info mtree -f`");
	return NULL;
}

/* Parses "Host virtual address for 0x100000 (pc.ram) is 0x7f3e2bf00000". */
bool vms_hmp_parse_gpa2hva(const char *text, uint64_t pa, uint64_t *ret)
{
	uint64_t address;
	const char *is = strstr(text, ") is ");
	if (!skip(&text, "Host virtual address for 0x") || !skip_hex(&text, &address) ||
	    address != pa || !skip(&text, " (") || !is || is < text)
		return false;
	text = is + strlen(") is ");
	return skip(&text, "0x") && skip_hex(&text, ret) && *ret &&
	       (*text == 0 || strcmp(text, "\n") == 0);
}
