/* SPDX-License-Identifier: MIT */
#include "agent/calls/uftrace_record.h"

static void append_record(struct vms_ring *ring, uint64_t time_ns, uint64_t word)
{
	*(struct vms_uftrace_record *)vms_ring_at_head(ring) =
		(struct vms_uftrace_record) { time_ns, word };
	vms_ring_advance(ring, sizeof(struct vms_uftrace_record));
}

void vms_uftrace_write_slowly(struct vms_ring *ring, uint64_t time_ns, uint64_t word)
{
	/* Room for a LOST record too. */
	if (!vms_ring_prepare(ring, 2 * sizeof(struct vms_uftrace_record)))
		return;
	if (ring->lost)
		append_record(ring, time_ns, vms_uftrace_word(VMS_UFTRACE_LOST, 0, ring->lost));
	ring->lost = 0;
	append_record(ring, time_ns, word);
}
