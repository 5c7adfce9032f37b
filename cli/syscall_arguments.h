/* SPDX-License-Identifier: MIT */
/* Arguments of system calls whose meaning depends on other arguments. */
#pragma once

#include "syscall_collect.h"

/*
 * Chooses the arguments to show, in the order of strace, with a label before each ("" or "flags=").
 * Arguments that have no meaning in this call are left out. Returns how many there are.
 */
unsigned syscall_choose_arguments(const struct syscall_shape *shape,
				  const struct vms_flow_record *record,
				  unsigned order[VMS_SYSCALL_ARGUMENTS],
				  const char *labels[VMS_SYSCALL_ARGUMENTS]);
/* Changes the form of an argument if it depends on another one. */
void syscall_change_form(const struct syscall_shape *shape, const struct vms_flow_record *record,
			 unsigned index, struct syscall_form *form);
/* Returns the names of the bits of a result. NULL if it has none. */
const struct syscall_names *syscall_names_of_result(const struct syscall_shape *shape,
						    const struct vms_flow_record *record);
