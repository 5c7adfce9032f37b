/* SPDX-License-Identifier: MIT */
/*
 * Which stack is in use. Where the stack pointer was loaded with something, that is not known until
 * the next slot is seen. It lies on the stack that has frames on both sides of it, or within a page
 * of them; or else on a new one. A new one is nested on the one in use, as an interrupt's stack is:
 * what is called there are children of what was interrupted. Going back to a stack below parks
 * those above that have open calls: coroutines, threads of an unknown kernel. Their calls get
 * exits, and entries again when it is gone back to them.
 */
#include "flow_state.h"

#define MARGIN	   4096
#define MAX_NESTED 8 /* stacks of a rank: more are no interrupts' stacks, but threads' */
#define MAX_PARKED 64

void place_refresh(struct flow *flow)
{
	const struct context *context = flow->context;
	struct stack *top = context->top;
	flow->top = top;
	bool known = top && !flow->finished && !(context->undecided >> top->rank & 1) &&
		     !(context->has_new_space && top->rank == 0);
	flow->rank = known ? top->rank : NO_RANK;
}

void place_forget(struct flow *flow, unsigned rank)
{
	flow->context->undecided |= 1U << rank;
	place_refresh(flow);
}

static void decide(struct flow *flow, unsigned rank)
{
	flow->context->undecided &= ~(1U << rank);
	place_refresh(flow);
}

/* ---- stacks on top ------------------------------------------------------------ */

static struct stack *take_top(struct flow *flow, uint64_t time)
{
	struct stack *top = flow->context->top;
	stack_close(flow, top, time);
	flow->context->top = top->below;
	return top;
}

static void drop_parked(struct flow *flow, struct stack **link)
{
	struct stack *stack = *link;
	*link = stack->below;
	flow->context->n_parked--;
	stack_release(&flow->pool, stack);
}

static void park_top(struct flow *flow, uint64_t time)
{
	struct context *context = flow->context;
	struct stack *stack = take_top(flow, time);
	if (stack_last(stack)->slot == NO_SLOT) {
		stack_release(&flow->pool, stack);
		return;
	}
	if (context->n_parked == MAX_PARKED) {
		struct stack **oldest = &context->parked;
		while ((*oldest)->below)
			oldest = &(*oldest)->below;
		drop_parked(flow, oldest);
	}
	stack->below = context->parked;
	context->parked = stack;
	context->n_parked++;
}

static void end_above(struct flow *flow, unsigned rank, uint64_t time)
{
	while (flow->context->top && flow->context->top->rank > rank)
		stack_release(&flow->pool, take_top(flow, time));
}

void place_keep_program(struct flow *flow)
{
	flow->context->has_new_space = false;
	flow->context->task.mm = flow->context->new_mm;
	stream_renew(flow);
}

/* The program has ended with its calls, and another one begins. */
static void take_new_space(struct flow *flow, uint64_t time)
{
	struct context *context = flow->context;
	while (context->top)
		stack_release(&flow->pool, take_top(flow, time));
	for (struct stack **link = &context->parked; *link;) {
		if ((*link)->rank == 0)
			drop_parked(flow, link);
		else
			link = &(*link)->below;
	}
	context->n_signals = 0;
	place_keep_program(flow);
}

void place_lower(struct flow *flow, unsigned rank, uint64_t time)
{
	end_above(flow, rank, time);
	if (rank == 0 && flow->context->has_new_space)
		take_new_space(flow, time);
	place_refresh(flow);
}

bool place_nest(struct flow *flow, unsigned rank, uint64_t time)
{
	struct context *context = flow->context;
	unsigned nested = 0;
	for (struct stack *stack = context->top; stack && stack->rank == rank; stack = stack->below)
		nested++;
	while (nested >= MAX_NESTED && context->top && context->top->rank == rank)
		park_top(flow, time);
	struct stack *stack = stack_new(&flow->pool, rank);
	if (stack) {
		stack->below = context->top;
		context->top = stack;
	}
	decide(flow, rank);
	return stack;
}

void place_drop_empty(struct flow *flow)
{
	struct stack *top = flow->context->top;
	if (!stack_is_empty(top) || !top->below || top->below->rank != top->rank)
		return;
	flow->context->top = top->below;
	place_forget(flow, top->rank);
	stack_release(&flow->pool, top);
}

void place_cut(struct flow *flow, uint64_t slot, uint64_t time)
{
	while (stack_last(flow->top)->slot < slot)
		frame_pop(flow, time);
}

void place_clear(struct flow *flow, uint64_t time)
{
	struct context *context = flow->context;
	while (context->top)
		stack_release(&flow->pool, take_top(flow, time));
	while (context->parked)
		drop_parked(flow, &context->parked);
	place_refresh(flow);
}

/* ---- finding ------------------------------------------------------------------ */

/* Frames below `cut` are over without having been open again. */
static void resume(struct flow *flow, struct stack **link, uint64_t cut, uint64_t time)
{
	struct context *context = flow->context;
	struct stack *stack = *link;
	*link = stack->below;
	context->n_parked--;
	while (stack_last(stack)->slot < cut)
		stack->n--;
	stack->below = context->top;
	context->top = stack;
	stack_open(flow, stack, time);
}

static bool find_open(struct flow *flow, unsigned rank, uint64_t slot, uint64_t margin,
		      uint64_t time)
{
	struct stack *stack = flow->context->top;
	while (stack && stack->rank == rank && !stack_spans(stack, slot, margin))
		stack = stack->below;
	if (!stack || stack->rank != rank)
		return false;
	while (flow->context->top != stack)
		park_top(flow, time);
	return true;
}

static bool find_parked(struct flow *flow, unsigned rank, uint64_t slot, uint64_t margin,
			uint64_t cut, uint64_t time)
{
	for (struct stack **link = &flow->context->parked; *link; link = &(*link)->below) {
		if ((*link)->rank != rank || !stack_spans(*link, slot, margin))
			continue;
		resume(flow, link, cut, time);
		return true;
	}
	return false;
}

/* One whose place nothing has shown yet. */
static bool find_unplaced(const struct flow *flow, unsigned rank)
{
	const struct stack *top = flow->context->top;
	return top && top->rank == rank && stack_last(top)->slot == NO_SLOT;
}

bool place_is_open(const struct flow *flow, unsigned rank, uint64_t slot)
{
	const struct stack *stack = flow->context->top;
	while (stack && stack->rank == rank && !stack_spans(stack, slot, MARGIN))
		stack = stack->below;
	return stack && stack->rank == rank;
}

bool place_find(struct flow *flow, unsigned rank, uint64_t slot, uint64_t cut, uint64_t time)
{
	place_lower(flow, rank, time);
	if (flow->rank == rank)
		return true;
	bool found = find_open(flow, rank, slot, 0, time) ||
		     find_parked(flow, rank, slot, 0, cut, time) ||
		     find_open(flow, rank, slot, MARGIN, time) ||
		     find_parked(flow, rank, slot, MARGIN, cut, time) || find_unplaced(flow, rank);
	if (found)
		decide(flow, rank);
	return found;
}
