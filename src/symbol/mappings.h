/* SPDX-License-Identifier: MIT */
/* The mappings of one address space, by address. Not locked. */
#pragma once

#include <vmscope/address_space.h>

/* An array of struct vms_mapping, which references their symbols. */
GArray *vms_mappings_new(void);
/* The same of `n` mappings in any order. Of several that overlap, the one that begins last has an
 * address. */
GArray *vms_mappings_new_of(const struct vms_mapping *others, size_t n);
/* The one that `va` lies in, or NULL. `mappings` may be NULL. */
const struct vms_mapping *vms_mappings_find(const GArray *mappings, uint64_t va);
/* Puts one in the place of all that it overlaps, as long as there are fewer than `limit`. */
void vms_mappings_put(GArray *mappings, const struct vms_mapping *mapping, size_t limit);
