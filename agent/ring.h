/* SPDX-License-Identifier: MIT */
/*
 * The ring of one vCPU (machine/agent/protocol.h), into which the vCPU's thread writes blocks of
 * bytes. If the ring is full, the writer waits for the client for a limited time. After that, data
 * without room is counted as lost.
 *
 * What the client writes into the shared memory is not trusted. A tail that moves back, or beyond
 * the head, is ignored, as if the client did not read.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

struct vms_ring {
	struct vms_agent_ring *shared;
	unsigned char *data;
	uint64_t size;	/* a power of two */
	uint64_t head;	/* the same as in the shared memory */
	uint64_t tail;	/* the client's last valid tail */
	uint64_t limit; /* the open block can grow up to here without a check */
	uint64_t open;	/* position of the open block's header; UINT64_MAX: none is open */
	uint64_t stream;
	uint64_t *sequence; /* of the next block of `stream` that grows */
	uint64_t lost;	    /* how often there was no room; the owner reports and resets it */
	int wake;	    /* a connected socket; a write to it never blocks */
	uint64_t signalled; /* `head` when the client was last woken */
	bool stalled; /* the client did not make room in time; the next append does not wait */
	atomic_bool abandoned; /* no client reads the ring any more */
	uint32_t n_asked;      /* blocks that the client must answer */
	bool unanswered;       /* the last of them was not answered in time */
};

void vms_ring_init(struct vms_ring *ring, struct vms_agent_ring *shared, void *data, uint64_t size,
		   int wake);
/*
 * Makes room to append `size` bytes, a multiple of VMS_AGENT_UNIT, and opens a block if none is
 * open. If there is no room in time, counts it as lost and returns false.
 */
bool vms_ring_prepare(struct vms_ring *ring, size_t size);
/*
 * Ends the open block. What is appended then belongs to `stream`. Its blocks are numbered by
 * `sequence`, which also counts blocks of this stream in other rings. `sequence` must exist until
 * the ring gets another stream.
 */
void vms_ring_set_stream(struct vms_ring *ring, uint64_t stream, uint64_t *sequence);
/* Makes room for a whole block with `size` bytes of payload. False if there is none in time. */
bool vms_ring_reserve(struct vms_ring *ring, size_t size);
/* Writes a whole block. `number`: see struct vms_agent_block. False if there is no room. */
bool vms_ring_write_block(struct vms_ring *ring, uint32_t kind, uint64_t number,
			  const void *payload, size_t size);
/*
 * Writes a block and waits until the client has answered it: for half a second, or for five seconds
 * if `patient`. After a missing answer, further blocks do not wait until the client has answered.
 */
void vms_ring_ask_client(struct vms_ring *ring, uint32_t kind, const void *payload, size_t size,
			 bool patient);
/* Wakes the client. */
void vms_ring_flush(struct vms_ring *ring);
/* Notes that no client reads the ring: data without room is lost at once. Any thread. */
void vms_ring_abandon(struct vms_ring *ring);

/* Returns where the next bytes of the open block go. vms_ring_prepare has made room for them. */
static inline void *vms_ring_at_head(const struct vms_ring *ring)
{
	return ring->data + (ring->head & (ring->size - 1));
}

/* Publishes `size` bytes that were written at the head to the client. */
static inline void vms_ring_advance(struct vms_ring *ring, size_t size)
{
	ring->head += size;
	atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
}
