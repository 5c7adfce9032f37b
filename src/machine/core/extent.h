/* SPDX-License-Identifier: MIT */
/*
 * Extents say which part of a file has which addresses. They are sorted and have no overlaps, even
 * if the file's own table has.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define VMS_EXTENT_ZEROS UINT64_MAX /* as a file offset: not in the file, all zeros */

/* The bytes of [at, at + size) are at `file_offset`. Neither sum overflows. */
struct vms_extent {
	uint64_t at, size;
	uint64_t file_offset;
	uint32_t rank; /* of several extents with an address, the one with the lowest rank counts */
};

/*
 * Sorts `extents`, struct vms_extent in any order. Removes parts that an extent with a lower rank
 * covers, and joins neighbours that are also neighbours in the file. Takes O(n log n) for any
 * input. False, with an address, if two extents have that address in different places of the file.
 */
bool vms_extents_resolve(GArray *extents, uint64_t *conflict);

/*
 * Describes the first part of [at, at + size). True if it is in the file: *ret says where. False if
 * it is a gap, of ret->size bytes. `ret->size` is never 0.
 */
bool vms_extents_at(const GArray *extents, uint64_t at, uint64_t size, struct vms_extent *ret);
