/* SPDX-License-Identifier: MIT */
#include "base/buffered_source.h"
#include <glib.h>
#include <string.h>

struct block {
	uint64_t offset;
	uint8_t *bytes; /* VMS_FILE_BLOCK of them; NULL: none was read yet */
};

struct buffered {
	struct vms_file_source source;
	struct block blocks[VMS_BUFFERED_BLOCKS]; /* at the block's number modulo their number */
};

/* Returns the block that begins at `offset`, or NULL if a byte of it is missing. */
static const uint8_t *get_block(struct buffered *buffered, uint64_t offset)
{
	struct block *block =
		&buffered->blocks[offset / VMS_FILE_BLOCK % G_N_ELEMENTS(buffered->blocks)];
	if (block->bytes && block->offset == offset)
		return block->bytes;
	if (!block->bytes)
		block->bytes = g_malloc(VMS_FILE_BLOCK);
	block->offset = offset;
	if (vms_file_source_read(&buffered->source, offset, block->bytes,
				 MIN(VMS_FILE_BLOCK, buffered->source.size - offset)))
		return block->bytes;
	g_clear_pointer(&block->bytes, g_free);
	return NULL;
}

static bool read_buffered(void *data, uint64_t offset, void *buf, size_t size)
{
	for (uint8_t *to = buf; size > 0;) {
		const size_t at = offset % VMS_FILE_BLOCK, part = MIN(size, VMS_FILE_BLOCK - at);
		const uint8_t *block = get_block(data, offset - at);
		if (!block)
			return false;
		memcpy(to, block + at, part);
		to += part;
		offset += part;
		size -= part;
	}
	return true;
}

static void free_buffered(void *data)
{
	struct buffered *buffered = data;
	for (size_t i = 0; i < G_N_ELEMENTS(buffered->blocks); i++)
		g_free(buffered->blocks[i].bytes);
	vms_file_source_clear(&buffered->source);
	g_free(buffered);
}

struct vms_file_source vms_file_source_buffered(const struct vms_file_source *source)
{
	struct buffered *buffered = g_new0(struct buffered, 1);
	buffered->source = *source;
	return (struct vms_file_source) {
		.size = source->size,
		.read = read_buffered,
		.free = free_buffered,
		.data = buffered,
	};
}
