/* SPDX-License-Identifier: MIT */
/* Priority of threads for which a guest may have to wait. */
#pragma once

#include <sys/resource.h>
#include <unistd.h>

/* A guest that keeps all CPUs busy must not make them late: it would be held for longer. */
#define VMS_URGENT_NICE (-10)

/*
 * Lets the calling thread run before others of the host. Only root may; else nothing changes.
 * Returns the nice value that it had.
 */
static inline int vms_thread_set_urgent(void)
{
	const int before = getpriority(PRIO_PROCESS, (id_t)gettid());
	setpriority(PRIO_PROCESS, (id_t)gettid(), VMS_URGENT_NICE);
	return before;
}

/* Gives the calling thread the nice value that vms_thread_set_urgent has returned. */
static inline void vms_thread_set_nice(int before)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), before);
}

/*
 * Gives the calling thread the nice value of the process's first thread. A thread begins with that
 * of who made it, who may be urgent at that moment.
 */
static inline void vms_thread_set_usual(void)
{
	vms_thread_set_nice(getpriority(PRIO_PROCESS, (id_t)getpid()));
}
