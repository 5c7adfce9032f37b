/* SPDX-License-Identifier: MIT */
/*
 * Takes a call trace out of the agent's rings (machine/agent/ring_reader.h): the records of the
 * streams, and facts about streams and address spaces.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <glib.h>
#include <stdbool.h>

/* Functions that receive the content of the rings. Strings end with a NUL; ids are valid. */
struct vms_calls_receiver {
	/* A stream begins, or has another name or process now. */
	void (*stream)(uint64_t id, const struct vms_calls_stream *stream, void *data);
	/* From now on the stream's user addresses are in this address space. */
	void (*space)(uint64_t id, const struct vms_calls_space *space, void *data);
	/*
	 * An address space is about to end. A vCPU waits until this returns. If `gone`, the agent
	 * has not waited, and the address space has ended. If its `mm` is 0, address spaces have
	 * ended, but it is not known which.
	 */
	void (*process)(const struct vms_calls_space *space, bool gone, void *data);
	/*
	 * Gets records. The agent may write to this memory at any time. The stream may be one that
	 * `stream` was not called for.
	 */
	bool (*records)(uint64_t id, const void *records, size_t size, void *data, GError **error);
	void *data;
};

typedef struct vms_calls_drain vms_calls_drain;

/*
 * Makes a drain for the memory that is shared with the agent. The caller keeps it mapped as long as
 * the drain lives. Errors: PROTOCOL (the layout of the memory is wrong).
 */
struct vms_calls_drain *vms_calls_drain_new(void *memory, size_t size,
					    const struct vms_calls_receiver *receiver,
					    GError **error);
void vms_calls_drain_free(struct vms_calls_drain *drain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls_drain, vms_calls_drain_free)

/*
 * Takes what is in the rings. A block stays for the next time if an earlier block of its stream
 * is not in its ring yet. Errors: those of the receiver.
 */
bool vms_calls_drain_run(struct vms_calls_drain *drain, GError **error);
/* Takes all that is left in the rings after the agent has stopped writing. Errors: as above. */
bool vms_calls_drain_finish(struct vms_calls_drain *drain, GError **error);

/* Returns how many records were lost: there was no room, or their ring was malformed. */
uint64_t vms_calls_drain_lost(const struct vms_calls_drain *drain);
/*
 * True if this address space may have ended: a block that was not taken yet says so, or such a
 * block may have been lost. Then its memory may have another owner. Call this after reading the
 * memory, not before.
 */
bool vms_calls_drain_is_late(const struct vms_calls_drain *drain, uint64_t mm);
/* True if the agent has reached a function at which the trace stops by itself. */
bool vms_calls_drain_stopped(const struct vms_calls_drain *drain);
