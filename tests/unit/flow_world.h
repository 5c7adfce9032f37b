/* SPDX-License-Identifier: MIT */
/*
 * vCPUs whose calls are followed, and what a client reads of it: written from the protocol's words
 * alone. Checks of every stream that times do not go back, and that entries and exits nest.
 */
#pragma once

#include "flow.h"
#include <glib.h>

#define WORLD_VCPUS 3

struct world {
	struct flow_tracing *tracing;
	struct flow *flow[WORLD_VCPUS];
	struct vms_ring ring[WORLD_VCPUS];
	struct vms_calls_ring shared[WORLD_VCPUS];
	void *data[WORLD_VCPUS];
	GHashTable *streams; /* id → struct world_stream, once read */
};

/* A stream as it was read: its records in order, what was told of it. */
struct world_stream {
	uint64_t id;
	GPtrArray *blocks; /* struct world_block, by sequence */
	struct vms_calls_stream about;
	GArray *spaces; /* struct vms_calls_space */
	GArray *records;
};

/* `functions` ends with an address of 0. */
void world_set_up(struct world *world, const struct vms_agent_calls *options,
		  const struct vms_agent_function *functions, size_t ring_size);
/* Other options and functions. */
void world_update(struct world *world, const struct vms_agent_calls *options,
		  const struct vms_agent_function *functions);
/* Ends the trace on all vCPUs, reads what was written, checks it. */
void world_finish(struct world *world, uint64_t time);
void world_tear_down(struct world *world);
/* NULL where nothing was written. */
struct world_stream *world_stream(struct world *world, uint64_t id);
