/* SPDX-License-Identifier: MIT */
/*
 * Page tables laid out by hand from the Intel SDM, volume 3, chapter "Paging": what each mode must
 * find, and what tables that no processor would be given must not do.
 */
#include "arch/x86_64.h"
#include <string.h>

#define PAGES	64
#define PRESENT 1
#define WRITE	2
#define USER	4
#define LARGE	0x80
#define NX	(UINT64_C(1) << 63)
#define ALL	(PRESENT | WRITE | USER)

/* Guest-physical memory: PAGES pages from address 0. */
struct ram {
	uint8_t bytes[PAGES * 4096];
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

static void put32(struct ram *ram, uint64_t pa, uint32_t value)
{
	memcpy(ram->bytes + pa, &value, sizeof(value));
}

static struct vms_regs registers(uint64_t cr3, bool la57)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CR0, UINT64_C(0x80000001));
	vms_regs_set(&regs, CR3, cr3);
	vms_regs_set(&regs, CR4, 0x20 | (la57 ? 0x1000 : 0));
	vms_regs_set(&regs, EFER, 0x500);
	return regs;
}

static bool translate(struct ram *ram, const struct vms_regs *regs, uint64_t va,
		      struct vms_page *page)
{
	struct vms_reader phys = { ram_read, ram };
	return vms_arch_x86_64.translate(regs, &phys, va, page);
}

/* 0xffffffff81234567: entries 511, 510, 9, 0x34, with a table of each level. */
static void fill_4_levels(struct ram *ram)
{
	put64(ram, 0x1000 + 511 * 8, 0x2000 | ALL);
	put64(ram, 0x2000 + 510 * 8, 0x3000 | ALL);
	put64(ram, 0x3000 + 9 * 8, 0x4000 | ALL);
	put64(ram, 0x4000 + 0x34 * 8, UINT64_C(0xabcde000) | PRESENT | NX);
	put64(ram, 0x3000 + 10 * 8, UINT64_C(0x40000000) | PRESENT | WRITE | LARGE);
	put64(ram, 0x2000 + 511 * 8, UINT64_C(0x80000000) | PRESENT | USER | LARGE);
}

static void test_4_levels(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1000, false);
	struct vms_page page;
	fill_4_levels(ram);

	g_assert_true(translate(ram, &regs, 0xffffffff81234567, &page));
	g_assert_cmphex(page.va, ==, 0xffffffff81234000);
	g_assert_cmphex(page.pa, ==, 0xabcde000);
	g_assert_cmphex(page.size, ==, 4096);
	g_assert_false(page.writable);
	g_assert_false(page.user);
	g_assert_false(page.executable);

	g_assert_true(translate(ram, &regs, 0xffffffff81400000 + 0x12345, &page));
	g_assert_cmphex(page.va, ==, 0xffffffff81400000);
	g_assert_cmphex(page.pa, ==, 0x40000000);
	g_assert_cmphex(page.size, ==, 0x200000);
	g_assert_true(page.writable);
	g_assert_true(page.executable);

	g_assert_true(translate(ram, &regs, 0xffffffffc1234567, &page));
	g_assert_cmphex(page.va, ==, 0xffffffffc0000000);
	g_assert_cmphex(page.pa, ==, 0x80000000);
	g_assert_cmphex(page.size, ==, 0x40000000);
	g_assert_false(page.writable);
	g_assert_true(page.user);
}

/* A page may be used in a way only if the entries of all levels allow it. */
static void test_rights(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	const struct vms_regs regs = registers(0x1000, false);
	struct vms_page page;
	for (unsigned level = 0; level <= 4; level++) { /* the entry that allows nothing; 4: none */
		for (unsigned i = 0; i < 4; i++)
			put64(ram, 0x1000 + i * 0x1000,
			      (0x2000 + i * 0x1000) | (i == level ? PRESENT | NX : ALL));
		g_assert_true(translate(ram, &regs, 0x123, &page));
		g_assert_cmphex(page.pa, ==, 0x5000);
		g_assert_cmpint(page.user, ==, level == 4);
		g_assert_cmpint(page.writable, ==, level == 4);
		g_assert_cmpint(page.executable, ==, level == 4);
	}
}

