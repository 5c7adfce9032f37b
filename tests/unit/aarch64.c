/* SPDX-License-Identifier: MIT */
/*
 * Page tables laid out from the Arm Architecture Reference Manual, chapter "The AArch64 Virtual
 * Memory System Architecture", for every size of page; frame records and code as an assembler makes
 * them.
 */
#include "arch/aarch64.h"
#include <string.h>

#define PAGE  (UINT64_C(64) << 10) /* the largest: tables of all sizes are aligned to it */
#define PAGES 16

#define TABLE	  3
#define BLOCK	  1
#define USER	  (UINT64_C(1) << 6)
#define READ_ONLY (UINT64_C(1) << 7)
#define ACCESSED  (UINT64_C(1) << 10)
#define PXN	  (UINT64_C(1) << 53)
#define UXN	  (UINT64_C(1) << 54)

/* Guest-physical memory: PAGES pages from address 0. */
struct ram {
	uint8_t bytes[PAGES * PAGE];
	unsigned reads;
};

static bool ram_read(void *data, uint64_t pa, void *buf, size_t size)
{
	struct ram *ram = data;
	ram->reads++;
	if (pa > sizeof(ram->bytes) || size > sizeof(ram->bytes) - pa)
		return false;
	memcpy(buf, ram->bytes + pa, size);
	return true;
}

static void put64(struct ram *ram, uint64_t pa, uint64_t value)
{
	memcpy(ram->bytes + pa, &value, sizeof(value));
}

static void put_code(struct ram *ram, uint64_t pa, const uint32_t *code, size_t n)
{
	memcpy(ram->bytes + pa, code, n * sizeof(*code));
}

/* ---- page tables ------------------------------------------------------ */

/* What TCR_EL1 says, by its fields. */
struct tcr {
	unsigned t0sz, t1sz, tg0, tg1, ips;
	bool tbi0, epd1, hpd0, ds, hd;
};

static uint64_t encode_tcr(struct tcr tcr)
{
	return (uint64_t)tcr.t0sz | (uint64_t)tcr.t1sz << 16 | (uint64_t)tcr.tg0 << 14 |
	       (uint64_t)tcr.tg1 << 30 | (uint64_t)tcr.ips << 32 | (uint64_t)tcr.tbi0 << 37 |
	       (uint64_t)tcr.epd1 << 23 | (uint64_t)tcr.hpd0 << 41 | (uint64_t)tcr.ds << 59 |
	       (uint64_t)tcr.hd << 40;
}

/* TTBR0's tables at page 1, TTBR1's at page 2. */
static struct vms_regs registers(struct tcr tcr)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, SCTLR_EL1, 1);
	vms_regs_set(&regs, TCR_EL1, encode_tcr(tcr));
	vms_regs_set(&regs, TTBR0_EL1, PAGE | UINT64_C(0x42) << 48); /* with an ASID */
	vms_regs_set(&regs, TTBR1_EL1, 2 * PAGE | 1);		     /* CnP */
	vms_regs_set(&regs, CPSR, 5);
	return regs;
}

static bool translate(struct ram *ram, const struct vms_regs *regs, uint64_t va,
		      struct vms_page *page)
{
	struct vms_reader phys = { ram_read, ram };
	return vms_arch_aarch64.translate(regs, &phys, va, page);
}

/* Tables from page `at` on that lead to `va`, one below the other; gives where the last entry is.
 */
static uint64_t lay_tables(struct ram *ram, unsigned at, uint64_t va, unsigned bits,
			   unsigned page_shift, unsigned levels)
{
	const unsigned index_bits = page_shift - 3;
	uint64_t entry = 0;
	unsigned shift = page_shift;
	while (shift + index_bits < bits)
		shift += index_bits;
	for (unsigned i = 0; i < levels; i++, shift -= index_bits) {
		const unsigned used = MIN(index_bits, bits - shift);
		if (i > 0)
			put64(ram, entry, (uint64_t)at * PAGE | TABLE);
		entry = at * PAGE + (va >> shift & ((1u << used) - 1)) * 8;
		at = i == 0 ? at + 2 : at + 1; /* the two roots are neighbours */
	}
	return entry;
}

