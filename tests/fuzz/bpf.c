/* SPDX-License-Identifier: MIT */
/*
 * The list of compiled BPF programs of a kernel in memory of any content (words.h).
 *
 * Covers: src/guest/linux/bpf.c src/guest/linux/change_stamp.c.
 */
#include "guest/linux/bpf.h"
#include "words.h"

enum {
	NO_LIST = 1,	/* the kernel has no such list */
	NO_MEMBERS = 2, /* something is missing */
	COUNTED = 4,	/* the kernel counts changes of the list */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct words_structure structures[] = {
	{ "latch_tree_root", { 0, 0 }, { { "seq", 0, 4 } } },
	{ "bpf_ksym",
	  { 0, NO_MEMBERS },
	  { { "start", 0, 8 }, { "end", 8, 8 }, { "lnode", 16, 16 }, { "name", 32, 64 } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "bpf_kallsyms", WORDS_RAM, { 0, NO_LIST } },
	{ "bpf_tree", WORDS_RAM + 0x40, { COUNTED, 0 } },
	{ 0 },
};

static void check(const struct vms_symbol_table *table)
{
	for (size_t i = 0; i < vms_symbol_table_count(table); i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(table, i);
		g_assert_cmpuint(symbol.size, >, 0);
		words_check_name(symbol.name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_kernel kernel = { &vms_arch_x86_64, symbols, structures, { 0 } };
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	for (unsigned i = 0; i < 3; i++) {
		vms_linux_bpf_refresh(guest);
		if (guest->bpf)
			check(guest->bpf);
		if (i > 0)
			fake_machine_write_u64(guest->machine, WORDS_RAM + 0x40, i);
	}
	words_linux_free(guest);
	return 0;
}
