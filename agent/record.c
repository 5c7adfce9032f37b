/* SPDX-License-Identifier: MIT */
/*
 * Filters. A frame is wanted or not when it is opened, and is closed as it was opened, whatever has
 * changed since: what filters do, entries and exits balance.
 */
#include "flow_state.h"

static bool wants(const struct flow *flow, unsigned rank)
{
	const struct flow_tracing *tracing = flow->tracing;
	const struct vms_agent_calls *options = &tracing->options;
	const struct context *context = flow->context;
	return (rank == 0 ? options->user : options->kernel) && context->wanted &&
	       (context->only || !(tracing->functions.flags & VMS_AGENT_FUNCTION_ONLY)) &&
	       !context->without && atomic_load_explicit(&tracing->started, memory_order_relaxed) &&
	       !atomic_load_explicit(&tracing->stopped, memory_order_relaxed) &&
	       (!options->max_depth || flow->streams[rank]->depth < options->max_depth);
}

/* What a call of a special function sets off. */
static void take_flags(struct flow *flow, struct frame *frame)
{
	int flags = functions_find(&flow->tracing->functions, frame->function);
	if (frame->function == 0 || (flags > 0 && flags & VMS_AGENT_FUNCTION_TRANSPARENT))
		frame->flags |= FRAME_TRANSPARENT;
	if (flags <= 0)
		return;
	if (flags & VMS_AGENT_FUNCTION_ONLY)
		frame->flags |= FRAME_ONLY;
	if (flags & VMS_AGENT_FUNCTION_NOT)
		frame->flags |= FRAME_NOT;
	if (flags & VMS_AGENT_FUNCTION_START)
		atomic_store(&flow->tracing->started, true);
	if (flags & VMS_AGENT_FUNCTION_STOP && atomic_load(&flow->tracing->started))
		atomic_store(&flow->tracing->stopped, true);
}

/*
 * Entries that waited, of all that is open: calls that are open around a long one are long, too,
 * and began earlier.
 */
static void write_entries(struct flow *flow, struct stack *stack)
{
	if (stack->below)
		write_entries(flow, stack->below);
	for (uint32_t i = stack->settled; i < stack->n; i++) {
		struct frame *frame = &stack->frames[i];
		if ((frame->flags & (FRAME_WANTED | FRAME_WRITTEN)) != FRAME_WANTED)
			continue;
		frame->flags |= FRAME_WRITTEN;
		stream_record(flow, stack->rank, VMS_UFTRACE_ENTRY, frame, frame->time);
	}
	stack->settled = stack->n;
}

void frame_open_filtered(struct flow *flow, struct stack *stack, struct frame *frame, uint64_t time)
{
	struct context *context = flow->context;
	frame->flags &= FRAME_KIND;
	frame->time = time;
	stack->settled = MIN(stack->settled, (uint32_t)(frame - stack->frames));
	if (functions_hint(&flow->tracing->functions, frame->function))
		take_flags(flow, frame);
	context->only += !!(frame->flags & FRAME_ONLY);
	context->without += !!(frame->flags & FRAME_NOT);
	if (frame->flags & FRAME_TRANSPARENT || !wants(flow, stack->rank))
		return;
	frame->depth = flow->streams[stack->rank]->depth++;
	frame->flags |= FRAME_WANTED;
	if (!flow->tracing->options.threshold)
		write_entries(flow, stack);
}

static bool is_long(const struct flow *flow, const struct frame *frame, uint64_t time)
{
	uint64_t spent = time > frame->time ? time - frame->time : 0;
	return spent >= flow->tracing->options.threshold;
}

void frame_close_filtered(struct flow *flow, struct stack *stack, struct frame *frame,
			  uint64_t time)
{
	struct context *context = flow->context;
	if (frame->flags & FRAME_WANTED) {
		if (!(frame->flags & FRAME_WRITTEN) && is_long(flow, frame, time))
			write_entries(flow, stack);
		if (frame->flags & FRAME_WRITTEN)
			stream_record(flow, stack->rank, VMS_UFTRACE_EXIT, frame, time);
		flow->streams[stack->rank]->depth = frame->depth;
	}
	context->only -= !!(frame->flags & FRAME_ONLY);
	context->without -= !!(frame->flags & FRAME_NOT);
	frame->flags &= FRAME_KIND;
}

/* ---- all frames of a stack ---------------------------------------------------- */

void stack_open(struct flow *flow, struct stack *stack, uint64_t time)
{
	for (uint32_t i = 1; i < stack->n; i++)
		frame_open(flow, stack, &stack->frames[i], time);
}

void stack_close(struct flow *flow, struct stack *stack, uint64_t time)
{
	for (uint32_t i = stack->n; i-- > 1;)
		frame_close(flow, stack, &stack->frames[i], time);
}

void frame_lost(struct flow *flow)
{
	atomic_fetch_add_explicit(&flow->ring->shared->lost, 2, memory_order_relaxed);
}
