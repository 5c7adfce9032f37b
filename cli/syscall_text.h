/* SPDX-License-Identifier: MIT */
/* System calls as text, in the form that strace has made known. */
#pragma once

#include "syscall_names.h"
#include <glib.h>
#include <vmscope/flow.h>
#include <vmscope/syscall.h>

/* How an argument is collected and shown. */
enum syscall_kind {
	SYSCALL_SIGNED, /* a number with a sign, of `size` bytes */
	SYSCALL_UNSIGNED,
	SYSCALL_HEX,
	SYSCALL_MODE,	   /* permissions: octal */
	SYSCALL_DIRECTORY, /* a file descriptor, or the current directory */
	SYSCALL_NAMES,	   /* a number of `size` bytes, by `names` */
	SYSCALL_STRING,
	SYSCALL_DATA,  /* bytes that a program writes: as many as the next argument says */
	SYSCALL_FILLED /* bytes that the kernel writes: as many as the result says */
};

struct syscall_form {
	enum syscall_kind kind;
	unsigned size; /* bytes of a number */
	const struct syscall_names *names;
	/*
	 * The number of its value among those of the return, which begin with the result; 0: it is
	 * one of the call. At the call a program's memory may not have been loaded yet; after it,
	 * the kernel has read it.
	 */
	unsigned returned;
};

/* A system call with the forms of its arguments. */
struct syscall_shape {
	const struct vms_syscall *call;
	struct syscall_form forms[VMS_SYSCALL_ARGUMENTS];
};

/* True if an argument of this kind is a pointer, and what it leads to is shown. */
bool syscall_is_memory(enum syscall_kind kind);
/* Tells the forms of all arguments. `call` is kept. */
void syscall_shape_init(struct syscall_shape *ret, const struct vms_arch *arch,
			const struct vms_syscall *call);
/*
 * Appends `name(argument, …)`. The record's values are those of the arguments, in order: numbers,
 * but for memory that is not `returned`.
 */
void syscall_append_call(GString *out, const struct syscall_shape *shape,
			 const struct vms_flow_record *record);
/* Appends a result: a number, an address, or -1 and the error. */
void syscall_append_result(GString *out, const struct vms_syscall *call, uint64_t result);
