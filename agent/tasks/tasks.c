/* SPDX-License-Identifier: MIT */
#include "agent/tasks/tasks.h"

#include "agent/tasks/hooks.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OFFSET    (64U << 10) /* in a task_struct */
#define MAX_LISTENERS 4

static struct {
	GMutex lock;
	struct vms_agent_tasks received[VMS_AGENT_MAX_CLIENTS];
	struct vms_agent_tasks layout; /* in use; changes only while no vCPU is in guest code */
	atomic_uint n_users;	       /* services that use tasks */
	struct task *current;	       /* by vCPU */
	const struct task_listener *listeners[MAX_LISTENERS];
	unsigned n_listeners;
} tasks;

void tasks_add_listener(const struct task_listener *listener)
{
	g_assert(tasks.n_listeners < MAX_LISTENERS);
	tasks.listeners[tasks.n_listeners++] = listener;
}

/* ---- current tasks ------------------------------------------------------------- */

static bool has_offsets(const struct vms_agent_tasks *layout)
{
	return layout->tid || layout->pid || layout->mm || layout->name;
}

bool tasks_are_known(void)
{
	return has_offsets(&tasks.layout);
}

const struct task *tasks_current(unsigned vcpu)
{
	return &tasks.current[vcpu];
}

void tasks_forget(unsigned vcpu)
{
	tasks.current[vcpu] = (struct task) { .va = 0 };
}

static bool read_mm(struct vcpu *reader, uint64_t va, uint64_t *mm)
{
	return vcpu_read_memory(reader, va + tasks.layout.mm, mm, sizeof(*mm));
}

static bool read_name(struct vcpu *reader, struct task *task)
{
	bool ok = vcpu_read_memory(reader, task->va + tasks.layout.name, task->name,
				   sizeof(task->name));
	task->name[sizeof(task->name) - 1] = '\0';
	return ok;
}

const struct task *tasks_note(unsigned vcpu, struct vcpu *reader, uint64_t va)
{
	const struct vms_agent_tasks *layout = &tasks.layout;
	struct task task = { .va = va };
	if (!tasks_are_known() ||
	    !vcpu_read_memory(reader, va + layout->tid, &task.tid, sizeof(task.tid)) ||
	    !vcpu_read_memory(reader, va + layout->pid, &task.pid, sizeof(task.pid)) ||
	    !read_mm(reader, va, &task.mm) || !read_name(reader, &task))
		return NULL;
	tasks.current[vcpu] = task;
	return &tasks.current[vcpu];
}

bool tasks_check_space(struct vcpu *vcpu)
{
	struct task *task = &tasks.current[vcpu->index];
	uint64_t mm;
	if (!task->va || !read_mm(vcpu, task->va, &mm) || mm == task->mm || mm == 0)
		return false;
	task->mm = mm;
	read_name(vcpu, task);
	return true;
}

/* ---- calls from hooked code ------------------------------------------------------- */

bool tasks_find_functions(uint64_t *switches, uint64_t *ends_space)
{
	*switches = tasks.layout.switch_function;
	*ends_space = tasks.layout.space_end_function;
	return tasks.n_users && tasks_are_known();
}

void tasks_switch(struct vcpu *vcpu, uint64_t va)
{
	const struct task *task = tasks.n_users ? tasks_note(vcpu->index, vcpu, va) : NULL;
	for (unsigned i = 0; task && i < tasks.n_listeners; i++)
		tasks.listeners[i]->switched(vcpu->index, task);
}

void tasks_end_space(struct vcpu *vcpu, uint64_t mm)
{
	for (unsigned i = 0; tasks.n_users && i < tasks.n_listeners; i++)
		tasks.listeners[i]->space_ends(vcpu->index, mm, tasks_current(vcpu->index));
}

/* ---- users ------------------------------------------------------------------------ */

void tasks_update(unsigned client)
{
	g_mutex_lock(&tasks.lock);
	tasks.layout = tasks.received[client];
	g_mutex_unlock(&tasks.lock);
}

void tasks_begin_use(unsigned client)
{
	tasks_update(client);
	if (atomic_fetch_add(&tasks.n_users, 1) == 0)
		memset(tasks.current, 0, vcpus_max() * sizeof(tasks.current[0]));
}

void tasks_end_use(void)
{
	atomic_fetch_sub(&tasks.n_users, 1);
}

/* ---- the service --------------------------------------------------------------------- */

static bool tasks_init(void)
{
	tasks.current = calloc(vcpus_max(), sizeof(tasks.current[0]));
	return tasks.current;
}

static void tasks_answer(const struct request *request, struct reply *reply)
{
	const struct vms_agent_tasks *layout = (const void *)request->message;
	if (request->size != sizeof(*layout) || layout->tid > MAX_OFFSET ||
	    layout->pid > MAX_OFFSET || layout->mm > MAX_OFFSET || layout->name > MAX_OFFSET) {
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot track tasks: the message has a wrong size, or an offset in "
			    "task_struct is above 64 KiB");
		return;
	}
	g_mutex_lock(&tasks.lock);
	tasks.received[request->client] = *layout;
	g_mutex_unlock(&tasks.lock);
	reply_ok(reply);
}

static void tasks_client_gone(unsigned client)
{
	g_mutex_lock(&tasks.lock);
	tasks.received[client] = (struct vms_agent_tasks) { .tid = 0 };
	g_mutex_unlock(&tasks.lock);
}

static void tasks_vcpu_ends(struct vcpu *vcpu)
{
	tasks_forget(vcpu->index);
}

const struct service tasks_service = {
	.first_kind = VMS_AGENT_TASKS,
	.last_kind = VMS_AGENT_TASKS,
	.init = tasks_init,
	.answer = tasks_answer,
	.client_gone = tasks_client_gone,
	.translate = tasks_hook,
	.vcpu_ends = tasks_vcpu_ends,
};
