/* SPDX-License-Identifier: MIT */
/* Where a kernel says that the machine has memory. */
#pragma once

#include "guest/linux/linux.h"

/*
 * Checks a machine's memory map that was found out by page tables (has_inferred_map) against the
 * kernel's own account: all that the kernel uses as memory must be in it. Does nothing for other
 * machines, and if the account cannot be read. Errors: UNSUPPORTED (the map lacks some of it).
 */
bool vms_linux_check_memory_map(struct vms_linux *guest, GError **error);
