/* SPDX-License-Identifier: MIT */
/* Files in a page cache that is laid out by hand: whose pages count, and trees that lie. */
#include "guest/linux/page_cache.h"
#include "fake_linux.h"

#define BASE UINT64_C(0x100000)
#define RAM  0x40000
#define PAGE UINT64_C(0x1000)

/* Objects in this kernel's memory. */
enum {
	FILE_AT = 0x100,
	MAPPING = 0x200,
	INODE = 0x300,
	SUPER_BLOCK = 0x400,
	OVERLAY_INODE = 0x500,
	OVERLAY = 0x600, /* its struct super_block */
	UPPER = 0x700,	 /* the struct dentry of the file in its upper layer */
	ROOT = 0x1000,	 /* nodes of the tree */
	LEAF = 0x1800,
	POINTER = 0x2000, /* the variable vmemmap_base */
	DATA = 0x30000,	  /* contents of pages */
};
enum { INODE_SIZE = 40, OVERLAY_MAGIC = 0x794c7630 };
enum { SLOTS = 8, N_SLOTS = 64, UPTODATE = 1 << 2, PAGE_SIZE_OF_STRUCT = 64 };
enum { FLAGS = 0, COMPOUND = 8, OWNER = 16, INDEX = 24 };

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
	struct vms_cached_file file;
};

static GByteArray *types(void)
{
	static const struct encoder_member tree[] = { { "xa_head", 0, 8 }, { 0 } };
	static const struct {
		const char *name;
		uint32_t size;
		struct encoder_member members[6];
	} structures[] = {
		{ "file", 16, { { "f_mapping", 0, 8 }, { "f_inode", 8, 8 } } },
		{ "inode",
		  INODE_SIZE,
		  { { "i_mapping", 0, 8 },
		    { "i_size", 8, 8 },
		    { "i_ino", 16, 8 },
		    { "i_sb", 24, 8 },
		    { "i_nlink", 32, 4 } } },
		{ "super_block", 16, { { "s_dev", 0, 4 }, { "s_magic", 8, 8 } } },
		{ "dentry", 8, { { "d_inode", 0, 8 } } },
		{ "address_space", 16, { { "host", 0, 8 }, { "i_pages", 8, 8, tree } } },
		{ "xa_node",
		  SLOTS + N_SLOTS * 8,
		  { { "shift", 0, 1 }, { "slots", SLOTS, N_SLOTS * 8 } } },
		{ "page",
		  PAGE_SIZE_OF_STRUCT,
		  { { "flags", FLAGS, 8 },
		    { "compound_head", COMPOUND, 8 },
		    { "mapping", OWNER, 8 },
		    { "index", INDEX, 8 } } },
	};
	static const char *const flags[] = { "PG_locked", "PG_referenced", "PG_uptodate" };
	struct encoder encoder = encoder_new();
	for (size_t i = 0; i < G_N_ELEMENTS(structures); i++) {
		unsigned n = 0;
		while (structures[i].members[n].name)
			n++;
		put_structure(&encoder, structures[i].name, structures[i].size, n,
			      structures[i].members);
	}
	put_type(&encoder, "", ENUM, G_N_ELEMENTS(flags), false, 4);
	for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++) {
		put(&encoder, name_offset(&encoder, flags[i]));
		put(&encoder, i);
	}
	return finish(&encoder);
}

static void write_u64(struct fixture *f, uint64_t at, uint64_t value)
{
	fake_machine_write_u64(f->machine, BASE + at, value);
}

/* The place of the struct page of the frame with DATA + n pages. */
static uint64_t page_at(unsigned n)
{
	return 0x8000 + n * PAGE_SIZE_OF_STRUCT;
}

/* Makes page n of DATA page `index` of the file. */
static void write_page(struct fixture *f, unsigned n, uint64_t index)
{
	write_u64(f, page_at(n) + FLAGS, UPTODATE);
	write_u64(f, page_at(n) + COMPOUND, 0);
	write_u64(f, page_at(n) + OWNER, BASE + MAPPING);
	write_u64(f, page_at(n) + INDEX, index);
}

static void write_slot(struct fixture *f, uint64_t node, unsigned slot, uint64_t entry)
{
	write_u64(f, node + SLOTS + slot * 8, entry);
}

/* A file of 70 pages, of which the first two are in memory. */
static void setup(struct fixture *f, const void *data)
{
	const struct fake_symbol symbols[] = { { "vmemmap_base", BASE + POINTER }, { NULL, 0 } };
	(void)data;
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, BASE, RAM);
	f->guest = fake_linux_new(f->machine, symbols, types());
	write_u64(f, POINTER, BASE + page_at(0) - (BASE + DATA) / PAGE * PAGE_SIZE_OF_STRUCT);
	write_u64(f, FILE_AT, BASE + MAPPING);
	write_u64(f, MAPPING, BASE + INODE);
	write_u64(f, MAPPING + 8, BASE + ROOT + 2);
	write_u64(f, INODE, BASE + MAPPING);
	write_u64(f, INODE + 8, 70 * PAGE);
	write_u64(f, INODE + 16, 7);
	write_u64(f, INODE + 24, BASE + SUPER_BLOCK);
	write_u64(f, INODE + 32, 1);
	write_u64(f, ROOT, 6);
	write_slot(f, ROOT, 0, BASE + LEAF + 2);
	write_u64(f, LEAF, 0);
	for (unsigned i = 0; i < 4; i++) {
		write_page(f, i, i);
		write_u64(f, DATA + i * PAGE + 8, 0x1000 + i);
	}
	write_slot(f, LEAF, 0, BASE + page_at(0));
	write_slot(f, LEAF, 1, BASE + page_at(1));
	f->guest->page_cache = vms_page_cache_new(f->guest);
	g_assert_nonnull(f->guest->page_cache);
	g_assert_true(vms_page_cache_locate(f->guest->page_cache, f->guest->memory, BASE + FILE_AT,
					    &f->file));
	g_assert_true(vms_page_cache_identify(f->guest->page_cache, &f->file));
	g_assert_cmphex(f->file.size, ==, 70 * PAGE);
	g_assert_cmpuint(f->file.number, ==, 7);
}

