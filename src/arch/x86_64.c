/* SPDX-License-Identifier: MIT */
/*
 * Registers, page tables (Intel SDM volume 3, chapter "Paging") and frame pointers of x86-64.
 */
#include "arch/x86_64.h"
#include "arch/page_entries.h"
#include <capstone/capstone.h>

static const struct vms_reg_desc registers[N_REGS] = {
	[RAX] = { "rax", 64 },
	[RBX] = { "rbx", 64 },
	[RCX] = { "rcx", 64 },
	[RDX] = { "rdx", 64 },
	[RSI] = { "rsi", 64 },
	[RDI] = { "rdi", 64 },
	[RBP] = { "rbp", 64 },
	[RSP] = { "rsp", 64 },
	[R8] = { "r8", 64 },
	[R9] = { "r9", 64 },
	[R10] = { "r10", 64 },
	[R11] = { "r11", 64 },
	[R12] = { "r12", 64 },
	[R13] = { "r13", 64 },
	[R14] = { "r14", 64 },
	[R15] = { "r15", 64 },
	[RIP] = { "rip", 64 },
	[EFLAGS] = { "eflags", 32 },
	[CS] = { "cs", 16 },
	[SS] = { "ss", 16 },
	[DS] = { "ds", 16 },
	[ES] = { "es", 16 },
	[FS] = { "fs", 16 },
	[GS] = { "gs", 16 },
	[FS_BASE] = { "fs_base", 64 },
	[GS_BASE] = { "gs_base", 64 },
	[K_GS_BASE] = { "k_gs_base", 64 },
	[CR0] = { "cr0", 64 },
	[CR2] = { "cr2", 64 },
	[CR3] = { "cr3", 64 },
	[CR4] = { "cr4", 64 },
	[CR8] = { "cr8", 64 },
	[EFER] = { "efer", 64 },
	[CS_BASE] = { "cs_base", 64 },
	[CS_LIMIT] = { "cs_limit", 32 },
	[CS_ATTR] = { "cs_attr", 16 },
	[SS_BASE] = { "ss_base", 64 },
	[SS_LIMIT] = { "ss_limit", 32 },
	[SS_ATTR] = { "ss_attr", 16 },
	[DS_BASE] = { "ds_base", 64 },
	[DS_LIMIT] = { "ds_limit", 32 },
	[DS_ATTR] = { "ds_attr", 16 },
	[ES_BASE] = { "es_base", 64 },
	[ES_LIMIT] = { "es_limit", 32 },
	[ES_ATTR] = { "es_attr", 16 },
	[FS_LIMIT] = { "fs_limit", 32 },
	[FS_ATTR] = { "fs_attr", 16 },
	[GS_LIMIT] = { "gs_limit", 32 },
	[GS_ATTR] = { "gs_attr", 16 },
	[LDTR] = { "ldtr", 16 },
	[LDTR_BASE] = { "ldtr_base", 64 },
	[LDTR_LIMIT] = { "ldtr_limit", 32 },
	[LDTR_ATTR] = { "ldtr_attr", 16 },
	[TR] = { "tr", 16 },
	[TR_BASE] = { "tr_base", 64 },
	[TR_LIMIT] = { "tr_limit", 32 },
	[TR_ATTR] = { "tr_attr", 16 },
	[GDTR_BASE] = { "gdtr_base", 64 },
	[GDTR_LIMIT] = { "gdtr_limit", 16 },
	[IDTR_BASE] = { "idtr_base", 64 },
	[IDTR_LIMIT] = { "idtr_limit", 16 },
	[DR0] = { "dr0", 64 },
	[DR1] = { "dr1", 64 },
	[DR2] = { "dr2", 64 },
	[DR3] = { "dr3", 64 },
	[DR6] = { "dr6", 64 },
	[DR7] = { "dr7", 64 },
	[STAR] = { "star", 64 },
	[LSTAR] = { "lstar", 64 },
	[CSTAR] = { "cstar", 64 },
	[SFMASK] = { "sfmask", 64 },
	[PAT] = { "pat", 64 },
	[APIC_BASE] = { "apic_base", 64 },
	[TSC_AUX] = { "tsc_aux", 64 },
	[SYSENTER_CS] = { "sysenter_cs", 64 },
	[SYSENTER_ESP] = { "sysenter_esp", 64 },
	[SYSENTER_EIP] = { "sysenter_eip", 64 },
	[XCR0] = { "xcr0", 64 },
};

