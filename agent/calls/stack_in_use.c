/* SPDX-License-Identifier: MIT */
/*
 * Finds which stack is in use. After the stack pointer was loaded, this is unknown until the next
 * slot. The slot is on the stack that has frames on both sides of it, or within a page of it.
 * Otherwise it is on a new stack. A new stack is nested on the one in use, like the stack of an
 * interrupt: calls on it are children of the interrupted call. When the program returns to a stack
 * below, the stacks above that have open calls are parked: they belong to coroutines, or to threads
 * of an unknown kernel. Exits of their calls are written, and entries again when the program
 * returns to them.
 */
#include "agent/calls/call_tracker-private.h"

#define MARGIN	   4096 /* a slot within so many bytes of a frame is on the same stack */
#define MAX_NESTED 8	/* stacks of a rank; further ones are of threads, not of interrupts */
#define MAX_PARKED 64

void stacks_copy_top(struct call_tracker *tracker)
{
	const struct context *context = tracker->context;
	struct stack *top = context->top;
	tracker->top = top;
	bool known = top && !tracker->finished && !(context->undecided >> top->rank & 1) &&
		     !(context->has_new_space && top->rank == 0);
	tracker->rank = known ? top->rank : NO_RANK;
}

void stacks_forget_in_use(struct call_tracker *tracker, unsigned rank)
{
	tracker->context->undecided |= 1U << rank;
	stacks_copy_top(tracker);
}

/* The top stack of `rank` is in use. */
static void set_decided(struct call_tracker *tracker, unsigned rank)
{
	tracker->context->undecided &= ~(1U << rank);
	stacks_copy_top(tracker);
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

void stacks_keep_program(struct call_tracker *tracker)
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
	stacks_keep_program(tracker);
}

void stacks_end_ranks_above(struct call_tracker *tracker, unsigned rank, uint64_t time)
{
	while (tracker->context->top && tracker->context->top->rank > rank)
		stack_release(&tracker->pool, take_top(tracker, time));
	if (rank == 0 && tracker->context->has_new_space)
		take_new_space(tracker, time);
	stacks_copy_top(tracker);
}

bool stacks_push_new(struct call_tracker *tracker, unsigned rank, uint64_t time)
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

void stacks_drop_empty_top(struct call_tracker *tracker)
{
	struct stack *top = tracker->context->top;
	if (!stack_is_empty(top) || !top->below || top->below->rank != top->rank)
		return;
	tracker->context->top = top->below;
	stacks_forget_in_use(tracker, top->rank);
	stack_release(&tracker->pool, top);
}

void stacks_end_frames_below(struct call_tracker *tracker, uint64_t slot, uint64_t time)
{
	while (stack_last(tracker->top)->slot < slot)
		frame_pop(tracker, time);
}

void stacks_end_all(struct call_tracker *tracker, uint64_t time)
{
	struct context *context = tracker->context;
	while (context->top)
		stack_release(&tracker->pool, take_top(tracker, time));
	while (context->parked)
		drop_parked(tracker, &context->parked);
	stacks_copy_top(tracker);
}

/* ---- finding ------------------------------------------------------------------ */

/* Puts a parked stack on top. Frames with slots below `cut` end and are not opened again. */
static void unpark_stack(struct call_tracker *tracker, struct stack **link, uint64_t cut,
			 uint64_t time)
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
		unpark_stack(tracker, link, cut, time);
		return true;
	}
	return false;
}

/* True if the top stack has no slot yet, so that its address is unknown. */
static bool has_unplaced_top(const struct call_tracker *tracker, unsigned rank)
{
	const struct stack *top = tracker->context->top;
	return top && top->rank == rank && stack_last(top)->slot == NO_SLOT;
}

bool stacks_have_open(const struct call_tracker *tracker, unsigned rank, uint64_t slot)
{
	const struct stack *stack = tracker->context->top;
	while (stack && stack->rank == rank && !stack_spans(stack, slot, MARGIN))
		stack = stack->below;
	return stack && stack->rank == rank;
}

bool stacks_find_in_use(struct call_tracker *tracker, unsigned rank, uint64_t slot, uint64_t cut,
			uint64_t time)
{
	stacks_end_ranks_above(tracker, rank, time);
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
