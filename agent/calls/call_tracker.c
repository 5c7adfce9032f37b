/* SPDX-License-Identifier: MIT */
#include "agent/calls/call_tracker-private.h"
#include "base/keyed_hash.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INTERRUPT_FRAME 512 /* bytes that the processor pushes on the stack it interrupts */

/* ---- all trackers of a trace -------------------------------------------------------- */

static void set_options(struct call_trackers *trackers, const struct vms_agent_calls *options)
{
	bool restart = trackers->options.wait_for_start != options->wait_for_start;
	trackers->options = *options;
	if (!options->kernel && !options->user)
		trackers->options.kernel = trackers->options.user = 1;
	if (restart || !options->wait_for_start)
		atomic_store(&trackers->started, !options->wait_for_start);
	trackers->delays |= options->threshold > 0;
	trackers->plain =
		trackers->options.kernel && trackers->options.user && !trackers->delays &&
		!options->max_depth && !options->n_pids && !options->wait_for_start &&
		!(trackers->functions.flags &
		  (VMS_AGENT_FUNCTION_ONLY | VMS_AGENT_FUNCTION_NOT | VMS_AGENT_FUNCTION_STOP));
}

struct call_trackers *call_trackers_new(const struct vms_agent_calls *options,
					const struct privilege_levels *levels,
					struct vms_agent_function *functions, size_t n_functions,
					unsigned n_vcpus)
{
	struct call_trackers *trackers = calloc(1, sizeof(*trackers));
	struct call_tracker **by_vcpu = calloc(MAX(n_vcpus, 1), sizeof(struct call_tracker *));
	if (!trackers || !by_vcpu) {
		free(trackers);
		free(by_vcpu);
		free(functions);
		return NULL;
	}
	trackers->by_vcpu = by_vcpu;
	trackers->n_vcpus = n_vcpus;
	trackers->levels = *levels;
	pthread_mutex_init(&trackers->lock, NULL);
	trackers->contexts = g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, free);
	trackers->streams = g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, free);
	if (!functions_init(&trackers->functions, functions, n_functions)) {
		call_trackers_free(trackers);
		return NULL;
	}
	set_options(trackers, options);
	return trackers;
}

bool call_trackers_update(struct call_trackers *trackers, const struct vms_agent_calls *options,
			  struct vms_agent_function *functions, size_t n_functions)
{
	struct vms_agent_calls same = *options;
	struct functions old = trackers->functions;
	struct context *context;
	GHashTableIter iter;
	if (!functions_init(&trackers->functions, functions, n_functions)) {
		trackers->functions = old;
		return false;
	}
	functions_clear(&old);
	same.by = trackers->options.by;
	/* A client that sends an update is already emptying the rings, so it can answer. */
	trackers->asks = options->clock == VMS_AGENT_CLOCK_INSTRUCTIONS;
	set_options(trackers, &same);
	g_hash_table_iter_init(&iter, trackers->contexts);
	while (g_hash_table_iter_next(&iter, NULL, (void **)&context))
		context_filter(trackers, context);
	for (unsigned i = 0; i < trackers->n_vcpus; i++) {
		if (!trackers->by_vcpu[i])
			continue;
		context_filter(trackers, &trackers->by_vcpu[i]->own);
		trackers->by_vcpu[i]->plain = trackers->plain;
	}
	return true;
}

void call_trackers_free(struct call_trackers *trackers)
{
	struct stack_pool pool = { .n_frames = &trackers->n_frames };
	struct context *context;
	GHashTableIter iter;
	g_hash_table_iter_init(&iter, trackers->contexts);
	while (g_hash_table_iter_next(&iter, NULL, (void **)&context))
		context_clear(context, &pool);
	stack_pool_clear(&pool);
	g_hash_table_unref(trackers->contexts);
	g_hash_table_unref(trackers->streams);
	functions_clear(&trackers->functions);
	pthread_mutex_destroy(&trackers->lock);
	free(trackers->by_vcpu);
	free(trackers);
}

bool call_trackers_stopped(const struct call_trackers *trackers)
{
	return atomic_load_explicit(&trackers->stopped, memory_order_relaxed);
}

int call_trackers_find_function(const struct call_trackers *trackers, uint64_t va)
{
	return functions_find(&trackers->functions, va);
}

/* ---- the tracker of a vCPU ----------------------------------------------------------- */

