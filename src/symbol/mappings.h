/* SPDX-License-Identifier: MIT */
/* The mappings of one address space, sorted by address. The caller locks them. */
#pragma once

#include <vmscope/address_space.h>

/* Returns an empty array of struct vms_mapping. The array owns references to their symbols and
 * binaries. */
GArray *vms_mappings_new(void);
/*
 * Returns an array with copies of `n` mappings, which may be in any order. Where mappings overlap,
 * vms_mappings_find gives the one that begins last.
 */
GArray *vms_mappings_new_of(const struct vms_mapping *others, size_t n);
/* Returns the mapping that `va` lies in, or NULL. `mappings` may be NULL. */
const struct vms_mapping *vms_mappings_find(const GArray *mappings, uint64_t va);
/*
 * Removes all mappings that overlap `mapping`, and adds a copy of it. Adds nothing if `limit`
 * mappings are left.
 */
void vms_mappings_put(GArray *mappings, const struct vms_mapping *mapping, size_t limit);
/*
 * Returns the functions of a mapped file, by offset, or NULL. Its binary may know more by now than
 * when it was mapped; that of a recording has code alone.
 */
const struct vms_symbol_table *vms_mappings_functions(const struct vms_mapping *mapping);
