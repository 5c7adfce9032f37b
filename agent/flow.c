/* SPDX-License-Identifier: MIT */
#include "flow_state.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INTERRUPT_FRAME 512 /* bytes that the processor pushes on the stack it interrupts */

/* ---- what all vCPUs share -------------------------------------------------------- */

static void take_options(struct flow_tracing *tracing, const struct vms_agent_calls *options)
{
	bool restart = tracing->options.wait_for_start != options->wait_for_start;
	tracing->options = *options;
	if (!options->kernel && !options->user)
		tracing->options.kernel = tracing->options.user = 1;
	if (restart || !options->wait_for_start)
		atomic_store(&tracing->started, !options->wait_for_start);
	tracing->delays |= options->threshold > 0;
	tracing->plain =
		tracing->options.kernel && tracing->options.user && !tracing->delays &&
		!options->max_depth && !options->n_pids && !options->wait_for_start &&
		!(tracing->functions.flags &
		  (VMS_AGENT_FUNCTION_ONLY | VMS_AGENT_FUNCTION_NOT | VMS_AGENT_FUNCTION_STOP));
}

struct flow_tracing *flow_tracing_new(const struct vms_agent_calls *options,
				      const struct flow_levels *levels,
				      struct vms_agent_function *functions, size_t n_functions,
				      unsigned n_vcpus)
{
	struct flow_tracing *tracing = calloc(1, sizeof(*tracing));
	struct flow **flows = calloc(MAX(n_vcpus, 1), sizeof(struct flow *));
	if (!tracing || !flows) {
		free(tracing);
		free(flows);
		free(functions);
		return NULL;
	}
	tracing->flows = flows;
	tracing->n_vcpus = n_vcpus;
	tracing->levels = *levels;
	pthread_mutex_init(&tracing->lock, NULL);
	tracing->contexts = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, free);
	tracing->streams = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, free);
	if (!functions_init(&tracing->functions, functions, n_functions)) {
		flow_tracing_free(tracing);
		return NULL;
	}
	take_options(tracing, options);
	return tracing;
}

bool flow_tracing_update(struct flow_tracing *tracing, const struct vms_agent_calls *options,
			 struct vms_agent_function *functions, size_t n_functions)
{
	struct vms_agent_calls same = *options;
	struct functions old = tracing->functions;
	struct context *context;
	GHashTableIter iter;
	if (!functions_init(&tracing->functions, functions, n_functions)) {
		tracing->functions = old;
		return false;
	}
	functions_clear(&old);
	same.by = tracing->options.by;
	/* Whoever has an update empties the rings already. */
	tracing->asks = options->clock == VMS_AGENT_CLOCK_INSTRUCTIONS;
	take_options(tracing, &same);
	g_hash_table_iter_init(&iter, tracing->contexts);
	while (g_hash_table_iter_next(&iter, NULL, (void **)&context))
		context_filter(tracing, context);
	for (unsigned i = 0; i < tracing->n_vcpus; i++) {
		if (!tracing->flows[i])
			continue;
		context_filter(tracing, &tracing->flows[i]->own);
		tracing->flows[i]->plain = tracing->plain;
	}
	return true;
}

void flow_tracing_free(struct flow_tracing *tracing)
{
	struct stack_pool pool = { .n_frames = &tracing->n_frames };
	struct context *context;
	GHashTableIter iter;
	g_hash_table_iter_init(&iter, tracing->contexts);
	while (g_hash_table_iter_next(&iter, NULL, (void **)&context))
		context_clear(context, &pool);
	stack_pool_clear(&pool);
	g_hash_table_unref(tracing->contexts);
	g_hash_table_unref(tracing->streams);
	functions_clear(&tracing->functions);
	pthread_mutex_destroy(&tracing->lock);
	free(tracing->flows);
	free(tracing);
}

bool flow_tracing_stopped(const struct flow_tracing *tracing)
{
	return atomic_load_explicit(&tracing->stopped, memory_order_relaxed);
}

int flow_function(const struct flow_tracing *tracing, uint64_t va)
{
	return functions_find(&tracing->functions, va);
}

/* ---- of a vCPU --------------------------------------------------------------------- */

