/* SPDX-License-Identifier: MIT */
/*
 * Where the bytes of a file come from: a guest's page cache, the memory of a process, or a file of
 * this host. Parts of it may be missing. All bytes are hostile.
 */
#pragma once

#include "base/foreign_file.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unit in which parts of a file are present or missing, whatever the guest's page size is. */
#define VMS_FILE_BLOCK 4096
/* Bytes that can be fetched at once. */
#define VMS_FILE_FETCH (64u << 10)

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
	/*
	 * Brings what is missing of [offset, offset + size) from where it must be waited for, as
	 * from a disk: it can be read for a while then. `size` is at most VMS_FILE_FETCH. False if
	 * it does not come. For any thread, also while others read. NULL: nothing can be fetched.
	 */
	bool (*fetch)(void *data, uint64_t offset, size_t size);
};

/*
 * Reads [offset, offset + size). False if any byte is missing or lies outside the file, or the
 * budget is used up.
 */
bool vms_file_source_read(const struct vms_file_source *source, uint64_t offset, void *buf,
			  size_t size);
/*
 * As vms_file_source_read, for a source that is made of this one: the bytes were paid for by who
 * reads that one, so that only the call is counted.
 */
bool vms_file_source_read_part(const struct vms_file_source *source, uint64_t offset, void *buf,
			       size_t size);
/* As vms_file_source_read, but fetches what is missing. */
bool vms_file_source_read_waiting(const struct vms_file_source *source, uint64_t offset, void *buf,
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
/* Makes a source of a file that somebody else named, which it takes, on a budget. */
struct vms_file_source vms_file_source_of_foreign(struct vms_foreign_file *file,
						  struct vms_budget *budget);
void vms_file_source_clear(struct vms_file_source *source);
