/* SPDX-License-Identifier: MIT */
/*
 * Which part of a file holds which addresses: sorted and without overlaps, whatever the file said.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define VMS_EXTENT_ZEROS UINT64_MAX /* as a file offset: not in the file, all zeros */

/* [at, at + size) lies at `file_offset`. Neither sum overflows. */
struct vms_extent {
	uint64_t at, size;
	uint64_t file_offset;
	uint32_t rank; /* where several cover an address, that with the lowest counts */
};

/*
 * Sorts `extents`, struct vms_extent in any order, cuts what a lower rank covers, and joins
 * neighbours that follow each other in the file, too. In O(n log n) for any input. False, with an
 * address, when somewhere two that overlap have it in different places of the file.
 */
bool vms_extents_resolve(GArray *extents, uint64_t *conflict);

/*
 * What is known of [at, at + size), a part of it from `at` on: true with where it lies in the file,
 * false for a gap. `ret->size` is never 0.
 */
bool vms_extents_at(const GArray *extents, uint64_t at, uint64_t size, struct vms_extent *ret);