#define CR0_PE	 (UINT64_C(1) << 0)
#define CR0_PG	 (UINT64_C(1) << 31)
#define CR4_PAE	 (UINT64_C(1) << 5)
#define CR4_LA57 (UINT64_C(1) << 12)
#define EFER_LMA (UINT64_C(1) << 10)

#define EFLAGS_VM   (UINT64_C(1) << 17)
#define ATTR_LONG   (UINT64_C(1) << 13) /* in a code segment: 64-bit code */
#define ATTR_WIDE   (UINT64_C(1) << 14) /* in any segment: 32 bits; if not set, 16 */
#define SEGMENT_PER 16			/* bytes from one segment of real mode to the next */
#define RESET_CS    0xf000
#define RESET_IP    0xfff0

#define PTE_PRESENT (UINT64_C(1) << 0)
#define PTE_WRITE   (UINT64_C(1) << 1)
#define PTE_USER    (UINT64_C(1) << 2)
#define PTE_LARGE   (UINT64_C(1) << 7)
#define PTE_NX	    (UINT64_C(1) << 63)
#define PTE_ADDRESS UINT64_C(0x000ffffffffff000)

#define TABLE_BYTES 4096

/* The shape of a paging mode. */
struct paging {
	const char *text;
	unsigned levels;     /* number of levels of tables; 0 if paging is off */
	unsigned index_bits; /* number of address bits that one level translates */
	unsigned entry_bytes;
	unsigned large_levels; /* highest level at which a PTE_LARGE entry ends the walk */
	uint64_t root_mask;    /* bits of CR3 that are the address of the first table */
};

static const struct paging paging_off = { "paging off", 0, 0, 0, 0, 0 };
static const struct paging paging_32 = { "32-bit paging", 2, 10, 4, 2, 0xfffff000 };
static const struct paging paging_pae = { "PAE paging", 3, 9, 8, 2, 0xffffffe0 };
static const struct paging paging_4 = {
	"4-level paging, 48-bit virtual addresses", 4, 9, 8, 3, PTE_ADDRESS
};
static const struct paging paging_5 = {
	"5-level paging, 57-bit virtual addresses", 5, 9, 8, 3, PTE_ADDRESS
};

/*
 * If no control register is known, this assumes long mode, as all operating systems use it. If only
 * EFER is unknown, as in QEMU's core files, PAE paging decides: the guests of x86-64 files and
 * stubs are 64-bit guests.
 */
bool vms_x86_64_is_long_mode(const struct vms_regs *regs)
{
	if (vms_regs_have(regs, EFER))
		return regs->value[EFER] & EFER_LMA;
	return !vms_regs_have(regs, CR0) ||
	       ((regs->value[CR0] & CR0_PG) && (regs->value[CR4] & CR4_PAE));
}

static const struct paging *find_paging(const struct vms_regs *regs)
{
	if (!(regs->value[CR0] & CR0_PG))
		return &paging_off;
	if (vms_x86_64_is_long_mode(regs))
		return regs->value[CR4] & CR4_LA57 ? &paging_5 : &paging_4;
	return regs->value[CR4] & CR4_PAE ? &paging_pae : &paging_32;
}

static unsigned get_level_shift(const struct paging *paging, unsigned level)
{
	return 12 + paging->index_bits * (level - 1);
}

static uint64_t low_bits(unsigned n)
{
	return (UINT64_C(1) << n) - 1;
}

