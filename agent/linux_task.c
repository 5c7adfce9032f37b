/* SPDX-License-Identifier: MIT */
#include "linux_task.h"

#include "base/clock.h"
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_WAIT_NS 500000000ULL /* for the client to read an address space that goes */

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
	struct flow_task task = { .va = va };
	if (!task_is_known(tracer) ||
	    !vcpu_read_memory(vcpu, va + options->task_pid, &task.tid, sizeof(task.tid)) ||
	    !vcpu_read_memory(vcpu, va + options->task_tgid, &task.pid, sizeof(task.pid)) ||
	    !read_mm(tracer, vcpu, va, &task.mm) || !read_name(tracer, vcpu, va, task.name))
		return;
	tracer->task = task;
	flow_switch(tracer->flow, &task, time);
}

void task_check_space(struct tracer *tracer, struct vcpu *vcpu)
{
	struct flow_task *task = &tracer->task;
	uint64_t mm;
	if (!task->va || !read_mm(tracer, vcpu, task->va, &mm) || mm == task->mm || mm == 0)
		return;
	task->mm = mm;
	read_name(tracer, vcpu, task->va, task->name);
	flow_space(tracer->flow, mm, task->name);
}

/* Waits for the answer to block `number`. */
static bool wait_for_answer(struct vms_calls_ring *ring, uint32_t number)
{
	uint64_t now = vms_clock_now_ns(), end = now + MAX_WAIT_NS;
	for (; now < end; now = vms_clock_now_ns()) {
		uint32_t answered = atomic_load(&ring->answered);
		struct timespec timeout = { 0, (long)(end - now) };
		if ((int32_t)(answered - number) >= 0)
			return true;
		syscall(SYS_futex, &ring->answered, FUTEX_WAIT, answered, &timeout, NULL, 0);
	}
	return false;
}

/* A client that does not answer is not waited for until it has done so again. */
void task_exit_mm(struct tracer *tracer, uint64_t mm, uint64_t time)
{
	struct vms_calls_ring *shared = tracer->ring.shared;
	struct vms_calls_space space = {
		.time_ns = time,
		.mm = mm,
		.task = tracer->task.va,
		.pid = tracer->task.pid,
	};
	uint32_t behind = tracer->n_processes - atomic_load(&shared->answered);
	bool answers = !tracer->unanswered || (int32_t)behind <= 0;
	memcpy(space.name, tracer->task.name, sizeof(space.name));
	if (!tracer->trace->options.user)
		return;
	if (vms_ring_block(&tracer->ring, VMS_CALLS_PROCESS, ++tracer->n_processes, &space,
			   sizeof(space))) {
		vms_ring_flush(&tracer->ring);
		tracer->unanswered = !answers || !wait_for_answer(shared, tracer->n_processes);
		if (!tracer->unanswered)
			return;
	}
	atomic_store(&shared->given_up, tracer->n_processes);
}
