/* SPDX-License-Identifier: MIT */
/* The entry trampoline of aarch64: code of the image that is mapped a second time. */
#pragma once

#include "guest/linux/linux.h"

/* Finds by its pages where the image is in physical memory. */
void vms_linux_find_image_pa(struct vms_linux *guest, const GArray *pages);
/*
 * Learns where the entry trampoline is mapped a second time, and tells the symbolizer. `memory` is
 * that of a vCPU that executes the kernel at `va`. Any thread may call it.
 */
void vms_linux_note_trampoline(void *system, struct vms_memory *memory, uint64_t va);
/* True if `va` lies in the second mapping of the trampoline, as far as it is known. */
bool vms_linux_in_trampoline(const struct vms_linux *guest, uint64_t va);