static const struct tcr tcr_4k = { .t0sz = 16, .t1sz = 16, .tg0 = 0, .tg1 = 2 };
static const struct tcr tcr_16k = { .t0sz = 17, .t1sz = 17, .tg0 = 2, .tg1 = 1 };
static const struct tcr tcr_64k = { .t0sz = 22, .t1sz = 22, .tg0 = 1, .tg1 = 3 };

static void check_page(struct ram *ram, const struct vms_regs *regs, uint64_t va, uint64_t page_va,
		       uint64_t pa, uint64_t size)
{
	struct vms_page page;
	g_assert_true(translate(ram, regs, va, &page));
	g_assert_cmphex(page.va, ==, page_va);
	g_assert_cmphex(page.pa, ==, pa);
	g_assert_cmphex(page.size, ==, size);
}

static void test_4k(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	const struct vms_regs regs = registers(tcr_4k);
	struct vms_page page;
	put64(ram, lay_tables(ram, 2, 0xffff800012345678, 48, 12, 4), 0xabcde000 | TABLE | UXN);
	check_page(ram, &regs, 0xffff800012345678, 0xffff800012345000, 0xabcde000, 4096);
	g_assert_false(translate(ram, &regs, 0x0000800012345678, &page)); /* the other half */
	g_assert_false(translate(ram, &regs, 0xffff800012346678, &page)); /* no entry */
	g_assert_false(translate(ram, &regs, 0xfffe800012345678, &page)); /* beyond 48 bits */

	put64(ram, lay_tables(ram, 2, 0xffff800012345678, 48, 12, 3), 0x40200000 | BLOCK);
	check_page(ram, &regs, 0xffff800012345678, 0xffff800012200000, 0x40200000, 2 << 20);
	put64(ram, lay_tables(ram, 2, 0xffff800012345678, 48, 12, 2), 0x80000000 | BLOCK);
	check_page(ram, &regs, 0xffff800012345678, 0xffff800000000000, 0x80000000, 1 << 30);
	/* No blocks at the first of four levels, and no pages by an entry like a block's. */
	put64(ram, lay_tables(ram, 2, 0xffff800012345678, 48, 12, 1), 0x80000000 | BLOCK);
	g_assert_false(translate(ram, &regs, 0xffff800012345678, &page));
	put64(ram, lay_tables(ram, 2, 0xffff800012345678, 48, 12, 4), 0xabcde000 | BLOCK);
	g_assert_false(translate(ram, &regs, 0xffff800012345678, &page));
}

static void test_16k(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	const struct vms_regs regs = registers(tcr_16k);
	struct vms_page page;
	put64(ram, lay_tables(ram, 1, 0x7ff012345678, 47, 14, 3), 0xabcdc000 | TABLE);
	check_page(ram, &regs, 0x7ff012345678, 0x7ff012344000, 0xabcdc000, 16384);
	put64(ram, lay_tables(ram, 1, 0x7ff012345678, 47, 14, 2), 0x44000000 | BLOCK);
	check_page(ram, &regs, 0x7ff012345678, 0x7ff012000000, 0x44000000, 32 << 20);
	put64(ram, lay_tables(ram, 1, 0x7ff012345678, 47, 14, 1), 0x44000000 | BLOCK);
	g_assert_false(translate(ram, &regs, 0x7ff012345678, &page));
}

static void test_64k(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	const struct vms_regs regs = registers(tcr_64k);
	put64(ram, lay_tables(ram, 2, 0xfffffe0012345678, 42, 16, 2), 0xabcd0000 | TABLE);
	check_page(ram, &regs, 0xfffffe0012345678, 0xfffffe0012340000, 0xabcd0000, 65536);
	put64(ram, lay_tables(ram, 2, 0xfffffe0012345678, 42, 16, 1), 0x60000000 | BLOCK);
	check_page(ram, &regs, 0xfffffe0012345678, 0xfffffe0000000000, 0x60000000, 512 << 20);
}

