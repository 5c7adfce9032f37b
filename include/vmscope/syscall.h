/* SPDX-License-Identifier: MIT */
/*
 * The system calls of a guest, as its own kernel describes them: their names, the functions that
 * execute them, and their arguments.
 */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

#define VMS_SYSCALL_ARGUMENTS 6

struct vms_syscall_argument {
	char type[48]; /* as in C, "const char *"; "": unknown */
	char name[32]; /* "filename"; "": unknown */
	/*
	 * Where its register is in the structure that the function's first argument points to, a
	 * struct pt_regs.
	 */
	uint32_t offset;
};

struct vms_syscall {
	char name[64];	    /* "openat" */
	uint64_t va;	    /* of the kernel's function, called with a struct pt_regs * */
	unsigned word_size; /* bytes of the program's registers and pointers: 8, or 4 */
	bool is_typed; /* the next ones are known; if not, all arguments are there, without types */
	unsigned n_arguments;
	struct vms_syscall_argument arguments[VMS_SYSCALL_ARGUMENTS];
};

/*
 * Lists the system calls in an array of struct vms_syscall, sorted by name. The list includes those
 * of 32-bit programs, which have their own functions and names. (On aarch64, 32-bit programs share
 * most functions with 64-bit programs; only the other ones are listed.) Errors: UNSUPPORTED (the
 * guest is not a Linux, or its kernel has no symbols).
 */
GArray *vms_guest_syscalls(struct vms_guest *guest, GError **error);

VMS_END_DECLS
