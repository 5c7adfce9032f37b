/* SPDX-License-Identifier: MIT */
/*
 * Contexts: that of the vCPU, which is the idle task's, too, and those of tasks, which may go on on
 * another vCPU. Who has `vcpu` set works on a context without the lock.
 */
#include "flow_state.h"

#include <stdlib.h>

#define MAX_CONTEXTS 65536

/* ---- recording ------------------------------------------------------------------ */

void context_filter(const struct flow_tracing *tracing, struct context *context)
{
	const struct vms_agent_calls *options = &tracing->options;
	unsigned n = MIN(options->n_pids, G_N_ELEMENTS(options->pids));
	context->wanted = n == 0;
	for (unsigned i = 0; i < n; i++)
		context->wanted |= context->task.va && context->task.pid == options->pids[i];
}

static void open_stacks(struct flow *flow, struct stack *stack, uint64_t time)
{
	if (stack->below)
		open_stacks(flow, stack->below, time);
	stack_open(flow, stack, time);
}

void context_open(struct flow *flow, uint64_t time)
{
	struct context *context = flow->context;
	if (!context->opened && context->top)
		open_stacks(flow, context->top, time);
	context->opened = true;
}

static void context_close(struct flow *flow, uint64_t time)
{
	struct context *context = flow->context;
	if (context->opened)
		for (struct stack *stack = context->top; stack; stack = stack->below)
			stack_close(flow, stack, time);
	context->opened = false;
}

/* Works on another context, which nobody runs. */
static void context_use(struct flow *flow, struct context *context)
{
	flow->context = context;
	streams_use(flow, context);
	place_refresh(flow);
}

/* Its task is no more. What was open has ended when it last ran. */
static void context_end(struct flow *flow, struct context *context, uint64_t time)
{
	struct context *current = flow->context;
	context_use(flow, context);
	context_close(flow, time);
	place_clear(flow, time);
	streams_leave(flow);
	context_use(flow, current);
	if (context->stream)
		context->stream->context = NULL;
	*context = (struct context) { .task.va = context->task.va, .vcpu = context->vcpu };
}

/* ---- tasks ------------------------------------------------------------------------ */

static struct context *context_get(struct flow_tracing *tracing, uint64_t va)
{
	struct context *context = g_hash_table_lookup(tracing->contexts, &va);
	if (context || g_hash_table_size(tracing->contexts) >= MAX_CONTEXTS ||
	    !(context = calloc(1, sizeof(*context))))
		return context;
	context->task.va = va;
	context->vcpu = NO_VCPU;
	g_hash_table_insert(tracing->contexts, &context->task.va, context);
	return context;
}

static bool is_running(const struct context *context)
{
	return context->vcpu != NO_VCPU;
}

/* Whoever had the id before has ended. */
static bool take_stream(struct flow *flow, struct context *context, uint32_t tid)
{
	struct stream *stream = stream_of_task(flow, tid);
	if (!stream)
		return false;
	if (stream->context)
		context_end(flow, stream->context, stream->context->left);
	stream->context = context;
	context->stream = stream;
	return true;
}

/* NULL: it cannot be followed: too many, or it runs elsewhere, which no task does. */
static struct context *context_of(struct flow *flow, const struct flow_task *task)
{
	struct flow_tracing *tracing = flow->tracing;
	struct context *context = context_get(tracing, task->va);
	if (!context || is_running(context))
		return NULL;
	if (context->task.tid != task->tid && context->task.tid != 0)
		context_end(flow, context, context->left);
	if (tracing->options.by == VMS_AGENT_BY_TASK && !context->stream &&
	    !take_stream(flow, context, task->tid))
		return NULL;
	return context;
}

struct context *context_to_seed(struct flow *flow, uint64_t va)
{
	struct context *context = context_get(flow->tracing, va);
	return context && !is_running(context) && !context->top && !context->opened ? context
										    : NULL;
}

/* ---- switches --------------------------------------------------------------------- */

/*
 * A task is on its kernel stack where it was when it is switched to again. What the vCPU's context
 * is may have been other tasks before they were known.
 */
static void leave(struct flow *flow, uint64_t time)
{
	struct context *context = flow->context;
	context->left = time;
	context->undecided = context->task.va ? context->undecided & 1 : UINT32_MAX;
	if (flow->tracing->options.by != VMS_AGENT_BY_TASK)
		context_close(flow, time);
	else
		streams_leave(flow);
}

/* False: the task cannot be followed. */
static bool exchange(struct flow *flow, const struct flow_task *task)
{
	pthread_mutex_lock(&flow->tracing->lock);
	struct context *next = task->tid ? context_of(flow, task) : &flow->own;
	if (flow->context != &flow->own)
		flow->context->vcpu = NO_VCPU;
	flow->context = next ?: &flow->own;
	flow->context->vcpu = flow->vcpu;
	if (!next)
		flow->own.undecided = UINT32_MAX;
	pthread_mutex_unlock(&flow->tracing->lock);
	return next;
}

/*
 * A known task that has another address space than before will run another program. One that has
 * none any more ends; its calls are still of the old one.
 */
void context_renew(struct flow *flow, const struct flow_task *task)
{
	struct context *context = flow->context;
	uint64_t mm = context->task.mm;
	if (context->known && task->mm != 0 && task->mm != mm) {
		context->has_new_space = true;
		context->new_mm = task->mm;
	}
	context->task = *task;
	if (context->known)
		context->task.mm = mm;
	context->known = true;
	context_filter(flow->tracing, context);
	stream_renew(flow);
}

void context_switch(struct flow *flow, const struct flow_task *task, uint64_t time)
{
	if (flow->context->task.va == task->va && flow->context->task.tid == task->tid) {
		context_renew(flow, task);
		return;
	}
	leave(flow, time);
	bool follows = exchange(flow, task);
	streams_use(flow, flow->context);
	if (follows)
		context_renew(flow, task);
	context_open(flow, time);
	place_refresh(flow);
}

/* ---- the end ------------------------------------------------------------------------ */

/* What is parked may go on elsewhere as long as there is another vCPU. */
void contexts_finish(struct flow *flow, uint64_t time)
{
	struct flow_tracing *tracing = flow->tracing;
	struct context *context;
	GHashTableIter iter;
	leave(flow, time);
	pthread_mutex_lock(&tracing->lock);
	if (flow->context != &flow->own)
		flow->context->vcpu = NO_VCPU;
	context_use(flow, &flow->own);
	context_end(flow, &flow->own, time);
	g_hash_table_iter_init(&iter, tracing->contexts);
	tracing->n_flows--;
	while (tracing->n_flows == 0 && g_hash_table_iter_next(&iter, NULL, (void **)&context))
		context_end(flow, context, time);
	pthread_mutex_unlock(&tracing->lock);
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