struct flow *flow_new(struct flow_tracing *tracing, unsigned vcpu, struct vms_ring *ring)
{
	struct flow *flow = vcpu < tracing->n_vcpus ? calloc(1, sizeof(*flow)) : NULL;
	if (!flow)
		return NULL;
	flow->tracing = tracing;
	flow->vcpu = flow->own.vcpu = vcpu;
	flow->ring = ring;
	flow->plain = tracing->plain;
	flow->pool.n_frames = &tracing->n_frames;
	flow->context = &flow->own;
	pthread_mutex_lock(&tracing->lock);
	bool ok = streams_of_vcpu(flow);
	if (ok) {
		tracing->flows[vcpu] = flow;
		tracing->n_flows++;
	}
	pthread_mutex_unlock(&tracing->lock);
	if (!ok) {
		free(flow);
		return NULL;
	}
	context_filter(tracing, &flow->own);
	flow->own.opened = true;
	streams_use(flow, &flow->own);
	place_refresh(flow);
	return flow;
}

void flow_finish(struct flow *flow, uint64_t time)
{
	if (flow->finished)
		return;
	contexts_finish(flow, time);
	flow->finished = true;
	place_refresh(flow);
	vms_ring_flush(flow->ring);
}

void flow_free(struct flow *flow)
{
	if (!flow)
		return;
	pthread_mutex_lock(&flow->tracing->lock);
	flow->tracing->flows[flow->vcpu] = NULL;
	flow->tracing->n_flows -= !flow->finished;
	flow->context->vcpu = NO_VCPU;
	pthread_mutex_unlock(&flow->tracing->lock);
	context_clear(&flow->own, &flow->pool);
	stack_pool_clear(&flow->pool);
	free(flow);
}

static bool is_over(const struct flow *flow, unsigned rank)
{
	return flow->finished || rank >= FLOW_RANKS;
}

/* ---- what is open at the begin ------------------------------------------------------ */

/* A frame that is not opened yet. */
static bool seed_frame(struct flow *flow, struct context *context, unsigned rank, uint64_t slot,
		       uint64_t function)
{
	struct stack *top = context->top;
	if (top && top->rank > rank)
		return false;
	if (!top || top->rank != rank || stack_last(top)->slot < slot) {
		struct stack *stack = stack_new(&flow->pool, rank);
		if (!stack)
			return false;
		stack->below = top;
		context->top = top = stack;
	}
	if (!stack_grow(&flow->pool, top))
		return false;
	top->frames[top->n++] = (struct frame) { .slot = slot, .function = function };
	return true;
}

void flow_seed(struct flow *flow, const struct vms_agent_stack *stack,
	       const struct vms_agent_frame *frames, uint64_t time)
{
	struct context *context = flow->context;
	if (flow->finished)
		return;
	pthread_mutex_lock(&flow->tracing->lock);
	if (stack->task && stack->task != context->task.va)
		context = context_to_seed(flow, stack->task);
	else if (context->top)
		context = NULL;
	for (uint32_t i = 0; context && i < MIN(stack->n, VMS_AGENT_MAX_STACK); i++) {
		unsigned rank = frames[i].is_user ? 0 : flow->tracing->levels.kernel;
		if (!seed_frame(flow, context, rank, MIN(frames[i].slot, NO_SLOT - 1),
				frames[i].function))
			break;
	}
	pthread_mutex_unlock(&flow->tracing->lock);
	if (context != flow->context)
		return;
	context->opened = false;
	context_open(flow, time);
	place_refresh(flow);
}

/* ---- calls --------------------------------------------------------------------------- */

static bool place_call(struct flow *flow, unsigned rank, uint64_t slot, uint64_t time)
{
	return !is_over(flow, rank) &&
	       (place_find(flow, rank, slot, slot + 1, time) || place_nest(flow, rank, time));
}

void flow_call(struct flow *flow, unsigned rank, uint64_t slot, uint64_t function, uint64_t time)
{
	slot = MIN(slot, NO_SLOT - 1);
	if (unlikely(flow->rank != rank) && !place_call(flow, rank, slot, time))
		return;
	while (unlikely(stack_last(flow->top)->slot <= slot))
		frame_pop(flow, time);
	frame_push(flow, slot, function, 0, time);
}

/* ---- jumps --------------------------------------------------------------------------- */

static bool is_way_out(int flags)
{
	return flags > 0 && flags & (VMS_AGENT_FUNCTION_RETURN | VMS_AGENT_FUNCTION_ENTRY);
}

