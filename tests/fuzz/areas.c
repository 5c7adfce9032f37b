/* SPDX-License-Identifier: MIT */
/*
 * Memory areas of processes in a kernel's memory of any content (words.h), in both kinds of trees,
 * and the names of the files behind them.
 *
 * Covers: src/guest/linux/area.c src/guest/linux/process.c src/symbol/symbolizer.c
 * src/symbol/mappings.c.
 */
#include "guest/linux/area.h"
#include "guest/linux/process.h"
#include "words.h"

enum {
	RED_BLACK = 1,	/* the tree, until 6.0 */
	NO_MEMBERS = 2, /* something is missing */
	NO_TREE = 4,	/* areas are kept in no known way */
	NO_SPECIAL = 8, /* areas that the kernel itself has made have no name */
	NO_FLAGS = 16,
};

#define MM	     (WORDS_RAM + 0x100)
#define SPECIAL_NAME 0x1234
#define AREAS	     16 /* that are asked for */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MM_MEMBERS                                                                                 \
	{ "map_count", 16, 4 }, { "total_vm", 24, 8 }, { "start_brk", 32, 8 }, { "brk", 40, 8 },   \
	{                                                                                          \
		"start_stack", 48, 8                                                               \
	}
#define AREA_MEMBERS                                                                               \
	{ "vm_start", 0, 8 }, { "vm_end", 8, 8 }, { "vm_pgoff", 16, 8 }, { "vm_file", 24, 8 },     \
		{ "vm_ops", 40, 8 }, { "vm_private_data", 48, 8 },                                 \
	{                                                                                          \
		"vm_rb", 56, 24                                                                    \
	}

static const struct encoder_member maple_tree[] = { { "ma_root", 0, 8 }, { 0 } };
static const struct encoder_member rb_root[] = { { "rb_node", 0, 8 }, { 0 } };
static const struct encoder_member path[] = { { "mnt", 0, 8 }, { "dentry", 8, 8 }, { 0 } };
static const struct encoder_member name[] = { { "len", 4, 4 }, { "name", 8, 8 }, { 0 } };

static const struct words_structure structures[] = {
	{ "mm_struct", { 0, RED_BLACK | NO_TREE }, { MM_MEMBERS, { "mm_mt", 0, 8, maple_tree } } },
	{ "mm_struct", { RED_BLACK, NO_TREE }, { MM_MEMBERS, { "mm_rb", 0, 8, rb_root } } },
	{ "mm_struct", { NO_TREE, 0 }, { MM_MEMBERS } },
	{ "vm_area_struct", { 0, NO_FLAGS }, { AREA_MEMBERS, { "vm_flags", 32, 8 } } },
	{ "vm_area_struct", { NO_FLAGS, 0 }, { AREA_MEMBERS } },
	{ "rb_node", { 0, 0 }, { { "rb_right", 8, 8 }, { "rb_left", 16, 8 } } },
	{ "maple_range_64", { 0, 0 }, { { "pivot", 8, 120 }, { "slot", 128, 128 } } },
	{ "maple_arange_64", { 0, 0 }, { { "pivot", 8, 72 }, { "slot", 80, 80 } } },
	{ "vm_operations_struct", { 0, 0 }, { { "name", 8, 8 } } },
	{ "vm_special_mapping", { 0, 0 }, { { "name", 0, 8 } } },
	{ "file", { 0, 0 }, { { "f_path", 8, 16, path } } },
	{ "dentry", { 0, 0 }, { { "d_parent", 0, 8 }, { "d_name", 8, 16, name } } },
	{ "vfsmount", { 0, 0 }, { { "mnt_root", 0, 8 } } },
	{ "mount",
	  { 0, NO_MEMBERS },
	  { { "mnt_parent", 0, 8 }, { "mnt_mountpoint", 8, 8 }, { "mnt", 16, 8 } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "special_mapping_name", SPECIAL_NAME, { 0, NO_SPECIAL } },
	{ 0 },
};

/* As a sampler does: names are asked for after their addresses were seen. */
static void note(struct vms_linux *guest, const struct vms_process *process, uint64_t va)
{
	struct vms_mapping mapping;
	vms_linux_note_address(guest, guest->memory, process, va);
	if (vms_symbolizer_mapping(guest->symbolizer, process->index, va, &mapping))
		words_check_name(mapping.name);
}

static void ask(struct vms_linux *guest, uint64_t mm)
{
	const struct vms_task task = { .mm = mm, .pid = 1, .process_comm = "process" };
	const struct vms_process *process = vms_linux_process(guest, &task);
	struct vms_mapping mapping;
	uint64_t va = 0;
	g_assert_true(process == vms_linux_process(guest, &task));
	g_assert_true(process == vms_symbolizer_process(guest->symbolizer, process->index));
	g_assert_null(vms_symbolizer_process(guest->symbolizer, process->index + 4));
	const struct vms_task other = { .mm = mm, .pid = 2, .process_comm = "other" };
	g_assert_true(process != vms_linux_process(guest, &other));
	vms_linux_mappings_stamp(guest, mm);
	unsigned areas = VMS_AREAS_LIMIT;
	for (unsigned i = 0; i < AREAS && vms_linux_next_code(guest, mm, va, &areas, &mapping);
	     i++) {
		g_assert_cmphex(mapping.start, <, mapping.end);
		g_assert_cmphex(va, <, mapping.end);
		words_check_name(mapping.name);
		note(guest, process, mapping.start);
		note(guest, process, mapping.end - 1);
		va = mapping.end;
	}
	for (va = 0; va < 0x10000; va += 0x800)
		note(guest, process, va);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_kernel kernel = {
		&vms_arch_x86_64,
		symbols,
		structures,
		{ "maple_leaf_64", "maple_range_64", "maple_arange_64" },
	};
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	guest->processes = vms_linux_processes_new(guest);
	ask(guest, MM);
	ask(guest, 0);
	/* The areas change. */
	if (size > 2) {
		fake_machine_write_u64(guest->machine, MM + 16, data[size - 1]);
		ask(guest, MM);
	}
	words_linux_free(guest);
	return 0;
}
