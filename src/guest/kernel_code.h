/* SPDX-License-Identifier: MIT */
/* What whoever takes samples asks and tells of kernel code that comes and goes. */
#pragma once

#include <vmscope/guest.h>

/*
 * Modules and BPF programs come and go. Whoever keeps a kernel address `va` to name it later notes
 * it: the number of the loaded code that it lies in now, 0 where it is the kernel's own or nothing
 * is known of it. The guest keeps the names of what was noted (64 MiB of them at most, 0 beyond).
 * For any thread as long as nobody refreshes the modules.
 */
uint32_t vms_guest_note_code(struct vms_guest *guest, uint64_t va);
/* As vms_guest_locate for a kernel address that was noted: what it was called then. */
bool vms_guest_locate_noted(struct vms_guest *guest, uint32_t number, uint64_t va,
			    struct vms_location *ret);
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
