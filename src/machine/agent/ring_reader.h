/* SPDX-License-Identifier: MIT */
/*
 * Reads the rings that an agent writes (machine/agent/protocol.h). It checks their content and
 * passes it to a receiver, in the order of each stream. Nothing in this memory is trusted: a ring
 * with malformed data is not read any more. Only the receiver knows the meaning of the content.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <glib.h>
#include <stdbool.h>

/* Maximum and minimum size of the payload of a whole block that the receiver gets. */
#define VMS_RING_MAX_PAYLOAD 57408
#define VMS_RING_MIN_PAYLOAD 64

/* A block that the agent wrote as a whole. */
struct vms_ring_block {
	uint32_t kind;
	uint64_t stream; /* a valid id; 0: none */
	bool gone; /* the agent has not waited for the answer: what the block is about may be gone
		    */
	/* A copy of the payload, padded with zeros to VMS_RING_MIN_PAYLOAD. */
	const uint8_t *payload;
	size_t size; /* bytes without padding */
};

/* The functions that receive the content of the rings. */
struct vms_ring_receiver {
	const char *what; /* the content, for messages: "calls" */
	/*
	 * Gets bytes of a stream, a multiple of VMS_AGENT_UNIT. The agent may write to this memory
	 * at any time.
	 */
	bool (*append)(uint64_t stream, const void *bytes, size_t size, void *data, GError **error);
	/*
	 * Gets a whole block. False if it is malformed. If the block needs an answer, it is
	 * answered when this returns, and a vCPU waits for that: so this must be fast.
	 */
	bool (*block)(const struct vms_ring_block *block, void *data);
	/* Blocks that need an answer were lost: what they were about may be gone. */
	void (*missing)(void *data);
	void *data;
};

typedef struct vms_ring_reader vms_ring_reader;

/*
 * Makes a reader for memory that is shared with the agent. The caller keeps it mapped as long as
 * the reader exists. Errors: PROTOCOL (the layout of the memory is wrong).
 */
struct vms_ring_reader *vms_ring_reader_new(void *memory, size_t size,
					    const struct vms_ring_receiver *receiver,
					    GError **error);
void vms_ring_reader_free(struct vms_ring_reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_ring_reader, vms_ring_reader_free)

/*
 * Takes all data that is there. A block is left for the next time if an earlier block of its stream
 * is missing. Errors: those of the receiver.
 */
bool vms_ring_reader_run(struct vms_ring_reader *reader, GError **error);
/* The same after the agent has stopped writing: no block waits. */
bool vms_ring_reader_finish(struct vms_ring_reader *reader, GError **error);

/* Returns how many units were lost for lack of room, were too late, or were in a malformed ring. */
uint64_t vms_ring_reader_lost(const struct vms_ring_reader *reader);
/* True if the service has ended by itself. */
bool vms_ring_reader_is_stopped(const struct vms_ring_reader *reader);

enum vms_ring_scope {
	VMS_RING_ALL,
	VMS_RING_OF_BLOCK, /* the ring of the block that the receiver gets now */
};
/*
 * True if the agent has stopped waiting for the answer to a block that was not taken yet, and
 * either `matches` is true for the block, or the block was lost for lack of room.
 */
bool vms_ring_reader_gave_up(const struct vms_ring_reader *reader, enum vms_ring_scope scope,
			     bool (*matches)(const struct vms_ring_block *block, const void *data),
			     const void *data);

/*
 * Returns up to which number all hits of probes were written or lost. The next run takes all of
 * them that were written.
 */
uint64_t vms_ring_reader_settled(const struct vms_ring_reader *reader);
/* Returns how many hits were numbered. This may exceed the limit. */
uint64_t vms_ring_reader_hits(const struct vms_ring_reader *reader);
/* Returns how many programs ended early. */
void vms_ring_reader_count_early(const struct vms_ring_reader *reader, uint64_t *rejected,
				 uint64_t *unknown);
/*
 * Sets whether the agent wakes this client at the next hit. The client must run the reader once
 * more before it waits.
 */
void vms_ring_reader_set_sleeps(struct vms_ring_reader *reader, bool sleeps);
