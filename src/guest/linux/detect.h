/* SPDX-License-Identifier: MIT */
/* Finds a Linux kernel in a machine. */
#pragma once

#include "guest/linux/linux.h"

/*
 * See the operation `detect`: a struct vms_linux. Holds or observes the machine for a moment; see
 * vms_guest_detect.
 */
void *vms_linux_detect(struct vms_machine *machine, char **why, GError **error);
/*
 * vms_linux_detect without looking at any vCPU: by the VMCOREINFO that a search of all memory
 * finds, as it does when no vCPU's registers lead to a kernel.
 */
struct vms_linux *vms_linux_detect_by_scan(struct vms_machine *machine, char **why);
void vms_linux_free(void *system);
/* See vms_guest_follow_tables. */
bool vms_linux_follow_tables(void *system, GError **error);
