/* SPDX-License-Identifier: MIT */
/*
 * Which stack is in use. After the stack pointer was loaded, that is not known until the next slot
 * is seen. The slot lies on the stack that has frames on both sides of it, or within a page of
 * them, or else on a new stack. A new stack is nested on the one in use, like an interrupt's: calls
 * on it are children of what was interrupted. When the program goes back to a stack below, those
 * above that have open calls are parked: coroutines, threads of an unknown kernel. Their calls get
 * exits, and entries again when the program goes back to them.
 */
#include "agent/calls/call_tracker-private.h"

#define MARGIN	   4096 /* bytes from the last frame; a slot that near is on the same stack */
#define MAX_NESTED 8	/* stacks of a rank; more are threads' stacks, not interrupts' */
#define MAX_PARKED 64

void place_refresh(struct call_tracker *tracker)
{
	const struct context *context = tracker->context;
	struct stack *top = context->top;
	tracker->top = top;
	bool known = top && !tracker->finished && !(context->undecided >> top->rank & 1) &&
		     !(context->has_new_space && top->rank == 0);
	tracker->rank = known ? top->rank : NO_RANK;
}

void place_forget(struct call_tracker *tracker, unsigned rank)
{
	tracker->context->undecided |= 1U << rank;
	place_refresh(tracker);
}

/* The top stack of `rank` is in use. */
static void set_decided(struct call_tracker *tracker, unsigned rank)
{
	tracker->context->undecided &= ~(1U << rank);
	place_refresh(tracker);
}

/* ---- stacks on top ------------------------------------------------------------ */

static struct stack *take_top(struct call_tracker *tracker, uint64_t time)
{
	struct stack *top = tracker->context->top;
	stack_close(tracker, top, time);
	tracker->context->top = top->below;
	return top;
}

static void drop_parked(struct call_tracker *tracker, struct stack **link)
{
	struct stack *stack = *link;
	*link = stack->below;
	tracker->context->n_parked--;
	stack_release(&tracker->pool, stack);
}

static void park_top(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	struct stack *stack = take_top(tracker, time);
	if (stack_last(stack)->slot == NO_SLOT) {
		stack_release(&tracker->pool, stack);
		return;
	}
	if (context->n_parked == MAX_PARKED) {
		struct stack **oldest = &context->parked;
		while ((*oldest)->below)
			oldest = &(*oldest)->below;
		drop_parked(tracker, oldest);
	}
	stack->below = context->parked;
	context->parked = stack;
	context->n_parked++;
}

static void end_ranks_above(struct call_tracker *tracker, unsigned rank, uint64_t time)
{
	while (tracker->context->top && tracker->context->top->rank > rank)
		stack_release(&tracker->pool, take_top(tracker, time));
}

void place_keep_program(struct call_tracker *tracker)
{
	tracker->context->has_new_space = false;
	tracker->context->task.mm = tracker->context->new_mm;
	stream_renew(tracker);
}

/* Ends the calls of a program that another one has replaced. */
static void take_new_space(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	while (context->top)
		stack_release(&tracker->pool, take_top(tracker, time));
	for (struct stack **link = &context->parked; *link;) {
		if ((*link)->rank == 0)
			drop_parked(tracker, link);
		else
			link = &(*link)->below;
	}
	context->n_signals = 0;
	place_keep_program(tracker);
}

void place_lower(struct call_tracker *tracker, unsigned rank, uint64_t time)
{
	end_ranks_above(tracker, rank, time);
	if (rank == 0 && tracker->context->has_new_space)
		take_new_space(tracker, time);
	place_refresh(tracker);
}

bool place_nest(struct call_tracker *tracker, unsigned rank, uint64_t time)
{
	struct context *context = tracker->context;
	unsigned nested = 0;
	for (struct stack *stack = context->top; stack && stack->rank == rank; stack = stack->below)
		nested++;
	while (nested >= MAX_NESTED && context->top && context->top->rank == rank)
		park_top(tracker, time);
	struct stack *stack = stack_new(&tracker->pool, rank);
	if (stack) {
		stack->below = context->top;
		context->top = stack;
	}
	set_decided(tracker, rank);
	return stack;
}

void place_drop_empty(struct call_tracker *tracker)
{
	struct stack *top = tracker->context->top;
	if (!stack_is_empty(top) || !top->below || top->below->rank != top->rank)
		return;
	tracker->context->top = top->below;
	place_forget(tracker, top->rank);
	stack_release(&tracker->pool, top);
}

void place_cut(struct call_tracker *tracker, uint64_t slot, uint64_t time)
{
	while (stack_last(tracker->top)->slot < slot)
		frame_pop(tracker, time);
}

void place_clear(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	while (context->top)
		stack_release(&tracker->pool, take_top(tracker, time));
	while (context->parked)
		drop_parked(tracker, &context->parked);
	place_refresh(tracker);
}

/* ---- finding ------------------------------------------------------------------ */

/* Puts a parked stack on top. Its frames below `cut` end without being opened again. */
static void unpark(struct call_tracker *tracker, struct stack **link, uint64_t cut, uint64_t time)
{
	struct context *context = tracker->context;
	struct stack *stack = *link;
	*link = stack->below;
	context->n_parked--;
	while (stack_last(stack)->slot < cut)
		stack->n--;
	stack->below = context->top;
	context->top = stack;
	stack_open(tracker, stack, time);
}

static bool find_open(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t margin,
		      uint64_t time)
{
	struct stack *stack = tracker->context->top;
	while (stack && stack->rank == rank && !stack_spans(stack, slot, margin))
		stack = stack->below;
	if (!stack || stack->rank != rank)
		return false;
	while (tracker->context->top != stack)
		park_top(tracker, time);
	return true;
}

static bool find_parked(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t margin,
			uint64_t cut, uint64_t time)
{
	for (struct stack **link = &tracker->context->parked; *link; link = &(*link)->below) {
		if ((*link)->rank != rank || !stack_spans(*link, slot, margin))
			continue;
		unpark(tracker, link, cut, time);
		return true;
	}
	return false;
}

/* True if the top stack has no slot yet: it may lie anywhere. */
static bool has_unplaced_top(const struct call_tracker *tracker, unsigned rank)
{
	const struct stack *top = tracker->context->top;
	return top && top->rank == rank && stack_last(top)->slot == NO_SLOT;
}

bool place_is_open(const struct call_tracker *tracker, unsigned rank, uint64_t slot)
{
	const struct stack *stack = tracker->context->top;
	while (stack && stack->rank == rank && !stack_spans(stack, slot, MARGIN))
		stack = stack->below;
	return stack && stack->rank == rank;
}

bool place_find(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t cut,
		uint64_t time)
{
	place_lower(tracker, rank, time);
	if (tracker->rank == rank)
		return true;
	bool found = find_open(tracker, rank, slot, 0, time) ||
		     find_parked(tracker, rank, slot, 0, cut, time) ||
		     find_open(tracker, rank, slot, MARGIN, time) ||
		     find_parked(tracker, rank, slot, MARGIN, cut, time) ||
		     has_unplaced_top(tracker, rank);
	if (found)
		set_decided(tracker, rank);
	return found;
}
