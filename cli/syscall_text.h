/* SPDX-License-Identifier: MIT */
/* Formats system calls like strace. */
#pragma once

#include "syscall_collect.h"
#include <glib.h>

/* Appends `name(argument, …)`. */
void syscall_append_call(GString *out, const struct syscall_shape *shape,
			 const struct vms_flow_record *record);
/*
 * Appends a result: a number, an address, or -1 and the error. For poll and select, the ready
 * descriptors follow.
 */
void syscall_append_result(GString *out, const struct syscall_shape *shape,
			   const struct vms_flow_record *record);
