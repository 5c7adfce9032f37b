/* SPDX-License-Identifier: MIT */
/*
 * Page tables of any content. Input: which architecture and how much to list, the registers that
 * say how tables are laid out, an address, then physical memory from 0 on.
 *
 * Covers: src/arch/page_entries.c src/arch/x86_64.c src/arch/aarch64.c
 * src/arch/aarch64_frame.c.
 */
#include "arch/aarch64.h"
#include <string.h>
#include <vmscope/arch.h>

#define N_REGS_SET 5
#define HEAD	   (1 + (N_REGS_SET + 1) * 8)
#define PAGES	   4096 /* of a listing that are looked at */

#define STEPS 4000000 /* entries that may be looked at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
	const uint8_t *bytes;
	size_t size;
};

/* Memory repeats, so that any address leads to a table. */
static bool read_memory(void *data, uint64_t pa, void *buf, size_t size)
{
	const struct memory *memory = data;
	if (memory->size == 0 || pa >> 52)
		return false;
	for (size_t done = 0; done < size;) {
		const size_t at = (pa + done) % memory->size;
		const size_t part = MIN(size - done, memory->size - at);
		memcpy((uint8_t *)buf + done, memory->bytes + at, part);
		done += part;
	}
	return true;
}

struct listing {
	uint64_t last; /* address that a page has ended at */
	unsigned n;
};

static bool see_page(const struct vms_page *page, void *data)
{
	struct listing *listing = data;
	g_assert_cmpuint(page->size, >=, 4096);
	g_assert_cmphex(page->va & (page->size - 1), ==, 0);
	g_assert_cmphex(page->pa & (page->size - 1), ==, 0);
	g_assert_true(listing->n == 0 || page->va > listing->last);
	listing->last = page->va + (page->size - 1);
	return ++listing->n < PAGES;
}

static uint64_t word(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* What does not need the tables; physical memory stands for code and stacks. */
static void ask(const struct vms_arch *arch, const struct vms_regs *regs,
		const struct vms_reader *memory, uint64_t va)
{
	uint8_t code[VMS_HALT_BYTES];
	struct vms_regs frame = *regs;
	g_assert_cmphex(va >> 63 || !arch->is_kernel_address(va), ==, true);
	if (memory->read(memory->data, va & 0xffff, code, sizeof(code)) &&
	    arch->is_halted(regs, code))
		g_assert_true(arch->in_kernel(regs));
	vms_regs_set(&frame, arch->fp, va & 0xffff);
	arch->step_frame_pointer(&frame, memory);
	if (arch == &vms_arch_aarch64) {
		vms_aarch64_set_root(&frame, TTBR1_EL1, va);
		vms_regs_set(&frame, PC, va & 0xfffc);
		vms_regs_set(&frame, X30, va >> 16 & 0xfffc);
		arch->step_frame_pointer(&frame, memory);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const x86_64[N_REGS_SET] = { "cr0", "cr3", "cr4", "efer", "cs" };
	static const char *const aarch64[N_REGS_SET] = { "SCTLR", "TCR_EL1", "TTBR0_EL1",
							 "TTBR1_EL1", "cpsr" };
	if (size < HEAD)
		return 0;
	const struct vms_arch *arch = data[0] & 1 ? &vms_arch_aarch64 : &vms_arch_x86_64;
	struct memory memory = { data + HEAD, size - HEAD };
	const struct vms_reader phys = { read_memory, &memory };
	struct vms_regs regs = { 0 };
	for (size_t i = 0; i < N_REGS_SET; i++) {
		int reg = vms_arch_reg(arch, data[0] & 1 ? aarch64[i] : x86_64[i]);
		g_assert_cmpint(reg, >=, 0);
		vms_regs_set(&regs, (unsigned)reg, word(data + 1 + i * 8));
	}
	const uint64_t va = word(data + 1 + N_REGS_SET * 8);
	struct vms_page page;
	struct listing listing = { 0 };
	arch->kernel_root(&regs, &phys);
	if (arch->translate(&regs, &phys, va, &page)) {
		g_assert_cmphex(va - page.va, <, page.size);
		g_assert_cmphex(page.pa & (page.size - 1), ==, 0);
	}
	g_assert_nonnull(arch->paging_mode(&regs));
	ask(arch, &regs, &phys, va);
	const uint64_t span = UINT64_C(1) << (20 + data[0] / 2 % 44);
	uint64_t steps = STEPS;
	arch->each_page(&regs, &phys, va, va + MIN(span, UINT64_MAX - va), &steps, see_page,
			&listing);
	return 0;
}
