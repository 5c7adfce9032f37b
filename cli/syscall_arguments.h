/* SPDX-License-Identifier: MIT */
/* Arguments that depend on others: which of them count, and what they are. */
#pragma once

#include "syscall_collect.h"

/*
 * Chooses the arguments that a call has: those which no other one makes meaningless, in the order
 * in which they are shown, with what stands before each ("" or "flags="). Returns how many.
 */
unsigned syscall_choose_arguments(const struct syscall_shape *shape,
				  const struct vms_flow_record *record,
				  unsigned order[VMS_SYSCALL_ARGUMENTS],
				  const char *labels[VMS_SYSCALL_ARGUMENTS]);
/* Changes the form of an argument that depends on another one. */
void syscall_change_form(const struct syscall_shape *shape, const struct vms_flow_record *record,
			 unsigned index, struct syscall_form *form);
/* Returns the names of a result's bits; NULL: it has none. */
const struct syscall_names *syscall_names_of_result(const struct syscall_shape *shape,
						    const struct vms_flow_record *record);
