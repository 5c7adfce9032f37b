/* SPDX-License-Identifier: MIT */
/*
 * What the files of the flow share. A vCPU's flow works on one context; contexts of tasks and
 * streams belong to all vCPUs, and are the flow's alone from one switch to the next.
 */
#pragma once

#include "call_tracker.h"
#include "functions.h"
#include "stack.h"
#include <glib.h>
#include <pthread.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define NO_RANK	    UINT32_MAX
#define NO_VCPU	    UINT32_MAX
#define MAX_SIGNALS 16

/* A data file. Once there, it stays as long as the tracing. */
struct stream {
	uint64_t id;
	uint64_t sequence; /* of its next block, over all rings */
	uint64_t time;	   /* of its last record */
	/* Whose user addresses it has, as far as the client was told. */
	uint64_t mm;
	uint32_t pid;	/* an address may be another one's mm_struct later */
	uint32_t depth; /* calls open in it */
	bool announced;
	struct vms_calls_stream about;
	struct context *context; /* BY_TASK: of which task it is */
};

/* Where the processor left user code for the kernel. */
struct user_state {
	enum entry_kind kind;
	bool known;
	uint64_t pc, sp;
};

/* A task, or what a vCPU runs where no tasks are known. */
struct context {
	struct tracked_task task; /* va 0: none */
	struct stack *top;	  /* of the open stacks, users' at the bottom; NULL: none */
	struct stack *parked;
	uint32_t n_parked;
	uint32_t undecided;	/* bit per rank: the next slot decides which stack is used */
	bool known;		/* its task has run before */
	bool opened;		/* its frames are open in its streams */
	bool wanted;		/* by the filter of processes */
	uint32_t only, without; /* open frames of functions that filters name */
	uint32_t vcpu;		/* that runs it, or NO_VCPU */
	uint64_t left;		/* when it was last switched away from */
	struct stream *stream;	/* BY_TASK */
	struct user_state user;
	struct {
		uint64_t pc, sp;
	} signals[MAX_SIGNALS]; /* what handlers of signals interrupted, the last one last */
	uint32_t n_signals;
	bool has_new_space; /* of the program that runs when the kernel is left */
	uint64_t new_mm;
};

struct call_trackers {
	struct vms_agent_calls options;
	struct privilege_levels levels;
	struct functions functions;
	bool plain;	      /* no filter may be in force */
	bool asks;	      /* a vCPU waits until the client knows an address space */
	bool delays;	      /* entries may wait since there was a threshold */
	_Atomic bool started; /* a START function was called, or none is waited for */
	_Atomic bool stopped;
	_Atomic uint64_t n_frames;
	struct call_tracker **by_vcpu;
	unsigned n_vcpus;

	pthread_mutex_t lock; /* for what follows, and who runs a context */
	GHashTable *contexts; /* va of task → struct context */
	GHashTable *streams;  /* id → struct stream */
	uint64_t n_collisions;
	unsigned n_unfinished; /* that are not finished */
};

struct call_tracker {
	/* Kept from the context, so that calls and returns need not look: */
	struct stack *top;
	uint32_t rank;	     /* of `top`, where that is the stack in use; else NO_RANK */
	bool plain;	     /* no filter may be in force */
	bool ready[N_RANKS]; /* the ring is set to this rank's stream, and nothing is to be told
				   of it */
	struct stream *streams[N_RANKS];
	struct vms_ring *ring;

	struct call_trackers *all;
	struct context *context;
	struct context own; /* where no tasks are known; that of the idle task */
	struct stream *vcpu_streams[N_RANKS];
	struct stream *selected; /* the ring's */
	unsigned vcpu;
	bool finished;
	struct stack_pool pool;
};

/* ---- streams.c: what is written where --------------------------------------- */

/* Those of a vCPU, which the idle task has, too; the lock is held. False: no memory, or too many.
 */
bool streams_of_vcpu(struct call_tracker *tracker);
/* That of a task's id, or one of its own where that is taken; the lock is held. NULL: as above. */
struct stream *stream_of_task(struct call_tracker *tracker, uint32_t tid);
/* What is recorded goes to the context's streams. */
void streams_use(struct call_tracker *tracker, struct context *context);
/* Ends the ring's block: the stream may go on elsewhere. */
void streams_leave(struct call_tracker *tracker);
/* The context's task may have another name, or another address space. */
void stream_renew(struct call_tracker *tracker);
/* Sets the ring to the stream of `rank`, and tells the client what it has to know first. */
void stream_select(struct call_tracker *tracker, unsigned rank, uint64_t time);

static inline void stream_record(struct call_tracker *tracker, unsigned rank,
				 enum vms_uftrace_type type, const struct frame *frame,
				 uint64_t time)
{
	struct stream *stream = tracker->streams[rank];
	if (unlikely(!tracker->ready[rank]))
		stream_select(tracker, rank, time);
	if (unlikely(time < stream->time))
		time = stream->time;
	stream->time = time;
	vms_ring_record(tracker->ring, time, vms_uftrace_word(type, frame->depth, frame->function));
}