/* Addresses of 52 bits, virtual and physical, in each of the two ways. */
static void test_52_bits(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs =
		registers((struct tcr) { .t0sz = 12, .t1sz = 12, .tg1 = 2, .ds = true });
	put64(ram, lay_tables(ram, 2, 0xfff8000012345678, 52, 12, 5),
	      0x3ffffabcde000 | 2 << 8 | TABLE);
	check_page(ram, &regs, 0xfff8000012345678, 0xfff8000012345000, 0xbffffabcde000, 4096);
	put64(ram, lay_tables(ram, 2, 0xfff8000012345678, 52, 12, 2), 0x8000000000 | BLOCK);
	check_page(ram, &regs, 0xfff8000012345678, 0xfff8000000000000, 0x8000000000,
		   UINT64_C(512) << 30);
	struct vms_page page;
	regs.value[TTBR1_EL1] |= 1 << 2; /* a root above 48 bits, where there is no memory */
	g_assert_false(translate(ram, &regs, 0xfff8000012345678, &page));

	regs = registers((struct tcr) { .t0sz = 12, .t1sz = 12, .tg0 = 1, .tg1 = 3, .ips = 6 });
	put64(ram, lay_tables(ram, 1, 0xf800012345678, 52, 16, 3),
	      0xffffabcd0000 | 5 << 12 | TABLE);
	check_page(ram, &regs, 0xf800012345678, 0xf800012340000, 0x5ffffabcd0000, 65536);
}

static void test_permissions(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct tcr tcr = tcr_4k;
	struct vms_regs regs = registers(tcr);
	struct vms_page page;
	const uint64_t va = 0x12345678;
	const uint64_t entry = lay_tables(ram, 1, va, 48, 12, 4);
	const uint64_t table = lay_tables(ram, 1, va, 48, 12, 3); /* the entry above */
	uint64_t link;

	put64(ram, entry, 0xabc000 | USER | PXN | TABLE);
	g_assert_true(translate(ram, &regs, va, &page));
	g_assert_true(page.writable && page.user && page.executable);
	put64(ram, entry, 0xabc000 | READ_ONLY | PXN | UXN | TABLE);
	g_assert_true(translate(ram, &regs, va, &page));
	g_assert_false(page.writable || page.user || page.executable);
	put64(ram, entry, 0xabc000 | READ_ONLY | UINT64_C(1) << 51 | TABLE); /* DBM */
	g_assert_true(translate(ram, &regs, va, &page));
	g_assert_false(page.writable);
	tcr.hd = true;
	regs = registers(tcr);
	g_assert_true(translate(ram, &regs, va, &page));
	g_assert_true(page.writable);

	/* The table forbids all: APTable, UXNTable, PXNTable; unless nobody asks it. */
	memcpy(&link, ram->bytes + table, sizeof(link));
	put64(ram, table, link | UINT64_C(0xf) << 59);
	put64(ram, entry, 0xabc000 | USER | TABLE);
	g_assert_true(translate(ram, &regs, va, &page));
	g_assert_false(page.writable || page.user || page.executable);
	tcr.hpd0 = true;
	regs = registers(tcr);
	g_assert_true(translate(ram, &regs, va, &page));
	g_assert_true(page.writable && page.user && page.executable);
}

static void test_tags(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct tcr tcr = tcr_4k;
	struct vms_regs regs = registers(tcr);
	struct vms_page page;
	put64(ram, lay_tables(ram, 1, 0x12345678, 48, 12, 4), 0xabc000 | TABLE);
	g_assert_false(translate(ram, &regs, 0x3400000012345678, &page));
	tcr.tbi0 = true;
	regs = registers(tcr);
	check_page(ram, &regs, 0x3400000012345678, 0x3400000012345000, 0xabc000, 4096);
	g_assert_false(translate(ram, &regs, 0x3401000012345678, &page));
}

static void test_off(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct tcr tcr = tcr_4k;
	struct vms_regs regs = registers(tcr);
	struct vms_page page;
	put64(ram, lay_tables(ram, 2, 0xffff800012345678, 48, 12, 4), 0xabcde000 | TABLE);
	tcr.epd1 = true;
	regs = registers(tcr);
	g_assert_false(translate(ram, &regs, 0xffff800012345678, &page));
	regs.value[SCTLR_EL1] = 0;
	g_assert_true(translate(ram, &regs, 0x12345678, &page));
	g_assert_cmphex(page.pa, ==, 0x12345000);
	g_assert_cmpstr(vms_arch_aarch64.paging_mode(&regs), ==, "paging off");
	/* Sizes that no processor has: a page that is larger than the address space, and 2^64. */
	for (unsigned size = 0; size < 64; size++) {
		regs = registers(
			(struct tcr) { .t0sz = size, .t1sz = size, .tg0 = 3, .tg1 = size % 4 });
		translate(ram, &regs, 0xffff800012345678, &page);
		translate(ram, &regs, 0x12345678, &page);
	}
}

