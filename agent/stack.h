/* SPDX-License-Identifier: MIT */
/*
 * Frames on a stack of the guest, and stacks in a row: those that are open, each nested on the one
 * below, or those that are parked.
 *
 * Slots never grow from the outermost frame to the innermost: a call ends what is at or below its
 * slot.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* No slot: of what no movement of the stack ends. */
#define NO_SLOT UINT64_MAX

/*
 * Calls nested deeper than this on one stack, or open beyond so many in all, are not followed: they
 * are counted as lost, and their returns find no frame.
 */
#define STACK_MAX_FRAMES  (1U << 20)
#define STACKS_MAX_FRAMES (8U << 20)

enum frame_flags {
	FRAME_WANTED = 1 << 0,	    /* passed the filters: counts in its stream's depth */
	FRAME_WRITTEN = 1 << 1,	    /* its entry is recorded */
	FRAME_TRANSPARENT = 1 << 2, /* goes on to the real callee */
	FRAME_ENTRY = 1 << 3,	    /* the processor came here by itself */
	FRAME_JUMPED = 1 << 6,	    /* by a jump from nowhere: its return shows the slot */
	FRAME_ONLY = 1 << 4,	    /* of a function that a filter names */
	FRAME_NOT = 1 << 5,
};

/* What a frame is, as opposed to what is made of it. */
#define FRAME_KIND (FRAME_ENTRY | FRAME_JUMPED)

struct frame {
	uint64_t slot;
	uint64_t function;
	uint64_t time;	/* of its entry */
	uint32_t depth; /* in its stream, where it is wanted */
	uint32_t flags;
};

struct stack {
	struct frame *frames; /* the first is none: it ends every search, having NO_SLOT */
	uint32_t n, size;
	uint32_t settled; /* of the frames up to here no entry is waiting to be written */
	uint32_t rank;
	struct stack *below;
};

/* Stacks for use again, and how many frames there may be. */
struct stack_pool {
	struct stack *free;
	unsigned n_free;
	_Atomic uint64_t *n_frames; /* of all pools */
};

/* NULL: no memory. */
struct stack *stack_new(struct stack_pool *pool, unsigned rank);
void stack_release(struct stack_pool *pool, struct stack *stack);
void stack_pool_clear(struct stack_pool *pool);
/* Room for one frame more; false: there is none. */
bool stack_grow(struct stack_pool *pool, struct stack *stack);

/* Is there a frame with this very slot? */
bool stack_has(const struct stack *stack, uint64_t slot);
/* Is it between the outermost frame and the innermost, or at most `margin` bytes off? */
bool stack_spans(const struct stack *stack, uint64_t slot, uint64_t margin);

static inline struct frame *stack_last(const struct stack *stack)
{
	return &stack->frames[stack->n - 1];
}

static inline bool stack_is_empty(const struct stack *stack)
{
	return stack->n == 1;
}
