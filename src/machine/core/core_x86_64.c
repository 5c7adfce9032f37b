/* SPDX-License-Identifier: MIT */
/*
 * Notes of x86-64. NT_PRSTATUS: struct elf_prstatus of Linux with struct user_regs_struct;
 * "QEMU": struct QEMUX86CPUState; VirtualBox: struct DBGFCORECPU of its dbgfcorefmt.h, and, before
 * that, struct CPUMCTX as it was from version 3.1 to 4.1, 1024 bytes.
 *
 * VirtualBox's formats of 5 and 6 end with an XSAVE area. vmscope does not know FPU registers, so
 * it writes the legacy part of 512 bytes in its initial state.
 */
#include "arch/x86_64.h"
#include "machine/core/core_arch.h"
#include <elf.h>

#define FIELDS(array)	 .fields = (array), .n_fields = G_N_ELEMENTS(array)
#define CONSTANTS(array) .constants = (array), .n_constants = G_N_ELEMENTS(array)

static const struct vms_note_field prstatus[] = {
	{ R15, 112, 8 },     { R14, 120, 8 },
	{ R13, 128, 8 },     { R12, 136, 8 },
	{ RBP, 144, 8 },     { RBX, 152, 8 },
	{ R11, 160, 8 },     { R10, 168, 8 },
	{ R9, 176, 8 },	     { R8, 184, 8 },
	{ RAX, 192, 8 },     { RCX, 200, 8 },
	{ RDX, 208, 8 },     { RSI, 216, 8 },
	{ RDI, 224, 8 },     { RIP, 240, 8 },
	{ CS, 248, 8 },	     { EFLAGS, 256, 8 },
	{ RSP, 264, 8 },     { SS, 272, 8 },
	{ FS_BASE, 280, 8 }, { GS_BASE, 288, 8, .write_only = true },
	{ DS, 296, 8 },	     { ES, 304, 8 },
	{ FS, 312, 8 },	     { GS, 320, 8 },
};
static const struct vms_note_constant prstatus_constants[] = {
	{ 232, 8, .value = UINT64_MAX }, /* orig_rax: not in a system call */
};

#define QEMU_SEGMENT(at, selector, base, limit, attributes)                                        \
	{ selector, at, 4 }, { limit, (at) + 4, 4 },                                               \
		{ attributes, (at) + 8, 4, .is_descriptor = true },                                \
	{                                                                                          \
		base, (at) + 16, 8                                                                 \
	}

static const struct vms_note_field qemu[] = {
	{ RAX, 8, 8 },
	{ RBX, 16, 8 },
	{ RCX, 24, 8 },
	{ RDX, 32, 8 },
	{ RSI, 40, 8 },
	{ RDI, 48, 8 },
	{ RSP, 56, 8 },
	{ RBP, 64, 8 },
	{ R8, 72, 8 },
	{ R9, 80, 8 },
	{ R10, 88, 8 },
	{ R11, 96, 8 },
	{ R12, 104, 8 },
	{ R13, 112, 8 },
	{ R14, 120, 8 },
	{ R15, 128, 8 },
	{ RIP, 136, 8 },
	{ EFLAGS, 144, 8 },
	QEMU_SEGMENT(152, CS, CS_BASE, CS_LIMIT, CS_ATTR),
	QEMU_SEGMENT(176, DS, DS_BASE, DS_LIMIT, DS_ATTR),
	QEMU_SEGMENT(200, ES, ES_BASE, ES_LIMIT, ES_ATTR),
	QEMU_SEGMENT(224, FS, FS_BASE, FS_LIMIT, FS_ATTR),
	QEMU_SEGMENT(248, GS, GS_BASE, GS_LIMIT, GS_ATTR),
	QEMU_SEGMENT(272, SS, SS_BASE, SS_LIMIT, SS_ATTR),
	QEMU_SEGMENT(296, LDTR, LDTR_BASE, LDTR_LIMIT, LDTR_ATTR),
	QEMU_SEGMENT(320, TR, TR_BASE, TR_LIMIT, TR_ATTR),
	{ GDTR_LIMIT, 348, 4 },
	{ GDTR_BASE, 360, 8 },
	{ IDTR_LIMIT, 372, 4 },
	{ IDTR_BASE, 384, 8 },
	{ CR0, 392, 8 },
	{ CR2, 408, 8 },
	{ CR3, 416, 8 },
	{ CR4, 424, 8 },
	{ K_GS_BASE, 432, 8 }, /* since QEMU 3.0 */
};
static const struct vms_note_constant qemu_constants[] = {
	{ 0, 4, .value = 1, .is_magic = true }, /* its version */
	{ 4, 4, .value = 440 },			/* its size */
};

/* The XSAVE area, which begins with its size in use: FCW and MXCSR. */
#define VBOX_XSAVE(at)                                                                             \
	{ at, 4, .value = 512 }, { (at) + 8, 2, .value = 0x37f },                                  \
	{                                                                                          \
		(at) + 8 + 24, 4, .value = 0x1f80                                                  \
	}

