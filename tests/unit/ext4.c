/* SPDX-License-Identifier: MIT */
/* File systems laid out by hand: which blocks a file has, by extents and by lists. */
#include "disk/ext4.h"
#include "base/budget.h"
#include "disk_encoder.h"
#include <string.h>

#define EXTENTS	    0x80000
#define WIDE	    0x80 /* INCOMPAT_64BIT */
#define MAP	    40	 /* offset in an inode, of what it says of its blocks */
#define BLOCK	    1024u
#define INODE	    3
#define DATA	    100 /* blocks that files have begin there */
#define NOT_WRITTEN 32768
#define MIB	    (1u << 20)

static const struct ext4_layout usual = { .block_size = BLOCK,
					  .inode_size = 256,
					  .descriptor_size = 32,
					  .revision = 1,
					  .incompat = 0x40 };

struct fixture {
	struct fake_disk *disk;
	struct vms_ext4 *fs;
	struct vms_ext4_file file;
	uint64_t inode, map; /* offsets on the disk */
};

static void set_up(struct fixture *f, const struct ext4_layout *layout)
{
	*f = (struct fixture) { .disk = fake_disk_new(MIB) };
	ext4_put(f->disk, layout, 7, 0);
	f->inode = ext4_inode(layout, INODE);
	f->map = f->inode + MAP;
}

static void open_file(struct fixture *f, unsigned number)
{
	g_autoptr(GError) error = NULL;
	if (!f->fs)
		f->fs = vms_ext4_open(&f->disk->source, 0, f->disk->source.size, &error);
	g_assert_no_error(error);
	vms_ext4_open_file(f->fs, number, &f->file, &error);
	g_assert_no_error(error);
}

static void tear_down(struct fixture *f)
{
	vms_file_source_clear(&f->file.source);
	vms_ext4_free(f->fs);
	fake_disk_free(f->disk);
}

/* Fills a block of the disk with what block `of` of a file has. */
static void put_block(struct fixture *f, uint64_t place, unsigned of)
{
	fake_disk_fill(f->disk, place * BLOCK, BLOCK, of + 1);
}

/* Checks `n` blocks of the file, of which those have data whose bit is set. */
static void check_blocks(struct fixture *f, uint64_t first, unsigned n, unsigned written)
{
	g_autofree uint8_t *expected = g_malloc0(n * BLOCK);
	for (unsigned i = 0; i < n; i++)
		if (written >> i & 1)
			fake_content(expected + i * BLOCK, BLOCK, (unsigned)first + i + 1);
	fake_disk_check(&f->file.source, first * BLOCK, (first + n) * BLOCK, expected);
}

static bool can_read(struct fixture *f, uint64_t block)
{
	uint8_t byte;
	return vms_file_source_read(&f->file.source, block * BLOCK, &byte, 1);
}

/* ---- the file system ------------------------------------------------------ */

