/* SPDX-License-Identifier: MIT */
/*
 * Symbols as a jail gives them back. A table that is taken is one: packed again, it is the same.
 *
 * Covers: src/symbol/packed_symbols.c.
 */
#include "symbol/packed_symbols.h"
#include "base/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vms_budget_options options = { .size = sizeof(options) };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	g_autoptr(vms_symbol_table) table =
		vms_symbols_unpack((struct vms_bytes) { data, size, budget }, "module");
	if (!table)
		return 0;
	g_autoptr(GByteArray) packed = g_byte_array_new(), again = g_byte_array_new();
	vms_symbols_pack(table, packed);
	g_autoptr(vms_symbol_table) second = vms_symbols_unpack(
		(struct vms_bytes) { packed->data, packed->len, NULL }, "module");
	g_assert_nonnull(second);
	vms_symbols_pack(second, again);
	g_assert_cmpmem(packed->data, packed->len, again->data, again->len);
	return 0;
}
