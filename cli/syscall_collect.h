/* SPDX-License-Identifier: MIT */
/* Makes probes that collect arguments and results of system calls, and finds these in records. */
#pragma once

#include "syscall_form.h"
#include <vmscope/flow.h>

#define SYSCALL_ERROR_MAX 4095u /* a result from -SYSCALL_ERROR_MAX to -1 is an error */

/* The index of the first value of an argument's memory in a record; 0: there is none. */
struct syscall_values {
	unsigned at_call, at_return;
};

/* A system call with the forms of its arguments. */
struct syscall_shape {
	const struct vms_arch *arch;
	const struct vms_syscall *call;
	const char *wide_name; /* see syscall_wide_name */
	unsigned string_size;  /* the limit for data of programs, in bytes */
	struct syscall_form forms[VMS_SYSCALL_ARGUMENTS];
	struct syscall_values values[VMS_SYSCALL_ARGUMENTS];
	unsigned first, size; /* offset and size of the arguments in struct pt_regs */
	bool returns;	      /* false for exit and exit_group */
};

/* The values of a SYSCALL_MESSAGE, in order. Other kinds have one value. */
enum {
	SYSCALL_MESSAGE_HEAD,
	SYSCALL_MESSAGE_NAME,
	SYSCALL_MESSAGE_PIECES,
	SYSCALL_MESSAGE_CONTROL
};

/* Offsets in a program's struct msghdr. */
struct syscall_message_layout {
	unsigned name, name_size, pieces, n_pieces, control, control_size, flags, size;
};
const struct syscall_message_layout *syscall_message_layout(const struct syscall_shape *shape);

/*
 * Finds the forms of all arguments. `call` and `types` must outlive the shape; `types` may be NULL.
 */
void syscall_shape_init(struct syscall_shape *ret, const struct vms_arch *arch,
			const struct vms_types *types, const struct vms_syscall *call,
			unsigned string_size);
/* Adds the entries of the call. The first one has the registers of the arguments. */
bool syscall_add_call_entries(struct vms_probe *probe, struct syscall_shape *shape, GError **error);
/* Adds the entries of the return. The first one is the result. */
bool syscall_add_return_entries(struct vms_probe *probe, struct syscall_shape *shape,
				GError **error);

/* Gets the value of an argument. False if it is not known. */
bool syscall_get_argument(const struct syscall_shape *shape, const struct vms_flow_record *record,
			  unsigned index, uint64_t *ret);
/* Gets the result. False if there is none, or it is not known. */
bool syscall_get_result(const struct vms_flow_record *record, uint64_t *ret);
bool syscall_has_failed(const struct vms_flow_record *record);
