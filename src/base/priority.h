/* SPDX-License-Identifier: MIT */
/* Priority of threads for which a guest may have to wait. */
#pragma once

/* How the kernel schedules a thread. */
struct vms_scheduling {
	int policy;	/* SCHED_OTHER …, with flags */
	int priority;	/* of real-time policies */
	int nice_value; /* of the others */
};

/*
 * Lets the calling thread run before ordinary threads of the host, as nice -10. Only root may; else
 * nothing changes. For threads that work often or for long.
 */
void vms_thread_set_urgent(void);

/*
 * Lets the calling thread run as soon as it can, before all threads that are not real-time ones:
 * SCHED_RR with the lowest priority. Nice values do not achieve that, since they count only within
 * a group of processes (sched(7), "The autogroup feature"). Only for threads that soon wait again.
 * Where real-time scheduling is not permitted, this is vms_thread_set_urgent(). New threads and
 * processes of the calling thread do not inherit it. Returns the scheduling that it had.
 */
struct vms_scheduling vms_thread_set_real_time(void);

/* Gives the calling thread the scheduling that vms_thread_set_real_time() has returned. */
void vms_thread_restore(const struct vms_scheduling *before);

/*
 * Gives the calling thread the nice value of the process's first thread. A thread begins with that
 * of who made it, who may be urgent at that moment.
 */
void vms_thread_set_usual(void);
