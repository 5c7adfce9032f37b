/* SPDX-License-Identifier: MIT */
/*
 * Calls that have not returned, by a key that identifies their return: the stack pointer, the
 * return address, and for code of programs the address space. A task may return on another vCPU
 * than the one that it called on.
 */
#pragma once

#include "probe/program.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The state of a vCPU when the call has returned. */
struct call_key {
	uint64_t sp, pc;
	uint64_t space; /* root of the page tables for code of a program; 0: code of the kernel */
};

struct open_call {
	struct open_call *next;
	struct call_key key;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	uint32_t place;
	uint32_t size; /* of `values`, which were collected at the call */
	unsigned n_kept;
	struct vms_kept_argument kept[VMS_ARGUMENTS_KEPT_MAX];
	uint8_t values[];
};

struct open_calls;

/* NULL if there is no memory. */
struct open_calls *open_calls_new(void);
/* NULL is allowed. */
void open_calls_free(struct open_calls *calls);
/*
 * Adds a call, and copies `values`. Any thread. Removes an open call of the same place with the
 * same key: it will never return, because its stack is used again. False if there are too many
 * calls, or no memory.
 */
bool open_calls_add(struct open_calls *calls, const struct open_call *call, const void *values);
/*
 * Removes all calls with a key and returns them as a list, the last one first. There are several
 * after tail calls. The caller frees each. NULL if there is none. Any thread.
 */
struct open_call *open_calls_take(struct open_calls *calls, const struct call_key *key);
