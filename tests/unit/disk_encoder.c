/* SPDX-License-Identifier: MIT */
/*
 * The layouts: Linux, Documentation/filesystems/ext4/; lvm2, lib/label/label.h and
 * lib/format_text/layout.h.
 */
#include "disk_encoder.h"
#include <string.h>

#define ENTRY_SIZE 12
#define SECTOR	   512
#define AREA_AT	   4096
#define AREA_SIZE  (16u << 10)

/* ---- ext4 ------------------------------------------------------------------ */

/* The descriptors of groups are in the block behind that of the superblock, which is at 1024. */
static uint64_t get_descriptors(const struct ext4_layout *layout)
{
	return layout->block_size == 1024 ? 2048 : layout->block_size;
}

/* The first block of the inodes of the first group. */
static uint64_t get_table(const struct ext4_layout *layout)
{
	return layout->block_size == 1024 ? 3 : 2;
}

static uint64_t get_table_blocks(const struct ext4_layout *layout)
{
	return (EXT4_INODES * layout->inode_size + layout->block_size - 1) / layout->block_size;
}

void ext4_put(struct fake_disk *disk, const struct ext4_layout *layout, uint8_t uuid,
	      uint64_t table)
{
	const uint64_t super = layout->offset + 1024;
	unsigned log_size = 0;
	while (1024u << log_size < layout->block_size)
		log_size++;
	fake_disk_put_le(disk, super, 4, 2 * EXT4_INODES);
	fake_disk_put_le(disk, super + 24, 4, log_size);
	fake_disk_put_le(disk, super + 40, 4, EXT4_INODES);
	fake_disk_put_le(disk, super + 56, 2, 0xef53);
	fake_disk_put_le(disk, super + 76, 4, layout->revision);
	fake_disk_put_le(disk, super + 88, 2, layout->inode_size);
	fake_disk_put_le(disk, super + 96, 4, layout->incompat);
	memset(disk->bytes + super + 104, uuid, 16);
	fake_disk_put_le(disk, super + 254, 2, layout->descriptor_size);
	for (unsigned group = 0; group < 2; group++) {
		const uint64_t at = layout->offset + get_descriptors(layout) +
				    group * (layout->descriptor_size ?: 32);
		const uint64_t block =
			(table ?: get_table(layout)) + group * get_table_blocks(layout);
		fake_disk_put_le(disk, at + 8, 4, block & UINT32_MAX);
		if (layout->descriptor_size >= 64)
			fake_disk_put_le(disk, at + 40, 4, block >> 32);
	}
}

uint64_t ext4_inode(const struct ext4_layout *layout, unsigned number)
{
	const unsigned group = (number - 1) / EXT4_INODES, index = (number - 1) % EXT4_INODES;
	return layout->offset +
	       (get_table(layout) + group * get_table_blocks(layout)) * layout->block_size +
	       index * layout->inode_size;
}

void ext4_put_inode(struct fake_disk *disk, uint64_t at, uint64_t size, uint32_t flags,
		    uint32_t change_s)
{
	fake_disk_put_le(disk, at, 2, 0x81a4); /* a regular file, rw-r--r-- */
	fake_disk_put_le(disk, at + 4, 4, size & UINT32_MAX);
	fake_disk_put_le(disk, at + 12, 4, change_s);
	fake_disk_put_le(disk, at + 32, 4, flags);
	fake_disk_put_le(disk, at + 108, 4, size >> 32);
}

void ext4_put_fs(struct fake_disk *disk, uint64_t offset, uint8_t uuid, unsigned seed)
{
	const struct ext4_layout layout = { .offset = offset,
					    .block_size = 1024,
					    .inode_size = 256,
					    .descriptor_size = 32,
					    .revision = 1,
					    .incompat = 0x40 };
	const uint64_t inode = ext4_inode(&layout, EXT4_FILE), map = inode + 40;
	ext4_put(disk, &layout, uuid, 0);
	ext4_put_inode(disk, inode, EXT4_FILE_SIZE, 0x80000, EXT4_FILE_CHANGE);
	ext4_put_node(disk, map, 1, 0);
	ext4_put_extent(disk, map, 0, 0, 3, EXT4_FILE_DATA / 1024);
	fake_disk_fill(disk, offset + EXT4_FILE_DATA, EXT4_FILE_SIZE, seed);
}

void ext4_put_node(struct fake_disk *disk, uint64_t at, unsigned n_entries, unsigned depth)
{
	fake_disk_put_le(disk, at, 2, 0xf30a);
	fake_disk_put_le(disk, at + 2, 2, n_entries);
	fake_disk_put_le(disk, at + 6, 2, depth);
}

void ext4_put_extent(struct fake_disk *disk, uint64_t node_at, unsigned i, uint32_t first,
		     uint32_t length, uint64_t place)
{
	const uint64_t at = node_at + (1 + i) * ENTRY_SIZE;
	fake_disk_put_le(disk, at, 4, first);
	fake_disk_put_le(disk, at + 4, 2, length);
	fake_disk_put_le(disk, at + 6, 2, place >> 32);
	fake_disk_put_le(disk, at + 8, 4, place & UINT32_MAX);
}

void ext4_put_index(struct fake_disk *disk, uint64_t node_at, unsigned i, uint32_t first,
		    uint64_t node)
{
	const uint64_t at = node_at + (1 + i) * ENTRY_SIZE;
	fake_disk_put_le(disk, at, 4, first);
	fake_disk_put_le(disk, at + 4, 4, node & UINT32_MAX);
	fake_disk_put_le(disk, at + 8, 2, node >> 32);
}

/* ---- LVM -------------------------------------------------------------------- */

void lvm_put_text(struct fake_disk *disk, uint64_t area, uint64_t size, uint64_t at,
		  const char *text)
{
	const size_t length = strlen(text), first = MIN(length, size - at);
	fake_disk_put(disk, area + 4, " LVM2 x[5A%r0N*>", 16);
	fake_disk_put_le(disk, area + 40, 8, at);
	fake_disk_put_le(disk, area + 48, 8, length);
	fake_disk_put(disk, area + at, text, first);
	fake_disk_put(disk, area + SECTOR, text + first, length - first);
}

void lvm_put_volume(struct fake_disk *disk, uint64_t part, unsigned sector, char id,
		    const char *text)
{
	const uint64_t label = part + sector * SECTOR;
	fake_disk_put(disk, label, "LABELONE", 8);
	fake_disk_put_le(disk, label + 20, 4, 32); /* where its header is */
	fake_disk_put(disk, label + 24, "LVM2 001", 8);
	memset(disk->bytes + label + 32, id, 32);
	fake_disk_put_le(disk, label + 72, 8, AREA_AT + AREA_SIZE); /* its data, up to the end */
	/* Nothing ends the list of data; then there are areas of metadata. */
	if (text) {
		fake_disk_put_le(disk, label + 104, 8, AREA_AT);
		fake_disk_put_le(disk, label + 112, 8, AREA_SIZE);
		lvm_put_text(disk, part + AREA_AT, AREA_SIZE, SECTOR, text);
	}
}
