/* SPDX-License-Identifier: MIT */
/* What a kernel tells of its own code that its instructions do not tell. */
#pragma once

#include <vmscope/guest.h>

/* What it means to go to a function. */
enum vms_code_role {
	VMS_CODE_ORDINARY,
	VMS_CODE_RETURN,   /* to jump there is to return */
	VMS_CODE_INDIRECT, /* it goes on where a register says: an indirect jump or call */
	VMS_CODE_NO_RETURN /* it never returns to its caller */
};

/* An instruction of which the kernel has a record. */
struct vms_special_insn {
	uint64_t va;
	uint64_t fixup;	 /* where the kernel goes on if it faults; 0: nowhere */
	bool is_warning; /* a trap that says something and goes on */
};

/* Tells the role of the function called `symbol`. ORDINARY if nothing is known of it. */
enum vms_code_role vms_guest_code_role(const struct vms_guest *guest, const char *symbol);
/* True if the memory at `va` had code that the system has freed since. Reads `memory`. */
bool vms_guest_code_is_freed(const struct vms_guest *guest, struct vms_memory *memory, uint64_t va);
/*
 * Returns what the kernel has recorded of the instructions from `va` on, `size` bytes of them, a
 * new array of struct vms_special_insn by address. It is empty if nothing is known. Clears
 * `*tells_warnings` if the kernel has a record of its warnings that cannot be found. Reads
 * `memory`.
 */
GArray *vms_guest_special_insns(struct vms_guest *guest, struct vms_memory *memory, uint64_t va,
				uint64_t size, bool *tells_warnings);