/* True if the paging mode can translate addresses like `va`. */
static bool is_canonical(const struct paging *paging, uint64_t va)
{
	if (paging->entry_bytes == 4 || paging->levels == 3)
		return va <= UINT32_MAX;
	unsigned unused = 64 - get_level_shift(paging, paging->levels + 1);
	return (uint64_t)((int64_t)(va << unused) >> unused) == va;
}

struct walk {
	struct vms_page_walk tables;
	const struct paging *paging;
	uint64_t root;
};

static struct walk walk_begin(const struct vms_regs *regs, const struct vms_reader *phys)
{
	const struct paging *paging = find_paging(regs);
	return (struct walk) { .tables.phys = phys,
			       .paging = paging,
			       .root = regs->value[CR3] & paging->root_mask };
}

static bool read_entry(struct walk *walk, unsigned level, uint64_t table_pa, unsigned index,
		       uint64_t *ret)
{
	/* PAE's first table has four entries and need not be page-aligned. */
	size_t size = level == 3 && walk->paging->levels == 3 ? 32 : TABLE_BYTES;
	size_t bytes = walk->paging->entry_bytes;
	return vms_page_walk_entry(&walk->tables, level, table_pa, size, index * bytes, bytes, ret);
}

/*
 * Finds the page that maps `va`. If there is none, it returns false and *level is the level at
 * which the walk ended.
 */
static bool walk_to_page(struct walk *walk, uint64_t va, struct vms_page *ret, unsigned *level)
{
	const struct paging *paging = walk->paging;
	uint64_t table_pa = walk->root;
	*ret = (struct vms_page) { .writable = true, .user = true, .executable = true };

	for (*level = paging->levels; *level > 0; --*level) {
		unsigned shift = get_level_shift(paging, *level);
		unsigned index = va >> shift & low_bits(paging->index_bits);
		/* The root of PAE paging has no permission bits. */
		bool pae_root = paging->levels == 3 && *level == 3;
		uint64_t entry;
		if (pae_root)
			index &= 3;
		if (!read_entry(walk, *level, table_pa, index, &entry) || !(entry & PTE_PRESENT))
			return false;
		if (!pae_root) {
			ret->writable &= (entry & PTE_WRITE) != 0;
			ret->user &= (entry & PTE_USER) != 0;
			ret->executable &= paging->entry_bytes == 4 || !(entry & PTE_NX);
		}
		table_pa = entry & PTE_ADDRESS;
		bool large = *level > 1 && *level <= paging->large_levels && (entry & PTE_LARGE);
		if (large || *level == 1) {
			ret->size = UINT64_C(1) << shift;
			ret->va = va & ~(ret->size - 1);
			ret->pa = table_pa & ~(ret->size - 1);
			return true;
		}
	}
	return false;
}

static bool x86_translate(const struct vms_regs *regs, const struct vms_reader *phys, uint64_t va,
			  struct vms_page *ret)
{
	struct walk walk = walk_begin(regs, phys);
	unsigned level;
	if (walk.paging->levels == 0) {
		uint64_t page = va & ~low_bits(12);
		*ret = (struct vms_page) { page, page, 4096, true, true, true };
		return true;
	}
	return is_canonical(walk.paging, va) && walk_to_page(&walk, va, ret, &level);
}

/*
 * Returns the first address after those of the entry at which the walk to `va` ended, or 0 if there
 * is none.
 */
static uint64_t skip_entry(const struct paging *paging, uint64_t va, unsigned level)
{
	unsigned shift = get_level_shift(paging, level);
	/* This skips the whole hole between the canonical halves. */
	if (level > paging->levels)
		shift--;
	return (va | low_bits(shift)) + 1;
}

static bool find_page(void *data, uint64_t va, struct vms_page *ret, uint64_t *next)
{
	struct walk *walk = data;
	unsigned level = walk->paging->levels + 1;
	if (is_canonical(walk->paging, va) && walk_to_page(walk, va, ret, &level))
		return true;
	*next = skip_entry(walk->paging, va, level);
	return false;
}

