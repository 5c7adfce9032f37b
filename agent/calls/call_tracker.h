/* SPDX-License-Identifier: MIT */
/*
 * The call tracker knows which calls are open on which stack, and writes their records. It does not
 * depend on QEMU or a processor. Of an address it knows only whether a function begins there.
 *
 * A frame is an open call. Its slot identifies it: a stack address at the call that is seen again
 * at the return. On x86 the slot is the address of the return address, on aarch64 the stack pointer
 * at the call. When the stack pointer moves back past a slot, the frame ends, whatever the reason:
 * a return, longjmp, an exception, a handler that does not return.
 *
 * Frames are on stacks. Stacks are in a context, ordered by privilege rank (privilege.h). A context
 * is a task, or the code that a vCPU runs if no tasks are known. While code runs at a rank, no
 * frames are open at higher ranks. When a vCPU switches to another context, the old one stays as it
 * is.
 */
#pragma once

#include "agent/cpu/privilege.h"
#include "agent/ring.h"
#include "agent/tasks/task.h"

struct call_tracker;  /* of one vCPU; only its thread uses it */
struct call_trackers; /* all trackers of a trace, with their options, tables and tasks */

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
 * may be in a callback. False if there is no memory: then nothing has changed.
 */
bool call_trackers_update(struct call_trackers *trackers, const struct vms_agent_calls *options,
			  struct vms_agent_function *functions, size_t n_functions);
void call_trackers_free(struct call_trackers *trackers);
/* Returns the flags of the function that begins at `va`, or -1 if none does. Any thread. Fast. */
int call_trackers_find_function(const struct call_trackers *trackers, uint64_t va);
/* True if a STOP function was called: the trace must end. Any thread. */
bool call_trackers_stopped(const struct call_trackers *trackers);

/* Makes the tracker of a vCPU. NULL if there is no memory, or no such vCPU. */
struct call_tracker *call_tracker_new(struct call_trackers *trackers, unsigned vcpu,
				      struct vms_ring *ring);
/*
 * Writes exits of all open and parked calls, with the given time. Nothing is recorded after that.
 */
void call_tracker_finish(struct call_tracker *tracker, uint64_t time);
void call_tracker_free(struct call_tracker *tracker);

/* Finds the innermost call at `rank`. False if none is known. */
bool call_tracker_find_innermost(const struct call_tracker *tracker, unsigned rank, uint64_t *slot,
				 uint64_t *function);
/*
 * True if user code that continues at `pc` with `sp` was interrupted there. If false, the caller
 * checks whether the task has another address space, calls track_new_space if so, and then
 * track_exit.
 */
bool call_tracker_resumes_user(const struct call_tracker *tracker, uint64_t pc, uint64_t sp);

/* ---- events of a vCPU; `time` is in ns or instructions, as set in the options ---- */

/*
 * Opens the calls of a task, or of this vCPU, that were open when the trace began. For the task
 * that runs on this vCPU, call track_switch first. Calls of another task are recorded when a vCPU
 * switches to it. Does nothing if the task or vCPU has open calls already.
 */
void track_open_calls(struct call_tracker *tracker, const struct vms_agent_stack *stack,
		      const struct vms_agent_frame *frames, uint64_t time);
/* A call at `rank` has pushed `slot` and goes to `function`. */
void track_call(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t function,
		uint64_t time);
/*
 * A return at `rank` with `slot`. True if it ends the innermost call, like most returns. If false,
 * the caller finds out where the return goes and calls track_return.
 */
bool track_expected_return(struct call_tracker *tracker, unsigned rank, uint64_t slot,
			   uint64_t time);
/* A return at `rank` with `slot` goes to `target`. A return that matches no call may be a jump. */
void track_return(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t target,
		  uint64_t time);
/* A jump goes to the begin of another function: a tail call. */
void track_jump(struct call_tracker *tracker, unsigned rank, uint64_t function, uint64_t time);
/* The stack pointer was loaded: the next slot may be on another stack. */
void track_stack_load(struct call_tracker *tracker, unsigned rank);
/*
 * An exception, interrupt or system call has entered `function` at `rank`, with the stack pointer
 * `slot`. The interrupted code at `from_rank` would continue at `pc` with the stack pointer `sp`.
 * If `function` is 0, it is not known, and the function that is jumped to next is recorded.
 */
void track_entry(struct call_tracker *tracker, enum entry_kind kind, unsigned rank, uint64_t slot,
		 uint64_t function, unsigned from_rank, uint64_t pc, uint64_t sp, uint64_t time);
/*
 * The processor returns from `rank`, where its stack pointer is `slot`, to `to_rank`, where it
 * continues at `pc` with the stack pointer `sp`. If it does not continue where it was interrupted,
 * a signal's handler is called, a handler has returned, or a new program begins.
 */
void track_exit(struct call_tracker *tracker, unsigned rank, uint64_t slot, unsigned to_rank,
		uint64_t pc, uint64_t sp, uint64_t time);
/* This vCPU continues with another task. */
void track_switch(struct call_tracker *tracker, const struct task *task, uint64_t time);
/* The vCPU's task has a new address space: the kernel will start another program. */
void track_new_space(struct call_tracker *tracker, uint64_t mm, const char *name);
