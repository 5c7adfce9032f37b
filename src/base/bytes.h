/* SPDX-License-Identifier: MIT */
/* Bounded reading of bytes that are not trusted: from a guest, a file or a peer. */
#pragma once

#include "base/budget.h"
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A block of bytes, which somebody else owns. To read an integer of it is one step. */
struct vms_bytes {
	const uint8_t *data;
	size_t size;
	struct vms_budget *budget; /* not owned; NULL: the bytes are ours */
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
	*ret = (struct vms_bytes) { bytes.data ? bytes.data + offset : NULL, size, bytes.budget };
	return true;
}

/*
 * Read a little-endian integer at any alignment. False, and 0, if it does not lie inside the block,
 * or the budget is used up.
 */
#define VMS_BYTES_GETTER(bits, convert)                                                            \
	static inline bool vms_bytes_u##bits(struct vms_bytes bytes, uint64_t offset,              \
					     uint##bits##_t *ret)                                  \
	{                                                                                          \
		*ret = 0;                                                                          \
		if (!vms_bytes_has(bytes, offset, sizeof(*ret)) ||                                 \
		    !vms_budget_step(bytes.budget, 1))                                             \
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