static void x86_each_page(const struct vms_regs *regs, const struct vms_reader *phys, uint64_t va,
			  uint64_t last, uint64_t *steps,
			  bool (*each)(const struct vms_page *page, void *data), void *data)
{
	struct walk walk = walk_begin(regs, phys);
	walk.tables.keeps_tables = true;
	if (walk.paging->levels == 0)
		each(&(struct vms_page) { 0, 0, UINT64_C(1) << 32, true, true, true }, data);
	else
		vms_page_walk_each(va, last, steps, find_page, &walk, each, data);
	vms_page_walk_clear(&walk.tables);
}

static bool x86_is_kernel_address(uint64_t va)
{
	return va >> 63;
}

/*
 * True in real mode and in virtual-8086 mode: there CS is no selector, but the base of the segment
 * divided by 16.
 */
static bool is_8086_mode(const struct vms_regs *regs)
{
	return !vms_x86_64_is_long_mode(regs) &&
	       (!(regs->value[CR0] & CR0_PE) || (regs->value[EFLAGS] & EFLAGS_VM));
}

static bool x86_in_kernel(const struct vms_regs *regs)
{
	if (is_8086_mode(regs))
		return !(regs->value[CR0] & CR0_PE);
	return (regs->value[CS] & 3) == 0;
}

static bool x86_is_at_reset(const struct vms_regs *regs)
{
	return is_8086_mode(regs) && x86_in_kernel(regs) && regs->value[CS] == RESET_CS &&
	       regs->value[RIP] == RESET_IP;
}

/*
 * In real mode the selector tells the base, except from a reset to the first far jump. Of that time
 * this recognises only the first instruction.
 */
static bool x86_lacks_segments(const struct vms_regs *regs)
{
	return !vms_x86_64_is_long_mode(regs) && !vms_regs_have(regs, CS_ATTR) &&
	       (!is_8086_mode(regs) || x86_is_at_reset(regs));
}

/*
 * Returns the base of a segment. `base` is the index of the register that holds it; if that is not
 * known, the register `selector` tells.
 */
static uint64_t find_segment_base(const struct vms_regs *regs, unsigned selector, unsigned base)
{
	if (vms_regs_have(regs, base))
		return regs->value[base];
	return is_8086_mode(regs) ? regs->value[selector] * SEGMENT_PER : 0;
}

/*
 * See Intel SDM volume 3, "Code Segment Descriptor in 64-bit Mode" and "Real-Address Mode
 * Operation". A segment keeps its base when the mode changes, so in real mode the base is usually,
 * but not always, 16 times the selector.
 */
void vms_x86_64_code_mode(const struct vms_regs *regs, struct vms_code_mode *ret)
{
	const bool known = vms_regs_have(regs, CS_ATTR);
	const uint64_t attr = regs->value[CS_ATTR];
	/* Only 64-bit code is at addresses above 4 GiB. */
	const bool is_high = vms_x86_64_is_long_mode(regs) && regs->value[RIP] > UINT32_MAX;
	ret->is_certain = known || is_high || is_8086_mode(regs);
	if (vms_x86_64_is_long_mode(regs) && (!known || (attr & ATTR_LONG)))
		return;
	if (known)
		ret->bits = attr & ATTR_WIDE ? 32 : 16;
	else
		ret->bits = is_8086_mode(regs) ? 16 : 32;
	ret->code_base = find_segment_base(regs, CS, CS_BASE);
	ret->stack_base = find_segment_base(regs, SS, SS_BASE);
}

static bool x86_is_halted(const struct vms_regs *regs, const uint8_t *code)
{
	static const uint8_t mwait[] = { 0x0f, 0x01, 0xc9 };
	const uint8_t hlt = 0xf4;
	if (!x86_in_kernel(regs))
		return false;
	return code[VMS_HALT_BYTES - 1] == hlt ||
	       memcmp(code + VMS_HALT_BYTES - sizeof(mwait), mwait, sizeof(mwait)) == 0;
}

