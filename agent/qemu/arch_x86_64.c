/* SPDX-License-Identifier: MIT */
#include "agent/qemu/arch.h"

#include "agent/qemu/internals.h"
#include "agent/qemu/vcpu.h"

static const char *const registers[X86_N_REGS] = {
	"rax",		"rbx",	  "rcx", "rdx",	      "rsi",	 "rdi",		"rbp",
	"rsp",		"r8",	  "r9",	 "r10",	      "r11",	 "r12",		"r13",
	"r14",		"r15",	  "rip", "eflags",    "cs",	 "ss",		"ds",
	"es",		"fs",	  "gs",	 "fs_base",   "gs_base", "k_gs_base",	"cr0",
	"cr2",		"cr3",	  "cr4", "cr8",	      "efer",	 "star",	"lstar",
	"cstar",	"sfmask", "pat", "apic_base", "tsc_aux", "sysenter_cs", "sysenter_esp",
	"sysenter_eip", "xcr0",
};

/* The processor's numbers of the general registers are in another order than gdb's. */
static const struct kept_register kept[X86_N_REGS] = {
	[X86_RAX] = { "env.regs", 0 },
	[X86_RCX] = { "env.regs", 1 },
	[X86_RDX] = { "env.regs", 2 },
	[X86_RBX] = { "env.regs", 3 },
	[X86_RSP] = { "env.regs", 4 },
	[X86_RBP] = { "env.regs", 5 },
	[X86_RSI] = { "env.regs", 6 },
	[X86_RDI] = { "env.regs", 7 },
	[X86_R8] = { "env.regs", 8 },
	[X86_R8 + 1] = { "env.regs", 9 },
	[X86_R8 + 2] = { "env.regs", 10 },
	[X86_R8 + 3] = { "env.regs", 11 },
	[X86_R8 + 4] = { "env.regs", 12 },
	[X86_R8 + 5] = { "env.regs", 13 },
	[X86_R8 + 6] = { "env.regs", 14 },
	[X86_R15] = { "env.regs", 15 },
	[X86_RIP] = { "env.eip", 0 },
	[X86_CR0] = { "env.cr[0]", 0 },
	[X86_CR2] = { "env.cr[2]", 0 },
	[X86_CR3] = { "env.cr[3]", 0 },
	[X86_CR4] = { "env.cr[4]", 0 },
	/* These have no handle. */
	[X86_STAR] = { "env.star", 0 },
	[X86_LSTAR] = { "env.lstar", 0 },
	[X86_CSTAR] = { "env.cstar", 0 },
	[X86_SFMASK] = { "env.fmask", 0 },
	[X86_PAT] = { "env.pat", 0 },
	[X86_TSC_AUX] = { "env.tsc_aux", 0 },
	[X86_SYSENTER_CS] = { "env.sysenter_cs", 0 },
	[X86_SYSENTER_ESP] = { "env.sysenter_esp", 0 },
	[X86_SYSENTER_EIP] = { "env.sysenter_eip", 0 },
	[X86_XCR0] = { "env.xcr0", 0 },
};

#define HFLAGS_CS64 (UINT64_C(1) << 15)

/* Outside of 64-bit mode QEMU's handles have only 32 bits of each register. */
static bool x86_shows_kept(uint64_t hflags)
{
	return hflags & HFLAGS_CS64;
}

static bool x86_read_state(void *qemu_vcpu, unsigned reg, uint64_t *ret)
{
	return reg == X86_APIC_BASE && internals_read_apic_base(qemu_vcpu, ret);
}

#define CR0_PE	  (UINT64_C(1) << 0)
#define EFLAGS_VM (UINT64_C(1) << 17)

static unsigned x86_rank(struct vcpu *vcpu)
{
	uint64_t cs = 0, cr0 = 0, eflags = 0;
	vcpu_read(vcpu, X86_CS, &cs);
	if ((cs & 3) == 0)
		return 3;
	/* In real mode and virtual-8086 mode cs is not a selector. */
	vcpu_read(vcpu, X86_CR0, &cr0);
	vcpu_read(vcpu, X86_EFLAGS, &eflags);
	if (!(cr0 & CR0_PE))
		return 3;
	return eflags & EFLAGS_VM ? 0 : 3 - (cs & 3);
}

static bool x86_halts(const uint8_t *bytes, size_t size)
{
	return size == 1 && bytes[0] == 0xf4;
}

static uint64_t x86_code_register(unsigned vcpu, unsigned number)
{
	static const unsigned char low[] = { X86_RAX, X86_RCX, X86_RDX, X86_RBX,
					     X86_RSP, X86_RBP, X86_RSI, X86_RDI };
	return vcpu_value(vcpu, number < 8 ? low[number] : X86_R8 + number - 8);
}

const struct arch arch_x86_64 = {
	.name = "x86_64",
	.regs = registers,
	.n_regs = X86_N_REGS,
	.state_table = "vmstate_x86_cpu",
	.kept = kept,
	.shows_kept = x86_shows_kept,
	.kept_flags = "env.hflags",
	.read_state = x86_read_state,
	.sp = X86_RSP,
	.return_address = ARCH_ON_STACK,
	.program_root = X86_CR3,
	.program_root_mask = UINT64_C(0x000ffffffffff000),
	.pc = X86_RIP,
	.arguments = { X86_RDI, X86_RSI },
	.function_align = 16, /* as compilers place them */
	.first_look = 16,     /* the kernel has been moved to its place before */
	.rank = x86_rank,
	.branch = branch_x86,
	.code_register = x86_code_register,
	.switches_by_jump = true,
	.halts = x86_halts,
	.levels = { .kernel = 3, .number = { 3, 2, 1, 0 } },
};
