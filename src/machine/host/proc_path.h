/* SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <sys/types.h>

/* "/proc/PID/NAME", newly allocated. */
static inline char *vms_host_process_path(pid_t pid, const char *name)
{
	return g_strdup_printf("/proc/%d/%s", (int)pid, name);
}