/* ---- record.c: what is written of a call ------------------------------------ */

/* A frame of `stack` is opened or closed: counted, and recorded as filters say. */
void frame_open_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			 uint64_t time);
void frame_close_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			  uint64_t time);
/* All frames of a stack, which stay where they are. */
void stack_open(struct call_tracker *tracker, struct stack *stack, uint64_t time);
void stack_close(struct call_tracker *tracker, struct stack *stack, uint64_t time);
void frame_lost(struct call_tracker *tracker);

static inline void frame_open(struct call_tracker *tracker, struct stack *stack,
			      struct frame *frame, uint64_t time)
{
	if (unlikely(!tracker->plain ||
		     functions_hint(&tracker->all->functions, frame->function))) {
		frame_open_filtered(tracker, stack, frame, time);
		return;
	}
	frame->time = time;
	frame->depth = tracker->streams[stack->rank]->depth++;
	frame->flags |= FRAME_WANTED | FRAME_WRITTEN;
	stream_record(tracker, stack->rank, VMS_UFTRACE_ENTRY, frame, time);
}

static inline void frame_close(struct call_tracker *tracker, struct stack *stack,
			       struct frame *frame, uint64_t time)
{
	if (unlikely((frame->flags & ~FRAME_KIND) != (FRAME_WANTED | FRAME_WRITTEN))) {
		frame_close_filtered(tracker, stack, frame, time);
		return;
	}
	frame->flags &= FRAME_KIND;
	tracker->streams[stack->rank]->depth = frame->depth;
	stream_record(tracker, stack->rank, VMS_UFTRACE_EXIT, frame, time);
}

/* Ends the innermost frame of the stack in use. */
static inline void frame_pop(struct call_tracker *tracker, uint64_t time)
{
	struct stack *stack = tracker->top;
	frame_close(tracker, stack, stack_last(stack), time);
	stack->n--;
}

static inline void frame_push(struct call_tracker *tracker, uint64_t slot, uint64_t function,
			      uint32_t flags, uint64_t time)
{
	struct stack *stack = tracker->top;
	if (unlikely(stack->n == stack->size) && !stack_grow(&tracker->pool, stack)) {
		frame_lost(tracker);
		return;
	}
	struct frame *frame = &stack->frames[stack->n++];
	frame->slot = slot;
	frame->function = function;
	frame->flags = flags;
	frame_open(tracker, stack, frame, time);
}

/* ---- place.c: which stack is in use ----------------------------------------- */

/* `top` and `rank` of the flow follow what was changed of its context. */
void place_refresh(struct call_tracker *tracker);
/* Frames of ranks above `rank` are over. */
void place_lower(struct call_tracker *tracker, unsigned rank, uint64_t time);
/* The stack in use may not be the one on top any more. */
void place_forget(struct call_tracker *tracker, unsigned rank);
/*
 * Makes the stack of `rank` on which `slot` lies the one in use. False where that is none that is
 * known; then it stays open which is. Frames of a parked stack whose slots are below `cut` are
 * over.
 */
bool place_find(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t cut,
		uint64_t time);
/* Is there a stack on which `slot` lies, or which ends near it, that is not parked? */
bool place_is_open(const struct call_tracker *tracker, unsigned rank, uint64_t slot);
/* Puts a new stack on top. False: no memory. */
bool place_nest(struct call_tracker *tracker, unsigned rank, uint64_t time);
/* Frames of the stack in use whose slots are below are over. */
void place_cut(struct call_tracker *tracker, uint64_t slot, uint64_t time);
/* Forgets the stack in use where nothing is open on it and the next one is of the same rank. */
void place_drop_empty(struct call_tracker *tracker);
/* The user's calls go on in the address space that was seen last. */
void place_keep_program(struct call_tracker *tracker);
/* Ends all that is open in the context or parked there. */
void place_clear(struct call_tracker *tracker, uint64_t time);

/* ---- user.c ------------------------------------------------------------------- */

/* The kernel has been left for user code. */
void user_resume(struct call_tracker *tracker, uint64_t pc, uint64_t sp, uint64_t time);

/* ---- tasks.c: contexts -------------------------------------------------------- */

/* What is known of the context's task. */
void context_renew(struct call_tracker *tracker, const struct tracked_task *task);
/* Goes on with `task`. */
void context_switch(struct call_tracker *tracker, const struct tracked_task *task, uint64_t time);
/* Those of a task that does not run and has no open calls; the lock is held. NULL: there is none.
 */
struct context *context_to_seed(struct call_tracker *tracker, uint64_t va);
void context_open(struct call_tracker *tracker, uint64_t time);
/* Exits of what is open in the vCPU's context; after the last vCPU, in those of all tasks. */
void contexts_finish(struct call_tracker *tracker, uint64_t time);
/* Whether the filter of processes wants it. */
void context_filter(const struct call_trackers *trackers, struct context *context);
void context_clear(struct context *context, struct stack_pool *pool);
