/* SPDX-License-Identifier: MIT */
/* Priority of threads for which a guest may have to wait. */
#pragma once

#include <sys/resource.h>
#include <unistd.h>

/* A guest that keeps all CPUs busy must not make them late: it would be held for longer. */
#define VMS_URGENT_NICE (-10)

/* Lets the calling thread run before others of the host. Only root may; else nothing changes. */
static inline void vms_thread_set_urgent(void)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), VMS_URGENT_NICE);
}
