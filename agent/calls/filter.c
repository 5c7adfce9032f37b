/* SPDX-License-Identifier: MIT */
/*
 * Filters decide which frames are recorded. The decision is made when a frame is opened, and its
 * exit follows it even if the filters have changed since. So every entry has an exit.
 */
#include "agent/calls/call_tracker-private.h"

/* True if a call at `rank` passes the filters. */
static bool passes_filters(const struct call_tracker *tracker, unsigned rank)
{
	const struct call_trackers *trackers = tracker->all;
	const struct vms_agent_calls *options = &trackers->options;
	const struct context *context = tracker->context;
	return (rank == 0 ? options->user : options->kernel) && context->wanted &&
	       (context->only || !(trackers->functions.flags & VMS_AGENT_FUNCTION_ONLY)) &&
	       !context->without &&
	       atomic_load_explicit(&trackers->started, memory_order_relaxed) &&
	       !atomic_load_explicit(&trackers->stopped, memory_order_relaxed) &&
	       (!options->max_depth || tracker->streams[rank]->depth < options->max_depth);
}

/* Applies the flags of a special function that is called. */
static void apply_flags(struct call_tracker *tracker, struct frame *frame)
{
	int flags = functions_find(&tracker->all->functions, frame->function);
	if (frame->function == 0 || (flags > 0 && flags & VMS_AGENT_FUNCTION_TRANSPARENT))
		frame->flags |= FRAME_TRANSPARENT;
	if (flags <= 0)
		return;
	if (flags & VMS_AGENT_FUNCTION_ONLY)
		frame->flags |= FRAME_ONLY;
	if (flags & VMS_AGENT_FUNCTION_NOT)
		frame->flags |= FRAME_NOT;
	if (flags & VMS_AGENT_FUNCTION_START)
		atomic_store(&tracker->all->started, true);
	if (flags & VMS_AGENT_FUNCTION_STOP && atomic_load(&tracker->all->started))
		atomic_store(&tracker->all->stopped, true);
}

/*
 * Writes the delayed entries of all open calls, because one of them has reached the threshold: the
 * calls around it are longer, and began earlier.
 */
static void write_waiting_entries(struct call_tracker *tracker, struct stack *stack)
{
	if (stack->below)
		write_waiting_entries(tracker, stack->below);
	for (uint32_t i = stack->settled; i < stack->n; i++) {
		struct frame *frame = &stack->frames[i];
		if ((frame->flags & (FRAME_WANTED | FRAME_WRITTEN)) != FRAME_WANTED)
			continue;
		frame->flags |= FRAME_WRITTEN;
		stream_record(tracker, stack->rank, VMS_UFTRACE_ENTRY, frame, frame->time);
	}
	stack->settled = stack->n;
}

void frame_open_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			 uint64_t time)
{
	struct context *context = tracker->context;
	frame->flags &= FRAME_KIND;
	frame->time = time;
	stack->settled = MIN(stack->settled, (uint32_t)(frame - stack->frames));
	if (functions_hint(&tracker->all->functions, frame->function))
		apply_flags(tracker, frame);
	context->only += !!(frame->flags & FRAME_ONLY);
	context->without += !!(frame->flags & FRAME_NOT);
	if (frame->flags & FRAME_TRANSPARENT || !passes_filters(tracker, stack->rank))
		return;
	frame->depth = tracker->streams[stack->rank]->depth++;
	frame->flags |= FRAME_WANTED;
	if (!tracker->all->options.threshold)
		write_waiting_entries(tracker, stack);
}

static bool is_long(const struct call_tracker *tracker, const struct frame *frame, uint64_t time)
{
	uint64_t spent = time > frame->time ? time - frame->time : 0;
	return spent >= tracker->all->options.threshold;
}

void frame_close_filtered(struct call_tracker *tracker, struct stack *stack, struct frame *frame,
			  uint64_t time)
{
	struct context *context = tracker->context;
	if (frame->flags & FRAME_WANTED) {
		if (!(frame->flags & FRAME_WRITTEN) && is_long(tracker, frame, time))
			write_waiting_entries(tracker, stack);
		if (frame->flags & FRAME_WRITTEN)
			stream_record(tracker, stack->rank, VMS_UFTRACE_EXIT, frame, time);
		tracker->streams[stack->rank]->depth = frame->depth;
	}
	context->only -= !!(frame->flags & FRAME_ONLY);
	context->without -= !!(frame->flags & FRAME_NOT);
	frame->flags &= FRAME_KIND;
}

/* ---- all frames of a stack ---------------------------------------------------- */

void stack_open(struct call_tracker *tracker, struct stack *stack, uint64_t time)
{
	for (uint32_t i = 1; i < stack->n; i++)
		frame_open(tracker, stack, &stack->frames[i], time);
}

void stack_close(struct call_tracker *tracker, struct stack *stack, uint64_t time)
{
	for (uint32_t i = stack->n; i-- > 1;)
		frame_close(tracker, stack, &stack->frames[i], time);
}

void frame_lost(struct call_tracker *tracker)
{
	atomic_fetch_add_explicit(&tracker->ring->shared->lost, 2, memory_order_relaxed);
}
