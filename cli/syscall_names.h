/* SPDX-License-Identifier: MIT */
/* The constants of C for arguments of system calls: O_CLOEXEC, SEEK_SET, SIGTERM. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <vmscope/arch.h>

/* The names of an argument's numbers. */
struct syscall_names;

/* Returns the names for argument `index` of a system call. NULL if none are known. Static. */
const struct syscall_names *syscall_names_of(const struct vms_arch *arch, const char *call,
					     unsigned index);
/*
 * Returns the names for a member of a structure, as "pollfd" and "events", or for an argument that
 * depends on another one, as "fcntl" and "F_SETFD". NULL if none are known. Static.
 */
const struct syscall_names *syscall_names_of_member(const char *structure, const char *member);
/* Appends the type of a file and its permissions, as S_IFREG|0644. */
void syscall_append_file_mode(GString *out, uint64_t mode);
/* True if `words`, separated by spaces, contain `word`. */
bool syscall_has_word(const char *words, const char *word);
/* Appends a number as A|B. Bits without a name are in hexadecimal. */
void syscall_append_names(GString *out, const struct syscall_names *names, uint64_t number);
