/* SPDX-License-Identifier: MIT */
/*
 * The ring of one vCPU into which a trace is written (machine/agent/protocol.h), from the vCPU's
 * thread. A full ring waits for its client, but never for long: then records are counted as lost
 * and a LOST record says so when there is room again.
 *
 * Nothing that the client writes into the shared memory is believed: a tail that went back, or
 * beyond what was written, is as if the client did not read.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

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

struct vms_ring {
	struct vms_calls_ring *shared;
	unsigned char *data;
	uint64_t size;	/* a power of two */
	uint64_t head;	/* as the client sees it */
	uint64_t tail;	/* the last one of the client that could be right */
	uint64_t limit; /* records can be written up to here */
	uint64_t open;	/* where the header of the open RECORDS block lies, or UINT64_MAX */
	uint64_t stream;
	uint64_t *sequence; /* of the next RECORDS block of `stream` */
	uint64_t lost;	    /* since the last LOST record */
	int wake; /* a connected socket; nothing that the client does to it can block a write */
	uint64_t signalled; /* `head` when the client was last woken */
	bool stalled; /* the client did not make room in time: do not wait for it again until it has
		       */
	atomic_bool abandoned; /* nobody will make room any more */
	uint32_t n_asked;      /* blocks that are to be answered */
	bool unanswered;       /* the last one was not, in time */
};

void vms_ring_init(struct vms_ring *ring, struct vms_calls_ring *shared, void *data, uint64_t size,
		   int wake);
/* Makes room, opens a block where none is open; false: no room, counted as lost. */
bool vms_ring_prepare(struct vms_ring *ring, uint64_t time_ns);
/*
 * Ends the open block; what follows belongs to `stream`. Its blocks take their numbers from
 * `sequence`, which goes on counting when the stream moves to another vCPU's ring, and must live as
 * long as it is this ring's.
 */
void vms_ring_stream(struct vms_ring *ring, uint64_t stream, uint64_t *sequence);
/* Writes a block that is not RECORDS; false: no room. `number` as in struct vms_calls_block. */
bool vms_ring_block(struct vms_ring *ring, enum vms_calls_block_kind kind, uint64_t number,
		    const void *payload, size_t size);
/*
 * Writes a block and waits until the client has answered it: for half a second, or for some more
 * where it is `patient`. Who does not answer is not waited for until it has done so again.
 */
void vms_ring_ask(struct vms_ring *ring, enum vms_calls_block_kind kind, const void *payload,
		  size_t size, bool patient);
/* Wakes the client. */
void vms_ring_flush(struct vms_ring *ring);
/* The client is gone: what finds no room is lost at once. From any thread. */
void vms_ring_abandon(struct vms_ring *ring);

static inline void vms_ring_record(struct vms_ring *ring, uint64_t time_ns, uint64_t word)
{
	if (__builtin_expect(ring->head == ring->limit, 0) && !vms_ring_prepare(ring, time_ns))
		return;
	struct vms_uftrace_record *record = (void *)(ring->data + (ring->head & (ring->size - 1)));
	record->time_ns = time_ns;
	record->word = word;
	ring->head += sizeof(*record);
	atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
}
