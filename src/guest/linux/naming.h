/* SPDX-License-Identifier: MIT */
/* What kernel addresses are called. */
#pragma once

#include "guest/linux/linux.h"

/* Names a kernel address, by the symbols of the kernel, its modules and BPF programs. */
bool vms_linux_locate_kernel(const struct vms_linux *guest, uint64_t va, struct vms_location *ret);
/* See vms_guest_note_code and vms_guest_locate_noted. */
uint32_t vms_linux_note_code(void *system, uint64_t va);
bool vms_linux_locate_noted(void *system, uint32_t number, uint64_t va, struct vms_location *ret);
void vms_linux_noted_free(struct vms_linux_noted *noted);
/* See vms_guest_code_changed. */
bool vms_linux_code_changed(const void *system, struct vms_memory *memory, uint64_t va);