static void test_not_mapped(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1000, false);
	struct vms_page page;
	fill_4_levels(ram);

	g_assert_false(translate(ram, &regs, 0xffffffff81235000, &page)); /* no entry */
	g_assert_false(translate(ram, &regs, 0xffff7fff81234567, &page)); /* not canonical */
	g_assert_false(translate(ram, &regs, 0x1000, &page));
	put64(ram, 0x1000 + 511 * 8, UINT64_C(0xffffffff000) | ALL); /* a table outside of RAM */
	g_assert_false(translate(ram, &regs, 0xffffffff81234567, &page));
}

static void test_5_levels(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x5000, true);
	struct vms_page page;
	fill_4_levels(ram);
	put64(ram, 0x5000 + 511 * 8, 0x1000 | ALL);
	put64(ram, 0x5000 + 256 * 8, 0x1000 | ALL); /* 0xff00000000000000 and up */

	g_assert_true(translate(ram, &regs, 0xffffffff81234567, &page));
	g_assert_cmphex(page.pa, ==, 0xabcde000);
	g_assert_true(translate(ram, &regs, 0xff00ffff81234567, &page));
	g_assert_cmphex(page.va, ==, 0xff00ffff81234000);
	g_assert_cmpstr(vms_arch_x86_64.paging_mode(&regs), ==,
			"5-level paging, 57-bit virtual addresses");
}

static void test_pae(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1020, false); /* the first table is 32 bytes long */
	struct vms_page page;
	regs.value[EFER] = 0;
	put64(ram, 0x1020 + 3 * 8, 0x2000 | PRESENT);
	put64(ram, 0x2000 + 1 * 8, 0x3000 | ALL);
	put64(ram, 0x3000 + 2 * 8, 0x7000 | ALL);
	put64(ram, 0x2000 + 2 * 8, 0x600000 | ALL | LARGE);

	g_assert_true(translate(ram, &regs, 0xc0202abc, &page));
	g_assert_cmphex(page.pa, ==, 0x7000);
	g_assert_true(page.writable && page.user);
	g_assert_true(translate(ram, &regs, 0xc0400000, &page));
	g_assert_cmphex(page.pa, ==, 0x600000);
	g_assert_cmphex(page.size, ==, 0x200000);
	g_assert_false(translate(ram, &regs, UINT64_C(0x1c0202abc), &page));
}

static void test_32_bit(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1000, false);
	struct vms_page page;
	regs.value[EFER] = 0;
	regs.value[CR4] = 0;
	put32(ram, 0x1000 + 0x300 * 4, 0x2000 | ALL);
	put32(ram, 0x2000 + 5 * 4, 0x9000 | ALL);
	put32(ram, 0x1000 + 0x301 * 4, 0xc00000 | ALL | LARGE);

	g_assert_true(translate(ram, &regs, 0xc0005123, &page));
	g_assert_cmphex(page.pa, ==, 0x9000);
	g_assert_true(page.executable);
	g_assert_true(translate(ram, &regs, 0xc0512345, &page));
	g_assert_cmphex(page.pa, ==, 0xc00000);
	g_assert_cmphex(page.size, ==, 0x400000);
}

static void test_paging_off(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = { 0 };
	struct vms_page page;
	g_assert_true(translate(ram, &regs, 0x12345, &page));
	g_assert_cmphex(page.pa, ==, 0x12000);
	g_assert_cmphex(page.va, ==, 0x12000);
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
	vms_arch_x86_64.each_page(regs, &phys, va, last, &steps, keep_page, pages);
	return pages;
}

