/* SPDX-License-Identifier: MIT */
/*
 * Where the bytes of a file come from: a guest's page cache, the memory of a process, or a file of
 * this host. Parts of it may be missing. All bytes are hostile.
 */
#pragma once

#include "base/budget.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unit in which parts of a file are present or missing, whatever the guest's page size is. */
#define VMS_FILE_BLOCK 4096

struct vms_file_source {
	uint64_t size; /* bytes */
	/*
	 * Reads [offset, offset + size), which lies inside the file. False if any byte of it is
	 * missing. Only one thread at a time.
	 */
	bool (*read)(void *data, uint64_t offset, void *buf, size_t size);
	void (*free)(void *data); /* may be NULL */
	void *data;
	/* Pays for reading, and for interpreting what was read. Not owned; NULL: it is ours. */
	struct vms_budget *budget;
};

/*
 * Reads [offset, offset + size). False if any byte is missing or lies outside the file, or the
 * budget is used up.
 */
bool vms_file_source_read(const struct vms_file_source *source, uint64_t offset, void *buf,
			  size_t size);
/*
 * Reads what is present of [offset, offset + size), block by block, and fills the rest with zeros.
 * `has`, which may be NULL, gets one byte for each block of the file that the range touches: 1 if
 * it is present. Returns the number of blocks that are missing; `*first` is the offset of the first
 * of them.
 */
size_t vms_file_source_read_present(const struct vms_file_source *source, uint64_t offset,
				    uint8_t *buf, size_t size, uint8_t *has, uint64_t *first);

/* Makes a source of a block of memory, which it takes, and frees with g_free. */
struct vms_file_source vms_file_source_of_memory(uint8_t *bytes, size_t size);
/* Makes a source of a file of this host. Takes the descriptor. False if its size is not known. */
bool vms_file_source_of_fd(int fd, struct vms_file_source *ret);
void vms_file_source_clear(struct vms_file_source *source);
