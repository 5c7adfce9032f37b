/* SPDX-License-Identifier: MIT */
/* Makes aggregates of tallies. */
#pragma once

#include "flow/aggregation.h"

/* An aggregate without rows. Keeps a reference. */
struct vms_aggregate *vms_aggregate_new(struct vms_aggregation *aggregation);
/*
 * Adds an entry of a tally to the row of its key. The entry comes from memory that another process
 * can write, so an entry with a malformed key is left out.
 */
void vms_aggregate_add(struct vms_aggregate *aggregate, const struct vms_tally_entry *entry);
/*
 * Adds one hit: its numbers, and its key of `key_size` bytes, which is at most the key size of the
 * shape. The hit is counted as unfit if there are already as many rows as the shape has entries.
 */
void vms_aggregate_count(struct vms_aggregate *aggregate, const uint64_t numbers[],
			 const uint8_t *key, size_t key_size);
void vms_aggregate_add_unfit(struct vms_aggregate *aggregate, uint64_t n);
/* Adds all rows of another aggregate of the same aggregation. */
void vms_aggregate_merge(struct vms_aggregate *aggregate, const struct vms_aggregate *other);
/* Sorts the rows. Necessary before rows can be got. No row may be added afterwards. */
void vms_aggregate_sort(struct vms_aggregate *aggregate);
