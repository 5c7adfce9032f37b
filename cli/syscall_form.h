/* SPDX-License-Identifier: MIT */
/* The form of an argument of a system call: how it is collected and shown. */
#pragma once

#include "syscall_names.h"
#include <vmscope/syscall.h>
#include <vmscope/types.h>

enum syscall_kind {
	/* Numbers. */
	SYSCALL_SIGNED, /* with a sign, of `size` bytes */
	SYSCALL_UNSIGNED,
	SYSCALL_HEX,
	SYSCALL_OCTAL,	   /* permissions */
	SYSCALL_FILE_MODE, /* with the type of a file */
	SYSCALL_DIRECTORY, /* a file descriptor, or the current directory */
	SYSCALL_ADDRESS,
	SYSCALL_NAMED, /* by `names` */
	/* Memory that a pointer leads to: `count` elements of `size` bytes. */
	SYSCALL_STRING,
	SYSCALL_BYTES,
	SYSCALL_RANDOM,	     /* bytes, all in hexadecimal */
	SYSCALL_STRUCTS,     /* of type `type`; more than one in [] */
	SYSCALL_NUMBERS,     /* signed integers of `size` bytes in [] */
	SYSCALL_OPTION,	     /* of a socket: an int, or bytes */
	SYSCALL_SIGNALS,     /* a set of signals */
	SYSCALL_DESCRIPTORS, /* a set of file descriptors */
	SYSCALL_CPUS,
	SYSCALL_STATUS, /* how a process has ended */
	SYSCALL_ADDRESS_OF_SOCKET,
	SYSCALL_FILES, /* entries of a directory; only their number is shown */
	/* Memory that leads to more memory. */
	SYSCALL_STRINGS,   /* by an array of pointers */
	SYSCALL_VARIABLES, /* the same; only their number is shown */
	SYSCALL_PIECES,	   /* by a struct iovec[] of `count` elements */
	SYSCALL_MESSAGE,   /* by a struct user_msghdr */
	SYSCALL_N_KINDS,
};

/* When memory is read. */
enum syscall_when {
	SYSCALL_AT_CALL = 1 << 0,
	/*
	 * At the call, a page of the program may not be in memory yet. At the return it is, because
	 * the kernel has read it. So memory that the kernel only reads is read then, too.
	 */
	SYSCALL_AT_RETURN = 1 << 1,
	SYSCALL_IF_DONE = 1 << 2, /* at the return: not if the call has failed */
	SYSCALL_IF_FAILED = 1 << 3,
};

/* The number of elements of `size` bytes. */
enum syscall_count {
	SYSCALL_ONE,
	SYSCALL_FIXED,	  /* `number` of them */
	SYSCALL_ARGUMENT, /* the value of argument `number` */
	SYSCALL_BITS,	  /* the words of 8 bytes for that many bits */
	SYSCALL_RESULT,	  /* the result */
	SYSCALL_POINTED,  /* the uint32_t that argument `number` points to */
};

struct syscall_form {
	enum syscall_kind kind;
	unsigned size; /* bytes of a number or an element */
	const struct syscall_names *names;
	struct vms_type type; /* STRUCTS */
	unsigned when;	      /* of enum syscall_when */
	enum syscall_count count;
	unsigned number;
};

static inline bool syscall_is_memory(enum syscall_kind kind)
{
	return kind >= SYSCALL_STRING;
}

/*
 * Returns the name of the 64-bit call with the same effect as a 32-bit call, or the call's own name
 * if it has none. Static, or owned by the call.
 */
const char *syscall_wide_name(const struct vms_syscall *call);
/* Returns the form of an argument. `types` are the kernel's, or NULL. */
struct syscall_form syscall_find_form(const struct vms_arch *arch, const struct vms_types *types,
				      const struct vms_syscall *call, unsigned index);
