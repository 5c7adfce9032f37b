/* SPDX-License-Identifier: MIT */
#include "base/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

/* A guest that keeps all CPUs busy must not make vmscope late: it would be held for longer. */
#define URGENT_NICE (-10)

static int get_nice(pid_t tid)
{
	return getpriority(PRIO_PROCESS, (id_t)tid);
}

static void set_nice(int value)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), value);
}

void vms_thread_set_urgent(void)
{
	set_nice(URGENT_NICE);
}

struct vms_scheduling vms_thread_set_real_time(void)
{
	struct sched_param usual = { 0 };
	const struct sched_param real_time = { .sched_priority = sched_get_priority_min(SCHED_RR) };
	struct vms_scheduling before = { .policy = sched_getscheduler(0),
					 .nice_value = get_nice(gettid()) };
	sched_getparam(0, &usual);
	before.priority = usual.sched_priority;
	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &real_time) != 0)
		vms_thread_set_urgent();
	return before;
}

void vms_thread_restore(const struct vms_scheduling *before)
{
	const struct sched_param usual = { .sched_priority = before->priority };
	sched_setscheduler(0, before->policy, &usual);
	if (get_nice(gettid()) != before->nice_value)
		set_nice(before->nice_value);
}

void vms_thread_set_usual(void)
{
	set_nice(get_nice(getpid()));
}