#define STEPS 20000000 /* entries that may be looked at */

static bool keep_page(const struct vms_page *page, void *data)
{
	g_array_append_vals(data, page, 1);
	return true;
}

static GArray *list_pages(struct ram *ram, const struct vms_regs *regs, uint64_t va, uint64_t last)
{
	struct vms_reader phys = { ram_read, ram };
	GArray *pages = g_array_new(FALSE, FALSE, sizeof(struct vms_page));
	uint64_t steps = STEPS;
	vms_arch_aarch64.each_page(regs, &phys, va, last, &steps, keep_page, pages);
	return pages;
}

static void test_list(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct tcr tcr = tcr_4k;
	tcr.tbi0 = true; /* tagged addresses are no further pages */
	const struct vms_regs regs = registers(tcr);
	uint64_t entry = lay_tables(ram, 2, 0xffff800012345678, 48, 12, 4);
	put64(ram, entry, 0xabcde000 | TABLE);
	put64(ram, entry + 16, 0xabcdf000 | TABLE);
	put64(ram, 2 * PAGE + 511 * 8, 8 * PAGE | TABLE); /* the topmost page of all */
	put64(ram, 8 * PAGE + 511 * 8, 8 * PAGE | TABLE);
	put64(ram, lay_tables(ram, 1, 0xffffffff000, 48, 12, 1), 7 * PAGE | TABLE);
	put64(ram, 7 * PAGE + 511 * 8, 0x40000000 | BLOCK);

	const uint64_t expected[] = { 0xfffc0000000, 0xffff800012345000, 0xffff800012347000 };
	g_autoptr(GArray) pages = list_pages(ram, &regs, 0, 0xffff8fffffffffff);
	g_assert_cmpuint(pages->len, ==, G_N_ELEMENTS(expected));
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
		g_assert_cmphex(g_array_index(pages, struct vms_page, i).va, ==, expected[i]);
	g_assert_cmpuint(ram->reads, <, 20); /* each table once, not each entry */
	g_autoptr(GArray) top = list_pages(ram, &regs, 0xfffffffffffff000, UINT64_MAX);
	g_assert_cmpuint(top->len, ==, 1);
}

/* Full tables above an empty one: the same nothing, for ever. */
static void test_endless_tables(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	const struct vms_regs regs = registers(tcr_4k);
	for (unsigned i = 0; i < 512; i++) {
		put64(ram, 2 * PAGE + i * 8, 3 * PAGE | TABLE);
		put64(ram, 3 * PAGE + i * 8, 4 * PAGE | TABLE);
		put64(ram, 4 * PAGE + i * 8, 5 * PAGE | TABLE);
	}
	g_autoptr(GArray) pages = list_pages(ram, &regs, 0, UINT64_MAX);
	g_assert_cmpuint(pages->len, ==, 0);
	g_assert_cmpuint(ram->reads, <, 1000000);
}

/*
 * Page table isolation: tramp_pg_dir maps a page of entry code, and the kernel's own tables, two
 * pages of 4 KiB above, that and more.
 */
static void test_isolated_kernel(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader phys = { ram_read, ram };
	struct vms_regs regs = registers(tcr_4k);
	const uint64_t code = 0xfffffbfffda00000, root = 2 * PAGE, kernel = root + 2 * 4096;
	const unsigned index = code >> 39 & 511;
	put64(ram, lay_tables(ram, 2, code, 48, 12, 4), 0x40234000 | TABLE);

	/* Neighbours that do not map the code, and one that maps something else there. */
	vms_arch_aarch64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[TTBR1_EL1], ==, root | 1);
	put64(ram, kernel + 256 * 8, 10 * PAGE | TABLE);
	put64(ram, kernel + index * 8, 4 * PAGE | TABLE);
	put64(ram, lay_tables(ram, 2, code, 48, 12, 1), 4 * PAGE | TABLE);
	vms_arch_aarch64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[TTBR1_EL1], ==, kernel | 1);

	regs.value[TTBR1_EL1] = kernel | 1; /* the kernel's stay */
	vms_arch_aarch64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[TTBR1_EL1], ==, kernel | 1);
}