struct call_tracker *call_tracker_new(struct call_trackers *trackers, unsigned vcpu,
				      struct vms_ring *ring)
{
	struct call_tracker *tracker =
		vcpu < trackers->n_vcpus ? calloc(1, sizeof(*tracker)) : NULL;
	if (!tracker)
		return NULL;
	tracker->all = trackers;
	tracker->vcpu = tracker->own.vcpu = vcpu;
	tracker->ring = ring;
	tracker->plain = trackers->plain;
	tracker->pool.n_frames = &trackers->n_frames;
	tracker->context = &tracker->own;
	pthread_mutex_lock(&trackers->lock);
	bool ok = streams_of_vcpu(tracker);
	if (ok) {
		trackers->by_vcpu[vcpu] = tracker;
		trackers->n_unfinished++;
	}
	pthread_mutex_unlock(&trackers->lock);
	if (!ok) {
		free(tracker);
		return NULL;
	}
	context_filter(trackers, &tracker->own);
	tracker->own.opened = true;
	streams_use(tracker, &tracker->own);
	stacks_copy_top(tracker);
	return tracker;
}

void call_tracker_finish(struct call_tracker *tracker, uint64_t time)
{
	if (tracker->finished)
		return;
	contexts_finish(tracker, time);
	tracker->finished = true;
	stacks_copy_top(tracker);
	vms_ring_flush(tracker->ring);
}

void call_tracker_free(struct call_tracker *tracker)
{
	if (!tracker)
		return;
	pthread_mutex_lock(&tracker->all->lock);
	tracker->all->by_vcpu[tracker->vcpu] = NULL;
	tracker->all->n_unfinished -= !tracker->finished;
	tracker->context->vcpu = NO_VCPU;
	pthread_mutex_unlock(&tracker->all->lock);
	context_clear(&tracker->own, &tracker->pool);
	stack_pool_clear(&tracker->pool);
	free(tracker);
}

/* True if nothing is recorded any more, or the rank is no rank. */
static bool is_over(const struct call_tracker *tracker, unsigned rank)
{
	return tracker->finished || rank >= N_RANKS;
}

/* ---- calls that are open at the begin ------------------------------------------------------ */

/* Adds a frame that is not open yet. False: it does not fit, or there is no memory. */
static bool add_frame(struct call_tracker *tracker, struct context *context, unsigned rank,
		      uint64_t slot, uint64_t function)
{
	struct stack *top = context->top;
	if (top && top->rank > rank)
		return false;
	if (!top || top->rank != rank || stack_last(top)->slot < slot) {
		struct stack *stack = stack_new(&tracker->pool, rank);
		if (!stack)
			return false;
		stack->below = top;
		context->top = top = stack;
	}
	if (!stack_grow(&tracker->pool, top))
		return false;
	top->frames[top->n++] = (struct frame) { .slot = slot, .function = function };
	return true;
}

void track_open_calls(struct call_tracker *tracker, const struct vms_agent_stack *stack,
		      const struct vms_agent_frame *frames, uint64_t time)
{
	struct context *context = tracker->context;
	if (tracker->finished)
		return;
	pthread_mutex_lock(&tracker->all->lock);
	if (stack->task && stack->task != context->task.va)
		context = context_without_calls(tracker, stack->task);
	else if (context->top)
		context = NULL;
	for (uint32_t i = 0; context && i < MIN(stack->n, VMS_AGENT_MAX_STACK); i++) {
		unsigned rank = frames[i].is_user ? 0 : tracker->all->levels.kernel;
		if (!add_frame(tracker, context, rank, MIN(frames[i].slot, NO_SLOT - 1),
			       frames[i].function))
			break;
	}
	pthread_mutex_unlock(&tracker->all->lock);
	if (context != tracker->context)
		return;
	context->opened = false;
	context_open(tracker, time);
	stacks_copy_top(tracker);
}

/* ---- calls --------------------------------------------------------------------------- */

/* Finds the stack that the call's slot lies on, or puts a new one in use. */
static bool place_call(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t time)
{
	return !is_over(tracker, rank) &&
	       (stacks_find_in_use(tracker, rank, slot, slot + 1, time) ||
		stacks_push_new(tracker, rank, time));
}

void track_call(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t function,
		uint64_t time)
{
	slot = MIN(slot, NO_SLOT - 1);
	if (unlikely(tracker->rank != rank) && !place_call(tracker, rank, slot, time))
		return;
	while (unlikely(stack_last(tracker->top)->slot <= slot))
		frame_pop(tracker, time);
	frame_push(tracker, slot, function, 0, time);
}

/* ---- jumps --------------------------------------------------------------------------- */

static bool is_way_out(int flags)
{
	return flags > 0 && flags & (VMS_AGENT_FUNCTION_RETURN | VMS_AGENT_FUNCTION_ENTRY);
}

/* True if a jump to `function` is known to be a call of it. */
static bool is_callee(const struct call_tracker *tracker, uint64_t function)
{
	int flags = functions_find(&tracker->all->functions, function);
	return flags >= 0 && !is_way_out(flags);
}

