/* SPDX-License-Identifier: MIT */
/*
 * The ring of one vCPU (machine/agent/protocol.h), into which the vCPU's thread writes a trace. A
 * full ring waits for its client, but never for long. Then records are counted as lost, and a LOST
 * record says so when there is room again.
 *
 * What the client writes into the shared memory is not trusted. A tail that goes back, or beyond
 * what was written, counts as a client that does not read.
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
	uint64_t head;	/* the same as in the shared memory */
	uint64_t tail;	/* the client's last one that can be right */
	uint64_t limit; /* up to where records can be written without a check */
	uint64_t open;	/* position of the open RECORDS block's header; UINT64_MAX: none is open */
	uint64_t stream;
	uint64_t *sequence; /* of the next RECORDS block of `stream` */
	uint64_t lost;	    /* since the last LOST record */
	int wake;	    /* a connected socket; a write to it never blocks */
	uint64_t signalled; /* `head` when the client was last woken */
	bool stalled; /* the client did not make room in time; the next record does not wait */
	atomic_bool abandoned; /* nobody makes room any more */
	uint32_t n_asked;      /* blocks that the client is to answer */
	bool unanswered;       /* the last one was not answered in time */
};

void vms_ring_init(struct vms_ring *ring, struct vms_calls_ring *shared, void *data, uint64_t size,
		   int wake);
/* Makes room for a record, and opens a block if none is open. False: counted as lost. */
bool vms_ring_prepare(struct vms_ring *ring, uint64_t time_ns);
/*
 * Ends the open block. Records that follow belong to `stream`. Its blocks are numbered by
 * `sequence`, which also counts blocks of this stream in other rings. `sequence` must exist until
 * the ring gets another stream.
 */
void vms_ring_stream(struct vms_ring *ring, uint64_t stream, uint64_t *sequence);
/* Writes a block that is not RECORDS. `number`: see struct vms_calls_block. False: no room. */
bool vms_ring_block(struct vms_ring *ring, enum vms_calls_block_kind kind, uint64_t number,
		    const void *payload, size_t size);
/*
 * Writes a block and waits until the client has answered it: for half a second, or for some seconds
 * if `patient`. If a client does not answer, the next blocks do not wait until it has answered.
 */
void vms_ring_ask(struct vms_ring *ring, enum vms_calls_block_kind kind, const void *payload,
		  size_t size, bool patient);
/* Wakes the client. */
void vms_ring_flush(struct vms_ring *ring);
/* Notes that nobody reads: records that find no room are lost at once. From any thread. */
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
