/* SPDX-License-Identifier: MIT */
/*
 * Reads and decompresses pages, with a cache: walks of page tables and lists read the same few
 * pages again and again. The key is the offset of the data in the file, so the page that all zero
 * pages share is decompressed once.
 */
#include "machine/core/kdump_page.h"

#include <lzo1x.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#define CACHED_PAGES 256
#define CACHE_LOCKS  16

struct slot {
	uint64_t offset; /* of the page's data in the file; 0: empty */
	uint8_t *page;
};

/* The buffers of a thread that decompresses a page. */
struct decoder {
	ZSTD_DCtx *zstd; /* expensive to make */
	uint8_t *stored, *page;
};

struct vms_kdump_pages {
	const struct vms_core_file *file;
	size_t block_size;
	GAsyncQueue *decoders; /* unused ones */
	GMutex locks[CACHE_LOCKS];
	struct slot slots[CACHED_PAGES];
};

static void decoder_free(void *data)
{
	struct decoder *decoder = data;
	ZSTD_freeDCtx(decoder->zstd);
	g_free(decoder->stored);
	g_free(decoder->page);
	g_free(decoder);
}

static struct decoder *decoder_take(struct vms_kdump_pages *pages)
{
	struct decoder *decoder = g_async_queue_try_pop(pages->decoders);
	if (!decoder) {
		decoder = g_new(struct decoder, 1);
		*decoder = (struct decoder) { .zstd = ZSTD_createDCtx(),
					      .stored = g_malloc(pages->block_size),
					      .page = g_malloc(pages->block_size) };
	}
	return decoder;
}

struct vms_kdump_pages *vms_kdump_pages_new(const struct vms_core_file *file, size_t block_size)
{
	struct vms_kdump_pages *pages = g_new0(struct vms_kdump_pages, 1);
	pages->file = file;
	pages->block_size = block_size;
	pages->decoders = g_async_queue_new_full(decoder_free);
	for (unsigned i = 0; i < CACHE_LOCKS; i++)
		g_mutex_init(&pages->locks[i]);
	return pages;
}

void vms_kdump_pages_free(struct vms_kdump_pages *pages)
{
	if (!pages)
		return;
	g_async_queue_unref(pages->decoders);
	for (unsigned i = 0; i < CACHE_LOCKS; i++)
		g_mutex_clear(&pages->locks[i]);
	for (unsigned i = 0; i < CACHED_PAGES; i++)
		g_free(pages->slots[i].page);
	g_free(pages);
}

/* Decompresses `size` bytes at decoder->stored into a block at decoder->page. */
static bool decompress_page(const struct vms_kdump_pages *pages, struct decoder *decoder,
			    uint32_t flags, size_t size)
{
	const char *stored = (const char *)decoder->stored;
	size_t length = pages->block_size;

	switch (flags & VMS_KDUMP_COMPRESSIONS) {
	case 0: memcpy(decoder->page, stored, size); return size == pages->block_size;
	case VMS_KDUMP_ZLIB: {
		uLongf n = length;
		return uncompress(decoder->page, &n, decoder->stored, size) == Z_OK &&
		       n == pages->block_size;
	}
	case VMS_KDUMP_LZO: {
		lzo_uint n = length;
		return lzo1x_decompress_safe(decoder->stored, size, decoder->page, &n, NULL) ==
			       LZO_E_OK &&
		       n == pages->block_size;
	}
	case VMS_KDUMP_SNAPPY:
		return snappy_uncompress(stored, size, (char *)decoder->page, &length) ==
			       SNAPPY_OK &&
		       length == pages->block_size;
	case VMS_KDUMP_ZSTD:
		return decoder->zstd && ZSTD_decompressDCtx(decoder->zstd, decoder->page, length,
							    stored, size) == length;
	default: return false;
	}
}

static struct slot *get_slot(struct vms_kdump_pages *pages, uint64_t offset, GMutex **lock)
{
	unsigned i = (unsigned)(offset * UINT64_C(0x9e3779b97f4a7c15) >> 32) % CACHED_PAGES;
	*lock = &pages->locks[i % CACHE_LOCKS];
	return &pages->slots[i];
}

static bool read_cached(struct vms_kdump_pages *pages, uint64_t offset, size_t at, void *buf,
			size_t size)
{
	GMutex *lock;
	struct slot *slot = get_slot(pages, offset, &lock);
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(lock);
	if (slot->offset != offset)
		return false;
	memcpy(buf, slot->page + at, size);
	return true;
}

static void cache_page(struct vms_kdump_pages *pages, uint64_t offset, const uint8_t *page)
{
	GMutex *lock;
	struct slot *slot = get_slot(pages, offset, &lock);
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(lock);
	if (!slot->page)
		slot->page = g_malloc(pages->block_size);
	slot->offset = offset;
	memcpy(slot->page, page, pages->block_size);
}

bool vms_kdump_page_descriptor(const struct vms_core_file *file, uint64_t descriptor,
			       struct vms_kdump_page *ret)
{
	if (!vms_core_file_read(file, descriptor, ret, sizeof(*ret)))
		return false;
	ret->offset = GUINT64_FROM_LE(ret->offset);
	ret->size = GUINT32_FROM_LE(ret->size);
	ret->flags = GUINT32_FROM_LE(ret->flags);
	ret->page_flags = GUINT64_FROM_LE(ret->page_flags);
	return true;
}

bool vms_kdump_page_read(struct vms_kdump_pages *pages, uint64_t descriptor, size_t at, void *buf,
			 size_t size)
{
	struct vms_kdump_page page;

	if (!vms_kdump_page_descriptor(pages->file, descriptor, &page) || page.offset == 0 ||
	    page.size > pages->block_size)
		return false;
	if (read_cached(pages, page.offset, at, buf, size))
		return true;

	struct decoder *decoder = decoder_take(pages);
	bool read = vms_core_file_read(pages->file, page.offset, decoder->stored, page.size) &&
		    decompress_page(pages, decoder, page.flags, page.size);
	if (read) {
		memcpy(buf, decoder->page + at, size);
		cache_page(pages, page.offset, decoder->page);
	}
	g_async_queue_push(pages->decoders, decoder);
	return read;
}
