/* SPDX-License-Identifier: MIT */
#include "agent/calls/follow_tasks.h"

#include "agent/tasks/tasks.h"
#include <string.h>

static void follow_switch(unsigned vcpu, const struct task *task)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	track_switch(tracer->tracker, task, tracer_time(tracer, vcpu));
	tracer_leave(vcpu);
}

/* Lets the client read what the address space maps before it ends. */
static void follow_space_end(unsigned vcpu, uint64_t mm, const struct task *task)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	const struct vms_agent_calls *options = &tracer->trace->options;
	struct vms_calls_space space = {
		.time_ns = tracer_time(tracer, vcpu),
		.mm = mm,
		.task = task->va,
		.pid = task->pid,
	};
	memcpy(space.name, task->name, sizeof(space.name));
	if (options->user)
		vms_ring_ask_client(&tracer->ring, VMS_CALLS_PROCESS, &space, sizeof(space),
				    options->clock == VMS_AGENT_CLOCK_INSTRUCTIONS);
	tracer_leave(vcpu);
}

void follow_tasks(void)
{
	static const struct task_listener listener = {
		.switched = follow_switch,
		.space_ends = follow_space_end,
	};
	tasks_add_listener(&listener);
}

void follow_space(struct tracer *tracer, struct vcpu *vcpu)
{
	const struct task *task = tasks_current(vcpu->index);
	if (tasks_check_space(vcpu))
		track_new_space(tracer->tracker, task->mm, task->name);
}
