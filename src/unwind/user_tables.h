/* SPDX-License-Identifier: MIT */
/* The unwind tables of a program or library of a guest. */
#pragma once

#include "symbol/binary.h"
#include "unwind/cfi.h"

/*
 * Finds the row for the code at `offset` of a file. It is made once for all processes that map the
 * file. NONE if the file has no tables for code of `arch`. MISSING if they are not in memory now,
 * and, if `waits`, do not come from the guest's disk: the log says once for each file what is
 * missing. Any thread may call it.
 */
enum vms_cfi_result vms_user_tables_find(struct vms_binary *binary, const struct vms_arch *arch,
					 uint64_t offset, bool waits, struct vms_cfi_row *ret);
