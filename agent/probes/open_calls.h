/* SPDX-License-Identifier: MIT */
/*
 * Calls of functions that have not returned, by what shows their return: the stack pointer, the
 * address of the code behind the call, and the address space if that is a program's. A task may
 * return on another vCPU than it has called.
 */
#pragma once

#include "probe/program.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A call has these when it has returned. */
struct call_key {
	uint64_t sp, pc;
	uint64_t space; /* root of the page tables, for a program's code; 0: the kernel's */
};

struct open_call {
	struct open_call *next;
	struct call_key key;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	uint32_t place;
	uint32_t size; /* of what was collected at its begin */
	unsigned n_kept;
	struct vms_kept_argument kept[VMS_ARGUMENTS_KEPT_MAX];
	uint8_t values[];
};

struct open_calls;

/* NULL: no memory. */
struct open_calls *open_calls_new(void);
/* NULL is allowed. */
void open_calls_free(struct open_calls *calls);
/*
 * Adds a call; `values` are copied. Any thread. A call of the same place that is open with this key
 * is forgotten: it will never return, since its stack is in use again. False: there are too many,
 * or there is no memory.
 */
bool open_calls_add(struct open_calls *calls, const struct open_call *call, const void *values);
/*
 * Takes all calls of a key out, the last one first: more than one if functions have called others
 * as their last act. The caller frees each. NULL: there are none. Any thread.
 */
struct open_call *open_calls_take(struct open_calls *calls, const struct call_key *key);
