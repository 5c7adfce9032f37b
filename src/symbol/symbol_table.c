/* SPDX-License-Identifier: MIT */
/*
 * A symbol table is an array that is sorted by address, and a hash table that finds its entries by
 * name. All names lie in one block, so that the 200,000 symbols of a kernel take three allocations.
 */
#include "base/search.h"
#include <vmscope/symbol.h>

#include <string.h>

#define NO_ENTRY UINT32_MAX

struct entry {
	uint64_t va, size;
	uint64_t reach;	    /* the largest size up to this entry of those at its address */
	uint32_t name;	    /* offset in the block of names */
	uint32_t same_hash; /* index of the bucket's next entry, in the table's order */
	char type;
};

struct vms_symbol_table {
	gatomicrefcount refs;
	char *module;
	GArray *entries; /* struct entry */
	GByteArray *names;
	GArray *bounds;	    /* uint64_t, ascending once finished */
	uint32_t *buckets;  /* index of each bucket's first entry */
	uint32_t n_buckets; /* a power of two */
	uint64_t key;	    /* of the hash; secret */
};

struct vms_symbol_table *vms_symbol_table_new(const char *module)
{
	struct vms_symbol_table *table = g_new0(struct vms_symbol_table, 1);
	g_atomic_ref_count_init(&table->refs);
	table->module = g_strdup(module);
	table->entries = g_array_new(FALSE, FALSE, sizeof(struct entry));
	table->names = g_byte_array_new();
	table->bounds = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	return table;
}

struct vms_symbol_table *vms_symbol_table_ref(struct vms_symbol_table *table)
{
	g_atomic_ref_count_inc(&table->refs);
	return table;
}

void vms_symbol_table_unref(struct vms_symbol_table *table)
{
	if (!table || !g_atomic_ref_count_dec(&table->refs))
		return;
	g_free(table->module);
	g_array_unref(table->entries);
	g_byte_array_unref(table->names);
	g_array_unref(table->bounds);
	g_free(table->buckets);
	g_free(table);
}

const char *vms_symbol_table_module(const struct vms_symbol_table *table)
{
	return table->module;
}

static struct entry *get_entry(const struct vms_symbol_table *table, size_t index)
{
	return &g_array_index(table->entries, struct entry, index);
}

static const char *get_entry_name(const struct vms_symbol_table *table, const struct entry *entry)
{
	return (const char *)table->names->data + entry->name;
}

void vms_symbol_table_add(struct vms_symbol_table *table, const char *name, uint64_t va,
			  uint64_t size, char type)
{
	struct entry entry = {
		.va = va,
		.size = size,
		.name = table->names->len,
		.same_hash = NO_ENTRY,
		.type = type,
	};
	g_byte_array_append(table->names, (const guint8 *)name, (guint)strlen(name) + 1);
	g_array_append_val(table->entries, entry);
}

void vms_symbol_table_add_bound(struct vms_symbol_table *table, uint64_t va)
{
	g_array_append_val(table->bounds, va);
}

static int compare_bounds(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;
	if (left->va != right->va)
		return left->va < right->va ? -1 : 1;
	/* The order of adding is kept: names lie in this order. */
	return left->name < right->name ? -1 : left->name > right->name;
}

static bool is_sorted(const struct vms_symbol_table *table)
{
	for (size_t i = 1; i < table->entries->len; i++)
		if (get_entry(table, i - 1)->va > get_entry(table, i)->va)
			return false;
	return true;
}

/* Ends each symbol without a size at the next symbol, bound or at `end`. */
static void fill_sizes(struct vms_symbol_table *table, uint64_t end)
{
	uint64_t next = end, begin = 0;
	guint n_bounds = table->bounds->len; /* bounds that are not passed yet */
	for (size_t i = table->entries->len; i-- > 0;) {
		struct entry *entry = get_entry(table, i);
		if (i + 1 < table->entries->len && entry->va != begin)
			next = begin;
		begin = entry->va;
		for (; n_bounds > 0; n_bounds--) {
			uint64_t bound = g_array_index(table->bounds, uint64_t, n_bounds - 1);
			if (bound <= begin)
				break;
			next = MIN(next, bound);
		}
		if (!entry->size && next > entry->va)
			entry->size = next - entry->va;
	}
}

static void fill_reach(struct vms_symbol_table *table)
{
	for (size_t i = 0; i < table->entries->len; i++) {
		struct entry *entry = get_entry(table, i);
		bool is_alias = i > 0 && entry[-1].va == entry->va;
		entry->reach = is_alias ? MAX(entry[-1].reach, entry->size) : entry->size;
	}
}

/*
 * Hashes a name so that a guest, which chooses the names, cannot make them collide. The name is a
 * polynomial; each 7 bytes of it are a coefficient. The hash is the polynomial's value at `key`,
 * modulo the prime 2^61 - 1. The guest does not know `key`, and two names have the same hash for
 * few keys only.
 */
