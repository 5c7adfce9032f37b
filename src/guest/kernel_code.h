/* SPDX-License-Identifier: MIT */
/* What whoever takes samples asks and tells of kernel code that comes and goes. */
#pragma once

#include <vmscope/guest.h>

/*
 * Has code been loaded into the kernel, or taken out, since the modules were read, so that what is
 * known of the kernel address `va` may be old? For the kernel's own code that is free, else it
 * costs a read or two of `memory`, of a held vCPU. For any thread as long as nobody refreshes the
 * modules.
 */
bool vms_guest_code_changed(const struct vms_guest *guest, struct vms_memory *memory, uint64_t va);
/*
 * Learns, from the memory of a held vCPU, what is needed to name the kernel address `va` that it
 * executes: an entry trampoline has an address that no symbol tells.
 */
void vms_guest_note_kernel_pc(struct vms_guest *guest, struct vms_memory *memory, uint64_t va);
