/* SPDX-License-Identifier: MIT */
/*
 * A table is the number of its symbols, these, and then their names in the same order, each with
 * its NUL. So a name costs as many bytes here as it has.
 */
#include "symbol/packed_symbols.h"
#include "base/text.h"
#include <string.h>

#define NAME_LIMIT	 4096
#define STEPS_OF_SYMBOL	 10
#define STEPS_OF_NAME(n) ((n) / 8) /* measured */

struct packed {
	uint64_t va, size;
	char type;
	char zeros[7];
};

void vms_symbols_pack(const struct vms_symbol_table *table, GByteArray *out)
{
	const uint64_t n = vms_symbol_table_count(table);
	g_byte_array_append(out, (const guint8 *)&n, sizeof(n));
	for (size_t i = 0; i < n; i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(table, i);
		const struct packed packed = { symbol.va, symbol.size, symbol.type, { 0 } };
		g_byte_array_append(out, (const guint8 *)&packed, sizeof(packed));
	}
	for (size_t i = 0; i < n; i++) {
		const char *text = vms_symbol_table_get(table, i).name;
		g_byte_array_append(out, (const guint8 *)text, (guint)strlen(text) + 1);
	}
}

/* Pays for a name, and checks that the jail has cleaned it. */
static bool check_name(struct vms_budget *budget, const char *name, size_t size)
{
	const bool is_plain = vms_text_is_plain(name);
	const uint64_t steps = STEPS_OF_SYMBOL + STEPS_OF_NAME(size);
	return vms_budget_step(budget, is_plain ? steps : steps + VMS_STEPS_OF_CLEANING(size)) &&
	       (is_plain || vms_text_is_clean(name));
}

/*
 * Adds a symbol, and goes on in the names. False if its name does not end or is not clean, or the
 * budget is used up.
 */
static bool add_symbol(struct vms_symbol_table *table, const struct packed *packed,
		       struct vms_bytes *names)
{
	const char *text = (const char *)names->data;
	const size_t limit = MIN(names->size, NAME_LIMIT), size = strnlen(text, limit);
	if (size == limit || !check_name(names->budget, text, size))
		return false;
	vms_symbol_table_add(table, text, packed->va, packed->size, packed->type);
	names->data += size + 1;
	names->size -= size + 1;
	return true;
}

struct vms_symbol_table *vms_symbols_unpack(struct vms_bytes bytes, const char *module)
{
	uint64_t n;
	struct vms_bytes entries, names;
	if (!vms_bytes_u64(bytes, 0, &n) || n > bytes.size / sizeof(struct packed) ||
	    !vms_bytes_slice(bytes, sizeof(n), n * sizeof(struct packed), &entries) ||
	    !vms_bytes_slice(bytes, sizeof(n) + entries.size, bytes.size - sizeof(n) - entries.size,
			     &names))
		return NULL;
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new(module);
	for (uint64_t i = 0; i < n; i++) {
		struct packed packed;
		memcpy(&packed, entries.data + i * sizeof(packed), sizeof(packed));
		if (!add_symbol(table, &packed, &names))
			return NULL;
	}
	if (names.size > 0)
		return NULL;
	vms_symbol_table_finish(table, UINT64_MAX);
	return g_steal_pointer(&table);
}
