/* SPDX-License-Identifier: MIT */
/* System calls as text, in the form that strace has made known. */
#pragma once

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
	SYSCALL_STRING,
	SYSCALL_DATA, /* bytes that a program writes: as many as the next argument says */
};

struct syscall_form {
	enum syscall_kind kind;
	unsigned size; /* bytes of a number */
};

/* Tells the form of argument `index`. */
struct syscall_form syscall_form(const struct vms_syscall *call, unsigned index);
/* Appends `name(argument, …)`. The record's values are those of the arguments, in order. */
void syscall_append_call(GString *out, const struct vms_syscall *call,
			 const struct vms_flow_record *record);
/* Appends a result: a number, an address, or -1 and the error. */
void syscall_append_result(GString *out, const struct vms_syscall *call, uint64_t result);
