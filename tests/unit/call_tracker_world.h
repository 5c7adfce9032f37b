/* SPDX-License-Identifier: MIT */
/*
 * vCPUs whose calls are followed, and what a client reads of it: written from the protocol's words
 * alone. Checks of every stream that times do not go back, and that entries and exits nest.
 */
#pragma once

#include "agent/calls/call_tracker.h"
#include "agent/calls/uftrace_record.h"
#include <glib.h>

#define WORLD_VCPUS 3

struct world {
	struct call_trackers *trackers;
	struct call_tracker *tracker[WORLD_VCPUS];
	struct vms_ring ring[WORLD_VCPUS];
	struct vms_agent_ring shared[WORLD_VCPUS];
	void *data[WORLD_VCPUS];
	GHashTable *streams; /* id → struct world_stream, once read */
};

extern struct world world; /* of the test that runs */

/* A stream as it was read: its records in order, what was told of it. */
struct world_stream {
	uint64_t id;
	GPtrArray *blocks; /* struct world_block, by sequence */
	struct vms_calls_stream about;
	GArray *spaces; /* struct vms_calls_space */
	GArray *records;
};

/* `functions` ends with an address of 0. */
void world_set_up(const struct vms_agent_calls *options, const struct vms_agent_function *functions,
		  size_t ring_size);
/* Other options and functions. */
void world_update(const struct vms_agent_calls *options,
		  const struct vms_agent_function *functions);
/* Ends the trace on all vCPUs, reads what was written, checks it. */
void world_finish(uint64_t time);
void world_tear_down(void);
/* NULL where nothing was written. */
struct world_stream *world_stream(uint64_t id);

/* ---- events of the one world of a test, at times that count up from 1000 --------------------- */

#define USER   0
#define KERNEL 3

#define USER_SP	  0x7ffc00010000
#define KERNEL_SP 0xffffc90000004000
#define CPU(n)	  (100 * ((n) + 1ULL))
#define IDLE(n)	  (4194304ULL + (n))

extern uint64_t now;
extern unsigned cpu; /* on which it happens */

/*
 * A function is a letter, small ones the user's; "a(b())" is a that calls b. Its first byte, and
 * where a call in it returns to.
 */
uint64_t fn(char name);
uint64_t in(char name);

void begin(enum vms_agent_by by, const struct vms_agent_function *functions);
void begin_with(const struct vms_agent_calls *options, const struct vms_agent_function *functions);
void call(unsigned rank, uint64_t slot, char name);
/* To the middle of some function. */
void ret(unsigned rank, uint64_t slot);
/* To the first byte of one. */
void ret_to(unsigned rank, uint64_t slot, char name);
void jump(unsigned rank, char name);
void load_stack(unsigned rank);
/* An interrupt of the kernel, and back from it. */
void interrupt(uint64_t slot, char name, uint64_t sp);
void back(uint64_t slot, uint64_t sp);
/* A system call or interrupt of user code, and back to it. */
void enter(enum entry_kind kind, char name, uint64_t pc, uint64_t sp);
void leave(uint64_t pc, uint64_t sp);
/* Task `n`, whose id is 100 + n; 0: the idle one. */
void switch_to(unsigned n);
uint64_t task_va(unsigned n);
uint64_t task_mm(unsigned n);
/* The top of its kernel stack. */
uint64_t stack_of(unsigned n);

void end(void); /* then what is expected of each stream, then world_tear_down */
void expect(uint64_t id, const char *tree);
/* All of it, of a single stream. */
void end_with(uint64_t id, const char *tree);
