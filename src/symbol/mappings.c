/* SPDX-License-Identifier: MIT */
#include "symbol/mappings.h"
#include "base/search.h"
#include "symbol/binary.h"

static void unref_parts(const struct vms_mapping *mapping)
{
	vms_symbol_table_unref(mapping->symbols);
	vms_binary_unref(mapping->binary);
}

static void clear_mapping(void *data)
{
	unref_parts(data);
}

GArray *vms_mappings_new(void)
{
	GArray *mappings = g_array_new(FALSE, FALSE, sizeof(struct vms_mapping));
	g_array_set_clear_func(mappings, clear_mapping);
	return mappings;
}

/* Returns the number of mappings that begin at or below `va`. */
static guint count_mappings_below(const GArray *mappings, uint64_t va)
{
	return (guint)VMS_SEARCH(mappings->len, i,
				 g_array_index(mappings, struct vms_mapping, i).start <= va);
}

const struct vms_mapping *vms_mappings_find(const GArray *mappings, uint64_t va)
{
	guint n = mappings ? count_mappings_below(mappings, va) : 0;
	if (n == 0)
		return NULL;
	const struct vms_mapping *last = &g_array_index(mappings, struct vms_mapping, n - 1);
	return va < last->end ? last : NULL;
}

static void ref_parts(const struct vms_mapping *mapping)
{
	if (mapping->symbols)
		vms_symbol_table_ref(mapping->symbols);
	if (mapping->binary)
		vms_binary_ref(mapping->binary);
}

void vms_mappings_put(GArray *mappings, const struct vms_mapping *mapping, size_t limit)
{
	guint begin = count_mappings_below(mappings, mapping->start), end = begin;
	if (begin > 0 &&
	    g_array_index(mappings, struct vms_mapping, begin - 1).end > mapping->start)
		begin--;
	while (end < mappings->len &&
	       g_array_index(mappings, struct vms_mapping, end).start < mapping->end)
		end++;
	ref_parts(mapping); /* first: `mapping` may share its symbols with one that is removed */
	if (end > begin)
		g_array_remove_range(mappings, begin, end - begin);
	if (mappings->len < limit)
		g_array_insert_val(mappings, begin, *mapping);
	else
		unref_parts(mapping);
}

static int compare_mappings(const void *a, const void *b)
{
	const struct vms_mapping *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

GArray *vms_mappings_new_of(const struct vms_mapping *others, size_t n)
{
	GArray *mappings = vms_mappings_new();
	for (size_t i = 0; i < n; i++)
		ref_parts(&others[i]);
	g_array_append_vals(mappings, others, (guint)n);
	g_array_sort(mappings, compare_mappings);
	return mappings;
}

const struct vms_symbol_table *vms_mappings_functions(const struct vms_mapping *mapping)
{
	const struct vms_symbol_table *known =
		mapping->binary ? vms_binary_known_functions(mapping->binary) : NULL;
	return known && vms_symbol_table_count(known) > 0 ? known : mapping->symbols;
}
