/* SPDX-License-Identifier: MIT */
/* A table of functions: their addresses, and flags of special ones. */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>

#define FUNCTIONS_HINTS 4096 /* bits */

/* Flags of functions whose calls need special treatment. */
#define FUNCTIONS_SPECIAL                                                                          \
	(VMS_AGENT_FUNCTION_TRANSPARENT | VMS_AGENT_FUNCTION_ONLY | VMS_AGENT_FUNCTION_NOT |       \
	 VMS_AGENT_FUNCTION_START | VMS_AGENT_FUNCTION_STOP)

struct functions {
	struct vms_agent_function *all; /* sorted by address */
	size_t n;
	uint32_t *index; /* hash of the address → index in `all` + 1, or 0 */
	unsigned shift;	 /* of the hash */
	uint64_t flags;	 /* of all of them together */
	/* Bit by hash: a function with that hash may be special. This answers for most calls. */
	uint64_t hints[FUNCTIONS_HINTS / 64];
};

/* Takes ownership of `all` (from malloc), also on failure. False if there is no memory. */
bool functions_init(struct functions *functions, struct vms_agent_function *all, size_t n);
void functions_clear(struct functions *functions);
/* Returns the flags of the function that begins at `va`, or -1 if none does. */
int functions_find(const struct functions *functions, uint64_t va);
/* Returns the address of the last function at or before `va`, or 0. Slower than functions_find. */
uint64_t functions_containing(const struct functions *functions, uint64_t va);

static inline uint64_t functions_hash(uint64_t va)
{
	return va * 0x9e3779b97f4a7c15ULL;
}

/* False if `va` is certainly not a special function. */
static inline bool functions_hint(const struct functions *functions, uint64_t va)
{
	uint64_t bit = functions_hash(va) / (UINT64_MAX / FUNCTIONS_HINTS + 1);
	return functions->hints[bit / 64] >> bit % 64 & 1;
}
