/* SPDX-License-Identifier: MIT */
/* What the unwinder asks of a guest: where kernel code is, and how to leave its frames. */
#pragma once

#include <vmscope/guest.h>

/* How to get from a frame of kernel code to its caller's. It is the same for all layouts of ORC. */
enum vms_orc_reg {
	VMS_ORC_UNDEFINED,
	VMS_ORC_PREV_SP,
	VMS_ORC_AX,
	VMS_ORC_DX,
	VMS_ORC_DI,
	VMS_ORC_BP,
	VMS_ORC_SP,
	VMS_ORC_R10,
	VMS_ORC_R13,
	VMS_ORC_BP_INDIRECT,
	VMS_ORC_SP_INDIRECT,
};
enum vms_orc_type {
	VMS_ORC_TYPE_UNDEFINED,
	VMS_ORC_TYPE_END,
	VMS_ORC_TYPE_CALL,
	VMS_ORC_TYPE_REGS,
	VMS_ORC_TYPE_REGS_PARTIAL
};
struct vms_orc_entry {
	enum vms_orc_type type;
	enum vms_orc_reg sp_reg, bp_reg;
	int16_t sp_offset, bp_offset;
	bool signal;
	bool sp_indirect_adds_first; /* before 5.12: load(SP + offset); since: load(SP) + offset */
};
/* Finds the entry for `pc`. False if the guest has no ORC tables or none for this address. */
bool vms_guest_orc(const struct vms_guest *guest, uint64_t pc, struct vms_orc_entry *ret);
/* True if the guest has ORC tables. */
bool vms_guest_has_orc(const struct vms_guest *guest);
/* True if `pc` is code of the kernel or of a module. Walks by frame pointers end elsewhere. */
bool vms_guest_is_kernel_text(const struct vms_guest *guest, uint64_t pc);
/* True if `pc` is code that enters or leaves Linux's kernel (.entry.text). */
bool vms_guest_is_entry_text(const struct vms_guest *guest, uint64_t pc);
/*
 * Finds what is mapped at the user address `va` of a process, and opens its file. Reads the guest,
 * which may be held or not, by `memory`. The guest owns what `ret` refers to, `binary` included,
 * which is NULL for code without a file. False if nothing is known of the address.
 */
bool vms_guest_user_code(struct vms_guest *guest, struct vms_memory *memory,
			 const struct vms_process *process, uint64_t va, struct vms_mapping *ret);
/*
 * Has `memory` read user addresses as a process does. A CPU that runs the kernel may have loaded
 * the page tables of the task that it switches to, or others for a moment. False if the process has
 * no memory any more, or is executing execve(2) and has no program in its new memory yet.
 */
bool vms_guest_enter_process(struct vms_guest *guest, struct vms_memory *memory,
			     const struct vms_process *process);
/*
 * Gets registers that lead to the kernel's memory, through its own page tables if these are known.
 * All are assumed (vms_regs_assume), none is known. False if no kernel was recognised. Any thread
 * may call it.
 */
bool vms_guest_kernel_regs(struct vms_guest *guest, struct vms_regs *ret);
/* Returns, on aarch64, the offset in bytes of the frame record in Linux's struct pt_regs. */
uint64_t vms_guest_pt_regs_record(const struct vms_guest *guest);