static void teardown(struct fixture *f, const void *data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static bool read_word(struct fixture *f, uint64_t index, uint64_t *ret)
{
	return vms_page_cache_read(f->guest->page_cache, &f->file, index * PAGE + 8, ret,
				   sizeof(*ret));
}

static void check_page(struct fixture *f, uint64_t index, unsigned n)
{
	uint64_t word = 0;
	g_assert_true(read_word(f, index, &word));
	g_assert_cmphex(word, ==, 0x1000 + n);
}

static void check_missing(struct fixture *f, uint64_t index)
{
	uint64_t word;
	g_assert_false(read_word(f, index, &word));
}

static void test_pages(struct fixture *f, const void *data)
{
	uint8_t bytes[PAGE];
	(void)data;
	check_page(f, 0, 0);
	check_page(f, 1, 1);
	check_missing(f, 2);
	check_missing(f, 64);
	/* Across two pages, and beyond the end of the file. */
	g_assert_true(vms_page_cache_read(f->guest->page_cache, &f->file, PAGE / 2, bytes, PAGE));
	g_assert_cmpuint(bytes[PAGE / 2 + 8], ==, 1);
	g_assert_false(
		vms_page_cache_read(f->guest->page_cache, &f->file, 70 * PAGE - 8, bytes, 9));
	g_assert_false(vms_page_cache_read(f->guest->page_cache, &f->file, UINT64_MAX, bytes, 9));
}

/* One entry stands for four pages, the others lead to it. */
static void test_large_folio(struct fixture *f, const void *data)
{
	(void)data;
	for (unsigned i = 1; i < 4; i++)
		write_slot(f, LEAF, i, 0 << 2 | 2);
	for (unsigned i = 0; i < 4; i++)
		check_page(f, i, i);
	/* Kernels before 5.17 have the first page in every slot. */
	write_slot(f, LEAF, 3, BASE + page_at(0));
	check_page(f, 3, 3);
	/* A sibling of a sibling is no entry. */
	write_slot(f, LEAF, 2, 1 << 2 | 2);
	check_missing(f, 2);
}

static void test_not_the_file(struct fixture *f, const void *data)
{
	(void)data;
	write_u64(f, page_at(0) + FLAGS, 0); /* is being read from the disk */
	check_missing(f, 0);
	write_u64(f, page_at(1) + OWNER, BASE + MAPPING + 0x100);
	check_missing(f, 1);
	write_page(f, 0, 5); /* the tree is torn */
	check_missing(f, 0);
	write_page(f, 0, 0);
	check_page(f, 0, 0);
	write_slot(f, LEAF, 0, 0x33); /* a value: the page was evicted */
	check_missing(f, 0);
	write_slot(f, LEAF, 0, BASE + page_at(0));
	write_u64(f, INODE + 16, 8); /* another file has the inode's memory */
	check_missing(f, 0);
}

static void test_cycles(struct fixture *f, const void *data)
{
	(void)data;
	write_slot(f, LEAF, 0, BASE + LEAF + 2);
	check_missing(f, 0);
	write_slot(f, ROOT, 0, BASE + ROOT + 2);
	check_missing(f, 0);
	write_u64(f, ROOT, 255);
	check_missing(f, 0);
	write_u64(f, MAPPING + 8, 0x402); /* try again */
	check_missing(f, 0);
	write_u64(f, MAPPING + 8, BASE + RAM + 2);
	check_missing(f, 0);
}

/* Writes an overlay's inode, whose upper layer has the file, or nothing. */
static void write_overlay(struct fixture *f, uint64_t upper)
{
	write_u64(f, OVERLAY_INODE, BASE + MAPPING + 0x80); /* an address_space without pages */
	write_u64(f, OVERLAY_INODE + 16, 9);
	write_u64(f, OVERLAY_INODE + 24, BASE + OVERLAY);
	write_u64(f, OVERLAY_INODE + INODE_SIZE, upper);
	write_u64(f, OVERLAY + 8, OVERLAY_MAGIC);
	write_u64(f, UPPER, BASE + INODE);
}

static void check_inode(struct fixture *f, uint64_t number)
{
	struct vms_cached_file file;
	g_assert_true(vms_page_cache_of_inode(f->guest->page_cache, BASE + OVERLAY_INODE, &file));
	g_assert_cmpuint(file.number, ==, number);
}

static void test_overlay(struct fixture *f, const void *data)
{
	(void)data;
	write_overlay(f, BASE + UPPER);
	check_inode(f, 7);
	write_overlay(f, 0); /* the file is in a lower layer only */
	check_inode(f, 9);
	write_overlay(f, BASE + RAM); /* not in memory */
	check_inode(f, 9);
	write_overlay(f, BASE + UPPER);
	write_u64(f, OVERLAY + 8, 0xef53); /* what is behind an inode of ext4 is no entry */
	check_inode(f, 9);
}

#define ADD(name, function)                                                                        \
	g_test_add("/page-cache/" name, struct fixture, NULL, setup, function, teardown)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	ADD("pages", test_pages);
	ADD("large-folio", test_large_folio);
	ADD("not-the-file", test_not_the_file);
	ADD("cycles", test_cycles);
	ADD("overlay", test_overlay);
	return g_test_run();
}
