/* SPDX-License-Identifier: MIT */
/* How x86-64 numbers its registers in a struct vms_regs. For code that is x86-64's own only. */
#pragma once

#include <vmscope/arch.h>

enum vms_x86_64_reg {
	RAX,
	RBX,
	RCX,
	RDX,
	RSI,
	RDI,
	RBP,
	RSP,
	R8,
	R9,
	R10,
	R11,
	R12,
	R13,
	R14,
	R15,
	RIP,
	EFLAGS,
	CS,
	SS,
	DS,
	ES,
	FS,
	GS,
	FS_BASE,
	GS_BASE,
	K_GS_BASE,
	CR0,
	CR2,
	CR3,
	CR4,
	CR8,
	EFER,
	N_REGS
};
