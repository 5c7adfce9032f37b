/* SPDX-License-Identifier: MIT */
#include "kdump_encoder.h"

#include <lzo1x.h>
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

void kdump_put32(GByteArray *file, uint64_t offset, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	memcpy(file->data + offset, &value, sizeof(value));
}

void kdump_put64(GByteArray *file, uint64_t offset, uint64_t value)
{
	value = GUINT64_TO_LE(value);
	memcpy(file->data + offset, &value, sizeof(value));
}

static void put_text(GByteArray *file, uint64_t offset, const char *text)
{
	memcpy(file->data + offset, text, strlen(text));
}

/* Lengthens the file by zeros; where they begin. */
static uint64_t grow(GByteArray *file, uint64_t size)
{
	uint64_t at = file->len;
	g_byte_array_set_size(file, (guint)(at + size));
	memset(file->data + at, 0, size);
	return at;
}

void kdump_page(char kind, uint64_t pfn, uint8_t *page, size_t size)
{
	uint64_t noise = pfn * 2654435761U + 1;
	for (size_t i = 0; i < size; i++) {
		noise = noise * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		page[i] = kind == 't'	? (uint8_t)("vmscope"[i % 7] + pfn % 16)
			  : kind == 'n' ? (uint8_t)(noise >> 56)
					: 0;
	}
}

/* Returns the size of the compressed page in `to`. */
static size_t compress_page(uint32_t compression, const uint8_t *page, size_t size, uint8_t *to,
			    size_t room)
{
	g_autofree uint8_t *work = g_malloc(LZO1X_1_MEM_COMPRESS);
	size_t snappy_size = room;
	uLongf zlib_size = room;
	lzo_uint lzo_size = room;

	switch (compression) {
	case KDUMP_ZLIB: compress2(to, &zlib_size, page, size, 6); return zlib_size;
	case KDUMP_LZO: lzo1x_1_compress(page, size, to, &lzo_size, work); return lzo_size;
	case KDUMP_SNAPPY:
		snappy_compress((const char *)page, size, (char *)to, &snappy_size);
		return snappy_size;
	case KDUMP_ZSTD: return ZSTD_compress(to, room, page, size, 3);
	default: memcpy(to, page, size); return size;
	}
}

static void add_page(GByteArray *file, const struct kdump_spec *spec, uint64_t descriptor,
		     uint64_t pfn)
{
	size_t room = spec->block_size * 2 + 1024;
	g_autofree uint8_t *page = g_malloc(spec->block_size), *packed = g_malloc(room);
	uint32_t compression = spec->status & ~(uint32_t)KDUMP_INCOMPLETE;

	if (spec->pages[pfn] == 'n')
		compression = KDUMP_RAW;
	kdump_page(spec->pages[pfn], pfn, page, spec->block_size);
	size_t size = compress_page(compression, page, spec->block_size, packed, room);
	uint64_t at = grow(file, size);
	memcpy(file->data + at, packed, size);
	kdump_put64(file, descriptor, at);
	kdump_put32(file, descriptor + 8, (uint32_t)size);
	kdump_put32(file, descriptor + 12, compression);
}

/* NT_PRSTATUS of x86-64 for each CPU: thread 100 + CPU, rip 0x1000 + CPU. */
static uint64_t put_notes(GByteArray *file, uint64_t at, uint32_t n_cpus)
{
	uint64_t begin = at;
	for (uint32_t cpu = 0; cpu < n_cpus; cpu++, at += 20 + 336) {
		kdump_put32(file, at, 5);
		kdump_put32(file, at + 4, 336);
		kdump_put32(file, at + 8, 1);
		put_text(file, at + 12, "CORE");
		kdump_put32(file, at + 20 + 32, 100 + cpu);
		kdump_put64(file, at + 20 + 112 + 16 * 8, 0x1000 + cpu);
	}
	return at - begin;
}

static void put_sub_header(GByteArray *file, const struct kdump_spec *spec, uint64_t n_pfns)
{
	uint64_t sub = spec->block_size, at = sub + 104;

	kdump_put32(file, sub + 8, 31);
	kdump_put32(file, sub + 12, spec->split);
	if (spec->version >= 3 && spec->vmcoreinfo) {
		put_text(file, at, spec->vmcoreinfo);
		kdump_put64(file, sub + 32, at);
		kdump_put64(file, sub + 40, strlen(spec->vmcoreinfo));
		at += strlen(spec->vmcoreinfo);
	}
	if (spec->version >= 4) {
		kdump_put64(file, sub + 48, at);
		kdump_put64(file, sub + 56, put_notes(file, at, spec->n_cpus));
	}
	if (spec->version >= 6)
		kdump_put64(file, sub + 96, n_pfns);
}

GByteArray *kdump_encode(const struct kdump_spec *spec, struct kdump_places *ret)
{
	GByteArray *file = g_byte_array_new();
	uint32_t block = spec->block_size, n_pages = 0;
	uint64_t n_pfns = strlen(spec->pages);
	size_t bitmap = (n_pfns / 8 + block) / block * block;

	grow(file, 2 * (uint64_t)block);
	put_text(file, 0, "KDUMP   ");
	kdump_put32(file, 8, spec->version);
	put_text(file, 12, "Linux");
	put_text(file, 12 + 65, "host\033[31m");
	put_text(file, 12 + 2 * 65, "6.1.0-test");
	put_text(file, 12 + 4 * 65, spec->machine);
	kdump_put32(file, 424, spec->status);
	kdump_put32(file, 428, block);
	kdump_put32(file, 432, 1);
	kdump_put32(file, 436, (uint32_t)(2 * bitmap / block));
	kdump_put32(file, 440, spec->version >= 6 ? 0 : (uint32_t)n_pfns);
	kdump_put32(file, 460, spec->n_cpus);
	put_sub_header(file, spec, n_pfns);

	*ret = (struct kdump_places) { .bitmaps = grow(file, 2 * bitmap), .bitmap_size = bitmap };
	for (uint64_t pfn = 0; pfn < n_pfns; pfn++) {
		if (spec->pages[pfn] != ' ')
			file->data[ret->bitmaps + pfn / 8] |= (uint8_t)(1U << pfn % 8);
		if (!strchr(" -", spec->pages[pfn])) {
			file->data[ret->bitmaps + bitmap + pfn / 8] |= (uint8_t)(1U << pfn % 8);
			n_pages++;
		}
	}
	ret->descriptors = grow(file, UINT64_C(24) * n_pages);
	ret->data = file->len;
	for (uint64_t pfn = 0, n = 0; pfn < n_pfns; pfn++) {
		if (!strchr(" -", spec->pages[pfn]))
			add_page(file, spec, ret->descriptors + 24 * n++, pfn);
	}
	return file;
}
