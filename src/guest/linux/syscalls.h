/* SPDX-License-Identifier: MIT */
/*
 * System calls: the functions that the kernel has for them, and what it says of their arguments for
 * its own tracing (struct syscall_metadata, CONFIG_FTRACE_SYSCALLS).
 */
#pragma once

#include <vmscope/syscall.h>

/* An operation: see vms_guest_syscalls. */
GArray *vms_linux_syscalls(void *system, GError **error);
/* Takes the arguments of a call from the list of those that are known, if it is there. */
void vms_linux_take_signature(const struct vms_arch *arch, struct vms_syscall *call);
/* Takes the arguments of a call from a text as "int fd, const char * name". */
void vms_linux_split_signature(const char *text, struct vms_syscall *call);
/*
 * Tells name and arguments of a call of 32-bit programs, by the name of the function without what
 * all have at their begin.
 */
void vms_linux_describe_syscall_32(const char *function, struct vms_syscall *call);
