/* SPDX-License-Identifier: MIT */
/*
 * From the kernel to user code. Where that does not go on with what it was left with, the kernel
 * has called a signal's handler, has taken it back (sigreturn), or has put another program there.
 *
 * A handler is a call whose slot is the stack pointer that it begins with: on x86 its return
 * address lies there, on aarch64 the stack pointer is back there when it returns. What it returns
 * to asks the kernel to go on with what was interrupted, which is remembered.
 */
#include "call_tracker-private.h"

#include <string.h>

/* At most between what was interrupted and its handler on the same stack: all registers. */
#define MAX_SIGNAL_FRAME 65536
/* At most bytes of a system call. */
#define SYSCALL_INSTRUCTION 4

static void remember(struct context *context, const struct user_state *from)
{
	if (context->n_signals == MAX_SIGNALS) {
		memmove(context->signals, context->signals + 1,
			sizeof(context->signals) - sizeof(context->signals[0]));
		context->n_signals--;
	}
	context->signals[context->n_signals].pc = from->pc;
	context->signals[context->n_signals++].sp = from->sp;
}

/* Is that what a handler interrupted? It and those inside it have ended then. */
static bool is_interrupted(struct context *context, uint64_t pc, uint64_t sp)
{
	for (unsigned i = context->n_signals; i-- > 0;) {
		if (context->signals[i].pc != pc || context->signals[i].sp != sp)
			continue;
		context->n_signals = i;
		return true;
	}
	return false;
}

/* Finds the stack anew; false where it has no frames. */
static bool go_to(struct call_tracker *tracker, uint64_t sp, uint64_t cut, uint64_t time)
{
	place_forget(tracker, 0);
	return place_find(tracker, 0, sp, cut, time);
}

static void go_back(struct call_tracker *tracker, uint64_t sp, uint64_t time)
{
	if (!go_to(tracker, sp, sp, time))
		return;
	place_cut(tracker, sp, time);
	place_drop_empty(tracker);
}

static void call_handler(struct call_tracker *tracker, const struct user_state *from, uint64_t pc,
			 uint64_t sp, uint64_t time)
{
	bool found = false;
	remember(tracker->context, from);
	if (sp < from->sp && from->sp - sp <= MAX_SIGNAL_FRAME) {
		found = place_find(tracker, 0, from->sp, from->sp, time);
		if (found)
			place_cut(tracker, from->sp, time);
	} else {
		/* On a stack of its own, where an earlier handler may have been left by longjmp; or
		 * on one that sigreturn goes back to. */
		found = go_to(tracker, sp, NO_SLOT, time) && stack_last(tracker->top)->slot > sp;
	}
	if (found || place_nest(tracker, 0, time))
		frame_push(tracker, sp, pc, 0, time);
}

/* Where a call of sigreturn may be what ended, and frames would be cut, it was one. */
static bool is_unwound(struct call_tracker *tracker, const struct user_state *from, uint64_t sp,
		       uint64_t time)
{
	/* On one that is parked nothing is open that would be cut. */
	return from->kind == ENTRY_SYSCALL && tracker->context->n_signals > 0 &&
	       place_is_open(tracker, 0, sp) && go_to(tracker, sp, sp, time) &&
	       stack_last(tracker->top)->slot < sp;
}

/*
 * With what follows the system call, or with the call once more. Another place is a handler's: one
 * that is called as sigreturn ends, at just where the last one began.
 */
static bool goes_on(const struct user_state *from, uint64_t pc, uint64_t sp)
{
	return from->sp == sp &&
	       (from->kind != ENTRY_SYSCALL || from->pc - pc <= SYSCALL_INSTRUCTION);
}

static void begin_program(struct call_tracker *tracker, uint64_t pc, uint64_t time)
{
	place_lower(tracker, 0, time);
	if (place_nest(tracker, 0, time))
		frame_push(tracker, NO_SLOT, pc, 0, time);
}

void user_resume(struct call_tracker *tracker, uint64_t pc, uint64_t sp, uint64_t time)
{
	struct context *context = tracker->context;
	const struct user_state from = context->user;
	context->user.known = false;
	sp = MIN(sp, NO_SLOT - 1);
	if (context->has_new_space && from.known && from.pc == pc && from.sp == sp)
		place_keep_program(tracker); /* it has run before that was seen */
	if (context->has_new_space) {
		begin_program(tracker, pc, time);
		return;
	}
	place_lower(tracker, 0, time);
	if (from.known && goes_on(&from, pc, sp))
		return;
	if (!context->task.va)
		place_forget(tracker, 0);
	if (!context->task.va || !from.known)
		return;
	if (is_interrupted(context, pc, sp) || is_unwound(tracker, &from, sp, time))
		go_back(tracker, sp, time);
	else
		call_handler(tracker, &from, pc, sp, time);
}
