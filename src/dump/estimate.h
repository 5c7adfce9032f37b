/* SPDX-License-Identifier: MIT */
/* What is known of a copy before it begins. */
#pragma once

#include "dump/state.h"

struct vms_dump_estimate {
	uint64_t bytes; /* of memory that is there to be copied */
	double hold_ns; /* how long threads that do not wait for the disk take for it at least */
};

/*
 * Looks at a part of the memory of the state's machine, which may run, and reads some of it: within
 * about 30 ms. `workers`: how many threads are going to read.
 */
void vms_dump_estimate(const struct vms_dump_state *state, unsigned workers,
		       struct vms_dump_estimate *ret);

/* Memory that a copy may take on this host: a quarter of what is available to this process. */
uint64_t vms_dump_spare_memory(void);
