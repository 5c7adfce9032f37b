/* SPDX-License-Identifier: MIT */
/*
 * What an agent writes of calls, out of its rings (machine/agent/ring_reader.h): records of
 * streams, and what the client must know of streams and address spaces.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <glib.h>
#include <stdbool.h>

/* Who gets what is in the rings. Strings in blocks end with a NUL. Stream ids are valid ones. */
struct vms_calls_receiver {
	void (*stream)(uint64_t id, const struct vms_calls_stream *stream, void *data);
	void (*space)(uint64_t id, const struct vms_calls_space *space, void *data);
	/*
	 * Answered when this returns: be quick. `gone`: the agent has not waited for it. With an
	 * `mm` of 0: others are gone of which nothing is known.
	 */
	void (*process)(const struct vms_calls_space *space, bool gone, void *data);
	/* `records` is memory that the agent may write to. A stream may not have been announced. */
	bool (*records)(uint64_t id, const void *records, size_t size, void *data, GError **error);
	void *data;
};

typedef struct vms_calls_drain vms_calls_drain;

/*
 * `memory` is the agent's, and the caller's: it stays mapped as long as the drain lives. Errors:
 * PROTOCOL, it is not laid out as it has to be.
 */
struct vms_calls_drain *vms_calls_drain_new(void *memory, size_t size,
					    const struct vms_calls_receiver *receiver,
					    GError **error);
void vms_calls_drain_free(struct vms_calls_drain *drain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls_drain, vms_calls_drain_free)

/*
 * Takes what is there. A block whose stream has an earlier one in a ring that was not written to
 * yet is left for the next time. Errors: those of the receiver.
 */
bool vms_calls_drain_run(struct vms_calls_drain *drain, GError **error);
/* The same when nothing comes any more: waits for nothing. */
bool vms_calls_drain_finish(struct vms_calls_drain *drain, GError **error);

/* Records that found no room, or whose ring made no sense. */
uint64_t vms_calls_drain_lost(const struct vms_calls_drain *drain);
/*
 * May this address space be gone, as a block tells that was not taken yet, or that has found no
 * room? Then memory that belonged to it may be another's. Asked after it was read.
 */
bool vms_calls_drain_is_late(const struct vms_calls_drain *drain, uint64_t mm);
/* Has the agent come to where the trace was to stop by itself? */
bool vms_calls_drain_stopped(const struct vms_calls_drain *drain);
