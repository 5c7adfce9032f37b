/* SPDX-License-Identifier: MIT */
#include "linux_task.h"

#include <string.h>

bool task_is_known(const struct tracer *tracer)
{
	const struct vms_agent_calls *options = &tracer->trace->options;
	return options->task_pid || options->task_tgid || options->task_mm || options->task_comm;
}

static bool read_mm(struct tracer *tracer, struct vcpu *vcpu, uint64_t va, uint64_t *mm)
{
	return vcpu_read_memory(vcpu, va + tracer->trace->options.task_mm, mm, sizeof(*mm));
}

static bool read_name(struct tracer *tracer, struct vcpu *vcpu, uint64_t va, char name[16])
{
	bool ok = vcpu_read_memory(vcpu, va + tracer->trace->options.task_comm, name, 16);
	name[15] = '\0';
	return ok;
}

void task_switch(struct tracer *tracer, struct vcpu *vcpu, uint64_t va, uint64_t time)
{
	const struct vms_agent_calls *options = &tracer->trace->options;
	struct tracked_task task = { .va = va };
	if (!task_is_known(tracer) ||
	    !vcpu_read_memory(vcpu, va + options->task_pid, &task.tid, sizeof(task.tid)) ||
	    !vcpu_read_memory(vcpu, va + options->task_tgid, &task.pid, sizeof(task.pid)) ||
	    !read_mm(tracer, vcpu, va, &task.mm) || !read_name(tracer, vcpu, va, task.name))
		return;
	tracer->task = task;
	track_switch(tracer->tracker, &task, time);
}

void task_check_space(struct tracer *tracer, struct vcpu *vcpu)
{
	struct tracked_task *task = &tracer->task;
	uint64_t mm;
	if (!task->va || !read_mm(tracer, vcpu, task->va, &mm) || mm == task->mm || mm == 0)
		return;
	task->mm = mm;
	read_name(tracer, vcpu, task->va, task->name);
	track_new_space(tracer->tracker, mm, task->name);
}

void task_exit_mm(struct tracer *tracer, uint64_t mm, uint64_t time)
{
	const struct vms_agent_calls *options = &tracer->trace->options;
	struct vms_calls_space space = {
		.time_ns = time,
		.mm = mm,
		.task = tracer->task.va,
		.pid = tracer->task.pid,
	};
	memcpy(space.name, tracer->task.name, sizeof(space.name));
	if (options->user)
		vms_ring_ask(&tracer->ring, VMS_CALLS_PROCESS, &space, sizeof(space),
			     options->clock == VMS_AGENT_CLOCK_INSTRUCTIONS);
}
