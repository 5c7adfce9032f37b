/* SPDX-License-Identifier: MIT */
#include "agent/qemu/arch.h"

#include "agent/qemu/internals.h"
#include "agent/qemu/vcpu.h"
#include <pthread.h>
#include <string.h>

static const char *const registers[A64_N_REGS] = {
	"x0",
	"x1",
	"x2",
	"x3",
	"x4",
	"x5",
	"x6",
	"x7",
	"x8",
	"x9",
	"x10",
	"x11",
	"x12",
	"x13",
	"x14",
	"x15",
	"x16",
	"x17",
	"x18",
	"x19",
	"x20",
	"x21",
	"x22",
	"x23",
	"x24",
	"x25",
	"x26",
	"x27",
	"x28",
	"x29",
	"x30",
	"sp",
	"pc",
	"cpsr",
	[A64_SP_EL0] = "SP_EL0",
	[A64_TPIDR_EL1] = "TPIDR_EL1",
	[A64_TTBR0_EL1] = "TTBR0_EL1",
	[A64_TTBR1_EL1] = "TTBR1_EL1",
	[A64_TCR_EL1] = "TCR_EL1",
	[A64_SCTLR_EL1] = "SCTLR",
	[A64_ELR_EL1] = "ELR_EL1",
	[A64_SPSR_EL1] = "SPSR_EL1",
	[A64_SP_EL1] = "SP_EL1",
	[A64_TPIDR_EL0] = "TPIDR_EL0",
	[A64_TPIDRRO_EL0] = "TPIDRRO_EL0",
	[A64_VBAR_EL1] = "VBAR",
	[A64_ESR_EL1] = "ESR_EL1",
	[A64_FAR_EL1] = "FAR_EL1",
	[A64_PAR_EL1] = "PAR_EL1",
	[A64_MAIR_EL1] = "MAIR_EL1",
	[A64_CONTEXTIDR_EL1] = "CONTEXTIDR_EL1",
	[A64_CPACR_EL1] = "CPACR",
	[A64_CNTKCTL_EL1] = "CNTKCTL",
	[A64_ID_AA64MMFR0_EL1] = "ID_AA64MMFR0_EL1",
	[A64_ID_AA64MMFR1_EL1] = "ID_AA64MMFR1_EL1",
	[A64_ID_AA64MMFR2_EL1] = "ID_AA64MMFR2_EL1",
};

static const struct kept_register kept[A64_N_REGS] = {
	[A64_X0] = { "env.xregs", 0 },	     [A64_X0 + 1] = { "env.xregs", 1 },
	[A64_X0 + 2] = { "env.xregs", 2 },   [A64_X0 + 3] = { "env.xregs", 3 },
	[A64_X0 + 4] = { "env.xregs", 4 },   [A64_X0 + 5] = { "env.xregs", 5 },
	[A64_X0 + 6] = { "env.xregs", 6 },   [A64_X0 + 7] = { "env.xregs", 7 },
	[A64_X0 + 8] = { "env.xregs", 8 },   [A64_X0 + 9] = { "env.xregs", 9 },
	[A64_X0 + 10] = { "env.xregs", 10 }, [A64_X0 + 11] = { "env.xregs", 11 },
	[A64_X0 + 12] = { "env.xregs", 12 }, [A64_X0 + 13] = { "env.xregs", 13 },
	[A64_X0 + 14] = { "env.xregs", 14 }, [A64_X0 + 15] = { "env.xregs", 15 },
	[A64_X0 + 16] = { "env.xregs", 16 }, [A64_X0 + 17] = { "env.xregs", 17 },
	[A64_X0 + 18] = { "env.xregs", 18 }, [A64_X0 + 19] = { "env.xregs", 19 },
	[A64_X0 + 20] = { "env.xregs", 20 }, [A64_X0 + 21] = { "env.xregs", 21 },
	[A64_X0 + 22] = { "env.xregs", 22 }, [A64_X0 + 23] = { "env.xregs", 23 },
	[A64_X0 + 24] = { "env.xregs", 24 }, [A64_X0 + 25] = { "env.xregs", 25 },
	[A64_X0 + 26] = { "env.xregs", 26 }, [A64_X0 + 27] = { "env.xregs", 27 },
	[A64_X0 + 28] = { "env.xregs", 28 }, [A64_X29] = { "env.xregs", 29 },
	[A64_X30] = { "env.xregs", 30 },     [A64_SP] = { "env.xregs", 31 },
	[A64_PC] = { "env.pc", 0 },	     [A64_SP_EL0] = { "env.sp_el", 0 },
};

