/* SPDX-License-Identifier: MIT */
/* Threads that wait: whether they have run meanwhile, and which code is not what they wait for. */
#include "guest/linux/task-private.h"

/*
 * in_sched_functions() in kernel/sched/core.c: code between these bounds sleeps for somebody else.
 * /proc/PID/wchan names the first function outside of them.
 */
void vms_linux_find_sleep_code(const struct vms_linux *guest, struct vms_linux_tasks *tasks)
{
	static const char *const bounds[][2] = { { "__sched_text_start", "__sched_text_end" },
						 { "__lock_text_start", "__lock_text_end" } };
	G_STATIC_ASSERT(G_N_ELEMENTS(bounds) == G_N_ELEMENTS(tasks->sleep_code));
	for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++) {
		uint64_t begin, end;
		if (!vms_linux_symbol(guest, bounds[i][0], &begin) ||
		    !vms_linux_symbol(guest, bounds[i][1], &end))
			continue;
		tasks->sleep_code[i].begin = begin;
		tasks->sleep_code[i].end = end;
	}
}

bool vms_linux_is_sleep_code(const void *system, uint64_t pc)
{
	const struct vms_linux_tasks *tasks = ((const struct vms_linux *)system)->tasks;
	for (size_t i = 0; tasks && i < G_N_ELEMENTS(tasks->sleep_code); i++)
		if (pc >= tasks->sleep_code[i].begin && pc < tasks->sleep_code[i].end)
			return true;
	return false;
}

static bool read_wait(const struct vms_linux_tasks *tasks, struct vms_memory *memory, uint64_t task,
		      struct vms_task_wait *ret)
{
	uint64_t pid, tgid, state, exit_state, voluntary, involuntary, on_cpu, cpu = 0;
	if (!vms_member_there(&tasks->on_cpu) || !vms_member_there(&tasks->voluntary) ||
	    !vms_member_there(&tasks->involuntary) ||
	    !vms_member_read(memory, task, &tasks->pid, &pid) ||
	    !vms_member_read(memory, task, &tasks->tgid, &tgid) ||
	    !vms_member_read(memory, task, &tasks->state, &state) ||
	    !vms_member_read(memory, task, &tasks->exit_state, &exit_state) ||
	    !vms_member_read(memory, task, &tasks->voluntary, &voluntary) ||
	    !vms_member_read(memory, task, &tasks->involuntary, &involuntary) ||
	    !vms_member_read(memory, task, &tasks->on_cpu, &on_cpu))
		return false;
	if (vms_member_there(&tasks->wake_cpu))
		vms_member_read(memory, task, &tasks->wake_cpu, &cpu);
	*ret = (struct vms_task_wait) {
		.pid = (uint32_t)tgid,
		.tid = (uint32_t)pid,
		.state = vms_linux_state_letter(state, exit_state),
		.is_on_cpu = on_cpu,
		.switches = voluntary + involuntary,
		.cpu = (uint32_t)cpu,
	};
	return true;
}

/*
 * A CPU sets on_cpu before it switches to a task, and counts a switch before it switches away from
 * one: __schedule() and prepare_task() in kernel/sched/core.c.
 */
bool vms_linux_task_wait(void *system, uint64_t task, struct vms_task_wait *ret)
{
	struct vms_linux *guest = system;
	if (!guest->tasks)
		return false;
	g_mutex_lock(&guest->lock);
	const bool done = read_wait(guest->tasks, guest->memory, task, ret);
	g_mutex_unlock(&guest->lock);
	return done;
}