/* Sizes of blocks, inodes and descriptors; both groups; anywhere on a disk. */
static void test_layouts(void)
{
	static const struct ext4_layout layouts[] = {
		{ 0, 1024, 128, 32, 0x40, 1 },	       { 0, 1024, 256, 32, 0x40, 1 },
		{ 0, 2048, 128, 32, 0x40, 1 },	       { 0, 4096, 256, 64, 0x40 | WIDE, 1 },
		{ 0, 65536, 256, 64, 0x40 | WIDE, 1 }, { 5000, 1024, 4096, 128, WIDE, 1 },
		{ 512, 4096, 1024, 1024, WIDE, 1 },    { 0, 4096, 256, 64, 0x3f7c6, 1 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(layouts); i++) {
		const struct ext4_layout *layout = &layouts[i];
		g_autofree uint8_t *expected = g_malloc(layout->block_size);
		struct fixture f = { .disk = fake_disk_new(2 * MIB) };
		ext4_put(f.disk, layout, 9, 0);
		f.fs = vms_ext4_open(&f.disk->source, layout->offset, MIB, NULL);
		g_assert_nonnull(f.fs);
		for (unsigned j = 0; j < VMS_EXT4_UUID_SIZE; j++)
			g_assert_cmpuint(vms_ext4_uuid(f.fs)[j], ==, 9);
		for (unsigned number = 1; number <= 2 * EXT4_INODES; number++) {
			const uint64_t at = ext4_inode(layout, number);
			const uint64_t place = MIB / layout->block_size - 1; /* the last one */
			ext4_put_inode(f.disk, at, layout->block_size - number, EXTENTS, number);
			ext4_put_node(f.disk, at + MAP, 1, 0);
			ext4_put_extent(f.disk, at + MAP, 0, 0, 1, place);
			fake_disk_fill(f.disk, layout->offset + place * layout->block_size,
				       layout->block_size, number);
			fake_content(expected, layout->block_size, number);
			open_file(&f, number);
			g_assert_cmpuint(f.file.source.size, ==, layout->block_size - number);
			g_assert_cmpuint(f.file.change_s, ==, number);
			fake_disk_check(&f.file.source, 0, f.file.source.size, expected);
			vms_file_source_clear(&f.file.source);
		}
		tear_down(&f);
	}
}

/* Revision 0 has no sizes of inodes: what is there means nothing. */
static void test_first_revision(void)
{
	struct ext4_layout layout = usual;
	struct fixture f;
	layout.inode_size = 128;
	layout.revision = 0;
	set_up(&f, &layout);
	fake_disk_put_le(f.disk, 1024 + 88, 2, 7);
	ext4_put_inode(f.disk, f.inode, 77, 0, 0);
	open_file(&f, INODE);
	g_assert_cmpuint(f.file.source.size, ==, 77);
	tear_down(&f);
}

static void test_superblocks(void)
{
	static const struct {
		unsigned at, size;
		uint64_t value;
		int code; /* enum vms_error; 0: it can be opened */
	} cases[] = {
		{ 56, 2, 0xef52, VMS_ERROR_NOT_FOUND },
		{ 24, 4, 6, 0 },
		{ 24, 4, 7, VMS_ERROR_MALFORMED },
		{ 24, 4, UINT32_MAX, VMS_ERROR_MALFORMED },
		{ 40, 4, 0, VMS_ERROR_MALFORMED },
		{ 88, 2, 127, VMS_ERROR_MALFORMED },
		{ 88, 2, 4096, 0 },
		{ 88, 2, 4097, VMS_ERROR_MALFORMED },
		{ 96, 4, 0x1, VMS_ERROR_UNSUPPORTED },	/* compressed */
		{ 96, 4, 0x8, VMS_ERROR_UNSUPPORTED },	/* a journal */
		{ 96, 4, 0x10, VMS_ERROR_UNSUPPORTED }, /* descriptors are elsewhere */
		{ 96, 4, 0x800, VMS_ERROR_UNSUPPORTED },
		{ 96, 4, UINT32_C(1) << 31, VMS_ERROR_UNSUPPORTED },
		{ 254, 2, 0, 0 }, /* without 64 bits, it means nothing */
	};
	static const struct {
		unsigned size;
		int code;
	} descriptors[] = {
		{ 0, VMS_ERROR_MALFORMED },    { 31, VMS_ERROR_MALFORMED }, { 32, 0 }, { 1024, 0 },
		{ 1025, VMS_ERROR_MALFORMED },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases) + G_N_ELEMENTS(descriptors); i++) {
		struct fixture f;
		g_autoptr(GError) error = NULL;
		int code;
		set_up(&f, &usual);
		if (i < G_N_ELEMENTS(cases)) {
			code = cases[i].code;
			fake_disk_put_le(f.disk, 1024 + cases[i].at, cases[i].size, cases[i].value);
		} else {
			code = descriptors[i - G_N_ELEMENTS(cases)].code;
			fake_disk_put_le(f.disk, 1024 + 96, 4, WIDE);
			fake_disk_put_le(f.disk, 1024 + 254, 2,
					 descriptors[i - G_N_ELEMENTS(cases)].size);
		}
		f.fs = vms_ext4_open(&f.disk->source, 0, MIB, &error);
		g_assert_true(!f.fs == (code != 0));
		if (code)
			g_assert_error(error, VMS_ERROR, code);
		tear_down(&f);
	}
}

