/* SPDX-License-Identifier: MIT */
/*
 * The two bitmaps of a kdump file. They have a bit for every page frame up to the highest, so those
 * of a large machine are large, and mostly empty: they stay in the file and are read in chunks.
 * Kept in memory is only how many pages come before each chunk, which leads from a page frame to
 * its descriptor.
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
	uint64_t *pages_before; /* of each chunk and, last, of the end: pages in the file */
	uint64_t n_pages;	/* in the file */
	uint64_t n_left_out;	/* in memory, but not in the file */
	uint64_t n_stray;	/* in the file, but not in memory */
};

/* The bits of a chunk; those behind the last page frame are 0. */
struct vms_kdump_chunk {
	uint64_t index; /* VMS_KDUMP_NO_CHUNK: nothing is loaded */
	uint64_t in_memory[VMS_KDUMP_CHUNK_WORDS], in_file[VMS_KDUMP_CHUNK_WORDS];
};
#define VMS_KDUMP_NO_CHUNK G_MAXUINT64

/*
 * Reads both bitmaps once, counts, and calls `each_run` for every run of page frames [pfn, end)
 * that are in memory or in the file. Errors: MALFORMED (the bitmaps are not all in the file).
 */
bool vms_kdump_bitmaps_scan(struct vms_kdump_bitmaps *bitmaps,
			    void (*each_run)(uint64_t pfn, uint64_t end, void *data), void *data,
			    GError **error);
void vms_kdump_bitmaps_clear(struct vms_kdump_bitmaps *bitmaps);

/* Makes `chunk` that of `pfn`, which must be less than n_pfns. False: it cannot be read. */
bool vms_kdump_chunk_load(const struct vms_kdump_bitmaps *bitmaps, uint64_t pfn,
			  struct vms_kdump_chunk *chunk);

enum vms_kdump_place {
	VMS_KDUMP_NO_MEMORY,
	VMS_KDUMP_LEFT_OUT,
	VMS_KDUMP_IN_FILE,
};
/* Where a page frame of a chunk is, and the number of its descriptor where it is in the file. */
enum vms_kdump_place vms_kdump_place(const struct vms_kdump_bitmaps *bitmaps,
				     const struct vms_kdump_chunk *chunk, uint64_t pfn,
				     uint64_t *descriptor);
/*
 * The first run [*begin, *stop) of page frames of [pfn, end) that are in the file, or a part of it.
 * *begin is `end` where there is none. False: the bitmaps cannot be read.
 */
bool vms_kdump_next_pages(const struct vms_kdump_bitmaps *bitmaps, struct vms_kdump_chunk *chunk,
			  uint64_t pfn, uint64_t end, uint64_t *begin, uint64_t *stop);
