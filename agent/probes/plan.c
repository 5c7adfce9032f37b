/* SPDX-License-Identifier: MIT */
#include "agent/probes/plan.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_address(uint64_t va)
{
	return va * UINT64_C(0x9e3779b97f4a7c15);
}

static int compare_entries(const void *a, const void *b)
{
	const struct plan_entry *x = a, *y = b;
	if (x->va != y->va)
		return x->va < y->va ? -1 : 1;
	if (x->after != y->after)
		return x->after ? 1 : -1;
	return x->set != y->set ? x->set - y->set : x->place < y->place ? -1 : 1;
}

static void add_entries_of_set(struct plan *plan, unsigned number, struct probe_set *set)
{
	atomic_init(&plan->sets[number], set);
	for (uint32_t i = 0; i < set->options.n_places; i++) {
		const uint64_t va = set->file[i].va, offset = va & 4095;
		const uint32_t flags = set->file[i].flags;
		const struct plan_entry entry = {
			.va = va,
			.place = i,
			.set = (uint16_t)number,
			.after = flags & VMS_AGENT_PLACE_AFTER,
			.call = flags & VMS_AGENT_PLACE_CALL,
		};
		if (flags & VMS_AGENT_PLACE_RETURN)
			continue;
		plan->entries[plan->n++] = entry;
		plan->has_after |= entry.after;
		plan->has_calls |= entry.call;
		if ((int64_t)va >= 0)
			plan->offsets[offset / 64] |= UINT64_C(1) << offset % 64;
	}
}

static bool make_index(struct plan *plan)
{
	unsigned bits = 4;
	while ((UINT32_C(1) << bits) < 2 * plan->n)
		bits++;
	plan->shift = 64 - bits;
	plan->index = calloc((size_t)1 << bits, sizeof(*plan->index));
	if (!plan->index)
		return false;
	for (uint32_t i = 0; i < plan->n; i++) {
		if (i > 0 && plan->entries[i].va == plan->entries[i - 1].va)
			continue;
		uint64_t at = hash_address(plan->entries[i].va) >> plan->shift;
		while (plan->index[at])
			at = (at + 1) & ((UINT64_C(1) << bits) - 1);
		plan->index[at] = i + 1;
	}
	return true;
}

struct plan *plan_new(struct probe_set *const *sets, unsigned n)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	size_t n_entries = 0;
	for (unsigned i = 0; i < n; i++)
		n_entries += sets[i]->options.n_places;
	if (!plan)
		return NULL;
	plan->entries = calloc(n_entries ? n_entries : 1, sizeof(*plan->entries));
	for (unsigned i = 0; plan->entries && i < n; i++)
		add_entries_of_set(plan, i, sets[i]);
	if (plan->entries)
		qsort(plan->entries, plan->n, sizeof(*plan->entries), compare_entries);
	if (plan->entries && make_index(plan))
		return plan;
	plan_free(plan);
	return NULL;
}

void plan_free(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->entries);
	free(plan->index);
	free(plan);
}

static struct plan_place get_place(const struct plan *plan, uint32_t first)
{
	struct plan_place place = { .entries = &plan->entries[first] };
	for (uint32_t i = first; i < plan->n && plan->entries[i].va == place.entries->va; i++)
		*(plan->entries[i].after ? &place.n_after : &place.n_before) += 1;
	return place;
}

struct plan_place plan_find(const struct plan *plan, uint64_t va)
{
	const uint64_t mask = UINT64_MAX >> plan->shift;
	uint64_t at = hash_address(va) >> plan->shift;
	for (; plan->index[at]; at = (at + 1) & mask)
		if (plan->entries[plan->index[at] - 1].va == va)
			return get_place(plan, plan->index[at] - 1);
	return (struct plan_place) { .entries = NULL };
}

bool plan_has_offset(const struct plan *plan, uint64_t va)
{
	return plan->offsets[(va & 4095) / 64] >> va % 64 & 1;
}