#define VBOX_SEGMENT(at, selector, base, limit, attributes)                                        \
	{ base, at, 8 }, { limit, (at) + 8, 4 }, { attributes, (at) + 12, 4 },                     \
	{                                                                                          \
		selector, (at) + 16, 2                                                             \
	}

/* The first is of format 5 only, the last two are of format 6 only, the others of both. */
static const struct vms_note_field vbox[] = {
	{ XCR0, 0x228, 8 },
	{ RAX, 0x0, 8 },
	{ RBX, 0x8, 8 },
	{ RCX, 0x10, 8 },
	{ RDX, 0x18, 8 },
	{ RSI, 0x20, 8 },
	{ RDI, 0x28, 8 },
	{ R8, 0x30, 8 },
	{ R9, 0x38, 8 },
	{ R10, 0x40, 8 },
	{ R11, 0x48, 8 },
	{ R12, 0x50, 8 },
	{ R13, 0x58, 8 },
	{ R14, 0x60, 8 },
	{ R15, 0x68, 8 },
	{ RIP, 0x70, 8 },
	{ RSP, 0x78, 8 },
	{ RBP, 0x80, 8 },
	{ EFLAGS, 0x88, 8 },
	VBOX_SEGMENT(0x90, CS, CS_BASE, CS_LIMIT, CS_ATTR),
	VBOX_SEGMENT(0xa8, DS, DS_BASE, DS_LIMIT, DS_ATTR),
	VBOX_SEGMENT(0xc0, ES, ES_BASE, ES_LIMIT, ES_ATTR),
	VBOX_SEGMENT(0xd8, FS, FS_BASE, FS_LIMIT, FS_ATTR),
	VBOX_SEGMENT(0xf0, GS, GS_BASE, GS_LIMIT, GS_ATTR),
	VBOX_SEGMENT(0x108, SS, SS_BASE, SS_LIMIT, SS_ATTR),
	{ CR0, 0x120, 8 },
	{ CR2, 0x128, 8 },
	{ CR3, 0x130, 8 },
	{ CR4, 0x138, 8 },
	{ DR0, 0x140, 8 },
	{ DR1, 0x148, 8 },
	{ DR2, 0x150, 8 },
	{ DR3, 0x158, 8 },
	{ DR6, 0x170, 8 },
	{ DR7, 0x178, 8 },
	{ GDTR_BASE, 0x180, 8 },
	{ GDTR_LIMIT, 0x188, 4 },
	{ IDTR_BASE, 0x190, 8 },
	{ IDTR_LIMIT, 0x198, 4 },
	VBOX_SEGMENT(0x1a0, LDTR, LDTR_BASE, LDTR_LIMIT, LDTR_ATTR),
	VBOX_SEGMENT(0x1b8, TR, TR_BASE, TR_LIMIT, TR_ATTR),
	{ SYSENTER_CS, 0x1d0, 8 },
	{ SYSENTER_EIP, 0x1d8, 8 },
	{ SYSENTER_ESP, 0x1e0, 8 },
	{ EFER, 0x1e8, 8 },
	{ STAR, 0x1f0, 8 },
	{ PAT, 0x1f8, 8 },
	{ LSTAR, 0x200, 8 },
	{ CSTAR, 0x208, 8 },
	{ SFMASK, 0x210, 8 },
	{ K_GS_BASE, 0x218, 8 },
	{ APIC_BASE, 0x220, 8 },
	{ TSC_AUX, 0x228, 8 },
	{ XCR0, 0x230, 8 },
};
#define N_VBOX G_N_ELEMENTS(vbox)
static const struct vms_note_constant vbox_5_constants[] = { VBOX_XSAVE(0x238) };
static const struct vms_note_constant vbox_6_constants[] = { VBOX_XSAVE(0x240) };

/* The parts of a segment register that no instruction reads. */
#define CPUMCTX_HIDDEN(at, base, limit, attributes)                                                \
	{ base, at, 8 }, { limit, (at) + 8, 4 },                                                   \
	{                                                                                          \
		attributes, (at) + 12, 4                                                           \
	}

