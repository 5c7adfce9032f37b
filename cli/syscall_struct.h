/* SPDX-License-Identifier: MIT */
/* Formats structures of system calls like strace, by the kernel's types. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <vmscope/arch.h>
#include <vmscope/types.h>

/*
 * Appends a structure, as {tv_sec=1, tv_nsec=0}. Of some structures only the important members are
 * shown, and "..." for the others. `size` is that of `bytes`, which may be less than that of the
 * type. `is_after` if the bytes were collected at the return. Bytes and types are the guest's, so
 * depth, number of values and length are limited.
 */
void syscall_append_struct(GString *out, const struct vms_arch *arch, struct vms_type type,
			   const void *bytes, size_t size, bool is_after);
