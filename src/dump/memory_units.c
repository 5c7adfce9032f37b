/* SPDX-License-Identifier: MIT */
#include "dump/memory_units.h"
#include "base/search.h"
#include <string.h>

static const struct vms_range *get_range(const struct vms_dump_units *units, guint i)
{
	return &g_array_index(units->memory, struct vms_range, i);
}

void vms_dump_units_init(struct vms_dump_units *units, const struct vms_dump_state *state)
{
	guint n = state->memory->len;
	units->memory = state->memory;
	units->first = g_new(uint64_t, n + 1);
	units->first[0] = 0;
	for (guint i = 0; i < n; i++) {
		const struct vms_range *range = get_range(units, i);
		uint64_t last = (range->pa + range->size - 1) / VMS_DUMP_UNIT_MAX;
		units->first[i + 1] = units->first[i] + last - range->pa / VMS_DUMP_UNIT_MAX + 1;
	}
}

void vms_dump_units_clear(struct vms_dump_units *units)
{
	g_clear_pointer(&units->first, g_free);
}

uint64_t vms_dump_units_count(const struct vms_dump_units *units)
{
	return units->first[units->memory->len];
}

bool vms_dump_units_get(const struct vms_dump_units *units, uint64_t number,
			struct vms_dump_unit *ret)
{
	const guint n = units->memory->len;
	if (number >= units->first[n])
		return false;
	/* The first range begins with number 0. */
	const guint index = (guint)VMS_SEARCH(n, i, units->first[i] <= number) - 1;
	const struct vms_range *range = get_range(units, index);
	uint64_t slot = range->pa / VMS_DUMP_UNIT_MAX + (number - units->first[index]);
	uint64_t end = MIN((slot + 1) * VMS_DUMP_UNIT_MAX, range->pa + range->size);
	ret->pa = MAX(slot * VMS_DUMP_UNIT_MAX, range->pa);
	ret->size = end - ret->pa;
	ret->data = ret->edge[0] = ret->edge[1] = NULL;
	memset(ret->zero, true, sizeof(ret->zero));
	return true;
}
