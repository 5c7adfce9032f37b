/* SPDX-License-Identifier: MIT */
/*
 * Tracks returns from the kernel to user code. If user code does not continue where it was
 * interrupted, the kernel has called a signal's handler, has returned from one (sigreturn), or has
 * started another program.
 *
 * A handler counts as a call whose slot is the stack pointer at its begin. On x86 the return
 * address is there. On aarch64 the stack pointer has this value again at the return. A handler
 * returns to code that calls sigreturn, and then the interrupted code continues. So the interrupted
 * places are remembered.
 */
#include "agent/calls/call_tracker-private.h"

#include <string.h>

/* Maximum distance between interrupted code and its handler on one stack: all registers. */
#define MAX_SIGNAL_FRAME 65536
/* Maximum size of an instruction that calls the kernel. */
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

/* True if a handler interrupted this place. Then forgets it and all later ones. */
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

/* Finds the stack of `sp` again. False if it has no frames. */
static bool find_stack(struct call_tracker *tracker, uint64_t sp, uint64_t cut, uint64_t time)
{
	stacks_forget_in_use(tracker, 0);
	return stacks_find_in_use(tracker, 0, sp, cut, time);
}

/* Continues what was interrupted with the stack pointer `sp`. */
static void return_from_handler(struct call_tracker *tracker, uint64_t sp, uint64_t time)
{
	if (!find_stack(tracker, sp, sp, time))
		return;
	stacks_end_frames_below(tracker, sp, time);
	stacks_drop_empty_top(tracker);
}

static void call_handler(struct call_tracker *tracker, const struct user_state *from, uint64_t pc,
			 uint64_t sp, uint64_t time)
{
	bool found = false;
	remember_interrupted(tracker->context, from);
	if (sp < from->sp && from->sp - sp <= MAX_SIGNAL_FRAME) {
		found = stacks_find_in_use(tracker, 0, from->sp, from->sp, time);
		if (found)
			stacks_end_frames_below(tracker, from->sp, time);
	} else {
		/*
		 * The handler has its own stack, where longjmp may have left an earlier handler. Or
		 * it is on a stack that sigreturn returns to.
		 */
		found = find_stack(tracker, sp, NO_SLOT, time) &&
			stack_last(tracker->top)->slot > sp;
	}
	if (found || stacks_push_new(tracker, 0, time))
		frame_push(tracker, sp, pc, 0, time);
}

/* True if the system call may be sigreturn, and the new stack pointer ends frames. */
static bool is_sigreturn(struct call_tracker *tracker, const struct user_state *from, uint64_t sp,
			 uint64_t time)
{
	/* A parked stack has no open frames that would end. */
	return from->kind == ENTRY_SYSCALL && tracker->context->n_signals > 0 &&
	       stacks_have_open(tracker, 0, sp) && find_stack(tracker, sp, sp, time) &&
	       stack_last(tracker->top)->slot < sp;
}

/*
 * True if user code continues after its system call, or repeats it. If not, although the stack
 * pointer is the same, sigreturn has called another handler at the place where the last one began.
 */
static bool continues_after_syscall(const struct user_state *from, uint64_t pc, uint64_t sp)
{
	return from->sp == sp &&
	       (from->kind != ENTRY_SYSCALL || from->pc - pc <= SYSCALL_INSTRUCTION);
}

static void begin_program(struct call_tracker *tracker, uint64_t pc, uint64_t time)
{
	stacks_end_ranks_above(tracker, 0, time);
	if (stacks_push_new(tracker, 0, time))
		frame_push(tracker, NO_SLOT, pc, 0, time);
}

void user_resume(struct call_tracker *tracker, uint64_t pc, uint64_t sp, uint64_t time)
{
	struct context *context = tracker->context;
	const struct user_state from = context->user;
	context->user.known = false;
	sp = MIN(sp, NO_SLOT - 1);
	if (context->has_new_space && from.known && from.pc == pc && from.sp == sp)
		stacks_keep_program(
			tracker); /* the program has run before the new space was seen */
	if (context->has_new_space) {
		begin_program(tracker, pc, time);
		return;
	}
	stacks_end_ranks_above(tracker, 0, time);
	if (from.known && continues_after_syscall(&from, pc, sp))
		return;
	if (!context->task.va)
		stacks_forget_in_use(tracker, 0);
	if (!context->task.va || !from.known)
		return;
	if (forget_interrupted(context, pc, sp) || is_sigreturn(tracker, &from, sp, time))
		return_from_handler(tracker, sp, time);
	else
		call_handler(tracker, &from, pc, sp, time);
}