/* A file system that its part of the disk has no room for: nothing behind that is read. */
static void test_end(void)
{
	struct fixture f;
	set_up(&f, &usual);
	g_assert_null(vms_ext4_open(&f.disk->source, 0, 2047, NULL));
	g_assert_null(vms_ext4_open(&f.disk->source, MIB - 2000, 4096, NULL));
	ext4_put_inode(f.disk, f.inode, 3 * BLOCK, EXTENTS, 0);
	ext4_put_node(f.disk, f.map, 1, 0);
	ext4_put_extent(f.disk, f.map, 0, 0, 3, DATA);
	for (unsigned i = 0; i < 3; i++)
		put_block(&f, DATA + i, i);
	f.fs = vms_ext4_open(&f.disk->source, 0, (DATA + 2) * BLOCK, NULL);
	open_file(&f, INODE);
	check_blocks(&f, 0, 2, 3);
	g_assert_false(can_read(&f, 2));
	vms_file_source_clear(&f.file.source);
	vms_ext4_free(f.fs);
	/* The same for inodes. */
	f.fs = vms_ext4_open(&f.disk->source, 0, f.inode + 111, NULL);
	g_assert_nonnull(f.fs);
	g_assert_false(vms_ext4_open_file(f.fs, INODE, &f.file, NULL));
	f.file = (struct vms_ext4_file) { 0 };
	tear_down(&f);
}

/* ---- inodes ------------------------------------------------------------------ */

static void check_refused(struct fixture *f, uint64_t number, int code)
{
	g_autoptr(GError) error = NULL;
	struct vms_ext4_file file;
	g_assert_false(vms_ext4_open_file(f->fs, number, &file, &error));
	g_assert_error(error, VMS_ERROR, code);
}

static void test_inodes(void)
{
	static const struct {
		unsigned at, size;
		uint64_t value;
		int code;
	} cases[] = {
		{ 0, 2, 0x41ed, VMS_ERROR_NOT_FOUND }, /* a folder */
		{ 0, 2, 0xa1ff, VMS_ERROR_NOT_FOUND }, /* a link: 0x8000 is a part of its type */
		{ 0, 2, 0, VMS_ERROR_NOT_FOUND },
		{ 32, 4, EXTENTS | 0x4, VMS_ERROR_UNSUPPORTED },
		{ 32, 4, EXTENTS | 0x800, VMS_ERROR_UNSUPPORTED },
		{ 32, 4, 0x10000000, VMS_ERROR_UNSUPPORTED }, /* its bytes are in the inode */
		{ 108, 4, UINT32_C(1) << 31, VMS_ERROR_MALFORMED },
		{ MAP, 2, 0xf30b, VMS_ERROR_MALFORMED },
		{ MAP + 6, 2, 6, VMS_ERROR_MALFORMED },
	};
	struct fixture f;
	set_up(&f, &usual);
	open_file(&f, (ext4_put_inode(f.disk, f.inode, 1, 0, 0), INODE));
	check_refused(&f, 0, VMS_ERROR_NOT_FOUND);
	check_refused(&f, 1, VMS_ERROR_NOT_FOUND);
	check_refused(&f, 2 * EXT4_INODES + 1, VMS_ERROR_NOT_FOUND);
	check_refused(&f, UINT64_MAX, VMS_ERROR_NOT_FOUND);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		ext4_put_inode(f.disk, f.inode, 1, EXTENTS, 0);
		ext4_put_node(f.disk, f.map, 0, 5);
		vms_file_source_clear(&f.file.source);
		open_file(&f, INODE);
		fake_disk_put_le(f.disk, f.inode + cases[i].at, cases[i].size, cases[i].value);
		check_refused(&f, INODE, cases[i].code);
	}
	/* There are less inodes, whatever lies behind the last one. */
	fake_disk_put_le(f.disk, 1024, 4, INODE - 1);
	vms_ext4_free(f.fs);
	f.fs = vms_ext4_open(&f.disk->source, 0, MIB, NULL);
	ext4_put_inode(f.disk, f.inode, 1, 0, 0);
	check_refused(&f, INODE, VMS_ERROR_NOT_FOUND);
	fake_disk_put_le(f.disk, 1024, 4, INODE);
	vms_ext4_free(f.fs);
	f.fs = vms_ext4_open(&f.disk->source, 0, MIB, NULL);
	vms_file_source_clear(&f.file.source);
	open_file(&f, INODE);
	/* The table of inodes lies behind the disk. */
	fake_disk_put_le(f.disk, 2048 + 8, 4, MIB / BLOCK + 1);
	check_refused(&f, INODE, VMS_ERROR_NOT_FOUND);
	tear_down(&f);
}