static const struct vms_note_field vbox_2010[] = {
	{ RDI, 512, 8 }, /* behind the FXSAVE area */
	{ RSI, 520, 8 },
	{ RBP, 528, 8 },
	{ RAX, 536, 8 },
	{ RBX, 544, 8 },
	{ RDX, 552, 8 },
	{ RCX, 560, 8 },
	{ RSP, 568, 8 },
	{ SS, 580, 2 },
	{ GS, 584, 2 },
	{ FS, 588, 2 },
	{ ES, 592, 2 },
	{ DS, 596, 2 },
	{ CS, 600, 2 },
	{ EFLAGS, 608, 8 },
	{ RIP, 616, 8 },
	{ R8, 624, 8 },
	{ R9, 632, 8 },
	{ R10, 640, 8 },
	{ R11, 648, 8 },
	{ R12, 656, 8 },
	{ R13, 664, 8 },
	{ R14, 672, 8 },
	{ R15, 680, 8 },
	CPUMCTX_HIDDEN(688, ES_BASE, ES_LIMIT, ES_ATTR),
	CPUMCTX_HIDDEN(704, CS_BASE, CS_LIMIT, CS_ATTR),
	CPUMCTX_HIDDEN(720, SS_BASE, SS_LIMIT, SS_ATTR),
	CPUMCTX_HIDDEN(736, DS_BASE, DS_LIMIT, DS_ATTR),
	CPUMCTX_HIDDEN(752, FS_BASE, FS_LIMIT, FS_ATTR),
	CPUMCTX_HIDDEN(768, GS_BASE, GS_LIMIT, GS_ATTR),
	{ CR0, 784, 8 },
	{ CR2, 792, 8 },
	{ CR3, 800, 8 },
	{ CR4, 808, 8 },
	{ DR0, 816, 8 },
	{ DR1, 824, 8 },
	{ DR2, 832, 8 },
	{ DR3, 840, 8 },
	{ DR6, 864, 8 },
	{ DR7, 872, 8 },
	{ GDTR_LIMIT, 880, 2 },
	{ GDTR_BASE, 882, 8 },
	{ IDTR_LIMIT, 892, 2 },
	{ IDTR_BASE, 894, 8 },
	{ LDTR, 904, 2 },
	{ TR, 908, 2 },
	{ SYSENTER_CS, 912, 8 },
	{ SYSENTER_EIP, 920, 8 },
	{ SYSENTER_ESP, 928, 8 },
	{ EFER, 936, 8 },
	{ STAR, 944, 8 },
	{ PAT, 952, 8 },
	{ LSTAR, 960, 8 },
	{ CSTAR, 968, 8 },
	{ SFMASK, 976, 8 },
	{ K_GS_BASE, 984, 8 },
	CPUMCTX_HIDDEN(992, LDTR_BASE, LDTR_LIMIT, LDTR_ATTR),
	CPUMCTX_HIDDEN(1008, TR_BASE, TR_LIMIT, TR_ATTR),
};

#define EFER_LME (UINT64_C(1) << 8)
#define EFER_LMA (UINT64_C(1) << 10)

/* Access rights, Intel SDM volume 3, "Guest Register State". */
#define ATTR_CODE_64   0xa09b
#define ATTR_DATA      0xc093
#define ATTR_TSS_BUSY  0x008b
#define ATTR_UNUSABLE  0x10000
#define ATTR_DPL_SHIFT 5
#define RPL(selector)  ((selector)&3)

static void assume_segment(struct vms_regs *regs, unsigned selector, unsigned limit,
			   unsigned attributes, uint64_t rights)
{
	if (!vms_regs_have(regs, selector) || vms_regs_have(regs, attributes))
		return;
	bool is_null = (regs->value[selector] & ~UINT64_C(3)) == 0;
	if (!is_null && !vms_regs_have(regs, limit))
		vms_regs_set(regs, limit, UINT32_MAX);
	vms_regs_set(regs, attributes,
		     is_null ? ATTR_UNUSABLE
			     : rights | RPL(regs->value[selector]) << ATTR_DPL_SHIFT);
}

/* What every 64-bit operating system has in 64-bit mode. */
static void assume_registers(struct vms_regs *regs)
{
	if (!vms_x86_64_is_long_mode(regs))
		return;
	if (!vms_regs_have(regs, EFER))
		vms_regs_set(regs, EFER, EFER_LME | EFER_LMA);
	assume_segment(regs, CS, CS_LIMIT, CS_ATTR, ATTR_CODE_64);
	assume_segment(regs, SS, SS_LIMIT, SS_ATTR, ATTR_DATA);
	assume_segment(regs, DS, DS_LIMIT, DS_ATTR, ATTR_DATA);
	assume_segment(regs, ES, ES_LIMIT, ES_ATTR, ATTR_DATA);
	assume_segment(regs, FS, FS_LIMIT, FS_ATTR, ATTR_DATA);
	assume_segment(regs, GS, GS_LIMIT, GS_ATTR, ATTR_DATA);
	if (!vms_regs_have(regs, TR_ATTR))
		vms_regs_set(regs, TR_ATTR, ATTR_TSS_BUSY);
	if (!vms_regs_have(regs, LDTR_ATTR))
		vms_regs_set(regs, LDTR_ATTR, ATTR_UNUSABLE);
}

const struct vms_core_arch vms_core_x86_64 = {
	.arch = &vms_arch_x86_64,
	.elf_machine = EM_X86_64,
	.notes = {
		[VMS_NOTE_PRSTATUS] = { 336, 336, FIELDS(prstatus), CONSTANTS(prstatus_constants) },
		[VMS_NOTE_QEMU] = { 440, 432, FIELDS(qemu), CONSTANTS(qemu_constants) },
		[VMS_NOTE_VBOX_6] = { 8776, 8776, vbox + 1, N_VBOX - 1,
				      CONSTANTS(vbox_6_constants) },
		[VMS_NOTE_VBOX_5] = { 8768, 8768, vbox, N_VBOX - 2, CONSTANTS(vbox_5_constants) },
		[VMS_NOTE_VBOX_2010] = { 1024, 1024, FIELDS(vbox_2010) },
	},
	.prstatus_pid = 32,
	.assume = assume_registers,
};
