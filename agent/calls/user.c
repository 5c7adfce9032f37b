/* SPDX-License-Identifier: MIT */
/*
 * From the kernel to user code. If user code does not continue where it was left, the kernel has
 * called a signal's handler, has returned from one (sigreturn), or has started another program.
 *
 * A handler is a call whose slot is the stack pointer that it begins with. On x86 its return
 * address lies there. On aarch64 the stack pointer is there again when it returns. A handler
 * returns to code that asks the kernel to continue what was interrupted, so that is remembered.
 */
#include "agent/calls/call_tracker-private.h"

#include <string.h>

/* The most bytes between what was interrupted and its handler on one stack: all registers. */
#define MAX_SIGNAL_FRAME 65536
/* The most bytes of an instruction that calls the kernel. */
#define SYSCALL_INSTRUCTION 4

static void remember_interrupted(struct context *context, const struct user_state *from)
{
	if (context->n_signals == MAX_SIGNALS) {
		memmove(context->signals, context->signals + 1,
			sizeof(context->signals) - sizeof(context->signals[0]));
		context->n_signals--;
	}
	context->signals[context->n_signals].pc = from->pc;
	context->signals[context->n_signals++].sp = from->sp;
}

/* True if a handler interrupted this. It is forgotten then, and what came after it. */
static bool forget_interrupted(struct context *context, uint64_t pc, uint64_t sp)
{
	for (unsigned i = context->n_signals; i-- > 0;) {
		if (context->signals[i].pc != pc || context->signals[i].sp != sp)
			continue;
		context->n_signals = i;
		return true;
	}
	return false;
}

/* Finds the stack of `sp` anew. False: it has no frames. */
static bool find_stack(struct call_tracker *tracker, uint64_t sp, uint64_t cut, uint64_t time)
{
	place_forget(tracker, 0);
	return place_find(tracker, 0, sp, cut, time);
}

/* Continues what was interrupted with the stack pointer `sp`. */
static void return_from_handler(struct call_tracker *tracker, uint64_t sp, uint64_t time)
{
	if (!find_stack(tracker, sp, sp, time))
		return;
	place_cut(tracker, sp, time);
	place_drop_empty(tracker);
}

static void call_handler(struct call_tracker *tracker, const struct user_state *from, uint64_t pc,
			 uint64_t sp, uint64_t time)
{
	bool found = false;
	remember_interrupted(tracker->context, from);
	if (sp < from->sp && from->sp - sp <= MAX_SIGNAL_FRAME) {
		found = place_find(tracker, 0, from->sp, from->sp, time);
		if (found)
			place_cut(tracker, from->sp, time);
	} else {
		/* On a stack of its own, where an earlier handler may have been left by longjmp; or
		 * on one that sigreturn goes back to. */
		found = find_stack(tracker, sp, NO_SLOT, time) &&
			stack_last(tracker->top)->slot > sp;
	}
	if (found || place_nest(tracker, 0, time))
		frame_push(tracker, sp, pc, 0, time);
}

/* True if the system call may have been sigreturn, and the new stack pointer ends frames. */
static bool is_sigreturn(struct call_tracker *tracker, const struct user_state *from, uint64_t sp,
			 uint64_t time)
{
	/* A parked stack has no open frames that would end. */
	return from->kind == ENTRY_SYSCALL && tracker->context->n_signals > 0 &&
	       place_is_open(tracker, 0, sp) && find_stack(tracker, sp, sp, time) &&
	       stack_last(tracker->top)->slot < sp;
}

/*
 * True if user code continues after its system call, or repeats it. Otherwise, with the same stack
 * pointer, it is a handler that is called as sigreturn ends, just where the last one began.
 */
static bool continues(const struct user_state *from, uint64_t pc, uint64_t sp)
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
		place_keep_program(tracker); /* the program has run before the new space was seen */
	if (context->has_new_space) {
		begin_program(tracker, pc, time);
		return;
	}
	place_lower(tracker, 0, time);
	if (from.known && continues(&from, pc, sp))
		return;
	if (!context->task.va)
		place_forget(tracker, 0);
	if (!context->task.va || !from.known)
		return;
	if (forget_interrupted(context, pc, sp) || is_sigreturn(tracker, &from, sp, time))
		return_from_handler(tracker, sp, time);
	else
		call_handler(tracker, &from, pc, sp, time);
}