/* A tail call: the innermost call ends, and `function` will return in its place. */
static void replace_innermost(struct call_tracker *tracker, uint64_t function, uint64_t time)
{
	struct frame *last = stack_last(tracker->top);
	uint64_t slot = last->slot;
	uint32_t flags = last->flags & FRAME_KIND;
	if (last->function == function)
		return;
	frame_pop(tracker, time);
	frame_push(tracker, slot, function, flags, time);
}

/* Tracks a jump on a stack where no calls are known. */
static void jump_from_nowhere(struct call_tracker *tracker, unsigned rank, uint64_t function,
			      uint64_t time)
{
	const struct context *context = tracker->context;
	bool other = (context->top && context->top->rank == rank) || context->parked;
	if (tracker->rank == rank || (!other && stacks_push_new(tracker, rank, time)))
		frame_push(tracker, NO_SLOT, function, FRAME_JUMPED, time);
}

bool call_tracker_find_innermost(const struct call_tracker *tracker, unsigned rank, uint64_t *slot,
				 uint64_t *function)
{
	if (tracker->rank != rank || stack_is_empty(tracker->top))
		return false;
	*slot = stack_last(tracker->top)->slot;
	*function = stack_last(tracker->top)->function;
	return true;
}

void track_jump(struct call_tracker *tracker, unsigned rank, uint64_t function, uint64_t time)
{
	if (unlikely(tracker->rank != rank)) {
		if (is_over(tracker, rank))
			return;
		stacks_end_ranks_above(tracker, rank, time);
	}
	if (is_way_out(functions_find(&tracker->all->functions, function)))
		return;
	if (tracker->rank == rank && !stack_is_empty(tracker->top))
		replace_innermost(tracker, function, time);
	else
		jump_from_nowhere(tracker, rank, function, time);
}

/* ---- returns ------------------------------------------------------------------------- */

/*
 * Tracks a return that matches no call. It is a jump if it goes to the begin of a function, or
 * leaves a transparent function: the address was pushed for the jump. On a stack without calls this
 * begins a call, whose return address would be above the slot.
 */
static void return_by_jump(struct call_tracker *tracker, uint64_t slot, uint64_t target,
			   uint64_t time)
{
	bool transparent = stack_last(tracker->top)->flags & FRAME_TRANSPARENT;
	if (!transparent && stack_last(tracker->top)->flags & FRAME_JUMPED)
		frame_pop(tracker, time);
	if (!transparent && !is_callee(tracker, target))
		return;
	if (stack_is_empty(tracker->top))
		frame_push(tracker, MIN(slot, NO_SLOT - 9) + 8, target, 0, time);
	else
		replace_innermost(tracker, target, time);
}

/*
 * True if a return goes to the function that made the innermost call. A function may copy its
 * return address to another place, even to another stack, and return from there (error_entry of
 * Linux).
 */
static bool returns_to_caller(const struct call_tracker *tracker, unsigned rank, uint64_t target)
{
	const struct stack *top = tracker->context->top;
	if (!top || top->rank != rank || stack_is_empty(top))
		return false;
	const struct frame *last = stack_last(top), *caller = last - 1;
	if (top->n == 2 && top->below && top->below->rank == rank)
		caller = stack_last(top->below);
	uint64_t function = functions_containing(&tracker->all->functions, target);
	return function != 0 && function != target && caller->function == function &&
	       last->function != function;
}

/* True if a stack below the one in use has a call with this slot: the program is back on it. */
static bool is_below(const struct call_tracker *tracker, uint64_t slot)
{
	const struct stack *stack = tracker->top->below;
	while (stack && stack->rank == tracker->rank && !stack_has(stack, slot))
		stack = stack->below;
	return stack && stack->rank == tracker->rank;
}

static void track_unmatched_return(struct call_tracker *tracker, unsigned rank, uint64_t slot,
				   uint64_t target, uint64_t time)
{
	if (is_over(tracker, rank))
		return;
	if (tracker->rank == rank && !stack_has(tracker->top, slot) && is_below(tracker, slot))
		stacks_forget_in_use(tracker, rank);
	bool found = stacks_find_in_use(tracker, rank, slot, slot, time);
	if (found)
		stacks_end_frames_below(tracker, slot, time);
	if (found && stack_last(tracker->top)->slot == slot)
		frame_pop(tracker, time);
	else if (returns_to_caller(tracker, rank, target))
		frame_pop(tracker, time);
	else if (found || (is_callee(tracker, target) && stacks_push_new(tracker, rank, time)))
		return_by_jump(tracker, slot, target, time);
	else
		return;
	stacks_drop_empty_top(tracker);
}

