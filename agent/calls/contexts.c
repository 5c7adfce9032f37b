/* SPDX-License-Identifier: MIT */
/*
 * Each vCPU has a context, which its idle task uses too. Each task has a context, which another
 * vCPU may continue. The tracker of the vCPU in the context's `vcpu` uses the context without the
 * lock.
 */
#include "agent/calls/call_tracker-private.h"

#include <stdlib.h>

#define MAX_CONTEXTS 65536

/* ---- recording ------------------------------------------------------------------ */

void context_filter(const struct call_trackers *trackers, struct context *context)
{
	const struct vms_agent_calls *options = &trackers->options;
	unsigned n = MIN(options->n_pids, G_N_ELEMENTS(options->pids));
	context->wanted = n == 0;
	for (unsigned i = 0; i < n; i++)
		context->wanted |= context->task.va && context->task.pid == options->pids[i];
}

static void open_stacks(struct call_tracker *tracker, struct stack *stack, uint64_t time)
{
	if (stack->below)
		open_stacks(tracker, stack->below, time);
	stack_open(tracker, stack, time);
}

void context_open(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	if (!context->opened && context->top)
		open_stacks(tracker, context->top, time);
	context->opened = true;
}

static void context_close(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	if (context->opened)
		for (struct stack *stack = context->top; stack; stack = stack->below)
			stack_close(tracker, stack, time);
	context->opened = false;
}

/* Makes the tracker work on another context, which no vCPU runs. */
static void context_use(struct call_tracker *tracker, struct context *context)
{
	tracker->context = context;
	streams_use(tracker, context);
	stacks_copy_top(tracker);
}

/* Ends a context whose task has ended. `time` is when the task last ran: its calls ended then. */
static void context_end(struct call_tracker *tracker, struct context *context, uint64_t time)
{
	struct context *current = tracker->context;
	context_use(tracker, context);
	context_close(tracker, time);
	stacks_end_all(tracker, time);
	streams_leave(tracker);
	context_use(tracker, current);
	if (context->stream)
		context->stream->context = NULL;
	*context = (struct context) { .task.va = context->task.va, .vcpu = context->vcpu };
}

/* ---- tasks ------------------------------------------------------------------------ */

static struct context *context_get(struct call_trackers *trackers, uint64_t va)
{
	struct context *context = g_hash_table_lookup(trackers->contexts, &va);
	if (context || g_hash_table_size(trackers->contexts) >= MAX_CONTEXTS ||
	    !(context = calloc(1, sizeof(*context))))
		return context;
	context->task.va = va;
	context->vcpu = NO_VCPU;
	g_hash_table_insert(trackers->contexts, &context->task.va, context);
	return context;
}

static bool is_running(const struct context *context)
{
	return context->vcpu != NO_VCPU;
}

/* Gives the context the stream of `tid`. The task that had the id before has ended. */
static bool take_stream(struct call_tracker *tracker, struct context *context, uint32_t tid)
{
	struct stream *stream = stream_of_task(tracker, tid);
	if (!stream)
		return false;
	if (stream->context)
		context_end(tracker, stream->context, stream->context->left);
	stream->context = context;
	context->stream = stream;
	return true;
}

/*
 * Returns the task's context. NULL if the task cannot be followed: there are too many contexts, or
 * the task seems to run on another vCPU at the same time.
 */
static struct context *find_context(struct call_tracker *tracker, const struct task *task)
{
	struct call_trackers *trackers = tracker->all;
	struct context *context = context_get(trackers, task->va);
	if (!context || is_running(context))
		return NULL;
	if (context->task.tid != task->tid && context->task.tid != 0)
		context_end(tracker, context, context->left);
	if (trackers->options.by == VMS_AGENT_BY_TASK && !context->stream &&
	    !take_stream(tracker, context, task->tid))
		return NULL;
	return context;
}

struct context *context_without_calls(struct call_tracker *tracker, uint64_t va)
{
	struct context *context = context_get(tracker->all, va);
	return context && !is_running(context) && !context->top && !context->opened ? context
										    : NULL;
}

/* ---- switches --------------------------------------------------------------------- */

/*
 * Leaves the vCPU's context. A task will continue on the same kernel stack. In the vCPU's own
 * context several tasks may have run before tasks were known, so it is undecided which of its
 * stacks is in use.
 */
static void leave_context(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	context->left = time;
	context->undecided = context->task.va ? context->undecided & 1 : UINT32_MAX;
	if (tracker->all->options.by != VMS_AGENT_BY_TASK)
		context_close(tracker, time);
	else
		streams_leave(tracker);
}

/* Exchanges the context for that of `task`. False if the task cannot be followed. */
static bool exchange_context(struct call_tracker *tracker, const struct task *task)
{
	pthread_mutex_lock(&tracker->all->lock);
	struct context *next = task->tid ? find_context(tracker, task) : &tracker->own;
	if (tracker->context != &tracker->own)
		tracker->context->vcpu = NO_VCPU;
	tracker->context = next ?: &tracker->own;
	tracker->context->vcpu = tracker->vcpu;
	if (!next)
		tracker->own.undecided = UINT32_MAX;
	pthread_mutex_unlock(&tracker->all->lock);
	return next;
}

/*
 * A known task with a new address space is going to run another program. A task that has lost its
 * address space is ending; its calls are still in the old one.
 */
void context_renew(struct call_tracker *tracker, const struct task *task)
{
	struct context *context = tracker->context;
	uint64_t mm = context->task.mm;
	if (context->known && task->mm != 0 && task->mm != mm) {
		context->has_new_space = true;
		context->new_mm = task->mm;
	}
	context->task = *task;
	if (context->known)
		context->task.mm = mm;
	context->known = true;
	context_filter(tracker->all, context);
	stream_renew(tracker);
}

void context_switch(struct call_tracker *tracker, const struct task *task, uint64_t time)
{
	if (tracker->context->task.va == task->va && tracker->context->task.tid == task->tid) {
		context_renew(tracker, task);
		return;
	}
	leave_context(tracker, time);
	bool follows = exchange_context(tracker, task);
	streams_use(tracker, tracker->context);
	if (follows)
		context_renew(tracker, task);
	context_open(tracker, time);
	stacks_copy_top(tracker);
}

/* ---- the end ------------------------------------------------------------------------ */

/* The contexts of tasks end with the last vCPU, because any other vCPU may continue them. */
void contexts_finish(struct call_tracker *tracker, uint64_t time)
{
	struct call_trackers *trackers = tracker->all;
	struct context *context;
	GHashTableIter iter;
	leave_context(tracker, time);
	pthread_mutex_lock(&trackers->lock);
	if (tracker->context != &tracker->own)
		tracker->context->vcpu = NO_VCPU;
	context_use(tracker, &tracker->own);
	context_end(tracker, &tracker->own, time);
	g_hash_table_iter_init(&iter, trackers->contexts);
	trackers->n_unfinished--;
	while (trackers->n_unfinished == 0 &&
	       g_hash_table_iter_next(&iter, NULL, (void **)&context))
		context_end(tracker, context, time);
	pthread_mutex_unlock(&trackers->lock);
}

void context_clear(struct context *context, struct stack_pool *pool)
{
	while (context->top) {
		struct stack *stack = context->top;
		context->top = stack->below;
		stack_release(pool, stack);
	}
	while (context->parked) {
		struct stack *stack = context->parked;
		context->parked = stack->below;
		stack_release(pool, stack);
	}
}
