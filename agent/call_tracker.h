/* SPDX-License-Identifier: MIT */
/*
 * From calls and returns to records: what is open on which stack, and what of it is recorded.
 * Knows nothing of QEMU or processors; all it is told of an address is that it is a function.
 *
 * A frame is an open call, and is known by its slot: a stack address that its return will show
 * again. On x86 it is where the return address lies, on aarch64 the stack pointer at the call.
 * Frames whose slot the stack has been cut back past are over, however that came about: longjmp, an
 * exception, a handler that does not return.
 *
 * Frames lie on stacks, stacks in a context (a task, or what a vCPU runs where no tasks are known),
 * by privilege rank: 0 user, 3 the most privileged. What runs at a rank has no open frames at
 * higher ones. A context that is switched away from is parked as it is.
 */
#pragma once

#include "privilege.h"
#include "ring.h"

struct call_tracker;  /* of one vCPU, used by its thread alone */
struct call_trackers; /* what all vCPUs of a trace share: options, tables, tasks */

enum entry_kind { ENTRY_INTERRUPT, ENTRY_SYSCALL };

/* What a context switch leads to. */
struct tracked_task {
	uint64_t va; /* of its task_struct; its key */
	uint64_t mm; /* 0: a kernel thread */
	uint32_t tid, pid;
	char name[16];
};

/*
 * Copies the options; `functions` (of malloc, sorted) belong to the tracing then, also where it
 * fails. NULL: no memory.
 */
struct call_trackers *call_trackers_new(const struct vms_agent_calls *options,
					const struct privilege_levels *levels,
					struct vms_agent_function *functions, size_t n_functions,
					unsigned n_vcpus);
/*
 * Other tables and options for a trace that goes on; `by` stays. No vCPU may be in a callback.
 * False: no memory, nothing has changed.
 */
bool call_trackers_update(struct call_trackers *trackers, const struct vms_agent_calls *options,
			  struct vms_agent_function *functions, size_t n_functions);
void call_trackers_free(struct call_trackers *trackers);
/* Flags of the function that begins at `va`, or -1 where none begins. From any thread, fast. */
int call_trackers_find_function(const struct call_trackers *trackers, uint64_t va);

/* Whether a STOP function was called: the trace is to end. From any thread. */
bool call_trackers_stopped(const struct call_trackers *trackers);

/* NULL: no memory, or no such vCPU. */
struct call_tracker *call_tracker_new(struct call_trackers *trackers, unsigned vcpu,
				      struct vms_ring *ring);
/* Ends what is open with exits, at `time`; what is parked, too. Nothing is recorded from then on.
 */
void call_tracker_finish(struct call_tracker *tracker, uint64_t time);
void call_tracker_free(struct call_tracker *tracker);

/*
 * The open calls of a task, or of this vCPU, as tracing begins. Those of the task that runs here
 * come after its track_switch; those of others are recorded when it is first switched to. What has
 * open calls already keeps them.
 */
void track_open_calls(struct call_tracker *tracker, const struct vms_agent_stack *stack,
		      const struct vms_agent_frame *frames, uint64_t time);

/* A call at `rank` pushed `slot` and goes to `function`. */
void track_call(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t function,
		uint64_t time);
/* A return at `rank` through `slot` to `target`. Returns that no call fits may be jumps. */
void track_return(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t target,
		  uint64_t time);
/* The innermost call at `rank`; false: none is known. */
bool call_tracker_find_innermost(const struct call_tracker *tracker, unsigned rank, uint64_t *slot,
				 uint64_t *function);
/* A jump to the begin of another function: a tail call. */
void track_jump(struct call_tracker *tracker, unsigned rank, uint64_t function, uint64_t time);
/* The stack pointer was loaded with something: the next slot may lie on another stack. */
void track_stack_load(struct call_tracker *tracker, unsigned rank);
/*
 * The processor entered `function` at `rank` by itself; its stack pointer is `slot`. It came from
 * `from_rank`, where it would go on at `pc` with the stack pointer `sp`. `function` 0: it is not
 * known which; the one that is jumped to is recorded.
 */
void track_entry(struct call_tracker *tracker, enum entry_kind kind, unsigned rank, uint64_t slot,
		 uint64_t function, unsigned from_rank, uint64_t pc, uint64_t sp, uint64_t time);
/*
 * The processor leaves `rank`, with the stack pointer `slot` there, for `to_rank`, and goes on
 * there at `pc` with the stack pointer `sp`. Where that is not what it was entered from, it is a
 * signal's handler that is called, a return from one, or a new program.
 */
void track_exit(struct call_tracker *tracker, unsigned rank, uint64_t slot, unsigned to_rank,
		uint64_t pc, uint64_t sp, uint64_t time);
/*
 * Whether user code would go on at `pc` with `sp` where it was left; if not, the caller looks
 * whether the task has another address space, and calls track_new_space before track_exit if so.
 */
bool call_tracker_resumes_user(const struct call_tracker *tracker, uint64_t pc, uint64_t sp);
/* This vCPU goes on with another task. */
void track_switch(struct call_tracker *tracker, const struct tracked_task *task, uint64_t time);
/* The task of this vCPU has another address space: a new program, to which the kernel will go. */
void track_new_space(struct call_tracker *tracker, uint64_t mm, const char *name);
