/* SPDX-License-Identifier: MIT */
/*
 * The times and threads of a tree's samples, with 24 bytes for each. The owner has to lock it.
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

/* At most `limit` samples are noted. */
void vms_sample_times_init(struct vms_sample_times *times, size_t limit);
void vms_sample_times_clear(struct vms_sample_times *times);
/* Notes a sample. Beyond the limit, or without memory, only the tree has it. */
void vms_sample_times_add(struct vms_sample_times *times, const struct vms_sample_record *record,
			  uint32_t node);