/* ---- code ------------------------------------------------------------- */

#define CODE  0x4000 /* the caller */
#define LEAF  0x4100 /* what it calls */
#define STACK 0x8000

enum {
	NOP = (int)0xd503201f,
	RET = (int)0xd65f03c0,
	STP_X29_X30_PUSH = (int)0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
	MOV_X29_SP = (int)0x910003fd,
	BL_LEAF = (int)0x94000040, /* 0x100 ahead */
	BLR_X1 = (int)0xd63f0020,
	WFI = (int)0xd503207f,
	WFE = (int)0xd503205f,
};

static struct vms_regs user_registers(uint64_t pc, uint64_t link)
{
	struct vms_regs regs = registers(tcr_4k);
	vms_regs_set(&regs, CPSR, 0);
	vms_regs_set(&regs, PC, pc);
	vms_regs_set(&regs, X29, STACK);
	vms_regs_set(&regs, X30, link);
	vms_regs_set(&regs, SP, STACK - 0x40);
	return regs;
}

/* Code, and a frame record that leads to 0x5678. */
static struct ram *program(void)
{
	struct ram *ram = g_new0(struct ram, 1);
	const uint32_t caller[] = { (uint32_t)BL_LEAF, (uint32_t)NOP };
	const uint32_t leaf[] = { (uint32_t)NOP, (uint32_t)STP_X29_X30_PUSH, (uint32_t)MOV_X29_SP,
				  (uint32_t)NOP, (uint32_t)BLR_X1,	     (uint32_t)NOP,
				  (uint32_t)RET };
	put_code(ram, CODE, caller, G_N_ELEMENTS(caller));
	put_code(ram, LEAF, leaf, G_N_ELEMENTS(leaf));
	put64(ram, STACK, STACK + 0x40);
	put64(ram, STACK + 8, 0x5678);
	return ram;
}

/* The tables of the entry code lead to many empty ones: these are not all read for every sample. */
static void test_isolated_endless(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader phys = { ram_read, ram };
	struct vms_regs regs = registers(tcr_4k);
	put64(ram, 2 * PAGE + 8, 3 * PAGE | TABLE);
	for (unsigned i = 0; i < 512; i++) {
		put64(ram, 3 * PAGE + i * 8, 4 * PAGE | TABLE);
		put64(ram, 4 * PAGE + i * 8, (5 + i % 2) * PAGE | TABLE);
	}
	vms_arch_aarch64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[TTBR1_EL1], ==, 2 * PAGE | 1);
	g_assert_cmpuint(ram->reads, <, 100);
}

static void test_frame_records(void)
{
	g_autofree struct ram *ram = program();
	struct vms_reader memory = { ram_read, ram };
	struct vms_regs regs = user_registers(LEAF + 20, LEAF + 20);
	put64(ram, STACK + 8, 0x7a000000005678); /* signed */
	g_assert_true(vms_arch_aarch64.step_frame_pointer(&regs, &memory));
	g_assert_cmphex(regs.value[PC], ==, 0x5678);
	g_assert_cmphex(regs.value[SP], ==, STACK + 16);
	g_assert_cmphex(regs.value[X29], ==, STACK + 0x40);
	g_assert_false(vms_arch_aarch64.step_frame_pointer(&regs, &memory)); /* returns to 0 */
	regs.value[X29] = 0x10000000;
	g_assert_false(vms_arch_aarch64.step_frame_pointer(&regs, &memory));
}

static void check_step(struct ram *ram, uint64_t pc, uint64_t link, uint64_t expected)
{
	struct vms_reader memory = { ram_read, ram };
	struct vms_regs regs = user_registers(pc, link);
	const struct vms_arch *arch = &vms_arch_aarch64;
	g_assert_true(arch->step_frameless(&regs, &memory) ||
		      arch->step_frame_pointer(&regs, &memory));
	g_assert_cmphex(regs.value[PC], ==, expected);
	g_assert_cmphex(regs.value[X29], ==, expected == 0x5678 ? STACK + 0x40 : STACK);
}

