/* SPDX-License-Identifier: MIT */
/*
 * Frames on a stack of the guest, and rows of stacks. Open stacks are each nested on the one below;
 * parked stacks are a row of their own.
 *
 * Slots never grow from the outermost frame to the innermost: a call ends the frames at or below
 * its slot.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The slot of a frame that no movement of the stack ends. */
#define NO_SLOT UINT64_MAX

/*
 * How many frames one stack may have, and all stacks together. Calls beyond that are counted as
 * lost, and their returns find no frame.
 */
#define STACK_MAX_FRAMES  (1U << 20)
#define STACKS_MAX_FRAMES (8U << 20)

enum frame_flags {
	FRAME_WANTED = 1 << 0,	    /* has passed the filters, and counts in its stream's depth */
	FRAME_WRITTEN = 1 << 1,	    /* its entry is recorded */
	FRAME_TRANSPARENT = 1 << 2, /* jumps on to the real callee */
	FRAME_ENTRY = 1 << 3,	    /* the processor entered by itself */
	FRAME_JUMPED =
		1 << 6, /* entered by a jump without a known caller: its return shows the slot */
	FRAME_ONLY = 1 << 4, /* of a function that the filter names */
	FRAME_NOT = 1 << 5,
};

/* Flags that say what a frame is. The others say how it is recorded. */
#define FRAME_KIND (FRAME_ENTRY | FRAME_JUMPED)

struct frame {
	uint64_t slot;
	uint64_t function;
	uint64_t time;	/* of its entry */
	uint32_t depth; /* in its stream, where it is wanted */
	uint32_t flags;
};

struct stack {
	struct frame *frames; /* the first is none; its NO_SLOT ends every search */
	uint32_t n, size;
	uint32_t settled; /* no frame before this one has an entry that waits */
	uint32_t rank;
	struct stack *below;
};

/* Stacks that can be used again, and the count of frames. */
struct stack_pool {
	struct stack *free;
	unsigned n_free;
	_Atomic uint64_t *n_frames; /* allocated by all pools */
};

/* NULL: no memory. */
struct stack *stack_new(struct stack_pool *pool, unsigned rank);
void stack_release(struct stack_pool *pool, struct stack *stack);
void stack_pool_clear(struct stack_pool *pool);
/* Makes room for one more frame. False: no memory, or too many frames. */
bool stack_grow(struct stack_pool *pool, struct stack *stack);

/* True if a frame has this very slot. */
bool stack_has(const struct stack *stack, uint64_t slot);
/* True if `slot` is between outermost and innermost frame, or at most `margin` bytes away. */
bool stack_spans(const struct stack *stack, uint64_t slot, uint64_t margin);

static inline struct frame *stack_last(const struct stack *stack)
{
	return &stack->frames[stack->n - 1];
}

static inline bool stack_is_empty(const struct stack *stack)
{
	return stack->n == 1;
}
