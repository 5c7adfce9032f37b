/* SPDX-License-Identifier: MIT */
/*
 * Files in a page cache of any content (words.h): trees with cycles, pages anywhere, inodes that
 * change.
 *
 * Covers: src/guest/linux/page_cache.c src/guest/linux/files.c.
 */
#include "guest/linux/files.h"
#include "words.h"

enum {
	NO_MEMBERS = 1, /* something is missing */
	RENAMED = 2,	/* names of newer kernels */
	NO_SECTIONS = 4,
};

#define FILE_VA (WORDS_RAM + 0x100)
#define ROOTS	(WORDS_RAM + 0x200)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct encoder_member tree[] = { { "xa_head", 0, 8 }, { 0 } };
static const struct encoder_member flags[] = { { "f", 0, 8 }, { 0 } };

static const struct words_structure structures[] = {
	{ "file", { 0, 0 }, { { "f_mapping", 0, 8 }, { "f_inode", 8, 8 } } },
	{ "inode",
	  { 0, NO_MEMBERS },
	  { { "i_mapping", 0, 8 },
	    { "i_size", 8, 8 },
	    { "i_ino", 16, 8 },
	    { "i_sb", 24, 8 },
	    { "i_nlink", 32, 4 } } },
	{ "super_block", { 0, 0 }, { { "s_dev", 0, 4 }, { "s_magic", 8, 8 } } },
	{ "dentry", { 0, 0 }, { { "d_inode", 0, 8 } } },
	{ "address_space", { 0, 0 }, { { "host", 0, 8 }, { "i_pages", 8, 8, tree } } },
	{ "xa_node", { 0, 0 }, { { "shift", 0, 1 }, { "slots", 8, 512 } } },
	{ "page",
	  { 0, RENAMED },
	  { { "flags", 0, 8 },
	    { "compound_head", 8, 8 },
	    { "mapping", 16, 8 },
	    { "index", 24, 8 },
	    { "end", 56, 8 } } },
	{ "page",
	  { RENAMED, 0 },
	  { { "flags", 0, 8, flags },
	    { "compound_info", 8, 8 },
	    { "mapping", 16, 8 },
	    { "__folio_index", 24, 8 },
	    { "end", 56, 8 } } },
	{ "mem_section", { 0, NO_SECTIONS }, { { "section_mem_map", 0, 8 }, { "usage", 8, 8 } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "mem_section", ROOTS, { 0, NO_SECTIONS } },
	{ "vmemmap_base", ROOTS, { 0, 0 } },
	{ 0 },
};

static void read_file(struct vms_linux *guest, struct vms_linux_files *files)
{
	struct vms_cached_file file, same;
	uint8_t bytes[256];
	if (!vms_page_cache_locate(guest->page_cache, guest->memory, FILE_VA, &file))
		return;
	g_autoptr(vms_binary) binary = vms_linux_files_open(files, "file", &file);
	if (!binary)
		return;
	if (vms_page_cache_of_inode(guest->page_cache, file.inode, &same) &&
	    same.inode == file.inode)
		g_assert_cmphex(same.number, ==, file.number);
	for (uint64_t offset = 0; offset < 0x100000; offset += 0x8040)
		vms_binary_read(binary, offset, bytes, sizeof(bytes));
	vms_binary_functions(binary);
}

static void note_file(struct vms_linux *guest, struct vms_linux_files *files)
{
	const struct vms_process process = { .pid = 1, .comm = "process" };
	const uint32_t space = vms_symbolizer_add_space(guest->symbolizer, &process)->index;
	const struct vms_mapping mapping = {
		.start = 0x1000, .end = 0x3000, .file = FILE_VA, .name = "file"
	};
	vms_symbolizer_map(guest->symbolizer, space, &mapping);
	vms_linux_files_note(files, guest->memory, space, &mapping, FILE_VA);
	const struct vms_mapping vdso = { .start = WORDS_RAM, .end = WORDS_RAM + 0x2000 };
	vms_linux_files_note_vdso(files, guest->memory, space, &vdso);
	vms_linux_files_read(files, guest->symbolizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_kernel kernel = {
		&vms_arch_x86_64,
		symbols,
		structures,
		{ "PG_locked", "PG_referenced", "PG_uptodate" },
	};
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	guest->page_cache = vms_page_cache_new(guest);
	struct vms_linux_files *files =
		vms_linux_files_new(guest->page_cache, guest->symbolizer, guest->budget);
	if (guest->page_cache)
		read_file(guest, files);
	note_file(guest, files);
	vms_linux_files_free(files);
	words_linux_free(guest);
	return 0;
}
