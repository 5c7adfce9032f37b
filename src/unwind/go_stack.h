/* SPDX-License-Identifier: MIT */
/* Programs in Go: their goroutines have stacks of their own, beside those of threads. */
#pragma once

#include "symbol/binary.h"
#include <vmscope/unwind.h>

/*
 * True if a stack ends at the code at `offset` of a file, because it is of one of a few functions
 * of Go's runtime. `*end` tells how: no caller is on this stack (VMS_WALK_ROOT), or it has changed
 * from the stack of a goroutine, where its caller is (VMS_WALK_GOROUTINE). Only structures of the
 * runtime tell where that stack is, and they differ between versions. If `waits`, this may read
 * the functions of a program in Go, so it is not called under a hold. Else the stack ends with
 * VMS_WALK_NO_TABLE until somebody has read them.
 */
bool vms_go_stack_end(struct vms_binary *binary, uint64_t offset, bool waits,
		      enum vms_walk_end *end);
