/* SPDX-License-Identifier: MIT */
/* Symbol files that are the kernel's own: its vmlinux. */
#pragma once

#include "guest/linux/linux.h"

/* See the operation `is_own_file`. */
bool vms_linux_is_own_file(const void *system, const struct vms_symbol_file *file, uint64_t *bias,
			   bool *is_same);
