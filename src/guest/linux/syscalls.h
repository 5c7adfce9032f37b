/* SPDX-License-Identifier: MIT */
/*
 * System calls: the functions that the kernel has for them, and what it says of their arguments for
 * its own tracing (struct syscall_metadata, CONFIG_FTRACE_SYSCALLS).
 */
#pragma once

#include <glib.h>

/* An operation: see vms_guest_syscalls. */
GArray *vms_linux_syscalls(void *system, GError **error);
