/* SPDX-License-Identifier: MIT */
/*
 * The memory of a service that records (struct vms_agent_rings), with a ring for each vCPU, and the
 * socket by which the client is woken.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

struct rings {
	struct vms_agent_rings *shared;
	size_t size; /* bytes of it */
	/* As in the shared memory, where the client may change them. */
	uint64_t offset, ring_size;
	int memfd;
	int wake, woken; /* the ends of a socket; `woken` is sent to the client */
};

/* A value for rings that were not made. */
#define RINGS_NONE ((struct rings) { .memfd = -1, .wake = -1, .woken = -1 })

/* True if a ring may have so many bytes. */
bool rings_is_size(uint64_t ring_size);
/*
 * Makes rings for `n` vCPUs. `name` shows in /proc. rings_free must be called even if this fails.
 * False: errno tells.
 */
bool rings_make(struct rings *rings, const char *name, unsigned n, uint64_t ring_size);
/*
 * Allocates the memory of a vCPU's ring before the vCPU uses it. Otherwise a write would kill QEMU
 * if the host had no memory left. False: errno tells.
 */
bool rings_reserve(const struct rings *rings, unsigned vcpu);
/* Returns where the bytes of a vCPU's ring begin. */
void *rings_data(const struct rings *rings, unsigned vcpu);
void rings_free(struct rings *rings);
