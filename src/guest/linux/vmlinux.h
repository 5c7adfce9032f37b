/* SPDX-License-Identifier: MIT */
/* Recognises a symbol file that is the kernel's vmlinux. */
#pragma once

#include "guest/linux/linux.h"

/* The operation `is_own_file`. */
bool vms_linux_is_own_file(const void *system, const struct vms_symbol_file *file, uint64_t *bias,
			   bool *is_same);
