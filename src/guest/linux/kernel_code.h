/* SPDX-License-Identifier: MIT */
/* Tells the guest's symbolizer of the kernel's code and of code that is loaded into it. */
#pragma once

#include "guest/linux/linux.h"

/* Tells the symbolizer of the kernel's image. Call it once, before anything else is told. */
void vms_linux_map_image(struct vms_linux *guest);
/*
 * Reads the lists of modules and BPF programs anew, and tells the symbolizer of them. See
 * vms_guest_refresh_modules.
 */
bool vms_linux_refresh_code(void *system, GError **error);
/* See vms_guest_code_changed. */
bool vms_linux_code_changed(const void *system, struct vms_memory *memory, uint64_t va);
