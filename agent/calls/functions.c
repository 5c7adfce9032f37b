/* SPDX-License-Identifier: MIT */
#include "agent/calls/functions.h"

#include <stdlib.h>
#include <string.h>

static void add_hint(struct functions *functions, uint64_t va)
{
	uint64_t bit = functions_hash(va) / (UINT64_MAX / FUNCTIONS_HINTS + 1);
	functions->hints[bit / 64] |= 1ULL << bit % 64;
}

/* At least half of the index stays empty, so that a search ends soon. */
static bool make_index(struct functions *functions)
{
	size_t n = functions->n;
	unsigned bits = 1;
	while (1ULL << bits < 2 * n)
		bits++;
	functions->shift = 64 - bits;
	functions->index = calloc(1ULL << bits, sizeof(*functions->index));
	if (!functions->index)
		return false;
	for (size_t i = 0; i < n; i++) {
		uint64_t at = functions_hash(functions->all[i].va) >> functions->shift;
		while (functions->index[at])
			at = (at + 1) & ((1ULL << bits) - 1);
		functions->index[at] = (uint32_t)i + 1;
		functions->flags |= functions->all[i].flags;
		if (functions->all[i].flags & FUNCTIONS_SPECIAL)
			add_hint(functions, functions->all[i].va);
	}
	return true;
}

bool functions_init(struct functions *functions, struct vms_agent_function *all, size_t n)
{
	*functions = (struct functions) { .all = all, .n = n };
	add_hint(functions, 0);
	if (n <= VMS_AGENT_MAX_FUNCTIONS && make_index(functions))
		return true;
	functions_clear(functions);
	return false;
}

void functions_clear(struct functions *functions)
{
	free(functions->all);
	free(functions->index);
	memset(functions, 0, sizeof(*functions));
}

int functions_find(const struct functions *functions, uint64_t va)
{
	uint64_t mask = UINT64_MAX >> functions->shift;
	uint64_t at = functions_hash(va) >> functions->shift;
	for (; functions->index[at]; at = (at + 1) & mask) {
		const struct vms_agent_function *function =
			&functions->all[functions->index[at] - 1];
		if (function->va == va)
			return (int)(function->flags & INT32_MAX);
	}
	return -1;
}

uint64_t functions_containing(const struct functions *functions, uint64_t va)
{
	size_t low = 0, high = functions->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (functions->all[middle].va <= va)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? functions->all[low - 1].va : 0;
}