static void test_list(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1000, false);
	fill_4_levels(ram);
	put64(ram, 0x1000, 0x6000 | ALL); /* a page of the lower half, beyond which lies the hole */
	put64(ram, 0x6000 + 511 * 8, UINT64_C(0x40000000) | ALL | LARGE);

	const uint64_t expected[] = { UINT64_C(511) << 30, 0xffffffff81234000, 0xffffffff81400000,
				      0xffffffffc0000000 };
	g_autoptr(GArray) pages = list_pages(ram, &regs, 0, UINT64_MAX);
	g_assert_cmpuint(pages->len, ==, G_N_ELEMENTS(expected));
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
		g_assert_cmphex(g_array_index(pages, struct vms_page, i).va, ==, expected[i]);
	g_assert_cmpuint(ram->reads, <, 600); /* each table once, not each entry */

	g_autoptr(GArray) some = list_pages(ram, &regs, 0xffffffff81300000, 0xffffffffbfffffff);
	g_assert_cmpuint(some->len, ==, 1);
}

/* Four levels of full tables above an empty one: 512^3 times the same nothing. */
static void test_endless_tables(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1000, false);
	for (unsigned i = 0; i < 512; i++) {
		put64(ram, 0x1000 + i * 8, 0x2000 | ALL);
		put64(ram, 0x2000 + i * 8, 0x3000 | ALL);
		put64(ram, 0x3000 + i * 8, 0x4000 | ALL);
	}
	g_autoptr(GArray) pages = list_pages(ram, &regs, 0, UINT64_MAX);
	g_assert_cmpuint(pages->len, ==, 0);
	g_assert_cmpuint(ram->reads, <, 1000000);
}

/* One page among a million entries, over and over: no row of empty ones is long enough to tell. */
static void test_sparse_tables(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader phys = { ram_read, ram };
	struct vms_regs regs = registers(0x1000, false);
	g_autoptr(GArray) pages = g_array_new(FALSE, FALSE, sizeof(struct vms_page));
	for (unsigned i = 0; i < 512; i++) {
		put64(ram, 0x1000 + i * 8, 0x2000 | ALL);
		put64(ram, 0x2000 + i * 8, 0x3000 | ALL);
		put64(ram, 0x3000 + i * 8, (i ? 0x4000 : 0x5000) | ALL);
	}
	put64(ram, 0x5000, 0x6000 | ALL);
	uint64_t steps = 3000000;
	vms_arch_x86_64.each_page(&regs, &phys, 0, UINT64_MAX, &steps, keep_page, pages);
	g_assert_cmpuint(steps, ==, 0);
	g_assert_cmpuint(pages->len, ==, 3000000 / (512 * 512) + 1);
}

/* A table that is its own child at every level. */
static void test_cyclic_tables(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_regs regs = registers(0x1000, true);
	struct vms_page page;
	for (unsigned i = 0; i < 512; i++)
		put64(ram, 0x1000 + i * 8, 0x1000 | ALL);
	g_assert_true(translate(ram, &regs, 0xffffffff81234567, &page));
	g_assert_cmphex(page.pa, ==, 0x1000);
	g_assert_cmpuint(ram->reads, ==, 5);
}

static void test_isolated_kernel(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader phys = { ram_read, ram };
	/* The pair of root tables: kernel at 0x8000, user at 0x9000. */
	put64(ram, 0x8000 + 3 * 8, 0x20000 | ALL | NX);
	put64(ram, 0x9000 + 3 * 8, 0x20000 | ALL);
	put64(ram, 0x8000 + 511 * 8, 0x21000 | ALL);

	struct vms_regs regs = registers(0x9000 | 0x801, false); /* with a PCID */
	vms_arch_x86_64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[CR3], ==, 0x8801);

	regs = registers(0x8000, false); /* the kernel's stays */
	vms_arch_x86_64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[CR3], ==, 0x8000);

	put64(ram, 0x8000 + 4 * 8, 0x22000 | ALL); /* two tables that are no pair */
	regs = registers(0x9000, false);
	vms_arch_x86_64.kernel_root(&regs, &phys);
	g_assert_cmphex(regs.value[CR3], ==, 0x9000);
}

