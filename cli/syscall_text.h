/* SPDX-License-Identifier: MIT */
/* System calls as text, in the form that strace has made known. */
#pragma once

#include "syscall_collect.h"
#include <glib.h>

/* Appends `name(argument, …)`. */
void syscall_append_call(GString *out, const struct syscall_shape *shape,
			 const struct vms_flow_record *record);
/* Appends a result: a number, an address, or -1 and the error; and what the result is about. */
void syscall_append_result(GString *out, const struct syscall_shape *shape,
			   const struct vms_flow_record *record);
