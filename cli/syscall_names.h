/* SPDX-License-Identifier: MIT */
/* Names that C programs use for the numbers they give to system calls: O_CLOEXEC, SEEK_SET,
 * SIGTERM. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <vmscope/arch.h>

/* The names of an argument's numbers. */
struct syscall_names;

/* Returns those of argument `index` of a system call; NULL: it has none that are known. Static. */
const struct syscall_names *syscall_names_of(const struct vms_arch *arch, const char *call,
					     unsigned index);
/* Appends a number as A|B; what has no name is in hex. */
void syscall_append_names(GString *out, const struct syscall_names *names, uint64_t number);