/* A processor with SVE has the wider "z" registers alone. */
static const struct wide_names wide[] = { { "v", 32, 0 }, { "z", 32, 0 }, { NULL, 0, 0 } };

/* AArch32 has its mode in these bits instead of the exception level. User mode is 0 there too. */
static unsigned a64_rank(struct vcpu *vcpu)
{
	uint64_t cpsr = 0;
	vcpu_read(vcpu, A64_CPSR, &cpsr);
	if (cpsr >> 4 & 1)
		return (cpsr & 15) == 0 ? 0 : 1;
	return cpsr >> 2 & 3;
}

/* True for wfi. Not for wfe: a vCPU continues after wfe without an interrupt. */
static bool a64_halts(const uint8_t *bytes, size_t size)
{
	static const uint8_t wfi[] = { 0x7f, 0x20, 0x03, 0xd5 };
	return size == sizeof(wfi) && memcmp(bytes, wfi, sizeof(wfi)) == 0;
}

/* Removes the upper bits, which pointer authentication and tags use. */
static uint64_t a64_code_register(unsigned vcpu, unsigned number)
{
	uint64_t va = number <= 30 ? vcpu_value(vcpu, A64_X0 + number) : 0;
	return va >> 55 & 1 ? va | UINT64_C(0xffff) << 48 : va & UINT64_MAX >> 16;
}

/* ---- rights to read memory ------------------------------------------------------------- */

#define PSTATE_PAN  (UINT64_C(1) << 22) /* privileged access never */
#define PSTATE_EL   UINT64_C(0xc)	/* 0: the vCPU executes a program */
#define PSTATE_EL1H UINT64_C(0x5)
/* Of cpsr: bits that QEMU keeps elsewhere than in its pstate. */
#define ELSEWHERE (UINT64_C(0xf0000000) | 0x3c0 | 0xc00)

/* QEMU keeps pstate behind the program counter, without a name of its own in its table. */
static struct internals_state pstate; /* size 0: it is not known where */

static void find_pstate(void)
{
	struct internals_state pc = internals_find_state("vmstate_arm_cpu", "env.pc");
	if (pc.size == sizeof(uint64_t))
		pstate = (struct internals_state) { pc.offset + pc.size, sizeof(uint32_t) };
}

static bool read_pstate(const struct vcpu *vcpu, uint64_t *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_pstate);
	*ret = vcpu->qemu && pstate.size ? internals_read_state(vcpu->qemu, pstate) : 0;
	return vcpu->qemu && pstate.size;
}

/* True if it is what QEMU's register cpsr shows. */
static bool is_pstate(struct vcpu *vcpu, uint64_t value)
{
	uint64_t cpsr;
	return vcpu_read(vcpu, A64_CPSR, &cpsr) && value == ((uint32_t)cpsr & ~ELSEWHERE);
}

/*
 * QEMU up to 10.1 reads memory for plugins by the rights that the vCPU has now. So a kernel that
 * must not touch its programs' memory by accident does not see it, and a program not the kernel's.
 */
static bool a64_open_memory(struct vcpu *vcpu, uint64_t va, uint64_t *before)
{
	const bool is_kernel_address = va >> 55 & 1;
	if (!read_pstate(vcpu, before))
		return false;
	uint64_t rights = *before;
	if (!is_kernel_address)
		rights &= ~PSTATE_PAN;
	else if (!(rights & PSTATE_EL))
		rights |= PSTATE_EL1H;
	if (rights == *before || !is_pstate(vcpu, *before))
		return false;
	internals_write_state(vcpu->qemu, pstate, rights);
	return true;
}

static void a64_close_memory(struct vcpu *vcpu, uint64_t before)
{
	internals_write_state(vcpu->qemu, pstate, before);
}

const struct arch arch_aarch64 = {
	.name = "aarch64",
	.regs = registers,
	.n_regs = A64_N_REGS,
	.state_table = "vmstate_arm_cpu",
	.kept = kept,
	.wide = wide,
	.open_memory = a64_open_memory,
	.close_memory = a64_close_memory,
	.sp = A64_SP,
	.return_address = A64_X30,
	.program_root = A64_TTBR0_EL1,
	.program_root_mask = UINT64_C(0x0000fffffffffffe),
	.pc = A64_PC,
	.arguments = { A64_X0, A64_X0 + 1 },
	.function_align = 4,
	.first_look = 1024, /* the kernel moves itself while it runs (up to Linux 6.5) */
	.rank = a64_rank,
	.branch = branch_aarch64,
	.code_register = a64_code_register,
	.halts = a64_halts,
	.levels = { .kernel = 1, .number = { 0, 1, 2, 3 } },
};