static void test_halted(void)
{
	const uint8_t hlt[VMS_HALT_BYTES] = { 0, 0, 0xfb, 0xf4 };
	const uint8_t mwait[VMS_HALT_BYTES] = { 0, 0x0f, 0x01, 0xc9 };
	const uint8_t other[VMS_HALT_BYTES] = { 0xf4, 0x90, 0x90, 0x90 };
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CS, 0x10);
	g_assert_true(vms_arch_x86_64.is_halted(&regs, hlt));
	g_assert_true(vms_arch_x86_64.is_halted(&regs, mwait));
	g_assert_false(vms_arch_x86_64.is_halted(&regs, other));
	vms_regs_set(&regs, CS, 0x33); /* user mode cannot halt */
	g_assert_false(vms_arch_x86_64.is_halted(&regs, hlt));
}

/* The state after INIT (Intel SDM volume 3, "Processor State After Reset"). */
static void test_at_reset(void)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CR0, 0x60000010);
	vms_regs_set(&regs, CS, 0xf000);
	vms_regs_set(&regs, RIP, 0xfff0);
	g_assert_true(vms_arch_x86_64.is_at_reset(&regs));
	vms_regs_set(&regs, RIP, 0xfff3);
	g_assert_false(vms_arch_x86_64.is_at_reset(&regs));
	vms_regs_set(&regs, RIP, 0xfff0);
	vms_regs_set(&regs, CR0, 0x60000011); /* protected mode */
	g_assert_false(vms_arch_x86_64.is_at_reset(&regs));
}

static void test_frame_pointer(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader memory = { ram_read, ram };
	struct vms_regs regs = { 0 };
	put64(ram, 0x2000, 0x2040);
	put64(ram, 0x2008, 0x401234);
	vms_regs_set(&regs, RBP, 0x2000);
	g_assert_true(vms_arch_x86_64.step_frame_pointer(&regs, &memory));
	g_assert_cmphex(regs.value[RIP], ==, 0x401234);
	g_assert_cmphex(regs.value[RSP], ==, 0x2010);
	g_assert_cmphex(regs.value[RBP], ==, 0x2040);
	g_assert_false(vms_arch_x86_64.step_frame_pointer(&regs, &memory)); /* returns to 0 */
	regs.value[RBP] = 0x10000000;
	g_assert_false(vms_arch_x86_64.step_frame_pointer(&regs, &memory));
}

static struct vms_code_mode mode_of(const struct vms_regs *regs)
{
	struct vms_code_mode mode;
	vms_arch_code_mode(&vms_arch_x86_64, regs, &mode);
	return mode;
}

/* Firmware: CS is no selector there, and its low bits are no privilege. */
static void test_real_mode(void)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CR0, 0x10);
	vms_regs_set(&regs, EFER, 0);
	vms_regs_set(&regs, CS, 0xc983);
	vms_regs_set(&regs, SS, 0x9000);
	vms_regs_set(&regs, RIP, 0xb7ee);
	vms_regs_set(&regs, RSP, 0x1000);
	vms_regs_set(&regs, RBP, 0x1010);
	g_assert_true(vms_arch_x86_64.in_kernel(&regs));
	g_assert_false(vms_arch_x86_64.lacks_segments(&regs)); /* the selector tells */
	g_assert_cmpuint(mode_of(&regs).bits, ==, 16);
	g_assert_true(mode_of(&regs).is_certain);
	g_assert_cmphex(vms_arch_code_address(&vms_arch_x86_64, &regs), ==, 0xc9830 + 0xb7ee);

	/* After a reset the base is not that of the selector. */
	vms_regs_set(&regs, CS, 0xf000);
	vms_regs_set(&regs, RIP, 0xfff0);
	g_assert_true(vms_arch_x86_64.lacks_segments(&regs));
	vms_regs_set(&regs, RIP, 0xb7ee);
	vms_regs_set(&regs, CS_BASE, 0xffff0000);
	vms_regs_set(&regs, CS_ATTR, 0x9b);
	vms_regs_set(&regs, SS_BASE, 0x80000);
	g_assert_false(vms_arch_x86_64.lacks_segments(&regs));
	vms_arch_flatten(&vms_arch_x86_64, &regs);
	g_assert_cmphex(regs.value[RIP], ==, 0xffffb7ee);
	g_assert_cmphex(regs.value[RSP], ==, 0x81000);
	g_assert_cmphex(regs.value[RBP], ==, 0x81010);
}

