/* SPDX-License-Identifier: MIT */
/*
 * Finds files by their paths, as a process sees them: from its root directory over the directory
 * entries (struct dentry) that the kernel has in memory. A file that nobody has used lately may
 * have none.
 */
#pragma once

#include "guest/linux/linux.h"

struct vms_path_lookup;

/* Finds the offsets in the kernel's structures. NULL if its types do not tell. */
struct vms_path_lookup *vms_path_lookup_new(const struct vms_linux *guest);
void vms_path_lookup_free(struct vms_path_lookup *lookup);
/*
 * Finds the inode (struct inode) at a path, which begins with "/", for the process of a task
 * (struct task_struct). Symbolic links are not followed. Directories of more than 65536 entries are
 * looked at in part.
 */
bool vms_path_lookup_inode(const struct vms_path_lookup *lookup, struct vms_memory *memory,
			   uint64_t task, const char *path, uint64_t *ret);
/*
 * Reads the number of a task's process as the process itself sees it: that in its own PID
 * namespace.
 */
bool vms_path_lookup_own_pid(const struct vms_path_lookup *lookup, struct vms_memory *memory,
			     uint64_t task, uint32_t *ret);