/* Whether going on at `function` is known to be a call. */
static bool is_callee(const struct flow *flow, uint64_t function)
{
	int flags = functions_find(&flow->tracing->functions, function);
	return flags >= 0 && !is_way_out(flags);
}

/* The innermost call goes on as another one, which will return in its place. */
static void replace(struct flow *flow, uint64_t function, uint64_t time)
{
	struct frame *last = stack_last(flow->top);
	uint64_t slot = last->slot;
	uint32_t flags = last->flags & FRAME_KIND;
	if (last->function == function)
		return;
	frame_pop(flow, time);
	frame_push(flow, slot, function, flags, time);
}

/* On a stack where no calls are known. */
static void jump_from_nowhere(struct flow *flow, unsigned rank, uint64_t function, uint64_t time)
{
	const struct context *context = flow->context;
	bool other = (context->top && context->top->rank == rank) || context->parked;
	if (flow->rank == rank || (!other && place_nest(flow, rank, time)))
		frame_push(flow, NO_SLOT, function, FRAME_JUMPED, time);
}

bool flow_innermost(const struct flow *flow, unsigned rank, uint64_t *slot, uint64_t *function)
{
	if (flow->rank != rank || stack_is_empty(flow->top))
		return false;
	*slot = stack_last(flow->top)->slot;
	*function = stack_last(flow->top)->function;
	return true;
}

void flow_jump(struct flow *flow, unsigned rank, uint64_t function, uint64_t time)
{
	if (unlikely(flow->rank != rank)) {
		if (is_over(flow, rank))
			return;
		place_lower(flow, rank, time);
	}
	if (is_way_out(functions_find(&flow->tracing->functions, function)))
		return;
	if (flow->rank == rank && !stack_is_empty(flow->top))
		replace(flow, function, time);
	else
		jump_from_nowhere(flow, rank, function, time);
}

/* ---- returns ------------------------------------------------------------------------- */

/*
 * A return that no call fits is a jump where it leads to the begin of a function, or out of a
 * transparent one: its address was pushed for that. On a stack without calls it begins one, and
 * what lies above the slot would be its return address.
 */
static void return_by_jump(struct flow *flow, uint64_t slot, uint64_t target, uint64_t time)
{
	bool transparent = stack_last(flow->top)->flags & FRAME_TRANSPARENT;
	if (!transparent && stack_last(flow->top)->flags & FRAME_JUMPED)
		frame_pop(flow, time);
	if (!transparent && !is_callee(flow, target))
		return;
	if (stack_is_empty(flow->top))
		frame_push(flow, MIN(slot, NO_SLOT - 9) + 8, target, 0, time);
	else
		replace(flow, target, time);
}

/*
 * A function may move its return address to where its own return finds it (error_entry of Linux, to
 * another stack even): such a return leads into the function that the innermost call is from.
 */
static bool returns_to_caller(const struct flow *flow, unsigned rank, uint64_t target)
{
	const struct stack *top = flow->context->top;
	if (!top || top->rank != rank || stack_is_empty(top))
		return false;
	const struct frame *last = stack_last(top), *caller = last - 1;
	if (top->n == 2 && top->below && top->below->rank == rank)
		caller = stack_last(top->below);
	uint64_t function = functions_containing(&flow->tracing->functions, target);
	return function != 0 && function != target && caller->function == function &&
	       last->function != function;
}

/* A stack below the one in use has a call with this slot: the program is back on that. */
static bool is_below(const struct flow *flow, uint64_t slot)
{
	const struct stack *stack = flow->top->below;
	while (stack && stack->rank == flow->rank && !stack_has(stack, slot))
		stack = stack->below;
	return stack && stack->rank == flow->rank;
}

static void return_unmatched(struct flow *flow, unsigned rank, uint64_t slot, uint64_t target,
			     uint64_t time)
{
	if (is_over(flow, rank))
		return;
	if (flow->rank == rank && !stack_has(flow->top, slot) && is_below(flow, slot))
		place_forget(flow, rank);
	bool found = place_find(flow, rank, slot, slot, time);
	if (found)
		place_cut(flow, slot, time);
	if (found && stack_last(flow->top)->slot == slot)
		frame_pop(flow, time);
	else if (returns_to_caller(flow, rank, target))
		frame_pop(flow, time);
	else if (found || (is_callee(flow, target) && place_nest(flow, rank, time)))
		return_by_jump(flow, slot, target, time);
	else
		return;
	place_drop_empty(flow);
}

