/* SPDX-License-Identifier: MIT */
/*
 * What differs between the guests' processors: registers, privilege, and branches.
 */
#pragma once

#include "agent/cpu/branch.h"
#include "agent/cpu/privilege.h"

#define ARCH_ON_STACK (~0U)

struct vcpu;

/* Indices into struct arch.regs. */
enum {
	X86_RAX,
	X86_RBX,
	X86_RCX,
	X86_RDX,
	X86_RSI,
	X86_RDI,
	X86_RBP,
	X86_RSP,
	X86_R8,
	X86_R15 = X86_R8 + 7,
	X86_RIP,
	X86_EFLAGS,
	X86_CS,
	X86_SS,
	X86_DS,
	X86_ES,
	X86_FS,
	X86_GS,
	X86_FS_BASE,
	X86_GS_BASE,
	X86_K_GS_BASE,
	X86_CR0,
	X86_CR2,
	X86_CR3,
	X86_CR4,
	X86_CR8,
	X86_EFER,
	/* QEMU keeps these, but has no handle for them. */
	X86_STAR,
	X86_LSTAR,
	X86_CSTAR,
	X86_SFMASK,
	X86_PAT,
	X86_APIC_BASE,
	X86_TSC_AUX,
	X86_SYSENTER_CS,
	X86_SYSENTER_ESP,
	X86_SYSENTER_EIP,
	X86_XCR0,
	X86_N_REGS
};
enum {
	A64_X0,
	A64_X29 = A64_X0 + 29,
	A64_X30,
	A64_SP,
	A64_PC,
	A64_CPSR,
	A64_SP_EL0,
	A64_TPIDR_EL1,
	A64_TTBR0_EL1,
	A64_TTBR1_EL1,
	A64_TCR_EL1,
	A64_SCTLR_EL1,
	A64_ELR_EL1,
	A64_SPSR_EL1,
	A64_SP_EL1,
	A64_TPIDR_EL0,
	A64_TPIDRRO_EL0,
	A64_VBAR_EL1,
	A64_ESR_EL1,
	A64_FAR_EL1,
	A64_PAR_EL1,
	A64_MAIR_EL1,
	A64_CONTEXTIDR_EL1,
	A64_CPACR_EL1,
	A64_CNTKCTL_EL1,
	A64_ID_AA64MMFR0_EL1,
	A64_ID_AA64MMFR1_EL1,
	A64_ID_AA64MMFR2_EL1,
	A64_N_REGS
};

/* Where QEMU's table for migrations has a register (internals.h). */
struct kept_register {
	const char *name; /* of the number, or of an array; NULL: it is not there */
	unsigned element; /* of the array */
};

struct arch {
	const char *name;	 /* as QEMU calls it */
	const char *const *regs; /* as QEMU's gdb descriptions name them; at most
				    VMS_AGENT_MAX_REGS */
	/* Registers by which QEMU's table of this name tells where it keeps them: the quickest way.
	 */
	const char *state_table;
	const struct kept_register *kept;
	/*
	 * True if the registers that have handles are what QEMU keeps, as the vCPU executes now;
	 * NULL: always. `flags`: the number of QEMU's table that `kept_flags` names.
	 */
	bool (*shows_kept)(uint64_t flags);
	const char *kept_flags;
	/*
	 * Reads a register that QEMU has neither a handle for nor keeps in that table. False: QEMU
	 * does not have it. NULL: there are no such registers.
	 */
	bool (*read_state)(void *qemu_vcpu, unsigned reg, uint64_t *ret);
	unsigned n_regs;
	unsigned sp, pc;
	unsigned arguments[2]; /* registers of a function's first arguments */
	/* The register with the address that a function returns to; ARCH_ON_STACK: the stack has
	 * it. */
	unsigned return_address;
	/*
	 * The register with the root of a program's page tables, and what of it is the address: the
	 * rest may change while the address space stays the same.
	 */
	unsigned program_root;
	uint64_t program_root_mask;
	unsigned function_align; /* functions begin at multiples of this */
	/* After how many translated blocks of a kernel the first look is asked for; a power of two.
	 */
	unsigned first_look;
	/* Returns the rank of what the vCPU runs. In a callback that may read registers. */
	unsigned (*rank)(struct vcpu *vcpu);
	struct branch (*branch)(const uint8_t *bytes, size_t size);
	/* Returns the address of code in the register that the processor numbers like this. */
	uint64_t (*code_register)(unsigned vcpu, unsigned number);
	/* Linux jumps to the function that switches tasks; otherwise it calls it. */
	bool switches_by_jump;
	/* True if the instruction waits for an interrupt. */
	bool (*halts)(const uint8_t *bytes, size_t size);
	struct privilege_levels levels;
};

extern const struct arch arch_x86_64, arch_aarch64;
