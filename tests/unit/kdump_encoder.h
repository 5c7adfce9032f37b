/* SPDX-License-Identifier: MIT */
/*
 * Writes kdump-compressed files as makedumpfile's description of the format has them, apart from
 * the library's own knowledge of it.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

enum {
	KDUMP_RAW = 0,
	KDUMP_ZLIB = 1,
	KDUMP_LZO = 2,
	KDUMP_SNAPPY = 4,
	KDUMP_INCOMPLETE = 8,
	KDUMP_ZSTD = 0x20,
};

struct kdump_spec {
	uint32_t version; /* 1 to 6 */
	uint32_t block_size;
	uint32_t status; /* how pages are compressed, and other flags */
	/*
	 * What each page frame is: ' ' no memory, '-' left out, 'z' zeros, 't' text, 'n' noise,
	 * which does not shrink and is stored as it is.
	 */
	const char *pages;
	const char *machine; /* as utsname has it */
	uint32_t n_cpus;     /* from version 4 on, notes of that many */
	uint32_t split;
	const char *vmcoreinfo; /* from version 3 on; NULL: none */
};

/* Where parts of a file lie. */
struct kdump_places {
	uint64_t bitmaps, descriptors, data;
	size_t bitmap_size;
};

GByteArray *kdump_encode(const struct kdump_spec *spec, struct kdump_places *ret);
/* The content of page frame `pfn`, of kind `kind`. */
void kdump_page(char kind, uint64_t pfn, uint8_t *page, size_t size);
/* Integers at any place of a file. */
void kdump_put32(GByteArray *file, uint64_t offset, uint32_t value);
void kdump_put64(GByteArray *file, uint64_t offset, uint64_t value);