void flow_return(struct flow *flow, unsigned rank, uint64_t slot, uint64_t target, uint64_t time)
{
	slot = MIN(slot, NO_SLOT - 1);
	if (unlikely(flow->rank != rank) || unlikely(stack_last(flow->top)->slot != slot)) {
		return_unmatched(flow, rank, slot, target, time);
		return;
	}
	frame_pop(flow, time);
	if (unlikely(stack_is_empty(flow->top)))
		place_drop_empty(flow);
}

/* ---- stacks, privilege ----------------------------------------------------------------- */

void flow_stack_loaded(struct flow *flow, unsigned rank)
{
	if (!is_over(flow, rank))
		place_forget(flow, rank);
}

/*
 * On the stack of what it interrupts, where the processor pushed what it needs; or on one that the
 * processor took for it.
 */
static bool place_interrupt(struct flow *flow, unsigned rank, uint64_t slot, uint64_t sp,
			    uint64_t time)
{
	if (slot <= sp && sp - slot <= MAX_INTERRUPT_FRAME &&
	    place_find(flow, rank, sp, sp, time)) {
		place_cut(flow, sp, time);
		if (stack_last(flow->top)->slot >= slot)
			return true;
	}
	return place_nest(flow, rank, time);
}

void flow_enter(struct flow *flow, enum flow_entry_kind kind, unsigned rank, uint64_t slot,
		uint64_t function, unsigned from_rank, uint64_t pc, uint64_t sp, uint64_t time)
{
	if (is_over(flow, rank) || from_rank > rank)
		return;
	slot = MIN(slot, NO_SLOT - 1);
	sp = MIN(sp, NO_SLOT - 1);
	place_lower(flow, from_rank, time);
	if (from_rank == 0 && rank > 0)
		flow->context->user = (struct user_state) { kind, true, pc, sp };
	if (from_rank < rank) {
		/* Nothing that the stack does ends it, and the entry code will change stacks. */
		slot = NO_SLOT;
		if (!place_nest(flow, rank, time))
			return;
	} else if (!place_interrupt(flow, rank, slot, sp, time)) {
		return;
	}
	frame_push(flow, slot, function, FRAME_ENTRY, time);
}

/* Where the innermost entry with this very slot lies; 0: there is none. */
static uint32_t entry_at(const struct stack *stack, uint64_t slot)
{
	uint32_t i = stack->n - 1;
	while (i > 0 && stack->frames[i].slot == slot && !(stack->frames[i].flags & FRAME_ENTRY))
		i--;
	return stack->frames[i].slot == slot ? i : 0;
}

/* Back to what was interrupted, whose innermost call may have the entry's slot, too. */
static void leave_interrupt(struct flow *flow, unsigned rank, uint64_t slot, uint64_t time)
{
	bool left = false;
	if (!place_find(flow, rank, slot, slot, time))
		return;
	for (; stack_last(flow->top)->slot < slot; frame_pop(flow, time))
		left |= stack_last(flow->top)->flags & FRAME_ENTRY;
	uint32_t entry = left ? 0 : entry_at(flow->top, slot);
	while (entry > 0 && flow->top->n > entry)
		frame_pop(flow, time);
	place_drop_empty(flow);
}

bool flow_resumes(const struct flow *flow, uint64_t pc, uint64_t sp)
{
	const struct user_state *user = &flow->context->user;
	return user->known && user->pc == pc && user->sp == sp;
}

void flow_leave(struct flow *flow, unsigned rank, uint64_t slot, unsigned to_rank, uint64_t pc,
		uint64_t sp, uint64_t time)
{
	slot = MIN(slot, NO_SLOT - 1);
	if (is_over(flow, rank) || to_rank > rank)
		return;
	if (to_rank == rank)
		leave_interrupt(flow, rank, slot, time);
	else if (to_rank > 0)
		place_lower(flow, to_rank, time);
	else
		user_resume(flow, pc, sp, time);
}

/* ---- tasks ----------------------------------------------------------------------------- */

void flow_switch(struct flow *flow, const struct flow_task *task, uint64_t time)
{
	if (!flow->finished)
		context_switch(flow, task, time);
}

void flow_space(struct flow *flow, uint64_t mm, const char *name)
{
	struct flow_task task = flow->context->task;
	task.mm = mm;
	g_strlcpy(task.name, name, sizeof(task.name));
	if (!flow->finished)
		context_renew(flow, &task);
}
