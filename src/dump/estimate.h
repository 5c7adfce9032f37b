/* SPDX-License-Identifier: MIT */
/* Estimates the size and the time of a copy before it begins. */
#pragma once

#include "dump/state.h"

struct vms_dump_estimate {
	uint64_t bytes; /* memory to copy, without what was never used */
	double hold_ns; /* time that threads take to read it if they never wait for the disk */
};

/*
 * Estimates a copy by `workers` threads. It looks at a part of the memory of the state's machine,
 * which may run, and reads some of it. This takes about 30 ms.
 */
void vms_dump_estimate(const struct vms_dump_state *state, unsigned workers,
		       struct vms_dump_estimate *ret);

/*
 * Returns how many bytes of this host's memory a copy may take: a quarter of what is available to
 * this process.
 */
uint64_t vms_dump_spare_memory(void);
