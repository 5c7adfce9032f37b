/* SPDX-License-Identifier: MIT */
/*
 * The tallies of a set of probes (probe/tally.h), one for each vCPU, so that no vCPU waits for
 * another. Their memory is shared with the client. The agent's index of it is not shared.
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

/* The value of tallies before tallies_make. */
#define TALLIES_NONE ((struct tallies) { .memfd = -1 })

/* Makes the tallies of `n` vCPUs, without memory. False with errno set; EINVAL: a bad shape. */
bool tallies_make(struct tallies *tallies, const struct vms_tally_shape *shape, unsigned n);
/*
 * Allocates the memory of a vCPU's tally before the vCPU uses it (see rings_reserve), unless it is
 * allocated already. False with errno set.
 */
bool tallies_reserve(struct tallies *tallies, unsigned vcpu);
void tallies_free(struct tallies *tallies);
