/* SPDX-License-Identifier: MIT */
/*
 * Declarations for the files of the call tracker. A vCPU's tracker works on one context. All vCPUs
 * share the contexts of tasks and their streams. Between two switches only one tracker uses a
 * context.
 */
#pragma once

#include "agent/calls/call_tracker.h"
#include "agent/calls/functions.h"
#include "agent/calls/stack.h"
#include "agent/calls/uftrace_record.h"
#include <glib.h>
#include <pthread.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define NO_RANK	    UINT32_MAX
#define NO_VCPU	    UINT32_MAX
#define MAX_SIGNALS 16

/* The records of one data file of uftrace. A stream is never removed before the trace ends. */
struct stream {
	uint64_t id;
	uint64_t sequence; /* of its next block, over all rings */
	uint64_t time;	   /* of its last record */
	/* The address space of its user addresses that was last reported to the client. */
	uint64_t mm;
	uint32_t pid;	/* of that space, because the address of an mm_struct may be reused */
	uint32_t depth; /* calls open in it */
	bool announced;
	struct vms_calls_stream about;
	struct context *context; /* BY_TASK: the task that owns it; NULL: none */
};

/* Where the processor left user code for the kernel. */
struct user_state {
	enum entry_kind kind;
	bool known;
	uint64_t pc, sp;
};

/* A task, or the code that a vCPU runs if no tasks are known. */
struct context {
	struct task task; /* va 0: none */
	struct stack
		*top; /* innermost open stack; stacks of user code are at the bottom; or NULL */
	struct stack *parked;
	uint32_t n_parked;
	uint32_t undecided;	/* bit per rank: the next slot decides which stack is in use */
	bool known;		/* its task has run before */
	bool opened;		/* its frames are open in its streams */
	bool wanted;		/* it passes the filter of processes */
	uint32_t only, without; /* open frames of ONLY and of NOT functions */
	uint32_t vcpu;		/* the vCPU that runs it, or NO_VCPU */
	uint64_t left;		/* when it was last switched away from */
	struct stream *stream;	/* BY_TASK */
	struct user_state user;
	struct {
		uint64_t pc, sp;
	} signals[MAX_SIGNALS]; /* what signal handlers interrupted; the latest is the last */
	uint32_t n_signals;
	bool has_new_space; /* another program runs when the kernel is left */
	uint64_t new_mm;
};

struct call_trackers {
	struct vms_agent_calls options;
	struct privilege_levels levels;
	struct functions functions;
	bool plain;	      /* no filter may be in force */
	bool asks;	      /* vCPUs wait until the client has read a new address space */
	bool delays;	      /* a threshold was set, so entries may be written later */
	_Atomic bool started; /* a START function was called, or none is needed */
	_Atomic bool stopped;
	_Atomic uint64_t n_frames;
	struct call_tracker **by_vcpu;
	unsigned n_vcpus;

	pthread_mutex_t lock; /* guards all below, and `vcpu` of contexts */
	GHashTable *contexts; /* va of task → struct context */
	GHashTable *streams;  /* id → struct stream */
	uint64_t n_collisions;
	unsigned n_unfinished; /* trackers that have not finished */
};

struct call_tracker {
	/* Copies of members of the context, for speed: */
	struct stack *top;
	uint32_t rank; /* of `top` if that is the stack in use; else NO_RANK */
	bool plain;    /* no filter may be in force */
	/* By rank: the ring is set to its stream, and the stream was described to the client. */
	bool ready[N_RANKS];
	struct stream *streams[N_RANKS];
	struct vms_ring *ring;

	struct call_trackers *all;
	struct context *context;
	struct context own; /* used if no tasks are known, and for the idle task */
	struct stream *vcpu_streams[N_RANKS];
	struct stream *selected; /* the stream that the ring is set to; NULL: none */
	unsigned vcpu;
	bool finished;
	struct stack_pool pool;
};

/* ---- streams.c: selects where records are written ---------------------------- */

/*
 * Finds or makes the streams of a vCPU, which its idle task uses too. The lock is held. False if
 * there is no memory, or there are too many streams.
 */
