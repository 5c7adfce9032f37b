/* SPDX-License-Identifier: MIT */
/* Finds a Linux kernel in a machine. */
#pragma once

#include "guest/linux/linux.h"

/*
 * The operation `detect`. Returns a struct vms_linux. Holds or observes the machine for a moment:
 * see vms_guest_detect.
 */
void *vms_linux_detect(struct vms_machine *machine, char **why, GError **error);
/*
 * Detects a kernel without any vCPU: searches all memory for VMCOREINFO. vms_linux_detect does this
 * if no vCPU's registers lead to a kernel. `*why` is newly allocated if it returns NULL.
 */
struct vms_linux *vms_linux_detect_by_scan(struct vms_machine *machine, char **why);
void vms_linux_free(void *system);
/* See vms_guest_follow_tables. */
bool vms_linux_follow_tables(void *system, GError **error);
