/* SPDX-License-Identifier: MIT */
/*
 * The memory that a service shares with its client (struct vms_agent_rings), with a ring for each
 * vCPU, and the socket that wakes the client.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

struct rings {
	struct vms_agent_rings *shared;
	size_t size; /* bytes of it */
	/* Copies of values in the shared memory, which the client may change there. */
	uint64_t offset, ring_size;
	int memfd;
	int wake, woken; /* both ends of a socket; `woken` is sent to the client */
};

/* The value of rings before rings_make. */
#define RINGS_NONE ((struct rings) { .memfd = -1, .wake = -1, .woken = -1 })

/* True if a ring may have this size in bytes. */
bool rings_is_size(uint64_t ring_size);
/*
 * Makes rings for `n` vCPUs. `name` shows in /proc. rings_free must be called even if this fails.
 * False with errno set.
 */
bool rings_make(struct rings *rings, const char *name, unsigned n, uint64_t ring_size);
/*
 * Allocates the memory of a vCPU's ring before the vCPU uses it. Otherwise a write would kill QEMU
 * if the host had no memory left. False with errno set.
 */
bool rings_reserve(const struct rings *rings, unsigned vcpu);
/* Returns the first byte of a vCPU's ring. */
void *rings_data(const struct rings *rings, unsigned vcpu);
void rings_free(struct rings *rings);