/* Of code that no segment tells: compatibility mode has 32-bit code below 4 GiB. */
static void test_beyond_4_gib(void)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CR0, 0x80000011);
	vms_regs_set(&regs, EFER, 0x500);
	vms_regs_set(&regs, RIP, 0xffffffff);
	g_assert_cmpuint(mode_of(&regs).bits, ==, 64);
	g_assert_false(mode_of(&regs).is_certain);
	vms_regs_set(&regs, RIP, 0xffffffff81000000);
	g_assert_cmpuint(mode_of(&regs).bits, ==, 64);
	g_assert_true(mode_of(&regs).is_certain);
}

static void test_protected_mode(void)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CR0, 0x11);
	vms_regs_set(&regs, EFER, 0);
	vms_regs_set(&regs, CS, 0x1b);
	vms_regs_set(&regs, RIP, 0x1234);
	g_assert_false(vms_arch_x86_64.in_kernel(&regs));
	g_assert_true(vms_arch_x86_64.lacks_segments(&regs));
	g_assert_cmpuint(mode_of(&regs).bits, ==, 32);
	g_assert_false(mode_of(&regs).is_certain);
	vms_regs_set(&regs, CS_BASE, 0xf0000);
	vms_regs_set(&regs, CS_ATTR, 0x9b); /* a descriptor of 16-bit code */
	g_assert_cmpuint(mode_of(&regs).bits, ==, 16);
	g_assert_true(mode_of(&regs).is_certain);
	g_assert_cmphex(vms_arch_code_address(&vms_arch_x86_64, &regs), ==, 0xf1234);
	vms_regs_set(&regs, CS_ATTR, 0xc09b);
	g_assert_cmpuint(mode_of(&regs).bits, ==, 32);
	vms_regs_set(&regs, EFLAGS, 1 << 17); /* virtual-8086 mode, of a user */
	vms_regs_forget(&regs, CS_ATTR);
	vms_regs_forget(&regs, CS_BASE);
	vms_regs_set(&regs, CS, 0x1000);
	g_assert_cmpuint(mode_of(&regs).bits, ==, 16);
	g_assert_cmphex(mode_of(&regs).code_base, ==, 0x10000);
	g_assert_false(vms_arch_x86_64.in_kernel(&regs));
}

static void test_long_mode(void)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, RIP, UINT64_C(0xffffffff81000000));
	g_assert_cmpuint(mode_of(&regs).bits, ==, 64); /* nothing else is known */
	vms_regs_set(&regs, CR0, 0x80000011);
	vms_regs_set(&regs, EFER, 0x500);
	vms_regs_set(&regs, CS_BASE, 0x1000); /* without effect */
	g_assert_false(vms_arch_x86_64.lacks_segments(&regs));
	g_assert_cmpuint(mode_of(&regs).bits, ==, 64);
	vms_regs_set(&regs, CS_ATTR, 0xa09b);
	g_assert_cmpuint(mode_of(&regs).bits, ==, 64);
	g_assert_cmphex(vms_arch_code_address(&vms_arch_x86_64, &regs), ==,
			UINT64_C(0xffffffff81000000));
	vms_regs_set(&regs, CS_ATTR, 0xc0fb); /* a 32-bit program */
	g_assert_cmpuint(mode_of(&regs).bits, ==, 32);
}