/* Numbers of blocks of more than 32 bits: of inodes, nodes of extents, and data. */
static void test_many_blocks(void)
{
	struct ext4_layout layout = usual;
	const uint64_t far = UINT64_C(3) << 32; /* a block */
	struct fixture f;
	layout.incompat |= WIDE;
	layout.descriptor_size = 64;
	set_up(&f, &layout);
	ext4_put(f.disk, &layout, 7, far + 50);
	f.disk->far_begin = far * BLOCK;
	f.disk->far_place = MIB / 2;
	f.disk->source.size = f.disk->far_begin + MIB / 2;
	f.inode = MIB / 2 + 50 * BLOCK + (INODE - 1) * layout.inode_size;
	f.map = f.inode + MAP;
	ext4_put_inode(f.disk, f.inode, 2 * BLOCK, EXTENTS, 0);
	ext4_put_node(f.disk, f.map, 1, 1);
	ext4_put_index(f.disk, f.map, 0, 0, far + 80);
	ext4_put_node(f.disk, MIB / 2 + 80 * BLOCK, 1, 0);
	ext4_put_extent(f.disk, MIB / 2 + 80 * BLOCK, 0, 0, 2, far + DATA);
	put_block(&f, MIB / 2 / BLOCK + DATA, 0);
	put_block(&f, MIB / 2 / BLOCK + DATA + 1, 1);
	open_file(&f, INODE);
	check_blocks(&f, 0, 2, 3);
	/* A number whose offset wraps around, to the same table. */
	ext4_put(f.disk, &layout, 7, (UINT64_C(1) << 54) + far + 50);
	check_refused(&f, INODE, VMS_ERROR_NOT_FOUND);
	tear_down(&f);
}

/* ---- extents --------------------------------------------------------------- */

static void put_file(struct fixture *f, uint64_t n_blocks)
{
	set_up(f, &usual);
	ext4_put_inode(f->disk, f->inode, n_blocks * BLOCK, EXTENTS, 0);
}

/* Extents with data, extents that are not written yet, and what no extent has, which are zeros. */
static void test_extents(void)
{
	struct fixture f;
	put_file(&f, 20);
	ext4_put_node(f.disk, f.map, 4, 0);
	ext4_put_extent(f.disk, f.map, 0, 2, 3, DATA + 10);
	ext4_put_extent(f.disk, f.map, 1, 5, 1, DATA);
	ext4_put_extent(f.disk, f.map, 2, 6, NOT_WRITTEN + 2, DATA + 20);
	ext4_put_extent(f.disk, f.map, 3, 10, 4, DATA + 30);
	for (unsigned i = 0; i < 3; i++)
		put_block(&f, DATA + 10 + i, 2 + i);
	put_block(&f, DATA, 5);
	put_block(&f, DATA + 20, 99);
	for (unsigned i = 0; i < 5; i++)
		put_block(&f, DATA + 30 + i, 10 + i);
	open_file(&f, INODE);
	check_blocks(&f, 0, 20, 0x3c3c);
	g_assert_false(can_read(&f, 20));
	tear_down(&f);
}

/* The longest extents of both kinds; one that reaches into the next one; one that has no blocks. */
static void test_lengths_of_extents(void)
{
	struct fixture f;
	put_file(&f, 200000);
	ext4_put_node(f.disk, f.map, 4, 0);
	ext4_put_extent(f.disk, f.map, 0, 0, NOT_WRITTEN, DATA);
	ext4_put_extent(f.disk, f.map, 1, 40000, NOT_WRITTEN + 32767, DATA);
	ext4_put_extent(f.disk, f.map, 2, 100000, 100, DATA + 50);
	ext4_put_extent(f.disk, f.map, 3, 100002, 0, DATA + 60);
	put_block(&f, DATA, 0);
	put_block(&f, DATA + 1, 1);
	put_block(&f, DATA + 50, 100000);
	put_block(&f, DATA + 51, 100001);
	for (unsigned i = 2; i < 10; i++)
		put_block(&f, DATA + 50 + i, 99); /* the next extent counts */
	open_file(&f, INODE);
	check_blocks(&f, 0, 2, 3);
	g_assert_false(can_read(&f, 32767)); /* it is on no disk of that size */
	check_blocks(&f, 32768, 20, 0);
	check_blocks(&f, 40000, 30, 0);
	check_blocks(&f, 72766, 10, 0);
	check_blocks(&f, 99998, 8, 0xc);
	tear_down(&f);
}

