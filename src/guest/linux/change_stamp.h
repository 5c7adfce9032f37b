/* SPDX-License-Identifier: MIT */
/*
 * A stamp is a few bytes of the kernel's memory that change whenever one of its lists changes. One
 * read of them tells whether a list that was read before is still the same.
 */
#pragma once

#include "guest/linux/btf.h"
#include <vmscope/memory.h>

#define VMS_STAMP_SIZE 16 /* bytes, at most */

struct vms_stamp {
	uint64_t va; /* 0: no such bytes are known */
	size_t size;
	uint8_t seen[VMS_STAMP_SIZE]; /* the bytes when the list was read */
};

/*
 * Uses the counter of a struct latch_tree_root (include/linux/rbtree_latch.h) as a stamp. The
 * kernel keeps the list's elements in that tree, too, and counts every change. At `va` lies a
 * structure `type`, whose member `path` is the counter. False if there is no such member.
 */
bool vms_stamp_find(const struct vms_btf *btf, uint64_t va, const char *type, const char *path,
		    struct vms_stamp *ret);
/* Keeps the present bytes. Call it before the list is read. */
void vms_stamp_take(struct vms_stamp *stamp, struct vms_memory *memory);
/* True if the bytes have changed since they were taken. False if they cannot be read. */
bool vms_stamp_is_old(const struct vms_stamp *stamp, struct vms_memory *memory);