bool track_expected_return(struct call_tracker *tracker, unsigned rank, uint64_t slot,
			   uint64_t time)
{
	if (unlikely(tracker->rank != rank) || unlikely(stack_last(tracker->top)->slot != slot) ||
	    unlikely(slot == NO_SLOT))
		return false;
	frame_pop(tracker, time);
	if (unlikely(stack_is_empty(tracker->top)))
		stacks_drop_empty_top(tracker);
	return true;
}

void track_return(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t target,
		  uint64_t time)
{
	slot = MIN(slot, NO_SLOT - 1);
	if (!track_expected_return(tracker, rank, slot, time))
		track_unmatched_return(tracker, rank, slot, target, time);
}

/* ---- stacks, privilege ----------------------------------------------------------------- */

void track_stack_load(struct call_tracker *tracker, unsigned rank)
{
	if (!is_over(tracker, rank))
		stacks_forget_in_use(tracker, rank);
}

/*
 * Finds the stack of an interrupt: the stack of the interrupted code if the processor pushed its
 * frame there, or a new one that the processor has switched to.
 */
static bool find_interrupt_stack(struct call_tracker *tracker, unsigned rank, uint64_t slot,
				 uint64_t sp, uint64_t time)
{
	if (slot <= sp && sp - slot <= MAX_INTERRUPT_FRAME &&
	    stacks_find_in_use(tracker, rank, sp, sp, time)) {
		stacks_end_frames_below(tracker, sp, time);
		if (stack_last(tracker->top)->slot >= slot)
			return true;
	}
	return stacks_push_new(tracker, rank, time);
}

void track_entry(struct call_tracker *tracker, enum entry_kind kind, unsigned rank, uint64_t slot,
		 uint64_t function, unsigned from_rank, uint64_t pc, uint64_t sp, uint64_t time)
{
	if (is_over(tracker, rank) || from_rank > rank)
		return;
	slot = MIN(slot, NO_SLOT - 1);
	sp = MIN(sp, NO_SLOT - 1);
	stacks_end_ranks_above(tracker, from_rank, time);
	if (from_rank == 0 && rank > 0)
		tracker->context->user = (struct user_state) { kind, true, pc, sp };
	if (from_rank < rank) {
		/* The entry code will change stacks: no movement of the stack ends this call. */
		slot = NO_SLOT;
		if (!stacks_push_new(tracker, rank, time))
			return;
	} else if (!find_interrupt_stack(tracker, rank, slot, sp, time)) {
		return;
	}
	frame_push(tracker, slot, function, FRAME_ENTRY, time);
}

/* Returns the index of the innermost entry with exactly this slot, or 0. */
static uint32_t find_entry(const struct stack *stack, uint64_t slot)
{
	uint32_t i = stack->n - 1;
	while (i > 0 && stack->frames[i].slot == slot && !(stack->frames[i].flags & FRAME_ENTRY))
		i--;
	return stack->frames[i].slot == slot ? i : 0;
}

/*
 * Returns to the interrupted code. Its innermost call may have the same slot as the entry of the
 * interrupt.
 */
static void leave_interrupt(struct call_tracker *tracker, unsigned rank, uint64_t slot,
			    uint64_t time)
{
	bool left = false;
	if (!stacks_find_in_use(tracker, rank, slot, slot, time))
		return;
	for (; stack_last(tracker->top)->slot < slot; frame_pop(tracker, time))
		left |= stack_last(tracker->top)->flags & FRAME_ENTRY;
	uint32_t entry = left ? 0 : find_entry(tracker->top, slot);
	while (entry > 0 && tracker->top->n > entry)
		frame_pop(tracker, time);
	stacks_drop_empty_top(tracker);
}

bool call_tracker_resumes_user(const struct call_tracker *tracker, uint64_t pc, uint64_t sp)
{
	const struct user_state *user = &tracker->context->user;
	return user->known && user->pc == pc && user->sp == sp;
}

void track_exit(struct call_tracker *tracker, unsigned rank, uint64_t slot, unsigned to_rank,
		uint64_t pc, uint64_t sp, uint64_t time)
{
	slot = MIN(slot, NO_SLOT - 1);
	if (is_over(tracker, rank) || to_rank > rank)
		return;
	if (to_rank == rank)
		leave_interrupt(tracker, rank, slot, time);
	else if (to_rank > 0)
		stacks_end_ranks_above(tracker, to_rank, time);
	else
		user_resume(tracker, pc, sp, time);
}

/* ---- tasks ----------------------------------------------------------------------------- */

void track_switch(struct call_tracker *tracker, const struct task *task, uint64_t time)
{
	if (!tracker->finished)
		context_switch(tracker, task, time);
}

void track_new_space(struct call_tracker *tracker, uint64_t mm, const char *name)
{
	struct task task = tracker->context->task;
	task.mm = mm;
	g_strlcpy(task.name, name, sizeof(task.name));
	if (!tracker->finished)
		context_renew(tracker, &task);
}