/* Where the innermost function has no frame record yet, or no more, x30 leads to its caller. */
static void test_link_register(void)
{
	g_autofree struct ram *ram = program();
	check_step(ram, LEAF, CODE + 4, CODE + 4);
	check_step(ram, LEAF + 4, CODE + 4, CODE + 4);	/* before the push */
	check_step(ram, LEAF + 8, CODE + 4, CODE + 4);	/* before x29 points to it */
	check_step(ram, LEAF + 12, CODE + 4, 0x5678);	/* the record is complete */
	check_step(ram, LEAF + 20, LEAF + 20, 0x5678);	/* after a call of its own */
	check_step(ram, LEAF + 24, CODE + 4, CODE + 4); /* about to return */
	check_step(ram, LEAF + 24, CODE, 0x5678);	/* x30 is anything */
	check_step(ram, LEAF + 0x3000, CODE + 4, 0x5678);
	check_step(ram, LEAF, UINT64_C(0x55000000000000) | (CODE + 4), CODE + 4);
}

/* A leaf that was called through a procedure linkage table. */
static void test_linkage_table(void)
{
	g_autofree struct ram *ram = program();
	const uint32_t entry[] = { 0xd503245f /* bti c */, 0xb0000010 /* adrp x16, 1 page ahead */,
				   0xf9400611 /* ldr x17, [x16, #8] */, 0xd61f0220 /* br x17 */ };
	put_code(ram, LEAF, entry, G_N_ELEMENTS(entry));
	put64(ram, 0x5008, 0x6000);
	put_code(ram, 0x6000, (const uint32_t[]) { (uint32_t)NOP, (uint32_t)NOP }, 2);
	check_step(ram, 0x6004, CODE + 4, CODE + 4);
	put64(ram, 0x5008, 0x6100);
	check_step(ram, 0x6004, CODE + 4, 0x5678);
}

static void test_calls(void)
{
	g_autofree struct ram *ram = program();
	struct vms_reader memory = { ram_read, ram };
	g_assert_true(vms_aarch64_is_after_call(&memory, CODE + 4));
	g_assert_true(vms_aarch64_is_after_call(&memory, LEAF + 20));
	g_assert_false(vms_aarch64_is_after_call(&memory, CODE + 8));
	g_assert_false(vms_aarch64_is_after_call(&memory, UINT64_C(1) << 40));
}

static void test_pointer_authentication(void)
{
	struct vms_regs regs = registers(tcr_4k);
	g_assert_cmphex(vms_aarch64_strip_pac(&regs, 0xa082ca6c5f7af514), ==, 0xffffca6c5f7af514);
	g_assert_cmphex(vms_aarch64_strip_pac(&regs, 0x5a2aca6c5f7af514), ==, 0x0000ca6c5f7af514);
	regs = registers((struct tcr) { .t0sz = 12, .t1sz = 12, .tg1 = 2, .ds = true });
	g_assert_cmphex(vms_aarch64_strip_pac(&regs, 0xa088ca6c5f7af514), ==, 0xfff8ca6c5f7af514);
}

static void test_halted(void)
{
	const uint32_t wfi = (uint32_t)WFI, wfe = (uint32_t)WFE;
	struct vms_regs regs = registers(tcr_4k);
	g_assert_true(vms_arch_aarch64.is_halted(&regs, (const uint8_t *)&wfi));
	g_assert_false(vms_arch_aarch64.is_halted(&regs, (const uint8_t *)&wfe));
	vms_regs_set(&regs, CPSR, 0);
	g_assert_false(vms_arch_aarch64.is_halted(&regs, (const uint8_t *)&wfi));
}

/* A vCPU calls CPU_OFF of PSCI (ARM DEN 0022) by "hvc #0" or "smc #0", or was never started. */
static void test_turned_off(void)
{
	const uint32_t calls[] = { 0xd4000002, 0xd4000003 };
	struct vms_regs regs = registers(tcr_4k);
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		vms_regs_set(&regs, X0, 0x84000002);
		g_assert_true(vms_arch_aarch64.is_halted(&regs, (const uint8_t *)&calls[i]));
		vms_regs_set(&regs, X0, 0); /* the result of another call */
		g_assert_false(vms_arch_aarch64.is_halted(&regs, (const uint8_t *)&calls[i]));
	}
	vms_regs_set(&regs, PC, 0);
	g_assert_true(vms_arch_aarch64.is_at_reset(&regs));
	vms_regs_set(&regs, PC, 4);
	g_assert_false(vms_arch_aarch64.is_at_reset(&regs));
}

