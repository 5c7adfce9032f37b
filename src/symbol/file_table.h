/* SPDX-License-Identifier: MIT */
/* A part of a file, read as a whole, of which some blocks may be missing. */
#pragma once

#include "base/file_source.h"

struct vms_file_table {
	/* Missing blocks are zeros, and a zero follows the last byte. NULL: nothing could be read.
	 */
	uint8_t *bytes;
	uint8_t *has;	 /* see vms_file_source_read_present */
	uint64_t offset; /* in the file */
	uint64_t size;
	bool is_whole;
};

/* Reads [offset, offset + size) of a file. The caller has checked the size against a limit. */
void vms_file_table_read(const struct vms_file_source *source, uint64_t offset, uint64_t size,
			 struct vms_file_table *ret);
void vms_file_table_clear(struct vms_file_table *table);
/* True if [at, at + size) of the table was read. `size` is shorter than a block, and not 0. */
bool vms_file_table_has(const struct vms_file_table *table, uint64_t at, uint64_t size);
/* Gets a text at `at` that is shorter than `limit`. NULL if it is empty, or not all there. */
const char *vms_file_table_text(const struct vms_file_table *table, uint64_t at, size_t limit);
