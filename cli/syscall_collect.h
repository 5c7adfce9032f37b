/* SPDX-License-Identifier: MIT */
/* What a probe collects of system calls, and where it is among a record's values. */
#pragma once

#include "syscall_form.h"
#include <vmscope/flow.h>

#define SYSCALL_ERROR_MAX 4095u /* a result from -SYSCALL_ERROR_MAX to -1 is an error */

/* Which values of a record are an argument's memory: the first one; 0: there is none. */
struct syscall_values {
	unsigned at_call, at_return;
};

/* A system call with the forms of its arguments. */
struct syscall_shape {
	const struct vms_arch *arch;
	const struct vms_syscall *call;
	const char *wide_name; /* see syscall_wide_name */
	unsigned string_size;  /* bytes of a program's data that are shown */
	struct syscall_form forms[VMS_SYSCALL_ARGUMENTS];
	struct syscall_values values[VMS_SYSCALL_ARGUMENTS];
	unsigned first, size; /* the bytes of struct pt_regs that have the arguments */
	bool returns;	      /* it comes back, and has a result */
};

/* The values of SYSCALL_MESSAGE, in order; of others there is one. */
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

/* Tells the forms of all arguments. `call` and `types`, which may be NULL, are kept. */
void syscall_shape_init(struct syscall_shape *ret, const struct vms_arch *arch,
			const struct vms_types *types, const struct vms_syscall *call,
			unsigned string_size);
/* Adds what is collected at the call: first the arguments' registers. */
bool syscall_add_call(struct vms_probe *probe, struct syscall_shape *shape, GError **error);
/* Adds what is collected at the return: first the result. */
bool syscall_add_return(struct vms_probe *probe, struct syscall_shape *shape, GError **error);

/* Gets the register of an argument. False: it is not known. */
bool syscall_argument(const struct syscall_shape *shape, const struct vms_flow_record *record,
		      unsigned index, uint64_t *ret);
/* Gets the result. False: there is none, or it is not known. */
bool syscall_result(const struct vms_flow_record *record, uint64_t *ret);
bool syscall_has_failed(const struct vms_flow_record *record);
