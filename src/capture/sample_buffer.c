/* SPDX-License-Identifier: MIT */
/*
 * A ring of bytes. `written` is increased after a whole record, so a reader never sees a part of
 * one. A record may lie partly at the end and partly at the begin.
 */
#include "capture/sample_buffer.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <vmscope/error.h>

/* The limit of bytes to append at once: a GByteArray counts them in 32 bits. */
#define PIECE (UINT64_C(1) << 20)

bool vms_sample_buffer_init(struct vms_sample_buffer *buffer, uint64_t size, GError **error)
{
	*buffer = (struct vms_sample_buffer) { .size = size };
	buffer->data = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buffer->data != MAP_FAILED)
		return true;
	buffer->data = NULL;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
		    "cannot get %" G_GUINT64_FORMAT
		    " bytes for the samples of a CPU: %s; try a smaller buffer",
		    size, g_strerror(errno));
	return false;
}

void vms_sample_buffer_clear(struct vms_sample_buffer *buffer)
{
	if (buffer->data)
		munmap(buffer->data, buffer->size);
	buffer->data = NULL;
}

bool vms_sample_buffer_put(struct vms_sample_buffer *buffer, const void *record, uint64_t size)
{
	const uint64_t written = atomic_load_explicit(&buffer->written, memory_order_relaxed);
	const uint64_t read = atomic_load_explicit(&buffer->read, memory_order_acquire);
	if (size > buffer->size - (written - read)) {
		atomic_fetch_add_explicit(&buffer->lost, 1, memory_order_relaxed);
		return false;
	}
	const uint64_t at = written % buffer->size;
	const uint64_t first = MIN(size, buffer->size - at);
	memcpy(buffer->data + at, record, first);
	memcpy(buffer->data, (const uint8_t *)record + first, size - first);
	atomic_store_explicit(&buffer->written, written + size, memory_order_release);
	atomic_fetch_add_explicit(&buffer->kept, 1, memory_order_relaxed);
	return true;
}

void vms_sample_buffer_drain(struct vms_sample_buffer *buffer, GByteArray *out)
{
	const uint64_t written = atomic_load_explicit(&buffer->written, memory_order_acquire);
	uint64_t read = atomic_load_explicit(&buffer->read, memory_order_relaxed);
	while (read < written) {
		const uint64_t at = read % buffer->size;
		const uint64_t size = MIN(MIN(written - read, buffer->size - at), PIECE);
		g_byte_array_append(out, buffer->data + at, (guint)size);
		read += size;
		atomic_store_explicit(&buffer->read, read, memory_order_release);
	}
}