static uint64_t hash_name(const char *name, uint64_t key)
{
	enum { WORD_BYTES = 7, PRIME_BITS = 61 };
	uint64_t hash = 0;
	for (size_t size = strlen(name), part; size > 0; size -= part, name += part) {
		uint64_t word = 0;
		part = MIN(size, WORD_BYTES);
		memcpy(&word, name, size > part ? sizeof(word) : part);
		word &= (UINT64_C(1) << (8 * WORD_BYTES)) - 1;
		unsigned __int128 value = (unsigned __int128)hash * key + word;
		hash = (uint64_t)(value >> PRIME_BITS) +
		       (uint64_t)(value & ((UINT64_C(1) << PRIME_BITS) - 1));
	}
	return hash;
}

static uint32_t find_bucket(const struct vms_symbol_table *table, const char *name)
{
	return (uint32_t)hash_name(name, table->key) & (table->n_buckets - 1);
}

static void index_names(struct vms_symbol_table *table)
{
	table->key = ((uint64_t)g_random_int() << 32 | g_random_int()) >> 4;
	table->n_buckets = 16;
	while (table->n_buckets < table->entries->len)
		table->n_buckets *= 2;
	g_free(table->buckets);
	table->buckets = g_new(uint32_t, table->n_buckets);
	memset(table->buckets, 0xff, table->n_buckets * sizeof(*table->buckets)); /* NO_ENTRY */
	/* The last entry is added first, so that each bucket is in the table's order. */
	for (size_t i = table->entries->len; i-- > 0;) {
		struct entry *entry = get_entry(table, i);
		uint32_t *bucket =
			&table->buckets[find_bucket(table, get_entry_name(table, entry))];
		entry->same_hash = *bucket;
		*bucket = (uint32_t)i;
	}
}

void vms_symbol_table_finish(struct vms_symbol_table *table, uint64_t end)
{
	if (!is_sorted(table))
		g_array_sort(table->entries, compare_entries);
	if (table->bounds->len > 1)
		g_array_sort(table->bounds, compare_bounds);
	fill_sizes(table, end);
	fill_reach(table);
	index_names(table);
}

size_t vms_symbol_table_count(const struct vms_symbol_table *table)
{
	return table->entries->len;
}

size_t vms_symbol_table_bytes(const struct vms_symbol_table *table)
{
	return table->entries->len * sizeof(struct entry) + table->names->len +
	       table->n_buckets * sizeof(*table->buckets);
}

struct vms_symbol vms_symbol_table_get(const struct vms_symbol_table *table, size_t index)
{
	const struct entry *entry = get_entry(table, index);
	return (struct vms_symbol) {
		.name = get_entry_name(table, entry),
		.va = entry->va,
		.size = entry->size,
		.type = entry->type,
	};
}

/* Counts the entries that begin before `va`, and those at `va` that reach `reach` at most. */
static size_t count_entries_below(const struct vms_symbol_table *table, uint64_t va, uint64_t reach)
{
	return VMS_SEARCH(table->entries->len, i,
			  get_entry(table, i)->va < va || (get_entry(table, i)->va == va &&
							   get_entry(table, i)->reach <= reach));
}

bool vms_symbol_table_find(const struct vms_symbol_table *table, uint64_t va,
			   struct vms_symbol *ret)
{
	size_t n = count_entries_below(table, va, UINT64_MAX);
	if (n == 0)
		return false;
	/* Many aliases may begin there. The first of them that reaches `va` is the answer. */
	uint64_t begin = get_entry(table, n - 1)->va;
	size_t first = count_entries_below(table, begin, va - begin);
	if (first == n)
		return false;
	*ret = vms_symbol_table_get(table, first);
	return true;
}

bool vms_symbol_table_next(const struct vms_symbol_table *table, const char *name, size_t *cursor,
			   struct vms_symbol *ret)
{
	if (!table->buckets)
		return false;
	/* The cursor is the index of the entry that was given last, plus one. */
	uint32_t i = *cursor ? get_entry(table, *cursor - 1)->same_hash
			     : table->buckets[find_bucket(table, name)];
	while (i != NO_ENTRY && strcmp(get_entry_name(table, get_entry(table, i)), name))
		i = get_entry(table, i)->same_hash;
	if (i == NO_ENTRY)
		return false;
	*ret = vms_symbol_table_get(table, i);
	*cursor = (size_t)i + 1;
	return true;
}

bool vms_symbol_table_lookup(const struct vms_symbol_table *table, const char *name,
			     struct vms_symbol *ret)
{
	size_t cursor = 0;
	return vms_symbol_table_next(table, name, &cursor, ret);
}
