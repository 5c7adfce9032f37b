/* SPDX-License-Identifier: MIT */
#include "agent/qemu/arch.h"

#include "agent/qemu/internals.h"
#include "agent/qemu/vcpu.h"

#include <pthread.h>

static const char *const registers[X86_N_REGS] = {
	"rax",		"rbx",	  "rcx", "rdx",	      "rsi",	 "rdi",		"rbp",
	"rsp",		"r8",	  "r9",	 "r10",	      "r11",	 "r12",		"r13",
	"r14",		"r15",	  "rip", "eflags",    "cs",	 "ss",		"ds",
	"es",		"fs",	  "gs",	 "fs_base",   "gs_base", "k_gs_base",	"cr0",
	"cr2",		"cr3",	  "cr4", "cr8",	      "efer",	 "star",	"lstar",
	"cstar",	"sfmask", "pat", "apic_base", "tsc_aux", "sysenter_cs", "sysenter_esp",
	"sysenter_eip", "xcr0",
};

/* Names in QEMU's table for migrations of registers that have no handle. */
static const char *const states[X86_N_REGS] = {
	[X86_STAR] = "env.star",
	[X86_LSTAR] = "env.lstar",
	[X86_CSTAR] = "env.cstar",
	[X86_SFMASK] = "env.fmask",
	[X86_PAT] = "env.pat",
	[X86_TSC_AUX] = "env.tsc_aux",
	[X86_SYSENTER_CS] = "env.sysenter_cs",
	[X86_SYSENTER_ESP] = "env.sysenter_esp",
	[X86_SYSENTER_EIP] = "env.sysenter_eip",
	[X86_XCR0] = "env.xcr0",
};
static struct internals_state state[X86_N_REGS];

static void find_states(void)
{
	for (unsigned i = 0; i < X86_N_REGS; i++) {
		if (states[i])
			state[i] = internals_find_state("vmstate_x86_cpu", states[i]);
	}
}

static bool x86_read_state(void *qemu_vcpu, unsigned reg, uint64_t *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_states);
	if (reg == X86_APIC_BASE)
		return internals_read_apic_base(qemu_vcpu, ret);
	if (!state[reg].size)
		return false;
	*ret = internals_read_state(qemu_vcpu, state[reg]);
	return true;
}

#define CR0_PE	  (UINT64_C(1) << 0)
#define EFLAGS_VM (UINT64_C(1) << 17)

static unsigned x86_rank(struct vcpu *vcpu)
{
	uint64_t cs = 0, cr0 = 0, eflags = 0;
	vcpu_read(vcpu, X86_CS, &cs);
	if ((cs & 3) == 0)
		return 3;
	/* In real mode and virtual-8086 mode cs is no selector. */
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
	.read_state = x86_read_state,
	.sp = X86_RSP,
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
