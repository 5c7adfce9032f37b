/* SPDX-License-Identifier: MIT */
/* Thread ids of processes in other PID namespaces, as those of containers (pid_namespaces(7)). */
#pragma once

#include <glib.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The thread's id in its own PID namespace, by the text of its status file (proc_pid_status(5)). 0:
 * the kernel does not say (before Linux 4.1).
 */
uint64_t vms_host_parse_own_id(const char *status);

/*
 * The id by which we know the thread of a process that calls itself `own_id`, as gettid(2) tells
 * it. 0: it has none, or /proc does not show it.
 */
pid_t vms_host_find_thread(pid_t pid, uint64_t own_id);
