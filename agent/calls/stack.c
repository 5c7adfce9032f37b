/* SPDX-License-Identifier: MIT */
#include "agent/calls/stack.h"

#include <stdlib.h>

#define FIRST_FRAMES 64
#define MAX_FREE     64 /* how many unused stacks of FIRST_FRAMES a pool keeps */

static bool resize_stack(struct stack_pool *pool, struct stack *stack, uint32_t size)
{
	uint64_t more = size - stack->size;
	struct frame *frames = NULL;
	if (atomic_fetch_add(pool->n_frames, more) + more <= STACKS_MAX_FRAMES)
		frames = realloc(stack->frames, size * sizeof(*frames));
	if (!frames) {
		atomic_fetch_sub(pool->n_frames, more);
		return false;
	}
	stack->frames = frames;
	stack->size = size;
	return true;
}

static void destroy_stack(struct stack_pool *pool, struct stack *stack)
{
	atomic_fetch_sub(pool->n_frames, stack->size);
	free(stack->frames);
	free(stack);
}

static struct stack *make_stack(struct stack_pool *pool)
{
	struct stack *stack = calloc(1, sizeof(*stack));
	if (stack && !resize_stack(pool, stack, FIRST_FRAMES)) {
		free(stack);
		return NULL;
	}
	return stack;
}

struct stack *stack_new(struct stack_pool *pool, unsigned rank)
{
	struct stack *stack = pool->free;
	if (stack) {
		pool->free = stack->below;
		pool->n_free--;
	} else if (!(stack = make_stack(pool))) {
		return NULL;
	}
	stack->frames[0] = (struct frame) { .slot = NO_SLOT };
	stack->n = stack->settled = 1;
	stack->rank = rank;
	stack->below = NULL;
	return stack;
}

void stack_release(struct stack_pool *pool, struct stack *stack)
{
	if (stack->size > FIRST_FRAMES || pool->n_free == MAX_FREE) {
		destroy_stack(pool, stack);
		return;
	}
	stack->below = pool->free;
	pool->free = stack;
	pool->n_free++;
}

void stack_pool_clear(struct stack_pool *pool)
{
	while (pool->free) {
		struct stack *stack = pool->free;
		pool->free = stack->below;
		destroy_stack(pool, stack);
	}
	pool->n_free = 0;
}

bool stack_grow(struct stack_pool *pool, struct stack *stack)
{
	return stack->n < stack->size ||
	       (stack->size < STACK_MAX_FRAMES && resize_stack(pool, stack, stack->size * 2));
}

/* Returns the outermost frame that has a slot, or NULL. */
static const struct frame *find_outermost(const struct stack *stack)
{
	for (uint32_t i = 1; i < stack->n; i++)
		if (stack->frames[i].slot != NO_SLOT)
			return &stack->frames[i];
	return NULL;
}

bool stack_has(const struct stack *stack, uint64_t slot)
{
	uint32_t low = 0, high = stack->n - 1;
	while (low < high) {
		uint32_t middle = (low + high + 1) / 2;
		if (stack->frames[middle].slot >= slot)
			low = middle;
		else
			high = middle - 1;
	}
	return low > 0 && stack->frames[low].slot == slot;
}

bool stack_spans(const struct stack *stack, uint64_t slot, uint64_t margin)
{
	const struct frame *first = find_outermost(stack);
	if (!first)
		return false;
	uint64_t low = stack_last(stack)->slot, high = first->slot;
	return slot < low ? low - slot <= margin : slot <= high || slot - high <= margin;
}
