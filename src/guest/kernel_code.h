/* SPDX-License-Identifier: MIT */
/* Kernel code that comes and goes, for those who take samples. */
#pragma once

#include <vmscope/guest.h>

/*
 * True if code was loaded or unloaded since the modules were read, so that what is known of the
 * kernel address `va` may be outdated. This costs nothing if `va` lies in the kernel's own code;
 * otherwise it costs one or two reads of `memory`, which is that of a held vCPU. Any thread may
 * call it while no thread refreshes the modules.
 */
bool vms_guest_code_changed(const struct vms_guest *guest, struct vms_memory *memory, uint64_t va);
/*
 * Learns from the memory of a held vCPU what is needed to name the kernel address `va` that it
 * executes. No symbol tells the address of an entry trampoline.
 */
void vms_guest_note_kernel_pc(struct vms_guest *guest, struct vms_memory *memory, uint64_t va);
