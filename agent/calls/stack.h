/* SPDX-License-Identifier: MIT */
/*
 * Frames on a stack of the guest, and lists of stacks. An open stack is nested on the one below it.
 * Parked stacks are in another list.
 *
 * From the outermost frame to the innermost, slots never increase: a call ends the frames at or
 * below its slot.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The slot of a frame that no change of the stack pointer ends. */
#define NO_SLOT UINT64_MAX

/*
 * Maximum number of frames of one stack, and of all stacks together. Further calls are counted as
 * lost, and their returns find no frame.
 */
#define STACK_MAX_FRAMES  (1U << 20)
#define STACKS_MAX_FRAMES (8U << 20)

enum frame_flags {
	FRAME_WANTED = 1 << 0,	    /* has passed the filters, and counts in its stream's depth */
	FRAME_WRITTEN = 1 << 1,	    /* its entry is recorded */
	FRAME_TRANSPARENT = 1 << 2, /* a stub that jumps to the real callee */
	FRAME_ENTRY = 1 << 3,	    /* entered by an exception, interrupt or system call */
	FRAME_ONLY = 1 << 4,	    /* of a function in the filter `only` */
	FRAME_NOT = 1 << 5,	    /* of a function in the filter `without` */
	FRAME_JUMPED = 1 << 6, /* entered by a jump without a known caller, so without a slot */
};

/* Flags of the kind of a frame. The other flags are about its records. */
#define FRAME_KIND (FRAME_ENTRY | FRAME_JUMPED)

struct frame {
	uint64_t slot;
	uint64_t function;
	uint64_t time;	/* of its entry */
	uint32_t depth; /* in its stream, if it is wanted */
	uint32_t flags;
};

struct stack {
	struct frame *frames; /* the first one is no call; its NO_SLOT ends every search */
	uint32_t n, size;
	uint32_t settled; /* no frame before this one has a delayed entry */
	uint32_t rank;
	struct stack *below;
};

/* Unused stacks, and a counter of frames. */
struct stack_pool {
	struct stack *free;
	unsigned n_free;
	_Atomic uint64_t *n_frames; /* allocated by all pools */
};

/* Makes an empty stack, or reuses one. NULL if there is no memory. */
struct stack *stack_new(struct stack_pool *pool, unsigned rank);
void stack_release(struct stack_pool *pool, struct stack *stack);
void stack_pool_clear(struct stack_pool *pool);
/* Makes room for one more frame. False if there is no memory, or there are too many frames. */
bool stack_grow(struct stack_pool *pool, struct stack *stack);

/* True if a frame has exactly this slot. */
bool stack_has(const struct stack *stack, uint64_t slot);
/* True if `slot` is between the outermost and innermost frame, or `margin` bytes away at most. */
bool stack_spans(const struct stack *stack, uint64_t slot, uint64_t margin);

static inline struct frame *stack_last(const struct stack *stack)
{
	return &stack->frames[stack->n - 1];
}

static inline bool stack_is_empty(const struct stack *stack)
{
	return stack->n == 1;
}
