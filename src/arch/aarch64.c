/* SPDX-License-Identifier: MIT */
/*
 * Registers and page tables of aarch64 (Arm Architecture Reference Manual, chapter "The AArch64
 * Virtual Memory System Architecture"). The system registers have the names that QEMU's gdb stub
 * gives them.
 */
#include "arch/aarch64.h"
#include "arch/page_entries.h"
#include <capstone/capstone.h>

#define GENERAL(n) [X0 + (n)] = { "x" #n, 64 }

static const struct vms_reg_desc registers[N_REGS] = {
	GENERAL(0),
	GENERAL(1),
	GENERAL(2),
	GENERAL(3),
	GENERAL(4),
	GENERAL(5),
	GENERAL(6),
	GENERAL(7),
	GENERAL(8),
	GENERAL(9),
	GENERAL(10),
	GENERAL(11),
	GENERAL(12),
	GENERAL(13),
	GENERAL(14),
	GENERAL(15),
	GENERAL(16),
	GENERAL(17),
	GENERAL(18),
	GENERAL(19),
	GENERAL(20),
	GENERAL(21),
	GENERAL(22),
	GENERAL(23),
	GENERAL(24),
	GENERAL(25),
	GENERAL(26),
	GENERAL(27),
	GENERAL(28),
	GENERAL(29),
	GENERAL(30),
	[SP] = { "sp", 64 },
	[PC] = { "pc", 64 },
	[CPSR] = { "cpsr", 32 },
	[SP_EL0] = { "SP_EL0", 64 },
	[TPIDR_EL1] = { "TPIDR_EL1", 64 },
	[TTBR0_EL1] = { "TTBR0_EL1", 64 },
	[TTBR1_EL1] = { "TTBR1_EL1", 64 },
	[TCR_EL1] = { "TCR_EL1", 64 },
	[SCTLR_EL1] = { "SCTLR", 64 },
	[ELR_EL1] = { "ELR_EL1", 64 },
	[SPSR_EL1] = { "SPSR_EL1", 64 },
	[SP_EL1] = { "SP_EL1", 64, .is_seldom = true },
	[TPIDR_EL0] = { "TPIDR_EL0", 64, .is_seldom = true },
	[TPIDRRO_EL0] = { "TPIDRRO_EL0", 64, .is_seldom = true },
	[VBAR_EL1] = { "VBAR", 64, .is_seldom = true },
	[ESR_EL1] = { "ESR_EL1", 64, .is_seldom = true },
	[FAR_EL1] = { "FAR_EL1", 64, .is_seldom = true },
	[PAR_EL1] = { "PAR_EL1", 64, .is_seldom = true },
	[MAIR_EL1] = { "MAIR_EL1", 64, .is_seldom = true },
	[CONTEXTIDR_EL1] = { "CONTEXTIDR_EL1", 64, .is_seldom = true },
	[CPACR_EL1] = { "CPACR", 64, .is_seldom = true },
	[CNTKCTL_EL1] = { "CNTKCTL", 64, .is_seldom = true },
	[ID_AA64MMFR0_EL1] = { "ID_AA64MMFR0_EL1", 64, .is_seldom = true },
	[ID_AA64MMFR1_EL1] = { "ID_AA64MMFR1_EL1", 64, .is_seldom = true },
	[ID_AA64MMFR2_EL1] = { "ID_AA64MMFR2_EL1", 64, .is_seldom = true },
};

static bool get_bit(uint64_t value, unsigned n)
{
	return value >> n & 1;
}

/* ---- the shape of the address space ----------------------------------- */

#define TCR_IPS (UINT64_C(7) << 32)
#define TCR_HD	40

/* One half of the address space: TTBR0's begins at 0, TTBR1's ends at the top. */
struct half {
	bool is_off;	       /* nothing is mapped */
	bool is_upper;	       /* this is TTBR1's half */
	bool ignores_top_byte; /* the top byte of an address may hold a tag */
	bool is_flat;	       /* tables do not restrict what is below them */
	bool is_wide;	       /* the root table may be at a physical address of 52 bits */
	bool is_lpa2;	       /* so may pages of 4 and 16 KiB */
	bool has_dirty;	       /* the processor makes clean pages writable */
	unsigned page_shift, index_bits, bits, levels;
	uint64_t root; /* physical address of the first table */
};

