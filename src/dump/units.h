/* SPDX-License-Identifier: MIT */
/* A machine's memory in units (sink.h), numbered from 0 in the order of their addresses. */
#pragma once

#include "dump/state.h"

struct vms_dump_units {
	const GArray *memory; /* of a state: struct vms_range */
	uint64_t *first;      /* unit of each range; and, last, the number of all */
};

/* `state` stays valid until they are cleared. */
void vms_dump_units_init(struct vms_dump_units *units, const struct vms_dump_state *state);
void vms_dump_units_clear(struct vms_dump_units *units);
uint64_t vms_dump_units_count(const struct vms_dump_units *units);
/* The unit with a number, without data, all of it zeros still. False beyond the last. */
bool vms_dump_units_get(const struct vms_dump_units *units, uint64_t number,
			struct vms_dump_unit *ret);
