/* SPDX-License-Identifier: MIT */
/*
 * The mappings of one address space, by address. The caller locks them.
 *
 * They are a balanced tree whose parts are shared: a copy takes no time, and a change costs a few
 * nodes, however many mappings there are. Thousands of processes that have forked from one have its
 * mappings once.
 */
#pragma once

#include <vmscope/address_space.h>

struct vms_mappings;

/* What a change makes costs so many bytes for each node. */
#define VMS_MAPPING_NODE_BYTES 112

struct vms_mappings *vms_mappings_new(void);
/* Returns a copy, which shares all that neither changes. */
struct vms_mappings *vms_mappings_copy(const struct vms_mappings *mappings);
/*
 * Returns copies of `n` mappings, which may be in any order. Where mappings overlap,
 * vms_mappings_find gives the one that begins last.
 */
struct vms_mappings *vms_mappings_new_of(const struct vms_mapping *others, size_t n);
void vms_mappings_free(struct vms_mappings *mappings);
/* Returns the mapping that `va` lies in, or NULL. `mappings` may be NULL. */
const struct vms_mapping *vms_mappings_find(const struct vms_mappings *mappings, uint64_t va);
/*
 * Removes all mappings that overlap `mapping`, and adds a copy of it, which references its symbols
 * and its binary. Adds nothing if `limit` mappings are left. Returns how many nodes were made.
 */
size_t vms_mappings_put(struct vms_mappings *mappings, const struct vms_mapping *mapping,
			size_t limit);
size_t vms_mappings_count(const struct vms_mappings *mappings);
/*
 * Returns the functions of a mapped file, by offset, or NULL. Its binary may know more by now than
 * when it was mapped; that of a recording has code alone.
 */
const struct vms_symbol_table *vms_mappings_functions(const struct vms_mapping *mapping);
