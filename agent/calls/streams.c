/* SPDX-License-Identifier: MIT */
#include "agent/calls/call_tracker-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STREAMS (1U << 17)
/* Ids above all ids of Linux: for idle tasks, and for tasks whose id another task uses. */
#define FIRST_IDLE	(1ULL << 22)
#define FIRST_COLLISION (1ULL << 23)

/* Finds or makes the stream of an id. An existing stream continues even under another name. */
static struct stream *get_stream(struct call_trackers *trackers, uint64_t id)
{
	struct stream *stream = g_hash_table_lookup(trackers->streams, &id);
	if (stream || g_hash_table_size(trackers->streams) >= MAX_STREAMS ||
	    !(stream = calloc(1, sizeof(*stream))))
		return stream;
	stream->id = id;
	g_hash_table_insert(trackers->streams, &stream->id, stream);
	return stream;
}

/* ---- streams of a vCPU ------------------------------------------------------ */

static struct stream *get_idle_stream(struct call_tracker *tracker)
{
	struct stream *stream = get_stream(tracker->all, FIRST_IDLE + tracker->vcpu);
	if (!stream)
		return NULL;
	stream->about.tid = stream->about.pid = (uint32_t)stream->id;
	stream->about.vcpu = tracker->vcpu;
	snprintf(stream->about.name, sizeof(stream->about.name), "swapper/%u", tracker->vcpu);
	return stream;
}

static struct stream *get_level_stream(struct call_tracker *tracker, unsigned rank)
{
	const struct privilege_levels *levels = &tracker->all->levels;
	unsigned level = levels->number[rank];
	struct stream *stream = get_stream(tracker->all, (tracker->vcpu + 1ULL) * 100 + level);
	if (!stream)
		return NULL;
	stream->about.vcpu = tracker->vcpu;
	stream->about.level = level;
	if (rank == 0 || rank == levels->kernel)
		snprintf(stream->about.name, sizeof(stream->about.name), "cpu%u %s", tracker->vcpu,
			 rank == 0 ? "user" : "kernel");
	else
		snprintf(stream->about.name, sizeof(stream->about.name), "cpu%u level %u",
			 tracker->vcpu, level);
	return stream;
}

static struct stream *get_vcpu_stream(struct call_tracker *tracker)
{
	struct stream *stream = get_stream(tracker->all, (tracker->vcpu + 1ULL) * 100);
	if (!stream)
		return NULL;
	stream->about.vcpu = tracker->vcpu;
	snprintf(stream->about.name, sizeof(stream->about.name), "cpu%u", tracker->vcpu);
	return stream;
}

bool streams_of_vcpu(struct call_tracker *tracker)
{
	for (unsigned rank = 0; rank < N_RANKS; rank++) {
		struct stream *stream = NULL;
		switch (tracker->all->options.by) {
		case VMS_AGENT_BY_TASK: stream = get_idle_stream(tracker); break;
		case VMS_AGENT_BY_LEVEL: stream = get_level_stream(tracker, rank); break;
		default: stream = get_vcpu_stream(tracker); break;
		}
		if (!stream)
			return false;
		tracker->vcpu_streams[rank] = stream;
	}
	return true;
}

/* ---- streams of tasks ----------------------------------------------------------- */

/*
 * A task with the id of an earlier task continues that task's stream. The caller ends the earlier
 * task's calls first. If the earlier task runs on another vCPU, it keeps the stream.
 */
struct stream *stream_of_task(struct call_tracker *tracker, uint32_t tid)
{
	struct call_trackers *trackers = tracker->all;
	struct stream *stream = tid < FIRST_IDLE ? get_stream(trackers, tid) : NULL;
	if (stream && (!stream->context || stream->context->vcpu == NO_VCPU))
		return stream;
	return get_stream(trackers, FIRST_COLLISION + trackers->n_collisions++);
}

void streams_use(struct call_tracker *tracker, struct context *context)
{
	for (unsigned rank = 0; rank < N_RANKS; rank++) {
		tracker->streams[rank] = context->stream ?: tracker->vcpu_streams[rank];
		tracker->ready[rank] = false;
	}
}

void streams_leave(struct call_tracker *tracker)
{
	if (tracker->selected)
		vms_ring_set_stream(tracker->ring, tracker->selected->id,
				    &tracker->selected->sequence);
	tracker->selected = NULL;
}

void stream_renew(struct call_tracker *tracker)
{
	const struct task *task = &tracker->context->task;
	struct stream *stream = tracker->context->stream;
	tracker->ready[0] = false;
	if (!stream || (stream->about.tid == task->tid && stream->about.pid == task->pid &&
			strncmp(stream->about.name, task->name, sizeof(task->name)) == 0))
		return;
	stream->about.tid = task->tid;
	stream->about.pid = task->pid;
	snprintf(stream->about.name, sizeof(stream->about.name), "%.*s", (int)sizeof(task->name),
		 task->name);
	stream->announced = false;
	memset(tracker->ready, 0, sizeof(tracker->ready));
}

/* ---- blocks for the client -------------------------------------------------- */

static bool write_stream_block(struct call_tracker *tracker, struct stream *stream, uint64_t time)
{
	stream->about.time_ns = time;
	return vms_ring_write_block(tracker->ring, VMS_CALLS_STREAM, 0, &stream->about,
				    sizeof(stream->about));
}

static bool knows_space(const struct stream *stream, const struct task *task)
{
	return task->mm == 0 || (stream->mm == task->mm && stream->pid == task->pid);
}

static void write_space_block(struct call_tracker *tracker, struct stream *stream, uint64_t time)
{
	const struct task *task = &tracker->context->task;
	struct vms_calls_space space = {
		.time_ns = time,
		.mm = task->mm,
		.task = task->va,
		.pid = task->pid,
	};
	memcpy(space.name, task->name, sizeof(space.name));
	if (tracker->all->asks)
		vms_ring_ask_client(tracker->ring, VMS_CALLS_SPACE, &space, sizeof(space), true);
	else if (!vms_ring_write_block(tracker->ring, VMS_CALLS_SPACE, 0, &space, sizeof(space)))
		return;
	stream->mm = task->mm;
	stream->pid = task->pid;
}

void stream_select(struct call_tracker *tracker, unsigned rank, uint64_t time)
{
	struct stream *stream = tracker->streams[rank];
	const struct task *task = &tracker->context->task;
	if (tracker->selected != stream)
		vms_ring_set_stream(tracker->ring, stream->id, &stream->sequence);
	tracker->selected = stream;
	time = MAX(time, stream->time);
	if (!stream->announced)
		stream->announced = write_stream_block(tracker, stream, time);
	if (rank == 0 && !knows_space(stream, task))
		write_space_block(tracker, stream, time);
	for (unsigned i = 0; i < N_RANKS; i++)
		tracker->ready[i] = tracker->streams[i] == stream && stream->announced &&
				    (i != 0 || knows_space(stream, task));
}
