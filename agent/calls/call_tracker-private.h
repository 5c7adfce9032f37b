/* SPDX-License-Identifier: MIT */
/*
 * What the files of the call tracker share. A vCPU's tracker works on one context. Contexts of
 * tasks and their streams belong to all vCPUs. From one switch to the next they are one tracker's
 * alone.
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

/* A row of records: a data file of uftrace. Once made, it exists as long as the trace. */
struct stream {
	uint64_t id;
	uint64_t sequence; /* of its next block, over all rings */
	uint64_t time;	   /* of its last record */
	/* The address space of its user addresses that the client was told last. */
	uint64_t mm;
	uint32_t pid;	/* the address of an mm_struct may be used again later */
	uint32_t depth; /* calls open in it */
	bool announced;
	struct vms_calls_stream about;
	struct context *context; /* BY_TASK: the task whose stream it is; NULL: none */
};

/* Where the processor left user code for the kernel. */
struct user_state {
	enum entry_kind kind;
	bool known;
	uint64_t pc, sp;
};

/* A task, or what a vCPU runs if no tasks are known. */
struct context {
	struct task task;  /* va 0: none */
	struct stack *top; /* innermost open stack, user's ones at the bottom; NULL: none */
	struct stack *parked;
	uint32_t n_parked;
	uint32_t undecided;	/* bit per rank: the next slot decides which stack is in use */
	bool known;		/* its task has run before */
	bool opened;		/* its frames are open in its streams */
	bool wanted;		/* the filter of processes lets it pass */
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
	bool asks;	      /* a vCPU waits until the client has read a new address space */
	bool delays;	      /* there was a threshold, so entries may wait to be written */
	_Atomic bool started; /* a START function was called, or none is needed */
	_Atomic bool stopped;
	_Atomic uint64_t n_frames;
	struct call_tracker **by_vcpu;
	unsigned n_vcpus;

	pthread_mutex_t lock; /* of what follows, and of `vcpu` of contexts */
	GHashTable *contexts; /* va of task → struct context */
	GHashTable *streams;  /* id → struct stream */
	uint64_t n_collisions;
	unsigned n_unfinished; /* trackers */
};

struct call_tracker {
	/* Copied from the context, to be near for calls and returns: */
	struct stack *top;
	uint32_t rank; /* of `top` if that is the stack in use; else NO_RANK */
	bool plain;    /* no filter may be in force */
	/* The ring is set to the stream of this rank, and the client knows all it must of it. */
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

/* ---- streams.c: what is written where --------------------------------------- */

/*
 * Finds or makes the streams of a vCPU, which its idle task uses too. The lock is held. False: no
 * memory, or too many streams.
 */
bool streams_of_vcpu(struct call_tracker *tracker);
/*
 * Returns the stream of a task's id, or a new one if another task uses that. The lock is held.
 * NULL: no memory, or too many streams.
 */
struct stream *stream_of_task(struct call_tracker *tracker, uint32_t tid);
/* Records go to the streams of the context from here on. */
void streams_use(struct call_tracker *tracker, struct context *context);
/* Ends the ring's block, because another vCPU may continue the stream. */
void streams_leave(struct call_tracker *tracker);
/* Tells the client the task's new name or address space, if it has one, before the next record. */
void stream_renew(struct call_tracker *tracker);
/* Sets the ring to the stream of `rank`, and tells the client what it must know before. */
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

/* ---- filter.c: which records are written of a call ------------------------- */

/* Opens or closes a frame of `stack`: counts it, and records it if the filters say so. */
void frame_open_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			 uint64_t time);
void frame_close_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			  uint64_t time);
/* Open or close all frames of a stack. The frames stay on it. */
void stack_open(struct call_tracker *tracker, struct stack *stack, uint64_t time);
void stack_close(struct call_tracker *tracker, struct stack *stack, uint64_t time);
/* Counts the two records of a call that cannot be followed as lost. */
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

/* ---- stack_in_use.c: which stack is in use ----------------------------------------- */

/* Copies what has changed of the context to `top` and `rank` of the tracker. */
void place_refresh(struct call_tracker *tracker);
/* Ends the frames of ranks above `rank`. */
void place_lower(struct call_tracker *tracker, unsigned rank, uint64_t time);
/* Notes that the stack in use may not be the top one any more. */
void place_forget(struct call_tracker *tracker, unsigned rank);
/*
 * Puts the stack of `rank` on which `slot` lies in use. Frames of a parked stack whose slots are
 * below `cut` end. False: no such stack is known, and it remains undecided which is in use.
 */
bool place_find(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t cut,
		uint64_t time);
/* True if `slot` lies on an open stack of `rank`, or near its end. */
bool place_is_open(const struct call_tracker *tracker, unsigned rank, uint64_t slot);
/* Puts a new stack on top, in use. False: no memory. */
bool place_nest(struct call_tracker *tracker, unsigned rank, uint64_t time);
/* Ends the frames of the stack in use whose slots are below `slot`. */
void place_cut(struct call_tracker *tracker, uint64_t slot, uint64_t time);
/* Drops the stack in use if it is empty and the next one is of the same rank. */
void place_drop_empty(struct call_tracker *tracker);
/* Keeps the user's calls open in the address space that was seen last. */
void place_keep_program(struct call_tracker *tracker);
/* Ends all calls of the context, open or parked. */
void place_clear(struct call_tracker *tracker, uint64_t time);

/* ---- user.c: signals and programs
 * ------------------------------------------------------------------- */

/* The kernel has been left for user code, which continues at `pc` with `sp`. */
void user_resume(struct call_tracker *tracker, uint64_t pc, uint64_t sp, uint64_t time);

/* ---- contexts.c: contexts -------------------------------------------------------- */

/* Updates what is known of the context's task. */
void context_renew(struct call_tracker *tracker, const struct task *task);
/* Continues with `task`. */
void context_switch(struct call_tracker *tracker, const struct task *task, uint64_t time);
/*
 * Returns the context of a task that does not run and has no open calls. The lock is held. NULL:
 * the task has none such.
 */
struct context *context_without_calls(struct call_tracker *tracker, uint64_t va);
/* Opens all frames of the context that are not open yet. */
void context_open(struct call_tracker *tracker, uint64_t time);
/* Ends the calls of the vCPU's context. The last vCPU ends those of all tasks. */
void contexts_finish(struct call_tracker *tracker, uint64_t time);
/* Applies the filter of processes to the context. */
void context_filter(const struct call_trackers *trackers, struct context *context);
/* Frees its stacks without records. */
void context_clear(struct context *context, struct stack_pool *pool);
