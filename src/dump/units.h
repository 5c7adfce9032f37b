/* SPDX-License-Identifier: MIT */
/* Divides a machine's memory into units (sink.h), numbered from 0 in the order of addresses. */
#pragma once

#include "dump/state.h"

struct vms_dump_units {
	const GArray *memory; /* of a state: struct vms_range */
	uint64_t *first;      /* number of the first unit of each range; last, of all units */
};

/* `state` must stay valid until the units are cleared. */
void vms_dump_units_init(struct vms_dump_units *units, const struct vms_dump_state *state);
void vms_dump_units_clear(struct vms_dump_units *units);
uint64_t vms_dump_units_count(const struct vms_dump_units *units);
/* Fills *ret with a unit without data, all of whose pages are zero. False beyond the last unit. */
bool vms_dump_units_get(const struct vms_dump_units *units, uint64_t number,
			struct vms_dump_unit *ret);
