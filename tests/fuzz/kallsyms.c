/* SPDX-License-Identifier: MIT */
/*
 * A kernel image of any content.
 *
 * Covers: src/guest/linux/kallsyms.c src/guest/linux/uts.c.
 */
#include "guest/linux/kallsyms.h"
#include "guest/linux/uts.h"

#define IMAGE_VA UINT64_C(0xffffffff9a200000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void clear_uts(struct vms_uts *uts)
{
	g_clear_pointer(&uts->release, g_free);
	g_clear_pointer(&uts->version, g_free);
	g_clear_pointer(&uts->hostname, g_free);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_bytes image = { data, size };
	g_autofree char *banner = vms_linux_banner(image);
	struct vms_uts uts = { 0 };
	if (banner) {
		vms_uts_from_banner(banner, &uts);
		clear_uts(&uts);
	}
	if (vms_uts_from_namespace(image, banner ? banner : "", &uts))
		clear_uts(&uts);

	g_autoptr(vms_symbol_table) table = vms_kallsyms_parse(image, IMAGE_VA, NULL);
	for (size_t i = 0; table && i < vms_symbol_table_count(table); i++) {
		struct vms_symbol symbol = vms_symbol_table_get(table, i), found;
		g_assert_true(vms_symbol_table_lookup(table, symbol.name, &found));
		g_assert_cmpstr(found.name, ==, symbol.name);
		if (vms_symbol_table_find(table, symbol.va, &found))
			g_assert_cmphex(found.va, ==, symbol.va);
	}
	return 0;
}
