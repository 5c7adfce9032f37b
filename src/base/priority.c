/* SPDX-License-Identifier: MIT */
#include "base/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

/* A guest that keeps all CPUs busy must not make vmscope late: it would be held for longer. */
#define URGENT_NICE (-10)

int vms_thread_set_urgent(void)
{
	const int before = getpriority(PRIO_PROCESS, (id_t)gettid());
	vms_thread_set_nice(URGENT_NICE);
	return before;
}

void vms_thread_set_nice(int before)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), before);
}

void vms_thread_set_usual(void)
{
	vms_thread_set_nice(getpriority(PRIO_PROCESS, (id_t)getpid()));
}

bool vms_thread_set_real_time(pid_t tid)
{
	const struct sched_param param = { .sched_priority = sched_get_priority_min(SCHED_RR) };
	return sched_getscheduler(tid) == SCHED_OTHER &&
	       sched_setscheduler(tid, SCHED_RR | SCHED_RESET_ON_FORK, &param) == 0;
}

void vms_thread_end_real_time(pid_t tid)
{
	const struct sched_param param = { .sched_priority = 0 };
	sched_setscheduler(tid, SCHED_OTHER, &param);
}
