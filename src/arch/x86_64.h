/* SPDX-License-Identifier: MIT */
/*
 * The index of each x86-64 register in a struct vms_regs. Only code for x86-64 may include this.
 */
#pragma once

#include <vmscope/arch.h>

/*
 * The high half of a segment descriptor, shifted right and masked like this, gives the access
 * rights in the form of the _ATTR registers below. The other bits belong to base and limit.
 */
#define X86_64_DESCRIPTOR_SHIFT 8
#define X86_64_ATTR_MASK	0xf0ff

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
	/*
	 * Only readers that ask for all registers get these. An _ATTR register holds access rights
	 * in the form of the VMCS (Intel SDM volume 3, "Guest Register State"). A _LIMIT register
	 * counts bytes.
	 */
	CS_BASE,
	CS_LIMIT,
	CS_ATTR,
	SS_BASE,
	SS_LIMIT,
	SS_ATTR,
	DS_BASE,
	DS_LIMIT,
	DS_ATTR,
	ES_BASE,
	ES_LIMIT,
	ES_ATTR,
	FS_LIMIT,
	FS_ATTR,
	GS_LIMIT,
	GS_ATTR,
	LDTR,
	LDTR_BASE,
	LDTR_LIMIT,
	LDTR_ATTR,
	TR,
	TR_BASE,
	TR_LIMIT,
	TR_ATTR,
	GDTR_BASE,
	GDTR_LIMIT,
	IDTR_BASE,
	IDTR_LIMIT,
	DR0,
	DR1,
	DR2,
	DR3,
	DR6,
	DR7,
	STAR,
	LSTAR,
	CSTAR,
	SFMASK,
	PAT,
	APIC_BASE,
	TSC_AUX,
	SYSENTER_CS,
	SYSENTER_ESP,
	SYSENTER_EIP,
	XCR0,
	N_REGS
};

/* True if the vCPU is in long mode: 64-bit code, or 32-bit code of a 64-bit system. */
bool vms_x86_64_is_long_mode(const struct vms_regs *regs);

/* See vms_arch: code_mode, step_frame_pointer, step_frameless. */
void vms_x86_64_code_mode(const struct vms_regs *regs, struct vms_code_mode *mode);
bool vms_x86_64_step_frame(struct vms_regs *regs, const struct vms_reader *virt);
bool vms_x86_64_step_frameless(struct vms_regs *regs, const struct vms_reader *virt);

/* True if a call instruction, direct or indirect, ends just before `pc`. */
bool vms_x86_64_is_after_call(const struct vms_reader *virt, uint64_t pc);
