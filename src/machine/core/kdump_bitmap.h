/* SPDX-License-Identifier: MIT */
/*
 * The two bitmaps of a kdump file. They have a bit for every page frame up to the highest one. For
 * a large machine they are large and mostly empty, so they are read in chunks. Only the number of
 * pages before each chunk is kept in memory: it leads from a page frame to its descriptor.
 */
#pragma once

#include "machine/core/core_file.h"

#define VMS_KDUMP_CHUNK_PFNS  8192
#define VMS_KDUMP_CHUNK_BYTES (VMS_KDUMP_CHUNK_PFNS / 8)
#define VMS_KDUMP_CHUNK_WORDS (VMS_KDUMP_CHUNK_PFNS / 64)

struct vms_kdump_bitmaps {
	const struct vms_core_file *file;
	uint64_t n_pfns;
	uint64_t in_memory, in_file; /* offsets of the bitmaps in `file` */

	/* From vms_kdump_bitmaps_scan. */
	uint64_t *pages_before; /* pages in the file before each chunk; last, before the end */
	uint64_t n_pages;	/* pages in the file */
	uint64_t n_left_out;	/* pages in memory, but not in the file */
	uint64_t n_stray;	/* pages in the file, but not in memory */
};

/* The bits of a chunk. Bits behind the last page frame are 0. */
struct vms_kdump_chunk {
	uint64_t index; /* VMS_KDUMP_NO_CHUNK: nothing is loaded */
	uint64_t in_memory[VMS_KDUMP_CHUNK_WORDS], in_file[VMS_KDUMP_CHUNK_WORDS];
};
#define VMS_KDUMP_NO_CHUNK G_MAXUINT64

/*
 * Reads both bitmaps once, counts pages, and calls `each_run` for every run of page frames
 * [pfn, end) that are in memory or in the file. Errors: MALFORMED (a part of the bitmaps is not in
 * the file).
 */
bool vms_kdump_bitmaps_scan(struct vms_kdump_bitmaps *bitmaps,
			    void (*each_run)(uint64_t pfn, uint64_t end, void *data), void *data,
			    GError **error);
void vms_kdump_bitmaps_clear(struct vms_kdump_bitmaps *bitmaps);

/* Loads the chunk of `pfn`, which must be less than n_pfns. False if it cannot be read. */
bool vms_kdump_chunk_load(const struct vms_kdump_bitmaps *bitmaps, uint64_t pfn,
			  struct vms_kdump_chunk *chunk);

enum vms_kdump_place {
	VMS_KDUMP_NO_MEMORY,
	VMS_KDUMP_LEFT_OUT,
	VMS_KDUMP_IN_FILE,
};
/* Returns where a page frame of a chunk is. If in the file, sets the number of its descriptor. */
enum vms_kdump_place vms_kdump_place(const struct vms_kdump_bitmaps *bitmaps,
				     const struct vms_kdump_chunk *chunk, uint64_t pfn,
				     uint64_t *descriptor);
/*
 * Finds the first run [*begin, *stop) of page frames of [pfn, end) that are in the file, or the
 * first part of it. *begin is `end` if there is none. False if the bitmaps cannot be read.
 */
bool vms_kdump_next_pages(const struct vms_kdump_bitmaps *bitmaps, struct vms_kdump_chunk *chunk,
			  uint64_t pfn, uint64_t end, uint64_t *begin, uint64_t *stop);
