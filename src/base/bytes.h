/* SPDX-License-Identifier: MIT */
/* Bounded reading of bytes that are not trusted: from a guest, a file or a peer. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A block of bytes, which somebody else owns. */
struct vms_bytes {
	const uint8_t *data;
	size_t size;
};

/* True if all of [offset, offset + size) lies inside the block. */
static inline bool vms_bytes_has(struct vms_bytes bytes, uint64_t offset, uint64_t size)
{
	return offset <= bytes.size && size <= bytes.size - offset;
}

/* Gives the part [offset, offset + size). False if it does not lie inside the block. */
static inline bool vms_bytes_slice(struct vms_bytes bytes, uint64_t offset, uint64_t size,
				   struct vms_bytes *ret)
{
	if (!vms_bytes_has(bytes, offset, size))
		return false;
	*ret = (struct vms_bytes) { bytes.data ? bytes.data + offset : NULL, size };
	return true;
}

/* Read a little-endian integer at any alignment. False if it does not lie inside the block. */
#define VMS_BYTES_GETTER(bits, convert)                                                            \
	static inline bool vms_bytes_u##bits(struct vms_bytes bytes, uint64_t offset,              \
					     uint##bits##_t *ret)                                  \
	{                                                                                          \
		if (!vms_bytes_has(bytes, offset, sizeof(*ret)))                                   \
			return false;                                                              \
		memcpy(ret, bytes.data + offset, sizeof(*ret));                                    \
		*ret = convert(*ret);                                                              \
		return true;                                                                       \
	}
VMS_BYTES_GETTER(8, (uint8_t))
VMS_BYTES_GETTER(16, GUINT16_FROM_LE)
VMS_BYTES_GETTER(32, GUINT32_FROM_LE)
VMS_BYTES_GETTER(64, GUINT64_FROM_LE)
#undef VMS_BYTES_GETTER