static void test_narrow_frame_pointer(void)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader memory = { ram_read, ram };
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CR0, 0x11);
	vms_regs_set(&regs, EFER, 0);
	vms_regs_set(&regs, RBP, 0x2004);
	vms_regs_set(&regs, CS_BASE, 0x10000);
	vms_regs_set(&regs, SS_BASE, 0x1000);
	put64(ram, 0x2000, UINT64_C(0x1040) << 32); /* the frame pointer, an offset as it is */
	put64(ram, 0x2008, UINT64_C(0xffffffff00001234));
	g_assert_true(vms_arch_x86_64.step_frame_pointer(&regs, &memory));
	g_assert_cmphex(regs.value[RIP], ==, 0x11234);
	g_assert_cmphex(regs.value[RSP], ==, 0x200c);
	g_assert_cmphex(regs.value[RBP], ==, 0x2040);
	vms_regs_set(&regs, CS_ATTR, 0x9b); /* 16-bit code has frames of two sizes */
	vms_regs_set(&regs, RBP, 0x2004);
	g_assert_false(vms_arch_x86_64.step_frame_pointer(&regs, &memory));
}

/* Checks the step from `pc` of the code at 0x3000, which has a return address in one stack word. */
static void check_frameless(const char *code, size_t size, uint64_t pc, unsigned bits,
			    unsigned stack_word)
{
	g_autofree struct ram *ram = g_new0(struct ram, 1);
	struct vms_reader memory = { ram_read, ram };
	struct vms_regs regs = { 0 };
	const uint64_t word = bits / 8, sp = 0x2000;
	memcpy(ram->bytes + 0x3000, code, size);
	memcpy(ram->bytes + 0x1000, "\xe8\0\x20\0\0", 5); /* call */
	for (uint64_t i = 0; i < 3; i++)
		memset(ram->bytes + sp + i * word, 0x77, word);
	memset(ram->bytes + sp + stack_word * word, 0, word);
	memcpy(ram->bytes + sp + stack_word * word, "\5\x10", 2);
	if (bits == 32) {
		vms_regs_set(&regs, CR0, 0x11);
		vms_regs_set(&regs, EFER, 0);
		vms_regs_set(&regs, CS_ATTR, 0xc09b);
	}
	vms_regs_set(&regs, RIP, 0x3000 + pc);
	vms_regs_set(&regs, RSP, sp);
	vms_regs_set(&regs, RBP, 0x2100);
	if (stack_word > 1) {
		g_assert_false(vms_arch_x86_64.step_frameless(&regs, &memory));
		return;
	}
	g_assert_true(vms_arch_x86_64.step_frameless(&regs, &memory));
	g_assert_cmphex(regs.value[RIP], ==, 0x1005);
	g_assert_cmphex(regs.value[RSP], ==, sp + (stack_word + 1) * word);
	g_assert_cmphex(regs.value[RBP], ==, 0x2100);
}

/* At a function's first and last instructions the return address is on top of the stack. */
static void test_frameless(void)
{
	enum { NOWHERE = 2 };
	static const char wide[] = "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x90\x5d\xc3",
			  narrow[] = "\x55\x89\xe5\x90\xc9\xc2\x04\x00";
	static const struct {
		unsigned pc, stack_word;
	} in_wide[] = { { 0, 0 }, { 4, 0 }, { 5, 1 }, { 8, NOWHERE }, { 9, NOWHERE }, { 10, 0 } },
	  in_narrow[] = { { 0, 0 }, { 1, 1 }, { 3, NOWHERE }, { 4, NOWHERE }, { 5, 0 } };
	for (size_t i = 0; i < G_N_ELEMENTS(in_wide); i++)
		check_frameless(wide, sizeof(wide), in_wide[i].pc, 64, in_wide[i].stack_word);
	for (size_t i = 0; i < G_N_ELEMENTS(in_narrow); i++)
		check_frameless(narrow, sizeof(narrow), in_narrow[i].pc, 32,
				in_narrow[i].stack_word);
}

static bool keep_insn(const struct vms_insn *insn, void *data)
{
	g_array_append_vals(data, insn, 1);
	return true;
}

static GArray *disassemble(unsigned bits, uint64_t base, uint64_t va, const char *code, size_t size)
{
	GArray *insns = g_array_new(FALSE, FALSE, sizeof(struct vms_insn));
	g_assert_true(vms_disassemble(&vms_arch_x86_64, bits, base, va, (const uint8_t *)code, size,
				      keep_insn, insns, NULL));
	return insns;
}

