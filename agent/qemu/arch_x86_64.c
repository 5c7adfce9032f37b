/* SPDX-License-Identifier: MIT */
#include "agent/qemu/arch.h"

#include "agent/qemu/internals.h"
#include "agent/qemu/wide.h"
#include <pthread.h>
#include <string.h>

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

/* ---- wide registers --------------------------------------------------------------------- */

static const struct wide_names wide[] = {
	{ "xmm", 16, 0 },
	{ "st", 8, VMS_WIDE_ST },
	{ NULL, 0, 0 },
};

/* In XCR0: the parts of the vector registers that programs can use. */
#define XCR0_AVX     UINT64_C(0x06)
#define XCR0_AVX_512 UINT64_C(0xe6)
#define XMM_BYTES    16u
#define YMM_BYTES    32u

/* Where QEMU keeps what its gdb stub does not have. */
static struct {
	struct internals_state vectors; /* of VMS_WIDE_BYTES_MAX bytes each */
	struct internals_state base[2], limit[2];
} state;

static void find_state(void)
{
	static const char *const tables[] = { "env.gdt", "env.idt" };
	state.vectors = internals_find_elements("vmstate_x86_cpu", "env.xmm_regs");
	for (unsigned i = 0; i < G_N_ELEMENTS(tables); i++) {
		state.base[i] = internals_find_member("vmstate_x86_cpu", tables[i], "base");
		state.limit[i] = internals_find_member("vmstate_x86_cpu", tables[i], "limit");
	}
}

/*
 * Reads ymm or zmm. Its first bytes must be those of xmm: else QEMU's table has another meaning
 * than expected.
 */
static bool read_vector(struct vcpu *vcpu, unsigned number, uint8_t *buf, size_t size)
{
	const uint64_t needed = size <= YMM_BYTES ? XCR0_AVX : XCR0_AVX_512;
	uint8_t xmm[XMM_BYTES];
	uint64_t xcr0;
	if (state.vectors.size != VMS_WIDE_BYTES_MAX || !vcpu_read(vcpu, X86_XCR0, &xcr0) ||
	    (xcr0 & needed) != needed)
		return false;
	internals_copy_state(vcpu->qemu, state.vectors.offset + (size_t)number * VMS_WIDE_BYTES_MAX,
			     buf, size);
	return size <= XMM_BYTES ||
	       (wide_read(vcpu, number, xmm, XMM_BYTES) && memcmp(xmm, buf, XMM_BYTES) == 0);
}

static bool read_table(struct vcpu *vcpu, unsigned table, uint8_t *buf, size_t size)
{
	uint8_t bytes[VMS_WIDE_80_BITS];
	if (!state.base[table].size || !state.limit[table].size || size > sizeof(bytes))
		return false;
	const uint16_t limit = (uint16_t)internals_read_state(vcpu->qemu, state.limit[table]);
	const uint64_t base = internals_read_state(vcpu->qemu, state.base[table]);
	memcpy(bytes, &limit, sizeof(limit));
	memcpy(bytes + sizeof(limit), &base, sizeof(base));
	memcpy(buf, bytes, size);
	return true;
}

static bool x86_read_wide(struct vcpu *vcpu, unsigned number, void *buf, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_state);
	if (number < VMS_WIDE_VECTORS)
		return read_vector(vcpu, number, buf, size);
	return (number == VMS_WIDE_GDTR || number == VMS_WIDE_IDTR) &&
	       read_table(vcpu, number - VMS_WIDE_GDTR, buf, size);
}

/* ---- privilege and code ----------------------------------------------------------------- */

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
	.wide = wide,
	.read_wide = x86_read_wide,
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
