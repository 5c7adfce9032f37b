/* SPDX-License-Identifier: MIT */
/*
 * The differences between the guests' processors: registers, privilege, and branches.
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
	/* QEMU has no handles for these. */
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

/* The entry of a register in QEMU's table for migrations (internals.h). */
struct kept_register {
	const char *name; /* of the number, or of an array; NULL: it is not there */
	unsigned element; /* of the array */
};

/* Wide registers that QEMU calls `prefix` and a number below `n`: see probe/wide.h. */
struct wide_names {
	const char *prefix; /* NULL: the end */
	unsigned n, first;
};

struct arch {
	const char *name; /* as QEMU calls it */
	/* Names of registers as in QEMU's descriptions for gdb; at most VMS_AGENT_MAX_REGS. */
	const char *const *regs;
	/*
	 * QEMU's table of this name says where QEMU keeps registers (`kept`). Reading them there is
	 * the fastest way.
	 */
	const char *state_table;
	const struct kept_register *kept;
	/*
	 * True if in the vCPU's current mode the kept registers have the same values as those with
	 * handles; NULL: always. `flags` is the value of the table's entry `kept_flags`.
	 */
	bool (*shows_kept)(uint64_t flags);
	const char *kept_flags;
	/*
	 * Reads a register that has no handle and is not in that table. False if QEMU does not have
	 * it. NULL: there are no such registers.
	 */
	bool (*read_state)(void *qemu_vcpu, unsigned reg, uint64_t *ret);
	/*
	 * Gives the vCPU the right to read at an address for a moment, where QEMU reads by its
	 * rights; then puts back what they were. False: there was nothing to do. In a callback of
	 * the vCPU. NULL: QEMU reads everything.
	 */
	bool (*open_memory)(struct vcpu *vcpu, uint64_t va, uint64_t *before);
	void (*close_memory)(struct vcpu *vcpu, uint64_t before);
	const struct wide_names *wide; /* or NULL */
	/*
	 * Reads the first `size` bytes of a wide register, or of its wider form, that QEMU's gdb
	 * stub does not have. QEMU's internals are used. NULL: there are none.
	 */
	bool (*read_wide)(struct vcpu *vcpu, unsigned number, void *buf, size_t size);
	unsigned n_regs;
	unsigned sp, pc;
	unsigned arguments[2]; /* registers of a function's first arguments */
	/* The register with the return address at a function's begin, or ARCH_ON_STACK. */
	unsigned return_address;
	/*
	 * The register with the root of a program's page tables, and the mask of the root's
	 * address. Other bits may change while the address space stays the same.
	 */
	unsigned program_root;
	uint64_t program_root_mask;
	unsigned function_align; /* functions begin at multiples of this */
	/* How many blocks of a kernel are translated before the first look; a power of two. */
	unsigned first_look;
	/* Returns the rank of the running code. Called in a callback that may read registers. */
	unsigned (*rank)(struct vcpu *vcpu);
	struct branch (*branch)(const uint8_t *bytes, size_t size);
	/* Returns the code address in a register, by its number in the instruction set. */
	uint64_t (*code_register)(unsigned vcpu, unsigned number);
	/* True if Linux jumps to the function that switches tasks; false if it calls it. */
	bool switches_by_jump;
	/* True if the instruction waits for an interrupt. */
	bool (*halts)(const uint8_t *bytes, size_t size);
	struct privilege_levels levels;
};

extern const struct arch arch_x86_64, arch_aarch64;