static void test_disassembly(void)
{
	g_autoptr(GArray) far = disassemble(16, 0xf0000, 0xffff0, "\xea\x5b\xe0\x00\xf0", 5);
	const struct vms_insn *insn = &g_array_index(far, struct vms_insn, 0);
	g_assert_cmpuint(far->len, ==, 1);
	g_assert_cmpstr(insn->text, ==, "ljmp 0xf000:0xe05b");
	g_assert_cmphex(insn->va, ==, 0xffff0);

	/* A segment that does not begin at 64 KiB: what is shown are addresses all the same. */
	g_autoptr(GArray) near = disassemble(16, 0xc9830, 0xc9840, "\xe8\x10\x00\xc3", 4);
	insn = &g_array_index(near, struct vms_insn, 0);
	g_assert_cmpuint(near->len, ==, 2);
	g_assert_cmpstr(insn[0].text, ==, "call 0xc9853");
	g_assert_cmphex(insn[0].branch_target, ==, 0xc9853);
	g_assert_cmphex(insn[1].va, ==, 0xc9843);
	g_assert_true(insn[1].is_return);

	g_autoptr(GArray) wide = disassemble(32, 0, 0x1000, "\xb8\x01\x00\x00\x00\x90", 6);
	g_assert_cmpuint(wide->len, ==, 2);

	/* What is no instruction is data, and what follows is shown. */
	g_autoptr(GArray) data = disassemble(64, 0, 0x1000, "\x06\x90", 2);
	insn = &g_array_index(data, struct vms_insn, 0);
	g_assert_cmpuint(data->len, ==, 2);
	g_assert_true(insn[0].is_data);
	g_assert_cmpstr(insn[1].text, ==, "nop");
}

static void test_names(void)
{
	g_assert_true(vms_arch_by_name("x86_64") == &vms_arch_x86_64);
	g_assert_true(vms_arch_by_name("i386:x86-64") == &vms_arch_x86_64);
	g_assert_null(vms_arch_by_name("m68k"));
	g_assert_cmpint(vms_arch_reg(&vms_arch_x86_64, "r13"), ==, R13);
	g_assert_cmpint(vms_arch_reg(&vms_arch_x86_64, "x0"), ==, -1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/x86_64/4-levels", test_4_levels);
	g_test_add_func("/x86_64/rights", test_rights);
	g_test_add_func("/x86_64/not-mapped", test_not_mapped);
	g_test_add_func("/x86_64/5-levels", test_5_levels);
	g_test_add_func("/x86_64/pae", test_pae);
	g_test_add_func("/x86_64/32-bit", test_32_bit);
	g_test_add_func("/x86_64/paging-off", test_paging_off);
	g_test_add_func("/x86_64/list", test_list);
	if (g_test_slow())
		g_test_add_func("/x86_64/endless-tables", test_endless_tables);
	g_test_add_func("/x86_64/sparse-tables", test_sparse_tables);
	g_test_add_func("/x86_64/cyclic-tables", test_cyclic_tables);
	g_test_add_func("/x86_64/isolated-kernel", test_isolated_kernel);
	g_test_add_func("/x86_64/halted", test_halted);
	g_test_add_func("/x86_64/at-reset", test_at_reset);
	g_test_add_func("/x86_64/frame-pointer", test_frame_pointer);
	g_test_add_func("/x86_64/real-mode", test_real_mode);
	g_test_add_func("/x86_64/beyond-4-gib", test_beyond_4_gib);
	g_test_add_func("/x86_64/protected-mode", test_protected_mode);
	g_test_add_func("/x86_64/long-mode", test_long_mode);
	g_test_add_func("/x86_64/narrow-frame-pointer", test_narrow_frame_pointer);
	g_test_add_func("/x86_64/frameless", test_frameless);
	g_test_add_func("/x86_64/disassembly", test_disassembly);
	g_test_add_func("/x86_64/names", test_names);
	return g_test_run();
}