/* As deep as a tree may be, with an entry for other blocks beside each node. */
static void test_depth_of_extents(void)
{
	struct fixture f;
	for (unsigned depth = 1; depth <= 5; depth++) {
		put_file(&f, 100);
		uint64_t node = f.map;
		for (unsigned level = depth; level > 0; level--) {
			ext4_put_node(f.disk, node, 2, level);
			ext4_put_index(f.disk, node, 0, 10, 70 + level);
			ext4_put_index(f.disk, node, 1, 20 + level, 600 + level);
			node = (70 + level) * BLOCK;
		}
		ext4_put_node(f.disk, node, 2, 0);
		ext4_put_extent(f.disk, node, 0, 10, 2, DATA);
		ext4_put_extent(f.disk, node, 1, 13, 100, DATA + 3); /* up to the next node */
		for (unsigned i = 0; i < 20; i++)
			put_block(&f, DATA + i, 10 + i);
		open_file(&f, INODE);
		check_blocks(&f, 8, 13, 0x1fec);
		check_blocks(&f, 0, 10, 0);
		/* There is no node for what follows, also if it is read in one go. */
		g_autofree uint8_t *bytes = g_malloc(2 * BLOCK);
		g_assert_false(can_read(&f, 21));
		g_assert_false(vms_file_source_read(&f.file.source, 20 * BLOCK, bytes, 2 * BLOCK));
		/* Nodes are read once as long as no others are needed. */
		check_blocks(&f, 10, 1, 1);
		const uint64_t before = f.disk->reads;
		g_assert_true(vms_file_source_read(&f.file.source, 13 * BLOCK, bytes, 2 * BLOCK));
		g_assert_cmpuint(f.disk->reads - before, ==, 1);
		tear_down(&f);
	}
}

/* Nodes that are none, or of a wrong level, as in a loop. What is elsewhere can be read. */
static void test_damaged_nodes(void)
{
	for (unsigned damage = 0; damage < 8; damage++) {
		struct fixture f;
		put_file(&f, 100);
		ext4_put_node(f.disk, f.map, 2, 2);
		ext4_put_index(f.disk, f.map, 0, 0, 70);
		ext4_put_index(f.disk, f.map, 1, 50, 71);
		for (unsigned i = 0; i < 2; i++) {
			ext4_put_node(f.disk, (70 + i) * BLOCK, 1, 1);
			ext4_put_index(f.disk, (70 + i) * BLOCK, 0, i * 50, 80 + i);
			ext4_put_node(f.disk, (80 + i) * BLOCK, 1, 0);
			ext4_put_extent(f.disk, (80 + i) * BLOCK, 0, i * 50, 1, DATA + i);
			put_block(&f, DATA + i, i * 50);
		}
		switch (damage) {
		case 0: fake_disk_put_le(f.disk, 71 * BLOCK, 2, 0xf30b); break;
		case 1: ext4_put_node(f.disk, 71 * BLOCK, 1, 2); break;
		case 2: ext4_put_node(f.disk, 71 * BLOCK, 1, 0); break;
		case 3: ext4_put_index(f.disk, 71 * BLOCK, 0, 50, 71); break; /* itself */
		case 4: /* block 0, which is none of a file's whatever it has */
			ext4_put_index(f.disk, 71 * BLOCK, 0, 50, 0);
			ext4_put_node(f.disk, 0, 1, 0);
			ext4_put_extent(f.disk, 0, 0, 50, 1, DATA);
			break;
		case 5: ext4_put_index(f.disk, 71 * BLOCK, 0, 50, MIB / BLOCK); break;
		case 6: ext4_put_index(f.disk, 71 * BLOCK, 0, 50, UINT64_C(1) << 47); break;
		case 7:
			f.disk->lost_begin = 81 * BLOCK;
			f.disk->lost_end = 82 * BLOCK;
			break;
		}
		open_file(&f, INODE);
		for (unsigned i = 0; i < 2; i++) {
			check_blocks(&f, 0, 2, 1);
			g_assert_false(can_read(&f, 50));
		}
		tear_down(&f);
	}
}

/* A node that says it has more entries than there is room for. */
static void test_full_node(void)
{
	struct fixture f;
	put_file(&f, 10);
	ext4_put_node(f.disk, f.map, UINT16_MAX, 0);
	for (unsigned i = 0; i < 4; i++) {
		ext4_put_extent(f.disk, f.map, i, 2 * i, 1, DATA + i);
		put_block(&f, DATA + i, 2 * i);
	}
	/* This is behind the root; what there is of it would be an extent. */
	ext4_put_extent(f.disk, f.map, 4, 8, 1, DATA);
	open_file(&f, INODE);
	check_blocks(&f, 0, 10, 0x55);
	tear_down(&f);
}

