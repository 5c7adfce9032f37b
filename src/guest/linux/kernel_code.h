/* SPDX-License-Identifier: MIT */
/* Code of the kernel, and code that is loaded into it: tells the guest's symbolizer of both. */
#pragma once

#include "guest/linux/linux.h"

/* Tells of the kernel's image, by its symbols. Once, before anything else. */
void vms_linux_map_image(struct vms_linux *guest);
/*
 * Reads anew which modules and BPF programs there are, and tells of them. See
 * vms_guest_refresh_modules.
 */
bool vms_linux_refresh_code(void *system, GError **error);
/* See vms_guest_code_changed. */
bool vms_linux_code_changed(const void *system, struct vms_memory *memory, uint64_t va);
