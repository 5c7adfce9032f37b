/* SPDX-License-Identifier: MIT */
/* Where functions begin, and what is special about some of them. */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

#define FUNCTIONS_HINTS 4096 /* bits */

/* Flags with which a call is more than a call. */
#define FUNCTIONS_SPECIAL                                                                          \
	(VMS_AGENT_FUNCTION_TRANSPARENT | VMS_AGENT_FUNCTION_ONLY | VMS_AGENT_FUNCTION_NOT |       \
	 VMS_AGENT_FUNCTION_START | VMS_AGENT_FUNCTION_STOP)

struct functions {
	struct vms_agent_function *all; /* sorted by address */
	size_t n;
	uint32_t *index; /* hash of the address → place in `all` + 1, or 0 */
	unsigned shift;	 /* of the hash */
	uint64_t flags;	 /* of all of them together */
	/* Bit by hash: a function with that hash may be special. Decides for most calls at once. */
	uint64_t hints[FUNCTIONS_HINTS / 64];
};

/* Takes ownership of `all` (from malloc), also on failure. False: no memory. */
bool functions_init(struct functions *functions, struct vms_agent_function *all, size_t n);
void functions_clear(struct functions *functions);
/* Returns the flags of the function that begins at `va`; -1: none does. */
int functions_find(const struct functions *functions, uint64_t va);
/* Returns the begin of the function that `va` seems to lie in; 0: none. Slower than a find. */
uint64_t functions_containing(const struct functions *functions, uint64_t va);

static inline uint64_t functions_hash(uint64_t va)
{
	return va * 0x9e3779b97f4a7c15ULL;
}

/* False: `va` is certainly no special function. */
static inline bool functions_hint(const struct functions *functions, uint64_t va)
{
	uint64_t bit = functions_hash(va) / (UINT64_MAX / FUNCTIONS_HINTS + 1);
	return functions->hints[bit / 64] >> bit % 64 & 1;
}