/* ---- lists of blocks, of ext2 and ext3 ----------------------------------------- */

enum { PER_LIST = BLOCK / 4, ONE = 12, TWO = ONE + PER_LIST, THREE = TWO + PER_LIST * PER_LIST };

static void put_number(struct fixture *f, uint64_t list, uint64_t i, uint32_t block)
{
	fake_disk_put_le(f->disk, list + i * 4, 4, block);
}

/* The first and the last block of each list. */
static void test_lists(void)
{
	const uint64_t last = THREE + (uint64_t)PER_LIST * PER_LIST * PER_LIST - 1;
	const struct {
		uint64_t block;
		unsigned root;		  /* place in the inode */
		uint32_t lists[3], at[3]; /* blocks of lists, and places in them; 0: none */
	} cases[] = {
		{ 0, 0, { 0 }, { 0 } },
		{ 11, 11, { 0 }, { 0 } },
		{ ONE, 12, { 60 }, { 0 } },
		{ TWO - 1, 12, { 60 }, { 255 } },
		{ TWO, 13, { 61, 62 }, { 0, 0 } },
		{ TWO + 256, 13, { 61, 63 }, { 1, 0 } },
		{ THREE - 1, 13, { 61, 64 }, { 255, 255 } },
		{ TWO + 255 * 256, 13, { 61, 64 }, { 255, 0 } },
		{ THREE, 14, { 65, 66, 67 }, { 0, 0, 0 } },
		{ THREE + 256 * 256 + 256 + 1, 14, { 65, 68, 69 }, { 1, 1, 1 } },
		{ last, 14, { 65, 70, 71 }, { 255, 255, 255 } },
	};
	struct fixture f;
	set_up(&f, &usual);
	ext4_put_inode(f.disk, f.inode, (last + 2) * BLOCK, 0, 0);
	for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
		const uint32_t place = DATA + 10 * i;
		uint64_t list = f.map;
		uint32_t at = cases[i].root;
		for (unsigned level = 0; level < 3 && cases[i].lists[level]; level++) {
			put_number(&f, list, at, cases[i].lists[level]);
			list = (uint64_t)cases[i].lists[level] * BLOCK;
			at = cases[i].at[level];
		}
		put_number(&f, list, at, place);
		put_block(&f, place, (unsigned)cases[i].block);
	}
	open_file(&f, INODE);
	for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++)
		check_blocks(&f, cases[i].block, 1, 1);
	for (unsigned i = G_N_ELEMENTS(cases); i-- > 0;) /* others are kept in between */
		check_blocks(&f, cases[i].block, 1, 1);
	check_blocks(&f, 0, 13, 0x1801);
	check_blocks(&f, TWO - 2, 3, 6);
	check_blocks(&f, THREE - 2, 3, 6);
	check_blocks(&f, ONE + 10, 20, 0);
	check_blocks(&f, TWO + 2 * 256 - 3, 6, 0);   /* no list there, and then neither */
	check_blocks(&f, TWO + 255 * 256 - 3, 5, 8); /* up to one that is there */
	g_assert_false(can_read(&f, last + 1));	     /* what no list reaches */
	tear_down(&f);
}

/* Blocks that lie one behind the other are read at once; others are not taken for such. */
static void test_runs(void)
{
	static const uint32_t places[] = { 100, 101, 102, 0, 0, 103, 105, 104 };
	struct fixture f;
	set_up(&f, &usual);
	ext4_put_inode(f.disk, f.inode, 11 * BLOCK, 0, 0);
	for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
		put_number(&f, f.map, i, places[i]);
		if (places[i])
			put_block(&f, places[i], i);
	}
	put_number(&f, f.map, 9, 1); /* behind a hole: 0 and 1 are no blocks in a row */
	open_file(&f, INODE);
	check_blocks(&f, 0, 9, 0xe7);
	g_autofree uint8_t *bytes = g_malloc(3 * BLOCK);
	const uint64_t before = f.disk->reads;
	g_assert_true(vms_file_source_read(&f.file.source, 0, bytes, 3 * BLOCK));
	g_assert_cmpuint(f.disk->reads - before, ==, 1);
	g_assert_true(vms_file_source_read(&f.file.source, 8 * BLOCK, bytes, 2 * BLOCK));
	g_assert_cmpmem(bytes + BLOCK, BLOCK, f.disk->bytes + BLOCK, BLOCK);
	tear_down(&f);
}