/* The page size as a shift, by TG0 and by TG1. Their encodings differ; 0 is a reserved value. */
static const uint8_t page_shifts[2][4] = { { 12, 16, 14, 0 }, { 0, 14, 12, 16 } };

static struct half read_half(const struct vms_regs *regs, bool is_upper)
{
	const uint64_t tcr = regs->value[TCR_EL1];
	const uint64_t ttbr = regs->value[is_upper ? TTBR1_EL1 : TTBR0_EL1];
	struct half half = {
		.is_upper = is_upper,
		.is_off = get_bit(tcr, is_upper ? 23 : 7),
		.ignores_top_byte = get_bit(tcr, is_upper ? 38 : 37),
		.is_flat = get_bit(tcr, is_upper ? 42 : 41),
		.is_lpa2 = tcr & TCR_DS,
		.has_dirty = get_bit(tcr, TCR_HD),
		.page_shift = page_shifts[is_upper][is_upper ? vms_aarch64_field(tcr, 31, 30)
							     : vms_aarch64_field(tcr, 15, 14)],
		.bits = 64 - (unsigned)(is_upper ? vms_aarch64_field(tcr, 21, 16)
						 : vms_aarch64_field(tcr, 5, 0)),
	};
	if (half.page_shift == 0 || half.bits > 52 || half.bits <= half.page_shift) {
		half.is_off = true;
		return half;
	}
	half.index_bits = half.page_shift - 3;
	half.levels = (half.bits - half.page_shift + half.index_bits - 1) / half.index_bits;
	half.is_wide =
		half.is_lpa2 || (half.page_shift == 16 && (tcr & TCR_IPS) == TCR_IPS_52_BITS);
	half.root = half.is_wide ? (ttbr & (vms_aarch64_low_bits(48) - vms_aarch64_low_bits(6))) |
					   vms_aarch64_field(ttbr, 5, 2) << 48
				 : ttbr & (vms_aarch64_low_bits(48) - vms_aarch64_low_bits(4));
	return half;
}

static bool has_mmu(const struct vms_regs *regs)
{
	return get_bit(regs->value[SCTLR_EL1], 0);
}

/* True if `va`, which has no tag in its top byte, is in this half. */
static bool half_holds(const struct half *half, uint64_t va)
{
	return va >> half->bits == (half->is_upper ? UINT64_MAX >> half->bits : 0);
}

/* Returns the address that the processor looks up for `va`. This removes a tag, if tags are on. */
static uint64_t remove_tag(const struct half *half, uint64_t va)
{
	if (!half->ignores_top_byte)
		return va;
	return half->is_upper ? va | ~vms_aarch64_low_bits(56) : va & vms_aarch64_low_bits(56);
}

uint64_t vms_aarch64_strip_pac(const struct vms_regs *regs, uint64_t va)
{
	const bool is_upper = get_bit(va, 55);
	const struct half half = read_half(regs, is_upper);
	const uint64_t mask = vms_aarch64_low_bits(half.is_off ? 48 : half.bits);
	return is_upper ? va | ~mask : va & mask;
}

void vms_aarch64_set_root(struct vms_regs *regs, unsigned reg, uint64_t pa)
{
	const struct half half = read_half(regs, reg == TTBR1_EL1);
	vms_regs_set(regs, reg,
		     half.is_wide
			     ? (pa & vms_aarch64_low_bits(48)) | vms_aarch64_field(pa, 51, 48) << 2
			     : pa);
}

/* ---- page tables ------------------------------------------------------ */

#define ENTRY_BYTES 8u
#define VALID	    0
#define NOT_BLOCK   1 /* the entry is a table, or at the last level a page */
/* Bits of pages and blocks. */
#define USER	  6
#define READ_ONLY 7
#define DIRTY	  51
#define KERNEL_NX 53
#define USER_NX	  54
/* Bits of tables, which restrict all that is below them. */
#define BELOW_KERNEL_NX 59
#define BELOW_USER_NX	60
#define BELOW_NO_USER	61
#define BELOW_READ_ONLY 62

struct walk {
	struct vms_page_walk tables;
	struct half half[2];
};

static struct walk walk_begin(const struct vms_regs *regs, const struct vms_reader *phys)
{
	return (struct walk) { .tables.phys = phys,
			       .half = { read_half(regs, false), read_half(regs, true) } };
}