bool streams_of_vcpu(struct call_tracker *tracker);
/*
 * Returns the stream of a task's id, or a new one if another task uses that stream. The lock is
 * held. NULL if there is no memory, or there are too many streams.
 */
struct stream *stream_of_task(struct call_tracker *tracker, uint32_t tid);
/* From now on records go to the streams of the context. */
void streams_use(struct call_tracker *tracker, struct context *context);
/* Ends the ring's block, because another vCPU may continue the stream. */
void streams_leave(struct call_tracker *tracker);
/* If the task's name or address space has changed, reports it before the next record. */
void stream_renew(struct call_tracker *tracker);
/* Sets the ring to the stream of `rank`, and describes the stream to the client if necessary. */
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
	vms_uftrace_write(tracker->ring, time,
			  vms_uftrace_word(type, frame->depth, frame->function));
}

/* ---- filter.c: decides which records of a call are written ------------------ */

/* Open or close a frame of `stack`: count it, and record it if it passes the filters. */
void frame_open_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			 uint64_t time);
void frame_close_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			  uint64_t time);
/* Open or close all frames of a stack. The frames stay on it. */
void stack_open(struct call_tracker *tracker, struct stack *stack, uint64_t time);
void stack_close(struct call_tracker *tracker, struct stack *stack, uint64_t time);
/* Counts the two records of a call that cannot be tracked as lost. */
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

/* ---- stack_in_use.c: finds which stack is in use ------------------------------------- */

/* Updates `top` and `rank` of the tracker after a change of the context. */
void stacks_copy_top(struct call_tracker *tracker);
/* Ends the frames of ranks above `rank`. */
void stacks_end_ranks_above(struct call_tracker *tracker, unsigned rank, uint64_t time);
/* Notes that the stack in use may no longer be the top one. */
void stacks_forget_in_use(struct call_tracker *tracker, unsigned rank);
/*
 * Finds the stack of `rank` that contains `slot`, and makes it the one in use. Frames of a parked
 * stack whose slots are below `cut` end. False if no such stack is known: then it stays undecided
 * which one is in use.
 */
bool stacks_find_in_use(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t cut,
			uint64_t time);
/* True if an open stack of `rank` contains `slot`, or ends near it. */
bool stacks_have_open(const struct call_tracker *tracker, unsigned rank, uint64_t slot);
/* Puts a new stack on top and makes it the one in use. False if there is no memory. */
bool stacks_push_new(struct call_tracker *tracker, unsigned rank, uint64_t time);
/* Ends the frames of the stack in use whose slots are below `slot`. */
void stacks_end_frames_below(struct call_tracker *tracker, uint64_t slot, uint64_t time);
/* Drops the stack in use if it is empty and the next one is of the same rank. */
void stacks_drop_empty_top(struct call_tracker *tracker);
/* Keeps the calls of user code open in the new address space. */
void stacks_keep_program(struct call_tracker *tracker);
/* Ends all calls of the context, open or parked. */
void stacks_end_all(struct call_tracker *tracker, uint64_t time);

/* ---- user.c: signals and programs ------------------------------------------------------- */

/* The kernel returns to user code, which continues at `pc` with the stack pointer `sp`. */
void user_resume(struct call_tracker *tracker, uint64_t pc, uint64_t sp, uint64_t time);

/* ---- contexts.c ------------------------------------------------------------------ */

/* Updates the facts about the context's task. */
void context_renew(struct call_tracker *tracker, const struct task *task);
/* Switches to the context of `task`. */
void context_switch(struct call_tracker *tracker, const struct task *task, uint64_t time);
/*
 * Returns the context of a task if it does not run and has no open calls, else NULL. The lock is
 * held.
 */
struct context *context_without_calls(struct call_tracker *tracker, uint64_t va);
/* Opens all frames of the context that are not open yet. */
void context_open(struct call_tracker *tracker, uint64_t time);
/* Ends the calls of the vCPU's context. The last vCPU ends those of all tasks. */
void contexts_finish(struct call_tracker *tracker, uint64_t time);
/* Applies the filter of processes to the context. */
void context_filter(const struct call_trackers *trackers, struct context *context);
/* Frees the stacks of a context without writing records. */
void context_clear(struct context *context, struct stack_pool *pool);