static void test_damaged_lists(void)
{
	struct fixture f;
	set_up(&f, &usual);
	ext4_put_inode(f.disk, f.inode, (uint64_t)THREE * BLOCK, 0, 0);
	put_number(&f, f.map, 0, MIB / BLOCK);
	put_number(&f, f.map, 1, UINT32_MAX);
	put_number(&f, f.map, 2, DATA);
	put_number(&f, f.map, 12, MIB / BLOCK); /* the list is behind the disk */
	put_number(&f, f.map, 13, 60);
	put_number(&f, 60 * BLOCK, 0, UINT32_MAX);
	put_block(&f, DATA, 2);
	open_file(&f, INODE);
	g_assert_false(can_read(&f, 0));
	g_assert_false(can_read(&f, 1));
	check_blocks(&f, 2, 3, 1);
	g_assert_false(can_read(&f, ONE));
	g_assert_false(can_read(&f, TWO));
	check_blocks(&f, TWO + 256, 3, 0);
	tear_down(&f);
}

/* ---- budgets ---------------------------------------------------------------------- */

/* Nodes that are kept are paid for, and given back. */
static void test_memory(void)
{
	for (unsigned has_memory = 0; has_memory < 2; has_memory++) {
		g_autoptr(vms_budget) budget =
			fake_disk_budget(100000, has_memory ? 2 * BLOCK : 2 * BLOCK - 1);
		struct fixture f;
		put_file(&f, 10);
		f.disk->source.budget = budget;
		ext4_put_node(f.disk, f.map, 1, 2);
		ext4_put_index(f.disk, f.map, 0, 0, 70);
		ext4_put_node(f.disk, 70 * BLOCK, 1, 1);
		ext4_put_index(f.disk, 70 * BLOCK, 0, 0, 71);
		ext4_put_node(f.disk, 71 * BLOCK, 1, 0);
		ext4_put_extent(f.disk, 71 * BLOCK, 0, 0, 1, DATA);
		open_file(&f, INODE);
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
		g_assert_true(can_read(&f, 0) == has_memory);
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==,
				 (1 + has_memory) * BLOCK);
		tear_down(&f);
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
	}
}

/* To find blocks costs, also in files that are holes; and in lists, to look how long a hole is. */
static void test_steps(void)
{
	static const unsigned most[] = { 500, 120 }; /* by extents, and by lists */
	for (unsigned by_lists = 0; by_lists < 2; by_lists++) {
		g_autoptr(vms_budget) budget = fake_disk_budget(10000, MIB);
		struct fixture f;
		unsigned n = 0;
		put_file(&f, 1000);
		if (by_lists) {
			ext4_put_inode(f.disk, f.inode, 1000 * BLOCK, 0, 0);
			put_number(&f, f.map, 12, 60);
		} else {
			ext4_put_node(f.disk, f.map, 0, 0);
		}
		f.disk->source.budget = budget;
		open_file(&f, INODE);
		while (n < 10000 && can_read(&f, ONE + n % 100))
			n++;
		g_assert_cmpuint(n, >, 20);
		g_assert_cmpuint(n, <, most[by_lists]);
		g_assert_false(vms_budget_has_left(budget));
		tear_down(&f);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/ext4/layouts", test_layouts);
	g_test_add_func("/ext4/first-revision", test_first_revision);
	g_test_add_func("/ext4/superblocks", test_superblocks);
	g_test_add_func("/ext4/end", test_end);
	g_test_add_func("/ext4/inodes", test_inodes);
	g_test_add_func("/ext4/many-blocks", test_many_blocks);
	g_test_add_func("/ext4/extents", test_extents);
	g_test_add_func("/ext4/extents/lengths", test_lengths_of_extents);
	g_test_add_func("/ext4/extents/depth", test_depth_of_extents);
	g_test_add_func("/ext4/extents/damaged", test_damaged_nodes);
	g_test_add_func("/ext4/extents/full-node", test_full_node);
	g_test_add_func("/ext4/lists", test_lists);
	g_test_add_func("/ext4/lists/runs", test_runs);
	g_test_add_func("/ext4/lists/damaged", test_damaged_lists);
	g_test_add_func("/ext4/budget/memory", test_memory);
	g_test_add_func("/ext4/budget/steps", test_steps);
	return g_test_run();
}
