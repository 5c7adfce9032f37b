/* SPDX-License-Identifier: MIT */
/* When a process began: with its pid, that tells it from every other process since the host's boot.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum vms_process_state {
	VMS_PROCESS_ALIVE,
	VMS_PROCESS_GONE,   /* there is none, or it has ended and is a zombie */
	VMS_PROCESS_HIDDEN, /* there may be one, but /proc does not show it */
};

/*
 * Reads when a process began, in clock ticks since the host's boot (field 22 of /proc/PID/stat,
 * proc_pid_stat(5)); 0 unless it is alive. Takes no lock and allocates nothing. For any thread.
 */
enum vms_process_state vms_process_start_time(pid_t pid, uint64_t *ret);
