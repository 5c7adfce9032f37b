/* SPDX-License-Identifier: MIT */
/*
 * A few bytes of the kernel's memory that change whenever one of its lists does. By them a list
 * that was read before is known to be the one of now, at the cost of one read.
 */
#pragma once

#include "guest/linux/btf.h"
#include <vmscope/memory.h>

#define VMS_STAMP_SIZE 16 /* bytes, at most */

struct vms_stamp {
	uint64_t va; /* 0: nothing is known that changes with the list */
	size_t size;
	uint8_t seen[VMS_STAMP_SIZE];
};

/*
 * The counter of a struct latch_tree_root, in which the kernel also keeps what the list has
 * (include/linux/rbtree_latch.h): it counts every change. At `va` lies a structure `type`, whose
 * member `path` is the counter. False where there is no such member.
 */
bool vms_stamp_find(const struct vms_btf *btf, uint64_t va, const char *type, const char *path,
		    struct vms_stamp *ret);
/* Keeps what the bytes are now: before the list is read. */
void vms_stamp_take(struct vms_stamp *stamp, struct vms_memory *memory);
/* Are the bytes others than were taken last? False where that cannot be told. */
bool vms_stamp_is_old(const struct vms_stamp *stamp, struct vms_memory *memory);
