/* SPDX-License-Identifier: MIT */
/*
 * The index of each aarch64 register in a struct vms_regs. Only code for aarch64 may include this.
 */
#pragma once

#include <vmscope/arch.h>

enum vms_aarch64_reg {
	X0, /* X0 + n is xn */
	X18 = X0 + 18,
	X19,
	X28 = X0 + 28,
	X29, /* the frame pointer */
	X30, /* the link register */
	SP,
	PC,
	CPSR,
	SP_EL0,
	TPIDR_EL1,
	TTBR0_EL1,
	TTBR1_EL1,
	TCR_EL1,
	SCTLR_EL1,
	ELR_EL1,
	SPSR_EL1,
	/* Only readers that ask for all registers get these. */
	SP_EL1,
	TPIDR_EL0,
	TPIDRRO_EL0,
	VBAR_EL1,
	ESR_EL1,
	FAR_EL1,
	PAR_EL1,
	MAIR_EL1,
	CONTEXTIDR_EL1,
	CPACR_EL1,
	CNTKCTL_EL1,
	ID_AA64MMFR0_EL1,
	ID_AA64MMFR1_EL1,
	ID_AA64MMFR2_EL1,
	N_REGS
};

#define CPSR_EL_MASK 0xf /* the exception level and its stack pointer */
#define CPSR_EL0     0x0
#define CPSR_EL1H    0x5
#define CPSR_AARCH32 0x10

#define SCTLR_EL1_M 1

#define TCR_TBI0	(UINT64_C(1) << 37)
#define TCR_DS		(UINT64_C(1) << 59)
#define TCR_IPS_52_BITS (UINT64_C(6) << 32)

static inline uint64_t vms_aarch64_low_bits(unsigned n)
{
	return (UINT64_C(1) << n) - 1;
}

/* Returns bits `high` to `low` of a register or instruction, numbered as in the manual. */
static inline uint64_t vms_aarch64_field(uint64_t value, unsigned high, unsigned low)
{
	return value >> low & vms_aarch64_low_bits(high - low + 1);
}

/*
 * True if the instruction `insn` at `va` is an adrp into register `reg` (X0 + n). Then *page is the
 * address that it loads.
 */
bool vms_aarch64_adrp(uint32_t insn, uint64_t va, unsigned reg, uint64_t *page);
/* Makes `reg`, TTBR0_EL1 or TTBR1_EL1, point to the table at physical address `pa`. */
void vms_aarch64_set_root(struct vms_regs *regs, unsigned reg, uint64_t pa);
/* True if a call instruction ends just before `pc`. */
bool vms_aarch64_is_after_call(const struct vms_reader *virt, uint64_t pc);
/*
 * Returns `va` without its pointer authentication code. The code is in the bits above the size of
 * the address space.
 */
uint64_t vms_aarch64_strip_pac(const struct vms_regs *regs, uint64_t va);
/* Steps one frame outwards; see vms_arch.step_frame_pointer. */
bool vms_aarch64_step_frame(struct vms_regs *regs, const struct vms_reader *virt);

/* See vms_arch.step_frameless. */
bool vms_aarch64_step_frameless(struct vms_regs *regs, const struct vms_reader *virt);
