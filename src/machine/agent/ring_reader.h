/* SPDX-License-Identifier: MIT */
/*
 * The client's end of the rings into which an agent writes (machine/agent/protocol.h). What is in
 * them is checked and passed on in the order of each stream. Nothing that stands in this memory is
 * believed: a ring that makes no sense is not read any more. What the bytes mean, the receiver
 * knows.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <glib.h>
#include <stdbool.h>

/* Bytes of a whole block that the receiver gets at most, and can read at least. */
#define VMS_RING_MAX_PAYLOAD 57408
#define VMS_RING_MIN_PAYLOAD 64

/* A block that came all at once. */
struct vms_ring_block {
	uint32_t kind;
	uint64_t stream; /* a valid id; 0: none */
	bool gone; /* the agent has not waited for the answer: what the block tells of is gone */
	/* Its payload, copied out of the ring. What is missing to the least size are zeros. */
	const uint8_t *payload;
	size_t size; /* bytes of it that were there */
};

/* Who gets what is in the rings. */
struct vms_ring_receiver {
	const char *what; /* that the rings hold, for messages: "calls" */
	/* Bytes of a stream, in memory that the agent may write to; a multiple of VMS_AGENT_UNIT.
	 */
	bool (*append)(uint64_t stream, const void *bytes, size_t size, void *data, GError **error);
	/* If the block asks, it is answered when this returns: be quick. False: it makes no sense.
	 */
	bool (*block)(const struct vms_ring_block *block, void *data);
	/* Blocks that ask have found no room: what they told of is gone. */
	void (*missing)(void *data);
	void *data;
};

typedef struct vms_ring_reader vms_ring_reader;

/*
 * `memory` is the agent's, and the caller's: it stays mapped as long as the reader lives. Errors:
 * PROTOCOL (it is not laid out as it has to be).
 */
struct vms_ring_reader *vms_ring_reader_new(void *memory, size_t size,
					    const struct vms_ring_receiver *receiver,
					    GError **error);
void vms_ring_reader_free(struct vms_ring_reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_ring_reader, vms_ring_reader_free)

/*
 * Takes what is there. A block whose stream has an earlier one in a ring that was not written to
 * yet is left for the next time. Errors: those of the receiver.
 */
bool vms_ring_reader_run(struct vms_ring_reader *reader, GError **error);
/* The same when nothing comes any more: waits for nothing. */
bool vms_ring_reader_finish(struct vms_ring_reader *reader, GError **error);

/* Returns how many units found no room, came too late, or were in a ring that made no sense. */
uint64_t vms_ring_reader_lost(const struct vms_ring_reader *reader);
/* True if the service has come to its end by itself. */
bool vms_ring_reader_is_stopped(const struct vms_ring_reader *reader);

enum vms_ring_scope {
	VMS_RING_ALL,
	VMS_RING_OF_BLOCK, /* the ring whose block the receiver has now */
};
/*
 * True if there are blocks that ask, that the agent gave up on, and that were not taken yet, and
 * `matches` is true of one of them, or one of them has found no room.
 */
bool vms_ring_reader_gave_up(const struct vms_ring_reader *reader, enum vms_ring_scope scope,
			     bool (*matches)(const struct vms_ring_block *block, const void *data),
			     const void *data);

/*
 * Returns up to which number all hits of probes have been written or lost. A later run takes all of
 * them that were written.
 */
uint64_t vms_ring_reader_settled(const struct vms_ring_reader *reader);
/* Returns how many numbers of hits were taken. It may be more than the limit. */
uint64_t vms_ring_reader_hits(const struct vms_ring_reader *reader);
/* Counts programs that ended early. */
void vms_ring_reader_count_early(const struct vms_ring_reader *reader, uint64_t *rejected,
				 uint64_t *unknown);
/*
 * Tells the agent whether to wake this client for the next hit. Before the client waits for that,
 * it runs the reader once more.
 */
void vms_ring_reader_set_sleeps(struct vms_ring_reader *reader, bool sleeps);
