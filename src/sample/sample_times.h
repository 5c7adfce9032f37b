/* SPDX-License-Identifier: MIT */
/*
 * When the samples of a tree were taken, and of which thread. A sample takes 24 bytes here. Whoever
 * owns it guards it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <vmscope/sample_record.h>

/* A sample and the node of its tree in which it was counted. */
struct vms_sample_time {
	uint64_t time_ns;
	uint32_t node;
	uint32_t space, pid, tid; /* as in struct vms_sample_record */
};

struct vms_sample_times {
	struct vms_sample_time *times; /* in the order in which they were added */
	size_t n, capacity, limit;
};

/* `limit` is the most samples that are noted. */
void vms_sample_times_init(struct vms_sample_times *times, size_t limit);
void vms_sample_times_clear(struct vms_sample_times *times);
/* Notes a sample. Beyond the limit, and without memory, it is left to the tree alone. */
void vms_sample_times_add(struct vms_sample_times *times, const struct vms_sample_record *record,
			  uint32_t node);
