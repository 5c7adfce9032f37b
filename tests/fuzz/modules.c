/* SPDX-License-Identifier: MIT */
/*
 * Modules of a kernel in memory of any content (words.h): their parts, symbols, exports and unwind
 * tables, as kernels old and new keep them; and the kernel's own unwind table.
 *
 * Covers: src/guest/linux/module.c src/guest/linux/kernel_code.c src/guest/linux/orc_load.c
 * src/guest/linux/change_stamp.c src/symbol/symbolizer.c src/symbol/mappings.c
 * src/guest/linux/member.c.
 */
#include "guest/linux/kernel_code.h"
#include "guest/linux/module.h"
#include "guest/linux/orc_load.h"
#include "guest/linux/unwind_info.h"
#include "words.h"

enum {
	LAYOUTS = 1,	 /* where its parts are, until 6.3 */
	ABSOLUTE = 2,	 /* exports are pointers, not relative */
	NO_TYPES = 4,	 /* of symbols, apart from them */
	NO_MEMBERS = 8,	 /* something is missing */
	OLD_KERNEL = 16, /* by its release */
	HEADER = 32,	 /* says how unwind tables are laid out */
	FP_ENTRY = 64,	 /* tells it */
	NO_ORC = 128,	 /* the kernel has no unwind table */
	ODD_ORC = 256,	 /* its symbols contradict each other */
	NO_EXPORTS = 512,
	KNOWN_HEADER = 1024, /* of Linux 6.4 */
	COUNTED = 2048,	     /* the kernel counts changes of its modules */
};

#define LIST	   (WORDS_RAM + 0x10)
#define TREE	   (WORDS_RAM + 0x30)
#define ORC_HEADER (WORDS_RAM + 0x40)
#define ORC_IP	   (WORDS_RAM + 0x1000)
#define ORC_ENTRY  (WORDS_RAM + 0x1100)
#define ORC_COUNT  8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MODULE_MEMBERS                                                                             \
	{ "state", 0, 4 }, { "list", 8, 16 }, { "name", 24, 56 }, { "kallsyms", 80, 8 },           \
		{ "syms", 88, 8 }, { "num_syms", 96, 4 },                                          \
	{                                                                                          \
		"arch", 104, 24, unwind                                                            \
	}

static const struct encoder_member unwind[] = {
	{ "num_orcs", 0, 4 }, { "orc_unwind_ip", 8, 8 }, { "orc_unwind", 16, 8 }, { 0 }
};
static const struct encoder_member layout[] = {
	{ "base", 0, 8 }, { "size", 8, 4 }, { "text_size", 12, 4 }, { 0 }
};

static const struct encoder_member counter[] = { { "seq", 0, 4 }, { 0 } };

