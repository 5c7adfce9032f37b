/* SPDX-License-Identifier: MIT */
/*
 * The call tracker: which calls are open on which stack, and which records are written of them. It
 * knows nothing of QEMU or processors. Of an address it knows only whether a function begins there.
 *
 * A frame is an open call. It is known by its slot: a stack address that the call's return shows
 * again. On x86 the return address lies there, on aarch64 it is the stack pointer at the call. When
 * the stack pointer has moved back past a slot, the frame is over, whatever the reason: longjmp, an
 * exception, a handler that does not return.
 *
 * Frames lie on stacks. Stacks lie in a context by privilege rank (privilege.h). A context is a
 * task, or what a vCPU runs if no tasks are known. While code runs at a rank, no frames are open at
 * higher ranks. A context that is switched away from is parked as it is.
 */
#pragma once

#include "agent/cpu/privilege.h"
#include "agent/ring.h"
#include "agent/tasks/task.h"

struct call_tracker;  /* of one vCPU; only its thread uses it */
struct call_trackers; /* all of a trace, and what they share: options, tables, tasks */

enum entry_kind { ENTRY_INTERRUPT, ENTRY_SYSCALL };

/*
 * Copies the options. Takes ownership of `functions` (from malloc, sorted), also on failure. NULL:
 * no memory.
 */
struct call_trackers *call_trackers_new(const struct vms_agent_calls *options,
					const struct privilege_levels *levels,
					struct vms_agent_function *functions, size_t n_functions,
					unsigned n_vcpus);
/*
 * Sets other options and functions for the same trace; `by` of the options does not change. No vCPU
 * may be in a callback. False: no memory, nothing has changed.
 */
bool call_trackers_update(struct call_trackers *trackers, const struct vms_agent_calls *options,
			  struct vms_agent_function *functions, size_t n_functions);
void call_trackers_free(struct call_trackers *trackers);
/* Returns the flags of the function that begins at `va`; -1: none does. From any thread, fast. */
int call_trackers_find_function(const struct call_trackers *trackers, uint64_t va);
/* True if a STOP function was called: the trace is to end. From any thread. */
bool call_trackers_stopped(const struct call_trackers *trackers);

/* NULL: no memory, or no such vCPU. */
struct call_tracker *call_tracker_new(struct call_trackers *trackers, unsigned vcpu,
				      struct vms_ring *ring);
/*
 * Writes exits of all calls that are open or parked, with the given time. Nothing is recorded after
 * that.
 */
void call_tracker_finish(struct call_tracker *tracker, uint64_t time);
void call_tracker_free(struct call_tracker *tracker);

/* Finds the innermost call at `rank`. False: none is known. */
bool call_tracker_find_innermost(const struct call_tracker *tracker, unsigned rank, uint64_t *slot,
				 uint64_t *function);
/*
 * True if user code that continues at `pc` with `sp` continues where it was left. If false, the
 * caller checks whether the task has another address space, calls track_new_space if so, and then
 * track_exit.
 */
bool call_tracker_resumes_user(const struct call_tracker *tracker, uint64_t pc, uint64_t sp);

/* ---- what a vCPU does; `time` in ns or instructions, as the options say --------- */

/*
 * Opens the calls of a task, or of this vCPU, that were open when the trace began. Those of the
 * task that runs here are told after its track_switch. Those of another task are recorded when a
 * vCPU switches to it. A task or vCPU that has open calls already keeps them.
 */
void track_open_calls(struct call_tracker *tracker, const struct vms_agent_stack *stack,
		      const struct vms_agent_frame *frames, uint64_t time);
/* A call at `rank` has pushed `slot` and goes to `function`. */
void track_call(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t function,
		uint64_t time);
/*
 * A return at `rank` through `slot`. False: it is not that of the innermost call, and the caller
 * has to find out where it goes, for track_return. Most returns need not be told more.
 */
bool track_expected_return(struct call_tracker *tracker, unsigned rank, uint64_t slot,
			   uint64_t time);
/* A return at `rank` through `slot` goes to `target`. A return that fits no call may be a jump. */
void track_return(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t target,
		  uint64_t time);
/* A jump goes to the begin of another function: a tail call. */
void track_jump(struct call_tracker *tracker, unsigned rank, uint64_t function, uint64_t time);
/* The stack pointer has been loaded: the next slot may lie on another stack. */
void track_stack_load(struct call_tracker *tracker, unsigned rank);
/*
 * The processor has entered `function` at `rank` by itself, with the stack pointer `slot`. It came
 * from `from_rank`, where it would continue at `pc` with the stack pointer `sp`. `function` 0: it
 * is not known which; the function that is jumped to next is recorded.
 */
void track_entry(struct call_tracker *tracker, enum entry_kind kind, unsigned rank, uint64_t slot,
		 uint64_t function, unsigned from_rank, uint64_t pc, uint64_t sp, uint64_t time);
/*
 * The processor leaves `rank`, where its stack pointer is `slot`, for `to_rank`, where it continues
 * at `pc` with the stack pointer `sp`. If that is not where it was entered from, a signal's handler
 * is called, a handler has returned, or a new program begins.
 */
void track_exit(struct call_tracker *tracker, unsigned rank, uint64_t slot, unsigned to_rank,
		uint64_t pc, uint64_t sp, uint64_t time);
/* This vCPU continues with another task. */
void track_switch(struct call_tracker *tracker, const struct task *task, uint64_t time);
/* The vCPU's task has a new address space: the kernel will start another program. */
void track_new_space(struct call_tracker *tracker, uint64_t mm, const char *name);
