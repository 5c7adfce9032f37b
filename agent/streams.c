/* SPDX-License-Identifier: MIT */
#include "flow_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STREAMS (1U << 17)
/* Ids that no task of Linux has: of idle vCPUs, and of tasks whose id another one has. */
#define FIRST_IDLE	(1ULL << 22)
#define FIRST_COLLISION (1ULL << 23)

/* The one that is there goes on, whatever it was called. */
static struct stream *get(struct flow_tracing *tracing, uint64_t id)
{
	struct stream *stream = g_hash_table_lookup(tracing->streams, &id);
	if (stream || g_hash_table_size(tracing->streams) >= MAX_STREAMS ||
	    !(stream = calloc(1, sizeof(*stream))))
		return stream;
	stream->id = id;
	g_hash_table_insert(tracing->streams, &stream->id, stream);
	return stream;
}

/* ---- of a vCPU -------------------------------------------------------------- */

static struct stream *get_idle(struct flow *flow)
{
	struct stream *stream = get(flow->tracing, FIRST_IDLE + flow->vcpu);
	if (!stream)
		return NULL;
	stream->about.tid = stream->about.pid = (uint32_t)stream->id;
	stream->about.vcpu = flow->vcpu;
	snprintf(stream->about.name, sizeof(stream->about.name), "swapper/%u", flow->vcpu);
	return stream;
}

static struct stream *get_level(struct flow *flow, unsigned rank)
{
	const struct flow_levels *levels = &flow->tracing->levels;
	unsigned level = levels->number[rank];
	struct stream *stream = get(flow->tracing, (flow->vcpu + 1ULL) * 100 + level);
	if (!stream)
		return NULL;
	stream->about.vcpu = flow->vcpu;
	stream->about.level = level;
	if (rank == 0 || rank == levels->kernel)
		snprintf(stream->about.name, sizeof(stream->about.name), "cpu%u %s", flow->vcpu,
			 rank == 0 ? "user" : "kernel");
	else
		snprintf(stream->about.name, sizeof(stream->about.name), "cpu%u level %u",
			 flow->vcpu, level);
	return stream;
}

static struct stream *get_vcpu(struct flow *flow)
{
	struct stream *stream = get(flow->tracing, (flow->vcpu + 1ULL) * 100);
	if (!stream)
		return NULL;
	stream->about.vcpu = flow->vcpu;
	snprintf(stream->about.name, sizeof(stream->about.name), "cpu%u", flow->vcpu);
	return stream;
}

bool streams_of_vcpu(struct flow *flow)
{
	for (unsigned rank = 0; rank < FLOW_RANKS; rank++) {
		struct stream *stream = NULL;
		switch (flow->tracing->options.by) {
		case VMS_AGENT_BY_TASK: stream = get_idle(flow); break;
		case VMS_AGENT_BY_LEVEL: stream = get_level(flow, rank); break;
		default: stream = get_vcpu(flow); break;
		}
		if (!stream)
			return false;
		flow->vcpu_streams[rank] = stream;
	}
	return true;
}

/* ---- of a task ---------------------------------------------------------------- */

/*
 * A task that has the id of one before it goes on with its stream, which is ended first. That of a
 * task that runs elsewhere is left to that.
 */
struct stream *stream_of_task(struct flow *flow, uint32_t tid)
{
	struct flow_tracing *tracing = flow->tracing;
	struct stream *stream = tid < FIRST_IDLE ? get(tracing, tid) : NULL;
	if (stream && (!stream->context || stream->context->vcpu == NO_VCPU))
		return stream;
	return get(tracing, FIRST_COLLISION + tracing->n_collisions++);
}

void streams_use(struct flow *flow, struct context *context)
{
	for (unsigned rank = 0; rank < FLOW_RANKS; rank++) {
		flow->streams[rank] = context->stream ?: flow->vcpu_streams[rank];
		flow->ready[rank] = false;
	}
}

void streams_leave(struct flow *flow)
{
	if (flow->selected)
		vms_ring_stream(flow->ring, flow->selected->id, &flow->selected->sequence);
	flow->selected = NULL;
}

void stream_renew(struct flow *flow)
{
	const struct flow_task *task = &flow->context->task;
	struct stream *stream = flow->context->stream;
	flow->ready[0] = false;
	if (!stream || (stream->about.tid == task->tid && stream->about.pid == task->pid &&
			strncmp(stream->about.name, task->name, sizeof(task->name)) == 0))
		return;
	stream->about.tid = task->tid;
	stream->about.pid = task->pid;
	snprintf(stream->about.name, sizeof(stream->about.name), "%.*s", (int)sizeof(task->name),
		 task->name);
	stream->announced = false;
	memset(flow->ready, 0, sizeof(flow->ready));
}

/* ---- what the client is told -------------------------------------------------- */

static bool announce(struct flow *flow, struct stream *stream, uint64_t time)
{
	stream->about.time_ns = time;
	return vms_ring_block(flow->ring, VMS_CALLS_STREAM, 0, &stream->about,
			      sizeof(stream->about));
}

static bool knows_space(const struct stream *stream, const struct flow_task *task)
{
	return task->mm == 0 || (stream->mm == task->mm && stream->pid == task->pid);
}

static void tell_space(struct flow *flow, struct stream *stream, uint64_t time)
{
	const struct flow_task *task = &flow->context->task;
	struct vms_calls_space space = {
		.time_ns = time,
		.mm = task->mm,
		.task = task->va,
		.pid = task->pid,
	};
	memcpy(space.name, task->name, sizeof(space.name));
	if (flow->tracing->asks)
		vms_ring_ask(flow->ring, VMS_CALLS_SPACE, &space, sizeof(space), true);
	else if (!vms_ring_block(flow->ring, VMS_CALLS_SPACE, 0, &space, sizeof(space)))
		return;
	stream->mm = task->mm;
	stream->pid = task->pid;
}

void stream_select(struct flow *flow, unsigned rank, uint64_t time)
{
	struct stream *stream = flow->streams[rank];
	const struct flow_task *task = &flow->context->task;
	if (flow->selected != stream)
		vms_ring_stream(flow->ring, stream->id, &stream->sequence);
	flow->selected = stream;
	time = MAX(time, stream->time);
	if (!stream->announced)
		stream->announced = announce(flow, stream, time);
	if (rank == 0 && !knows_space(stream, task))
		tell_space(flow, stream, time);
	for (unsigned i = 0; i < FLOW_RANKS; i++)
		flow->ready[i] = flow->streams[i] == stream && stream->announced &&
				 (i != 0 || knows_space(stream, task));
}
