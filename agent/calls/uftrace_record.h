/* SPDX-License-Identifier: MIT */
/*
 * Writes uftrace's records into a ring. If there was no room for records, a LOST record is written
 * when there is room again.
 */
#pragma once

#include "agent/ring.h"

enum vms_uftrace_type { VMS_UFTRACE_ENTRY, VMS_UFTRACE_EXIT, VMS_UFTRACE_LOST, VMS_UFTRACE_EVENT };

#define VMS_UFTRACE_MAGIC     5
#define VMS_UFTRACE_MAX_DEPTH 1023
#define VMS_UFTRACE_ADDRESS   ((1ULL << 48) - 1)

/* uftrace's record. */
struct vms_uftrace_record {
	uint64_t time_ns;
	uint64_t word; /* type:2 more:1 magic:3 depth:10 address:48, from the lowest bit */
};

static inline uint64_t vms_uftrace_word(enum vms_uftrace_type type, unsigned depth, uint64_t va)
{
	uint64_t limited = depth < VMS_UFTRACE_MAX_DEPTH ? depth : VMS_UFTRACE_MAX_DEPTH;
	return (uint64_t)type | VMS_UFTRACE_MAGIC << 3 | limited << 6 | va << 16;
}

/* Makes room in the ring, and then writes a record. */
void vms_uftrace_write_slowly(struct vms_ring *ring, uint64_t time_ns, uint64_t word);

/* Appends a record to the ring's stream, or counts it as lost. */
static inline void vms_uftrace_write(struct vms_ring *ring, uint64_t time_ns, uint64_t word)
{
	if (__builtin_expect(ring->head == ring->limit, 0)) {
		vms_uftrace_write_slowly(ring, time_ns, word);
		return;
	}
	struct vms_uftrace_record *record = vms_ring_at_head(ring);
	record->time_ns = time_ns;
	record->word = word;
	vms_ring_advance(ring, sizeof(*record));
}
