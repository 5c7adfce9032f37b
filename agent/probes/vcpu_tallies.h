/* SPDX-License-Identifier: MIT */
/*
 * The tallies of a set of probes (probe/tally.h), one for each vCPU, so that none waits for
 * another. Their memory is shared with the client; what the agent finds its way by is not.
 */
#pragma once

#include "probe/tally.h"

struct tallies {
	struct vms_tally_shape shape;
	struct vms_tally *tally; /* by vCPU; one without memory has no `head` */
	unsigned n;
	uint8_t *memory;
	size_t size; /* of each */
	int memfd;
};

/* A value for tallies that were not made. */
#define TALLIES_NONE ((struct tallies) { .memfd = -1 })

/* Makes the tallies of `n` vCPUs, without memory yet. False: errno tells; EINVAL: the shape. */
bool tallies_make(struct tallies *tallies, const struct vms_tally_shape *shape, unsigned n);
/*
 * Allocates the memory of a vCPU's tally before the vCPU uses it: see rings_reserve. False: errno
 * tells. Does nothing if it has been allocated.
 */
bool tallies_reserve(struct tallies *tallies, unsigned vcpu);
void tallies_free(struct tallies *tallies);
