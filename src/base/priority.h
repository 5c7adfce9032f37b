/* SPDX-License-Identifier: MIT */
/* Priority of threads for which a guest may have to wait. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Lets the calling thread run before ordinary threads of the host, as nice -10. Only root may; else
 * nothing changes. Returns the nice value that it had.
 */
int vms_thread_set_urgent(void);

/* Gives the calling thread the nice value that vms_thread_set_urgent() has returned. */
void vms_thread_set_nice(int before);

/*
 * Gives the calling thread the nice value of the process's first thread. A thread begins with that
 * of who made it, who may be urgent at that moment.
 */
void vms_thread_set_usual(void);

/*
 * Lets a thread of this process run before all ordinary threads: SCHED_RR with the lowest priority.
 * On a host with a high load nice values do not achieve that, since they count only within a group
 * of processes (sched(7), "The autogroup feature"). Threads and processes that the thread makes do
 * not inherit it. A real-time thread runs where it ran last and takes that processor from others,
 * even if another one is idle: where it exchanges messages with QEMU all the time, both get slower.
 * So this is only for a thread that is late. Returns false, without a change, if it is not
 * permitted, or if the thread is a real-time thread already.
 */
bool vms_thread_set_real_time(pid_t tid);

/* Makes a thread for which that has returned true an ordinary thread again. */
void vms_thread_end_real_time(pid_t tid);
