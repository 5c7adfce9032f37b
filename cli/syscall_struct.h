/* SPDX-License-Identifier: MIT */
/* Structures of system calls, by the kernel's types and as strace shows them. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <vmscope/arch.h>
#include <vmscope/types.h>

/*
 * Appends a structure, as {tv_sec=1, tv_nsec=0}. Of those of many members, those that matter are
 * shown, and "..." stands for the others. `size` may be less than the type has. `is_after`: it is
 * what the kernel has answered. The bytes are the guest's, and so are its types: depth, number and
 * length are limited.
 */
void syscall_append_struct(GString *out, const struct vms_arch *arch, struct vms_type type,
			   const void *bytes, size_t size, bool is_after);
