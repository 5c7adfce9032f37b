/* SPDX-License-Identifier: MIT */
/* Which form the arguments of system calls have: how each is collected and shown. */
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
	/* Memory that an address leads to; `size` bytes for each of what `count` counts. */
	SYSCALL_STRING,
	SYSCALL_BYTES,
	SYSCALL_RANDOM,	     /* bytes, none as a character */
	SYSCALL_STRUCTS,     /* of type `type`; more than one in [] */
	SYSCALL_NUMBERS,     /* signed integers of `size` bytes in [] */
	SYSCALL_OPTION,	     /* of a socket: an int, or bytes */
	SYSCALL_SIGNALS,     /* a set of signals */
	SYSCALL_DESCRIPTORS, /* a set of file descriptors */
	SYSCALL_CPUS,
	SYSCALL_STATUS, /* how a process has ended */
	SYSCALL_ADDRESS_OF_SOCKET,
	SYSCALL_FILES, /* the entries of a directory: their number */
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
	 * At the call a program's memory may not have been loaded yet; after it, the kernel has
	 * read it. So what the kernel does not change is read then, too.
	 */
	SYSCALL_AT_RETURN = 1 << 1,
	SYSCALL_IF_DONE = 1 << 2, /* at the return: not if the call has failed */
	SYSCALL_IF_FAILED = 1 << 3,
};

/* How many elements of `size` bytes there are. */
enum syscall_count {
	SYSCALL_ONE,
	SYSCALL_FIXED,	  /* `number` of them */
	SYSCALL_ARGUMENT, /* as many as argument `number` says */
	SYSCALL_BITS,	  /* as many bits as it says, in words of 8 bytes */
	SYSCALL_RESULT,	  /* as many as the result says */
	SYSCALL_POINTED,  /* as many as the uint32_t says that argument `number` leads to */
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
 * Returns the name of the call that 64-bit programs make for the same, where that of 32-bit
 * programs has another one; else its own. Static, or the call's.
 */
const char *syscall_wide_name(const struct vms_syscall *call);
/* Tells the form of an argument. `types` are the kernel's, or NULL. */
struct syscall_form syscall_form_of(const struct vms_arch *arch, const struct vms_types *types,
				    const struct vms_syscall *call, unsigned index);