/*
 * Returns the shift of the address bits that a level translates. Levels count from 1, the last one,
 * which is level 3 in the manual.
 */
static unsigned get_level_shift(const struct half *half, unsigned level)
{
	return half->page_shift + half->index_bits * (level - 1);
}

/* True if an entry of this level may be a block. */
static bool may_be_block(const struct half *half, unsigned level)
{
	if (half->page_shift == 12)
		return level == 2 || level == 3 || (level == 4 && half->is_lpa2);
	return level == 2 || (level == 3 && half->is_wide);
}

static uint64_t get_entry_address(const struct half *half, uint64_t entry)
{
	const uint64_t offset = vms_aarch64_low_bits(half->page_shift);
	if (half->page_shift == 16)
		return (entry & vms_aarch64_low_bits(48) & ~offset) |
		       vms_aarch64_field(entry, 15, 12) << 48;
	if (half->is_lpa2)
		return (entry & vms_aarch64_low_bits(50) & ~offset) | vms_aarch64_field(entry, 9, 8)
									      << 50;
	return entry & vms_aarch64_low_bits(48) & ~offset;
}

/* Restrictions by the tables that a walk has passed. */
struct limits {
	bool read_only, no_user, kernel_nx, user_nx;
};

static void add_limits(struct limits *limits, const struct half *half, uint64_t entry)
{
	if (half->is_flat)
		return;
	limits->read_only |= get_bit(entry, BELOW_READ_ONLY);
	limits->no_user |= get_bit(entry, BELOW_NO_USER);
	limits->kernel_nx |= get_bit(entry, BELOW_KERNEL_NX);
	limits->user_nx |= get_bit(entry, BELOW_USER_NX);
}

static void describe_page(const struct half *half, const struct limits *limits, uint64_t va,
			  uint64_t entry, unsigned shift, struct vms_page *ret)
{
	const bool clean = half->has_dirty && get_bit(entry, DIRTY);
	ret->size = UINT64_C(1) << shift;
	ret->va = va & ~(ret->size - 1);
	ret->pa = get_entry_address(half, entry) & ~(ret->size - 1);
	ret->writable = !limits->read_only && (!get_bit(entry, READ_ONLY) || clean);
	ret->user = !limits->no_user && get_bit(entry, USER);
	ret->executable = (!limits->kernel_nx && !get_bit(entry, KERNEL_NX)) ||
			  (!limits->user_nx && !get_bit(entry, USER_NX));
}

/*
 * Finds the page that maps `va`, an address of this half. If there is none, it returns false and
 * *level is the level at which the walk ended.
 */
static bool walk_to_page(struct vms_page_walk *tables, const struct half *half, uint64_t va,
			 struct vms_page *ret, unsigned *level)
{
	uint64_t table_pa = half->root;
	struct limits limits = { 0 };

	for (*level = half->levels; *level > 0; --*level) {
		unsigned shift = get_level_shift(half, *level);
		unsigned index_bits = MIN(half->index_bits, half->bits - shift);
		size_t size = ENTRY_BYTES << index_bits;
		uint64_t entry, index = va >> shift & vms_aarch64_low_bits(index_bits);
		if (!vms_page_walk_entry(tables, *level, table_pa, size, index * ENTRY_BYTES,
					 ENTRY_BYTES, &entry) ||
		    !get_bit(entry, VALID))
			return false;
		const bool is_page = *level == 1 && get_bit(entry, NOT_BLOCK);
		if (is_page || (!get_bit(entry, NOT_BLOCK) && may_be_block(half, *level))) {
			describe_page(half, &limits, va, entry, shift, ret);
			return true;
		}
		if (!get_bit(entry, NOT_BLOCK))
			return false;
		add_limits(&limits, half, entry);
		table_pa = get_entry_address(half, entry);
	}
	return false;
}

static bool aarch64_translate(const struct vms_regs *regs, const struct vms_reader *phys,
			      uint64_t va, struct vms_page *ret)
{
	if (!has_mmu(regs)) {
		uint64_t page = va & ~vms_aarch64_low_bits(12);
		*ret = (struct vms_page) { page, page, 4096, true, true, true };
		return true;
	}
	struct vms_page_walk tables = { .phys = phys };
	const struct half half = read_half(regs, get_bit(va, 55));
	unsigned level;
	return !half.is_off && half_holds(&half, remove_tag(&half, va)) &&
	       walk_to_page(&tables, &half, va, ret, &level);
}

