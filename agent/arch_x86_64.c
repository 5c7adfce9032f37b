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

/* Prefixes, of which `rep` matters. REX stands before the opcode; elsewhere these bytes are
 * instructions of their own, which leave nothing. */
static size_t skip_prefixes(const uint8_t *insn, size_t size, bool *rep)
{
	size_t i = 0;
	for (; i < size; i++) {
		switch (insn[i]) {
		case 0xf2:
		case 0xf3: *rep = true; break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64 ... 0x67:
		case 0xf0:
		case 0x40 ... 0x4f: break;
		default: return i;
		}
	}
	return i;
}

/* The displacement of a relative jump is the instruction's end. */
static bool is_backward(const uint8_t *insn, size_t size)
{
	return insn[size - 1] & 0x80;
}

static bool x86_leaves(const uint8_t *insn, size_t size)
{
	bool rep = false;
	size_t i = skip_prefixes(insn, size, &rep);
	if (i >= size)
		return false;
	switch (insn[i]) {
	case 0x6c ... 0x6f: /* strings */
	case 0xa4 ... 0xa7:
	case 0xaa ... 0xaf: return rep;
	case 0x70 ... 0x7f: /* jumps on conditions, loops */
	case 0xe0 ... 0xe3:
	case 0xe9:
	case 0xeb: return is_backward(insn, size);
	case 0x0f:
		if (i + 1 >= size)
			return false;
		if ((insn[i + 1] & 0xf0) == 0x80)
			return is_backward(insn, size);
		return insn[i + 1] == 0x05 || insn[i + 1] == 0x07 || insn[i + 1] == 0x34 ||
		       insn[i + 1] == 0x35; /* syscall, sysret, sysenter, sysexit */
	case 0xff: /* by the operation in ModRM: calls and jumps through registers and memory */
		return i + 1 < size && (insn[i + 1] >> 3 & 7) >= 2 && (insn[i + 1] >> 3 & 7) <= 5;
	case 0x9a: /* calls and jumps to other segments, returns, interrupts and returns from them
		    */
	case 0xc2:
	case 0xc3:
	case 0xca ... 0xcf:
	case 0xe8:
	case 0xea: return true;
	default: return false;
	}
}

const struct arch arch_x86_64 = {
	.name = "x86_64",
	.regs = registers,
	.n_regs = X86_N_REGS,
	.sp = X86_RSP,
	.rank = x86_rank,
	.leaves = x86_leaves,
	.instrument = instrument_x86,
	.levels = { .kernel = 3, .number = { 3, 2, 1, 0 } },
};
