/* SPDX-License-Identifier: MIT */
/*
 * The ring of one vCPU (machine/agent/protocol.h), into which the vCPU's thread writes blocks of
 * bytes. A full ring waits for its client, but never for long. Then what finds no room is counted
 * as lost.
 *
 * What the client writes into the shared memory is not trusted. A tail that goes back, or beyond
 * what was written, counts as a client that does not read.
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
	uint64_t tail;	/* the client's last one that can be right */
	uint64_t limit; /* up to where the open block can grow without a check */
	uint64_t open;	/* position of the open block's header; UINT64_MAX: none is open */
	uint64_t stream;
	uint64_t *sequence; /* of the next block of `stream` that grows */
	uint64_t lost;	    /* how often there was no room; the owner says so and resets it */
	int wake;	    /* a connected socket; a write to it never blocks */
	uint64_t signalled; /* `head` when the client was last woken */
	bool stalled; /* the client did not make room in time; the next append does not wait */
	atomic_bool abandoned; /* nobody makes room any more */
	uint32_t n_asked;      /* blocks that the client is to answer */
	bool unanswered;       /* the last one was not answered in time */
};

void vms_ring_init(struct vms_ring *ring, struct vms_agent_ring *shared, void *data, uint64_t size,
		   int wake);
/*
 * Makes room to append `size` bytes, a multiple of VMS_AGENT_UNIT, and opens a block if none is
 * open. False: counted as lost.
 */
bool vms_ring_prepare(struct vms_ring *ring, size_t size);
/*
 * Ends the open block. What is appended then belongs to `stream`. Its blocks are numbered by
 * `sequence`, which also counts blocks of this stream in other rings. `sequence` must exist until
 * the ring gets another stream.
 */
void vms_ring_stream(struct vms_ring *ring, uint64_t stream, uint64_t *sequence);
/* Makes room for a whole block with so many bytes of payload. False: there is none in time. */
bool vms_ring_reserve(struct vms_ring *ring, size_t size);
/* Writes a whole block. `number`: see struct vms_agent_block. False: no room. */
bool vms_ring_block(struct vms_ring *ring, uint32_t kind, uint64_t number, const void *payload,
		    size_t size);
/*
 * Writes a block and waits until the client has answered it: for half a second, or for some seconds
 * if `patient`. If a client does not answer, the next blocks do not wait until it has answered.
 */
void vms_ring_ask(struct vms_ring *ring, uint32_t kind, const void *payload, size_t size,
		  bool patient);
/* Wakes the client. */
void vms_ring_flush(struct vms_ring *ring);
/* Notes that nobody reads: what finds no room is lost at once. From any thread. */
void vms_ring_abandon(struct vms_ring *ring);

/* Returns where the next bytes of the open block go to. There is room for them: see prepare. */
static inline void *vms_ring_at_head(const struct vms_ring *ring)
{
	return ring->data + (ring->head & (ring->size - 1));
}

/* Bytes that were written at the head are the client's from now on. */
static inline void vms_ring_advance(struct vms_ring *ring, size_t size)
{
	ring->head += size;
	atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
}
