/* SPDX-License-Identifier: MIT */
/*
 * What a kernel says of its memory (e820), in memory of any content (words.h).
 *
 * Covers: src/guest/linux/memory_map.c.
 */
#include "guest/linux/memory_map.h"
#include "machine/engine.h"
#include "words.h"

#define VARIABLE_OUTSIDE 1 /* an option: the table's address cannot be read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_symbol symbols[] = {
		{ "e820_table", WORDS_RAM + 0x10, { 0, VARIABLE_OUTSIDE } },
		{ "e820_table", 0x1000, { VARIABLE_OUTSIDE, 0 } },
		{ 0 },
	};
	static const struct words_structure none[] = { { 0 } };
	static const struct words_kernel kernel = { &vms_arch_x86_64, symbols, none, { 0 } };
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	guest->machine->info.has_inferred_map = true;
	fake_machine_add_range(guest->machine, 0, 0x10000, VMS_RANGE_RAM, "ram");
	fake_machine_add_range(guest->machine, 0x10000, 0x10000, VMS_RANGE_RAM, "ram");
	g_autoptr(GError) error = NULL;
	bool is_right = vms_linux_check_memory_map(guest, &error);
	g_assert_true(is_right == !error);
	words_linux_free(guest);
	return 0;
}
