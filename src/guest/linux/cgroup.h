/* SPDX-License-Identifier: MIT */
/* Control groups (struct css_set, struct cgroup): which one a task is in. */
#pragma once

#include "guest/linux/linux.h"

#define VMS_CGROUP_PATH_SIZE 4096

struct vms_cgroups;

/* Finds the offsets in the kernel's structures. NULL if the kernel has no control groups. */
struct vms_cgroups *vms_cgroups_new(const struct vms_linux *guest);
void vms_cgroups_free(struct vms_cgroups *cgroups);
/*
 * Reads the path of a task's control group, as /proc/PID/cgroup shows it: "/" for the root. That is
 * of the unified hierarchy; or if the task is in the root of it, the first of the others (version
 * 1) where it is not in the root. About ten reads of guest memory. False if it cannot be read.
 */
bool vms_cgroups_path(const struct vms_cgroups *cgroups, struct vms_memory *memory, uint64_t task,
		      char path[VMS_CGROUP_PATH_SIZE]);
