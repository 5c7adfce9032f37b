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

#include "ring.h"

#define FLOW_RANKS 4

struct flow;	     /* of one vCPU, used by its thread alone */
struct flow_tracing; /* what all vCPUs of a trace share: options, tables, tasks */

enum flow_entry_kind { FLOW_INTERRUPT, FLOW_SYSCALL };

/* What a context switch leads to. */
struct flow_task {
	uint64_t va; /* of its task_struct; its key */
	uint64_t mm; /* 0: a kernel thread */
	uint32_t tid, pid;
	char name[16];
};

/* What the ranks are in the guest's processor. */
struct flow_levels {
	unsigned kernel;		  /* the rank of an operating system's kernel */
	unsigned char number[FLOW_RANKS]; /* ring or exception level of each rank */
};

/*
 * Copies the options; `functions` (of malloc, sorted) belong to the tracing then, also where it
 * fails. NULL: no memory.
 */
struct flow_tracing *flow_tracing_new(const struct vms_agent_calls *options,
				      const struct flow_levels *levels,
				      struct vms_agent_function *functions, size_t n_functions,
				      unsigned n_vcpus);
/*
 * Other tables and options for a trace that goes on; `by` stays. No vCPU may be in a callback.
 * False: no memory, nothing has changed.
 */
bool flow_tracing_update(struct flow_tracing *tracing, const struct vms_agent_calls *options,
			 struct vms_agent_function *functions, size_t n_functions);
void flow_tracing_free(struct flow_tracing *tracing);
/* Flags of the function that begins at `va`, or -1 where none begins. From any thread, fast. */
int flow_function(const struct flow_tracing *tracing, uint64_t va);

/* Whether a STOP function was called: the trace is to end. From any thread. */
bool flow_tracing_stopped(const struct flow_tracing *tracing);

/* NULL: no memory, or no such vCPU. */
struct flow *flow_new(struct flow_tracing *tracing, unsigned vcpu, struct vms_ring *ring);
/* Ends what is open with exits, at `time`; what is parked, too. Nothing is recorded from then on.
 */
void flow_finish(struct flow *flow, uint64_t time);
void flow_free(struct flow *flow);

/*
 * The open calls of a task, or of this vCPU, as tracing begins. Those of the task that runs here
 * come after its flow_switch; those of others are recorded when it is first switched to. What has
 * open calls already keeps them.
 */
void flow_seed(struct flow *flow, const struct vms_agent_stack *stack,
	       const struct vms_agent_frame *frames, uint64_t time);

/* A call at `rank` pushed `slot` and goes to `function`. */
void flow_call(struct flow *flow, unsigned rank, uint64_t slot, uint64_t function, uint64_t time);
/* A return at `rank` through `slot` to `target`. Returns that no call fits may be jumps. */
void flow_return(struct flow *flow, unsigned rank, uint64_t slot, uint64_t target, uint64_t time);
/* The innermost call at `rank`; false: none is known. */
bool flow_innermost(const struct flow *flow, unsigned rank, uint64_t *slot, uint64_t *function);
/* A jump to the begin of another function: a tail call. */
void flow_jump(struct flow *flow, unsigned rank, uint64_t function, uint64_t time);
/* The stack pointer was loaded with something: the next slot may lie on another stack. */
void flow_stack_loaded(struct flow *flow, unsigned rank);
/*
 * The processor entered `function` at `rank` by itself; its stack pointer is `slot`. It came from
 * `from_rank`, where it would go on at `pc` with the stack pointer `sp`. `function` 0: it is not
 * known which; the one that is jumped to is recorded.
 */
void flow_enter(struct flow *flow, enum flow_entry_kind kind, unsigned rank, uint64_t slot,
		uint64_t function, unsigned from_rank, uint64_t pc, uint64_t sp, uint64_t time);
/*
 * The processor leaves `rank`, with the stack pointer `slot` there, for `to_rank`, and goes on
 * there at `pc` with the stack pointer `sp`. Where that is not what it was entered from, it is a
 * signal's handler that is called, a return from one, or a new program.
 */
void flow_leave(struct flow *flow, unsigned rank, uint64_t slot, unsigned to_rank, uint64_t pc,
		uint64_t sp, uint64_t time);
/*
 * Whether user code would go on at `pc` with `sp` where it was left; if not, the caller looks
 * whether the task has another address space, and calls flow_space before flow_leave if so.
 */
bool flow_resumes(const struct flow *flow, uint64_t pc, uint64_t sp);
/* This vCPU goes on with another task. */
void flow_switch(struct flow *flow, const struct flow_task *task, uint64_t time);
/* The task of this vCPU has another address space: a new program, to which the kernel will go. */
void flow_space(struct flow *flow, uint64_t mm, const char *name);
