/* SPDX-License-Identifier: MIT */
/* Makes aggregates of tallies. */
#pragma once

#include "flow/aggregation.h"

/* An aggregate without rows. Keeps a reference. */
struct vms_aggregate *vms_aggregate_new(struct vms_aggregation *aggregation);
/*
 * Adds an entry of a tally to the row of its key. The entry comes from memory that nobody can
 * trust; a key that makes no sense is left out.
 */
void vms_aggregate_add(struct vms_aggregate *aggregate, const struct vms_tally_entry *entry);
/*
 * Adds one hit: its numbers, and its key of `key_size` bytes, the size of the shape at most. It is
 * unfit if there are as many rows already as the shape has entries.
 */
void vms_aggregate_count(struct vms_aggregate *aggregate, const uint64_t numbers[],
			 const uint8_t *key, size_t key_size);
void vms_aggregate_add_unfit(struct vms_aggregate *aggregate, uint64_t n);
/* Adds all rows of another aggregate of the same aggregation. */
void vms_aggregate_merge(struct vms_aggregate *aggregate, const struct vms_aggregate *other);
/* Sorts the rows, before the functions that get one are used. No row may be added afterwards. */
void vms_aggregate_sort(struct vms_aggregate *aggregate);