static void test_modes(void)
{
	struct vms_regs regs = registers(tcr_64k);
	g_assert_true(vms_arch_aarch64.in_kernel(&regs));
	vms_regs_set(&regs, CPSR, 0x80000000);
	g_assert_false(vms_arch_aarch64.in_kernel(&regs));
	vms_regs_set(&regs, CPSR, 0x10); /* a program of 32 bits */
	g_assert_false(vms_arch_aarch64.in_kernel(&regs));
	g_assert_true(vms_arch_aarch64.is_kernel_address(0xfff0000000000000));
	g_assert_false(vms_arch_aarch64.is_kernel_address(0x00ffffffffffffff));
	g_assert_cmpstr(vms_arch_aarch64.paging_mode(&regs), ==,
			"2-level paging, 64 KiB pages, 42-bit virtual addresses");
}

static bool keep_insn(const struct vms_insn *insn, void *data)
{
	g_array_append_vals(data, insn, 1);
	return true;
}

static void test_disassembly(void)
{
	const uint32_t code[] = { (uint32_t)BL_LEAF, 0xb4000080 /* cbz x0, 16 ahead */,
				  (uint32_t)RET, 0xffffffff /* no instruction */, (uint32_t)NOP };
	g_autoptr(GArray) insns = g_array_new(FALSE, FALSE, sizeof(struct vms_insn));
	g_assert_true(vms_disassemble(&vms_arch_aarch64, 64, 0, CODE, (const uint8_t *)code,
				      sizeof(code), keep_insn, insns, NULL));
	const struct vms_insn *insn = &g_array_index(insns, struct vms_insn, 0);
	g_assert_cmpuint(insns->len, ==, 5);
	g_assert_cmpstr(insn[0].text, ==, "bl #0x4100");
	g_assert_cmphex(insn[0].branch_target, ==, LEAF);
	g_assert_cmphex(insn[1].branch_target, ==, CODE + 4 + 16);
	g_assert_true(insn[2].is_return);
	g_assert_cmpuint(insn[3].size, ==, 4);
	g_assert_false(insn[3].is_return);
	g_assert_cmpstr(insn[4].text, ==, "nop");
}

static void test_names(void)
{
	g_assert_true(vms_arch_by_name("aarch64") == &vms_arch_aarch64);
	g_assert_true(vms_arch_by_name("arm64") == &vms_arch_aarch64);
	g_assert_cmpint(vms_arch_reg(&vms_arch_aarch64, "x29"), ==, X29);
	g_assert_cmpint(vms_arch_reg(&vms_arch_aarch64, "cpsr"), ==, CPSR);
	g_assert_cmpint(vms_arch_reg(&vms_arch_aarch64, "TTBR1_EL1"), ==, TTBR1_EL1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/aarch64/4k", test_4k);
	g_test_add_func("/aarch64/16k", test_16k);
	g_test_add_func("/aarch64/64k", test_64k);
	g_test_add_func("/aarch64/52-bits", test_52_bits);
	g_test_add_func("/aarch64/permissions", test_permissions);
	g_test_add_func("/aarch64/tags", test_tags);
	g_test_add_func("/aarch64/off", test_off);
	g_test_add_func("/aarch64/list", test_list);
	if (g_test_slow())
		g_test_add_func("/aarch64/endless-tables", test_endless_tables);
	g_test_add_func("/aarch64/isolated-kernel", test_isolated_kernel);
	g_test_add_func("/aarch64/isolated-endless", test_isolated_endless);
	g_test_add_func("/aarch64/frame-records", test_frame_records);
	g_test_add_func("/aarch64/link-register", test_link_register);
	g_test_add_func("/aarch64/linkage-table", test_linkage_table);
	g_test_add_func("/aarch64/calls", test_calls);
	g_test_add_func("/aarch64/pointer-authentication", test_pointer_authentication);
	g_test_add_func("/aarch64/halted", test_halted);
	g_test_add_func("/aarch64/turned-off", test_turned_off);
	g_test_add_func("/aarch64/modes", test_modes);
	g_test_add_func("/aarch64/disassembly", test_disassembly);
	g_test_add_func("/aarch64/names", test_names);
	return g_test_run();
}