static bool find_page(void *data, uint64_t va, struct vms_page *ret, uint64_t *next)
{
	struct walk *walk = data;
	const struct half *upper = &walk->half[1], *half = &walk->half[va >> 63];
	const bool held = !half->is_off && half_holds(half, va);
	unsigned level;
	if (held && walk_to_page(&walk->tables, half, va, ret, &level))
		return true;
	if (held)
		*next = (va | vms_aarch64_low_bits(get_level_shift(half, level))) + 1;
	else
		/* Nothing is mapped between the halves: go on where the upper one begins. */
		*next = upper->is_off ? 0 : ~vms_aarch64_low_bits(upper->bits);
	return false;
}

static void aarch64_each_page(const struct vms_regs *regs, const struct vms_reader *phys,
			      uint64_t va, uint64_t last, uint64_t *steps,
			      bool (*each)(const struct vms_page *page, void *data), void *data)
{
	struct walk walk = walk_begin(regs, phys);
	walk.tables.keeps_tables = true;
	if (has_mmu(regs))
		vms_page_walk_each(va, last, steps, find_page, &walk, each, data);
	else
		each(&(struct vms_page) { 0, 0, UINT64_C(1) << 48, true, true, true }, data);
	vms_page_walk_clear(&walk.tables);
}

/* ---- page table isolation --------------------------------------------- */

/* Limit of the search for the first page of the entry code: all entries of four tables. */
#define TRAMP_STEPS (4 << 13)

static unsigned count_valid(const struct half *half, const struct vms_reader *phys)
{
	const size_t n = (size_t)1 << (half->bits - get_level_shift(half, half->levels));
	g_autofree uint64_t *entries = g_malloc(n * ENTRY_BYTES);
	unsigned n_valid = 0;
	if (!phys->read(phys->data, half->root, entries, n * ENTRY_BYTES))
		return 0;
	for (size_t i = 0; i < n; i++)
		n_valid += get_bit(entries[i], VALID);
	return n_valid;
}

static bool take_first(const struct vms_page *page, void *data)
{
	*(struct vms_page *)data = *page;
	return false;
}

/*
 * While a user program runs, TTBR1 points to tables that map the entry code and nothing else
 * (tramp_pg_dir of Linux). The kernel's root table is one or two pages above that one
 * (TRAMP_SWAPPER_OFFSET in arch/arm64/include/asm/pgtable.h of Linux): reserved_pg_dir may be
 * between them. The kernel's tables map the same entry code, and more.
 */
static void aarch64_kernel_root(struct vms_regs *regs, const struct vms_reader *phys)
{
	const struct half tramp = read_half(regs, true);
	uint64_t steps = TRAMP_STEPS;
	struct vms_page code = { 0 }, same;
	if (!has_mmu(regs) || tramp.is_off || count_valid(&tramp, phys) != 1)
		return;
	aarch64_each_page(regs, phys, ~vms_aarch64_low_bits(tramp.bits), UINT64_MAX, &steps,
			  take_first, &code);
	for (uint64_t distance = 1; distance <= 2 && code.size; distance++) {
		struct vms_regs kernel = *regs;
		kernel.value[TTBR1_EL1] += distance << tramp.page_shift;
		const struct half half = read_half(&kernel, true);
		if (count_valid(&half, phys) > 1 &&
		    aarch64_translate(&kernel, phys, code.va, &same) && same.pa == code.pa) {
			*regs = kernel;
			return;
		}
	}
}

/* ---- what registers and code tell ------------------------------------- */

static bool aarch64_is_kernel_address(uint64_t va)
{
	return va >> 52 == 0xfff;
}

static bool aarch64_in_kernel(const struct vms_regs *regs)
{
	return (regs->value[CPSR] & (CPSR_AARCH32 | CPSR_EL_MASK)) != CPSR_EL0 &&
	       !(regs->value[CPSR] & CPSR_AARCH32);
}

#define PSCI_CPU_OFF 0x84000002 /* Arm Power State Coordination Interface */

/*
 * Of the instructions that wait, only WFI counts: a processor that spins for a lock waits in WFE. A
 * processor that has turned itself off stays behind the call of its firmware, HVC or SMC with the
 * number of the function in x0.
 */
