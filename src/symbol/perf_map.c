/* SPDX-License-Identifier: MIT */
#include "symbol/perf_map.h"
#include "base/text.h"
#include <string.h>

#define FUNCTIONS_LIMIT (1u << 19)
#define STEPS_OF_LINE	20 /* to find its place in a tree */
#define NAME_LIMIT	1024

struct function {
	uint64_t start, end;
	const char *name; /* not terminated */
	size_t name_size;
};

static int compare_functions(const void *a, const void *b, void *data)
{
	(void)data;
	const struct function *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Reads a hexadecimal number and the blanks behind it. False if there is none. */
static bool parse_number(const char **at, const char *end, uint64_t *ret)
{
	const char *digit = *at;
	uint64_t value = 0;
	if (end - digit > 2 && digit[0] == '0' && digit[1] == 'x')
		digit += 2;
	const char *first = digit;
	for (; digit < end && g_ascii_isxdigit(*digit); digit++) {
		if (value >> 60)
			return false;
		value = value << 4 | (unsigned)g_ascii_xdigit_value(*digit);
	}
	if (digit == first || digit == end || *digit != ' ')
		return false;
	while (digit < end && *digit == ' ')
		digit++;
	*at = digit;
	*ret = value;
	return true;
}

static bool parse_line(const char *line, const char *end, struct function *ret)
{
	uint64_t size;
	if (end > line && end[-1] == '\r')
		end--;
	if (memchr(line, '\0', (size_t)(end - line)) || !parse_number(&line, end, &ret->start) ||
	    !parse_number(&line, end, &size) || size == 0 || line == end ||
	    size > UINT64_MAX - ret->start)
		return false;
	ret->end = ret->start + size;
	ret->name = line;
	ret->name_size = MIN((size_t)(end - line), NAME_LIMIT);
	return true;
}

/* True if none of the functions so far, which do not overlap each other, overlaps this one. */
static bool has_room(GTree *functions, const struct function *function)
{
	const struct function behind = { .start = function->start };
	GTreeNode *next = g_tree_lower_bound(functions, &behind);
	GTreeNode *before = next ? g_tree_node_previous(next) : g_tree_node_last(functions);
	if (next && ((const struct function *)g_tree_node_key(next))->start < function->end)
		return false;
	return !before ||
	       ((const struct function *)g_tree_node_key(before))->end <= function->start;
}

static gboolean add_function(void *key, void *value, void *data)
{
	(void)value;
	const struct function *function = key;
	char name[NAME_LIMIT + 1];
	memcpy(name, function->name, function->name_size);
	name[function->name_size] = '\0';
	vms_text_clean(name);
	vms_symbol_table_add(data, name, function->start, function->end - function->start, 't');
	return FALSE;
}

struct vms_symbol_table *vms_perf_map_parse(struct vms_bytes text, const char *module)
{
	GTree *functions = g_tree_new_full(compare_functions, NULL, g_free, NULL);
	struct vms_symbol_table *table = vms_symbol_table_new(module);
	const char *begin = (const char *)text.data, *end = begin + text.size;
	while (end > begin && g_tree_nnodes(functions) < (gint)FUNCTIONS_LIMIT) {
		const char *newline = memrchr(begin, '\n', (size_t)(end - begin));
		struct function function;
		const size_t size = (size_t)(end - (newline ?: begin));
		if (!vms_budget_step(text.budget, STEPS_OF_LINE + VMS_STEPS_OF_BYTES(size)))
			break;
		if (parse_line(newline ? newline + 1 : begin, end, &function) &&
		    has_room(functions, &function))
			g_tree_insert(functions, g_memdup2(&function, sizeof(function)), NULL);
		end = newline ?: begin;
	}
	g_tree_foreach(functions, add_function, table);
	g_tree_unref(functions);
	vms_symbol_table_finish(table, UINT64_MAX);
	return table;
}