static const struct words_structure structures[] = {
	{ "mod_tree_root", { 0, 0 }, { { "root", 0, 8, counter } } },
	{ "module", { 0, LAYOUTS | NO_MEMBERS }, { MODULE_MEMBERS, { "mem", 128, 48 } } },
	{ "module",
	  { LAYOUTS, NO_MEMBERS },
	  { MODULE_MEMBERS,
	    { "core_layout", 128, 16, layout },
	    { "init_layout", 144, 16, layout } } },
	{ "module_memory", { 0, LAYOUTS }, { { "base", 0, 8 }, { "size", 8, 4 } } },
	{ "mod_kallsyms",
	  { 0, NO_TYPES },
	  { { "symtab", 0, 8 },
	    { "num_symtab", 8, 4 },
	    { "strtab", 16, 8 },
	    { "typetab", 24, 8 } } },
	{ "mod_kallsyms",
	  { NO_TYPES, 0 },
	  { { "symtab", 0, 8 }, { "num_symtab", 8, 4 }, { "strtab", 16, 8 } } },
	{ "kernel_symbol",
	  { 0, ABSOLUTE | NO_EXPORTS },
	  { { "value_offset", 0, 4 }, { "name_offset", 4, 4 } } },
	{ "kernel_symbol", { ABSOLUTE, NO_EXPORTS }, { { "value", 0, 8 }, { "name", 8, 8 } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "modules", LIST, { 0, 0 } },
	{ "mod_tree", TREE, { COUNTED, 0 } },
	{ "__start_orc_unwind_ip", ORC_IP, { 0, NO_ORC } },
	{ "__stop_orc_unwind_ip", ORC_IP + ORC_COUNT *VMS_ORC_IP_SIZE, { 0, ODD_ORC } },
	{ "__stop_orc_unwind_ip", ORC_IP + 3, { ODD_ORC, 0 } },
	{ "__start_orc_unwind", ORC_ENTRY, { 0, 0 } },
	{ "__stop_orc_unwind", ORC_ENTRY + ORC_COUNT *VMS_ORC_ENTRY_SIZE, { 0, 0 } },
	{ "__start_orc_header", ORC_HEADER, { HEADER, 0 } },
	{ "orc_fp_entry", WORDS_RAM + 0x60, { FP_ENTRY, 0 } },
	{ 0 },
};

/* What is noted of an address is what it is called now. */
static void check_noted(struct vms_linux *guest, uint64_t va)
{
	struct vms_location now = { 0 }, noted = { 0 };
	struct vms_symbolizer *symbolizer = guest->symbolizer;
	const uint32_t number = vms_symbolizer_note_code(symbolizer, va);
	const bool known = vms_symbolizer_locate(symbolizer, VMS_KERNEL_SPACE, 0, va, &now);
	if (number == 0)
		return;
	g_assert_true(known &&
		      vms_symbolizer_locate(symbolizer, VMS_KERNEL_SPACE, number, va, &noted));
	g_assert_cmpstr(noted.symbol, ==, now.symbol);
	g_assert_cmphex(noted.start, ==, now.start);
}

static void check_modules(struct vms_linux *guest)
{
	const GPtrArray *modules = vms_linux_modules_list(guest);
	const struct vms_orc *orc = NULL;
	struct vms_orc_entry entry;
	for (guint i = 0; modules && i < modules->len; i++) {
		const struct vms_module *module = modules->pdata[i];
		words_check_name(module->name);
		for (size_t n = 0; n < vms_symbol_table_count(module->symbols); n++) {
			const struct vms_symbol symbol = vms_symbol_table_get(module->symbols, n);
			words_check_name(symbol.name);
			check_noted(guest, symbol.va);
		}
		vms_linux_module_at(guest, module->text, &orc);
		vms_linux_is_text(guest, module->text);
		check_noted(guest, module->text);
		vms_linux_orc_at(guest, module->text, &entry);
	}
	vms_linux_module_at(guest, 0, NULL);
	vms_linux_orc_at(guest, ORC_IP, &entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t header[] = { 0xfe, 0x5d, 0x32, 0xbf, 0x58, 0x1b, 0xd6,
					  0x3b, 0x2c, 0xa9, 0xa5, 0xc6, 0x5b, 0xa5,
					  0xa6, 0x25, 0xea, 0xb3, 0xfe, 0x24 };
	static const struct words_kernel kernel = { &vms_arch_x86_64,
						    symbols,
						    structures,
						    { "MODULE_STATE_LIVE", "MOD_INIT_TEXT",
						      "MODULE_STATE_UNFORMED" } };
	const unsigned options = words_options(data, size);
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	if (options & KNOWN_HEADER)
		memcpy(fake_machine_at(guest->machine, ORC_HEADER), header, sizeof(header));
	guest->release = g_strdup(options & OLD_KERNEL ? "5.10.0" : "6.12.0");
	guest->image = ORC_IP;
	guest->image_end = ORC_IP + 0x100;
	guest->orc = vms_linux_orc_load(guest);
	guest->modules = vms_linux_modules_new(guest);
	vms_linux_map_image(guest);
	check_noted(guest, ORC_IP);
	for (unsigned i = 0; i < 2; i++) {
		vms_linux_refresh_code(guest, NULL);
		check_modules(guest);
		vms_linux_code_changed(guest, guest->memory, 0);
		fake_machine_write_u64(guest->machine, TREE, i);
	}
	words_linux_free(guest);
	return 0;
}