static bool aarch64_is_halted(const struct vms_regs *regs, const uint8_t *code)
{
	static const uint8_t wfi[VMS_HALT_BYTES] = { 0x7f, 0x20, 0x03, 0xd5 };
	static const uint8_t hvc[VMS_HALT_BYTES] = { 0x02, 0x00, 0x00, 0xd4 };
	static const uint8_t smc[VMS_HALT_BYTES] = { 0x03, 0x00, 0x00, 0xd4 };
	if (!aarch64_in_kernel(regs))
		return false;
	if (regs->value[X0] == PSCI_CPU_OFF &&
	    (memcmp(code, hvc, sizeof(hvc)) == 0 || memcmp(code, smc, sizeof(smc)) == 0))
		return true;
	return memcmp(code, wfi, sizeof(wfi)) == 0;
}

static bool aarch64_is_at_reset(const struct vms_regs *regs)
{
	return aarch64_in_kernel(regs) && regs->value[PC] == 0;
}

static const char *aarch64_paging_mode(const struct vms_regs *regs)
{
	static const struct {
		unsigned page_shift, bits;
		const char *text;
	} modes[] = {
		{ 12, 39, "3-level paging, 4 KiB pages, 39-bit virtual addresses" },
		{ 12, 48, "4-level paging, 4 KiB pages, 48-bit virtual addresses" },
		{ 12, 52, "5-level paging, 4 KiB pages, 52-bit virtual addresses" },
		{ 14, 36, "2-level paging, 16 KiB pages, 36-bit virtual addresses" },
		{ 14, 47, "3-level paging, 16 KiB pages, 47-bit virtual addresses" },
		{ 14, 48, "4-level paging, 16 KiB pages, 48-bit virtual addresses" },
		{ 14, 52, "4-level paging, 16 KiB pages, 52-bit virtual addresses" },
		{ 16, 42, "2-level paging, 64 KiB pages, 42-bit virtual addresses" },
		{ 16, 48, "3-level paging, 64 KiB pages, 48-bit virtual addresses" },
		{ 16, 52, "3-level paging, 64 KiB pages, 52-bit virtual addresses" },
	};
	const struct half half = read_half(regs, true);
	if (!has_mmu(regs))
		return "paging off";
	for (size_t i = 0; i < G_N_ELEMENTS(modes) && !half.is_off; i++)
		if (modes[i].page_shift == half.page_shift && modes[i].bits == half.bits)
			return modes[i].text;
	return "paging of unusual size";
}

/* Finds w0 to w30, the low halves of x0 to x30. */
static bool aarch64_find_part(const char *name, struct vms_reg_part *ret)
{
	uint64_t number;
	if (g_ascii_tolower(name[0]) != 'w' ||
	    !g_ascii_string_to_unsigned(name + 1, 10, 0, 30, &number, NULL))
		return false;
	*ret = (struct vms_reg_part) { .index = X0 + (unsigned)number, .bits = 32 };
	return true;
}

const struct vms_arch vms_arch_aarch64 = {
	.name = "aarch64",
	.gdb_name = "aarch64",
	.alias = "arm64",
	.regs = registers,
	.n_regs = N_REGS,
	.pc = PC,
	.sp = SP,
	.fp = X29,
	.arguments = { X0, X0 + 1, X0 + 2, X0 + 3, X0 + 4, X0 + 5, X0 + 6, X0 + 7 },
	.n_arguments = 8,
	.result = X0,
	.find_part = aarch64_find_part,
	.translate = aarch64_translate,
	.each_page = aarch64_each_page,
	.is_kernel_address = aarch64_is_kernel_address,
	.in_kernel = aarch64_in_kernel,
	.is_halted = aarch64_is_halted,
	.is_at_reset = aarch64_is_at_reset,
	.kernel_root = aarch64_kernel_root,
	.paging_mode = aarch64_paging_mode,
	.step_frame_pointer = vms_aarch64_step_frame,
	.step_frameless = vms_aarch64_step_frameless,
	.space = TTBR0_EL1,
	.breakpoint_size = 4,
	.capstone_arch = CS_ARCH_ARM64,
	.capstone_mode = CS_MODE_LITTLE_ENDIAN,
};
