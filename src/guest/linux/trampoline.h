/* SPDX-License-Identifier: MIT */
/* The entry trampoline of aarch64: code of the image that runs at another address. */
#pragma once

#include "guest/linux/linux.h"

/* Finds where the image is in physical memory, by its pages. */
void vms_linux_find_image_pa(struct vms_linux *guest, const GArray *pages);
/*
 * Learns from `memory`, of a vCPU that executes the kernel at `va`, where the entry trampoline is
 * mapped a second time, and tells the symbolizer: without a symbol of its own by its begin. For
 * any thread.
 */
void vms_linux_note_trampoline(void *system, struct vms_memory *memory, uint64_t va);
bool vms_linux_in_trampoline(const struct vms_linux *guest, uint64_t va);
