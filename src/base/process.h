/* SPDX-License-Identifier: MIT */
/*
 * The start time and the state of a process. A pid and a start time together name one process: no
 * other process has had both since the host's boot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum vms_process_state {
	VMS_PROCESS_ALIVE,
	VMS_PROCESS_GONE,   /* there is no such process, or it is a zombie */
	VMS_PROCESS_HIDDEN, /* there may be such a process, but /proc does not show it */
};

/*
 * Reads the start time of a process, in clock ticks since the host's boot (field 22 of
 * /proc/PID/stat, proc_pid_stat(5)). It is 0 unless the process is alive. Takes no lock and
 * allocates nothing. For any thread.
 */
enum vms_process_state vms_process_start_time(pid_t pid, uint64_t *ret);
/* Is it stopped, by a signal (SIGSTOP, Ctrl-Z) or by a debugger? For any thread. */
bool vms_process_is_stopped(pid_t pid);
/*
 * Is it in a control group that is frozen, as that of a paused container (cgroups(7))? It is not
 * stopped then, but does nothing. False where this cannot be known: this host has its control
 * groups elsewhere than below /sys/fs/cgroup, or we see a part of them only.
 */
bool vms_process_is_frozen(pid_t pid);
