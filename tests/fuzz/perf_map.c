/* SPDX-License-Identifier: MIT */
/*
 * A map of code that a program has made at run time, of any content.
 *
 * Covers: src/symbol/perf_map.c.
 */
#include "symbol/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autoptr(vms_symbol_table) table =
		vms_perf_map_parse((struct vms_bytes) { data, size }, "map");
	uint64_t end = 0;
	for (size_t i = 0; i < vms_symbol_table_count(table); i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(table, i);
		g_assert_cmphex(symbol.va, >=, end);
		g_assert_cmphex(symbol.size, >, 0);
		g_assert_true(g_utf8_validate(symbol.name, -1, NULL));
		end = symbol.va + symbol.size;
	}
	return 0;
}
