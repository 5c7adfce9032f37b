/* SPDX-License-Identifier: MIT */
/*
 * The places of all sets by address, for instrumented code. A plan never changes, but a set can be
 * removed from it.
 *
 * A *place* is an address where a program runs, before or after its instruction. A *set* has the
 * places that a client arms together, with their programs (set.h). An *entry* is a place of one set
 * in the plan of all sets: several sets may have a place at one address.
 */
#pragma once

#include "agent/probes/set.h"

struct plan_entry {
	uint64_t va;
	uint32_t place; /* of the set */
	uint16_t set;	/* of the plan */
	bool after;
	bool call; /* the place is a function, and its return is the hit */
};

/* The entries of one address: those before the instruction come first. */
struct plan_place {
	const struct plan_entry *entries;
	unsigned n_before, n_after;
};

struct plan {
	_Atomic(struct probe_set *) sets[VMS_AGENT_MAX_PROBES]; /* NULL: removed, or none */
	struct plan_entry *entries;				/* sorted by address */
	uint32_t n;
	uint32_t *index; /* hash table: 1 + the first entry of an address; 0: none */
	unsigned shift;	 /* turns a hash into an index of the table */
	bool has_after, has_calls;
	/* Bit n: there is a place in the lower half of the addresses whose low 12 bits are n. */
	uint64_t offsets[4096 / 64];
};

/* Makes a plan of `n` sets, VMS_AGENT_MAX_PROBES at most. NULL if there is no memory. */
struct plan *plan_new(struct probe_set *const *sets, unsigned n);
void plan_free(struct plan *plan);
/* Finds the entries of an address. `entries` is NULL if there are none. */
struct plan_place plan_find(const struct plan *plan, uint64_t va);
/* True if there may be a place in the lower half at this offset in a page. */
bool plan_has_offset(const struct plan *plan, uint64_t va);