/*
 * With page table isolation (arch/x86/mm/pti.c of Linux) the root table is two pages: the kernel's
 * and, 4 KiB above, the user's. Both have the same entries for user addresses, but in the kernel's
 * page these are not executable. Two unrelated pages do not look like that.
 */
static void x86_kernel_root(struct vms_regs *regs, const struct vms_reader *phys)
{
	const uint64_t user_bit = 1 << 12;
	uint64_t user_root[256], kernel_root[256], any = 0;
	uint64_t root = regs->value[CR3] & PTE_ADDRESS;
	if (!(root & user_bit) || !vms_x86_64_is_long_mode(regs) ||
	    !phys->read(phys->data, root, user_root, sizeof(user_root)) ||
	    !phys->read(phys->data, root & ~user_bit, kernel_root, sizeof(kernel_root)))
		return;
	for (unsigned i = 0; i < G_N_ELEMENTS(user_root); i++) {
		if ((user_root[i] ^ kernel_root[i]) & PTE_ADDRESS)
			return;
		any |= user_root[i];
	}
	if (any & PTE_PRESENT)
		regs->value[CR3] &= ~user_bit;
}

static const char *x86_paging_mode(const struct vms_regs *regs)
{
	return find_paging(regs)->text;
}

/* Finds eax, ax, al, ah, r8d, r8w, r8b and their like. */
static bool x86_find_part(const char *name, struct vms_reg_part *ret)
{
	static const char *const parts[][4] = {
		[RAX] = { "eax", "ax", "al", "ah" }, [RBX] = { "ebx", "bx", "bl", "bh" },
		[RCX] = { "ecx", "cx", "cl", "ch" }, [RDX] = { "edx", "dx", "dl", "dh" },
		[RSI] = { "esi", "si", "sil" },	     [RDI] = { "edi", "di", "dil" },
		[RBP] = { "ebp", "bp", "bpl" },	     [RSP] = { "esp", "sp", "spl" },
		[R8] = { "r8d", "r8w", "r8b" },	     [R9] = { "r9d", "r9w", "r9b" },
		[R10] = { "r10d", "r10w", "r10b" },  [R11] = { "r11d", "r11w", "r11b" },
		[R12] = { "r12d", "r12w", "r12b" },  [R13] = { "r13d", "r13w", "r13b" },
		[R14] = { "r14d", "r14w", "r14b" },  [R15] = { "r15d", "r15w", "r15b" },
	};
	static const unsigned bits[] = { 32, 16, 8, 8 };
	for (unsigned reg = RAX; reg <= R15; reg++) {
		for (unsigned i = 0; i < G_N_ELEMENTS(bits) && parts[reg][i]; i++) {
			if (g_ascii_strcasecmp(name, parts[reg][i]) != 0)
				continue;
			*ret = (struct vms_reg_part) { reg, i == 3 ? 8 : 0, bits[i] };
			return true;
		}
	}
	return false;
}

const struct vms_arch vms_arch_x86_64 = {
	.name = "x86_64",
	.gdb_name = "i386:x86-64",
	.regs = registers,
	.n_regs = N_REGS,
	.pc = RIP,
	.sp = RSP,
	.fp = RBP,
	.arguments = { RDI, RSI, RDX, RCX, R8, R9 },
	.n_arguments = 6,
	.result = RAX,
	.find_part = x86_find_part,
	.translate = x86_translate,
	.each_page = x86_each_page,
	.is_kernel_address = x86_is_kernel_address,
	.in_kernel = x86_in_kernel,
	.code_mode = vms_x86_64_code_mode,
	.lacks_segments = x86_lacks_segments,
	.is_halted = x86_is_halted,
	.is_at_reset = x86_is_at_reset,
	.kernel_root = x86_kernel_root,
	.paging_mode = x86_paging_mode,
	.step_frame_pointer = vms_x86_64_step_frame,
	.step_frameless = vms_x86_64_step_frameless,
	.space = CR3,
	.breakpoint_size = 1,
	.capstone_arch = CS_ARCH_X86,
	.capstone_mode = CS_MODE_64,
};
