/* SPDX-License-Identifier: MIT */
/* What disks hold: structures of ext4 and LVM, for tests of those who read them. */
#pragma once

#include "fake_disk.h"

/* ---- ext4 ------------------------------------------------------------------ */

#define EXT4_INODES 8 /* per group */

struct ext4_layout {
	uint64_t offset;     /* of the file system on the disk */
	uint32_t block_size; /* 1024 << n */
	uint16_t inode_size, descriptor_size;
	uint32_t incompat, revision;
};

/* Puts a superblock, and two groups, whose inodes are in blocks from `table` on; 0: the usual ones.
 */
void ext4_put(struct fake_disk *disk, const struct ext4_layout *layout, uint8_t uuid,
	      uint64_t table);
/* The offset of an inode on the disk, if the table is where it usually is. */
uint64_t ext4_inode(const struct ext4_layout *layout, unsigned number);
/* Puts an inode of a regular file. `flags`: i_flags. */
void ext4_put_inode(struct fake_disk *disk, uint64_t at, uint64_t size, uint32_t flags,
		    uint32_t change_s);

/* Puts a file system of small blocks at an offset, with one file, whose content is that of a seed.
 */
#define EXT4_FILE	 3
#define EXT4_FILE_SIZE	 3000
#define EXT4_FILE_DATA	 (100 * 1024) /* where its content is */
#define EXT4_FILE_CHANGE 1234
#define EXT4_FS_SIZE	 (128u << 10)
void ext4_put_fs(struct fake_disk *disk, uint64_t offset, uint8_t uuid, unsigned seed);

/* A node of a tree of extents: its header, and then its entries of 12 bytes. */
void ext4_put_node(struct fake_disk *disk, uint64_t at, unsigned n_entries, unsigned depth);
void ext4_put_extent(struct fake_disk *disk, uint64_t node_at, unsigned i, uint32_t first,
		     uint32_t length, uint64_t place);
void ext4_put_index(struct fake_disk *disk, uint64_t node_at, unsigned i, uint32_t first,
		    uint64_t node);

/* ---- LVM -------------------------------------------------------------------- */

/*
 * Puts the label of a physical volume, in sector `sector` of a part of a disk, whose id is 32 times
 * a letter, and a text in a metadata area at 4096, which is of 16 KiB. NULL: it has no text.
 */
void lvm_put_volume(struct fake_disk *disk, uint64_t part, unsigned sector, char id,
		    const char *text);
/* Puts a text in the area at `area` of a part, at an offset of it; what does not fit goes round. */
void lvm_put_text(struct fake_disk *disk, uint64_t area, uint64_t size, uint64_t at,
		  const char *text);
