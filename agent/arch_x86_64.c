/* SPDX-License-Identifier: MIT */
#include "arch.h"

#include "instrument.h"
#include "vcpu.h"

static const char *const registers[X86_N_REGS] = {
	"rax", "rbx", "rcx", "rdx", "rsi", "rdi",  "rbp",     "rsp",	 "r8",
	"r9",  "r10", "r11", "r12", "r13", "r14",  "r15",     "rip",	 "eflags",
	"cs",  "ss",  "ds",  "es",  "fs",  "gs",   "fs_base", "gs_base", "k_gs_base",
	"cr0", "cr2", "cr3", "cr4", "cr8", "efer",
};

#define CR0_PE	  (UINT64_C(1) << 0)
#define EFLAGS_VM (UINT64_C(1) << 17)

static unsigned x86_rank(struct vcpu *vcpu)
{
	uint64_t cs = 0, cr0 = 0, eflags = 0;
	vcpu_read(vcpu, X86_CS, &cs);
	if ((cs & 3) == 0)
		return 3;
	/* In real mode and virtual-8086 mode it is no selector. */
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
	.sp = X86_RSP,
	.pc = X86_RIP,
	.function_align = 16, /* as compilers place them */
	.first_look = 16,     /* it has been moved to its place before */
	.rank = x86_rank,
	.branch = branch_x86,
	.code_register = x86_code_register,
	.halts = x86_halts,
	.instrument = instrument_x86,
	.levels = { .kernel = 3, .number = { 3, 2, 1, 0 } },
};
