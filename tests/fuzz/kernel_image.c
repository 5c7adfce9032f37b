/* SPDX-License-Identifier: MIT */
/*
 * Where page tables of any content map a kernel's image, and its bytes. Input: which architecture,
 * the registers that say how tables are laid out, then physical memory from 0 on.
 *
 * Covers: src/guest/linux/kernel_image.c.
 */
#include "guest/linux/kernel_image.h"
#include "../unit/fake_machine.h"
#include <string.h>

#define N_REGS_SET  5
#define HEAD	    (1 + N_REGS_SET * 8)
#define RAM_SIZE    0x8000
#define IMAGE_LIMIT (UINT64_C(256) << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set_regs(const struct vms_arch *arch, const uint8_t *values, struct vms_regs *ret)
{
	static const char *const x86_64[] = { "cr0", "cr3", "cr4", "efer", "cs" };
	static const char *const aarch64[] = { "SCTLR", "TCR_EL1", "TTBR0_EL1", "TTBR1_EL1",
					       "cpsr" };
	for (size_t i = 0; i < N_REGS_SET; i++) {
		uint64_t value;
		int reg = vms_arch_reg(arch, arch == &vms_arch_x86_64 ? x86_64[i] : aarch64[i]);
		memcpy(&value, values + i * sizeof(value), sizeof(value));
		vms_regs_set(ret, (unsigned)reg, value);
	}
}

static void check(const GArray *pages, const struct vms_kernel_image *image)
{
	const struct vms_page *first = &g_array_index(pages, struct vms_page, 0);
	const struct vms_page *last = first + pages->len - 1;
	g_assert_cmphex(image->va, ==, first->va);
	g_assert_cmpuint(image->bytes.size, ==, last->va + last->size - first->va);
	g_assert_cmpuint(image->bytes.size, <=, IMAGE_LIMIT);
	for (const struct vms_page *page = first; page < last; page++) {
		uint64_t pa;
		g_assert_cmphex(page->va + page->size, <=, page[1].va);
		g_assert_true(vms_kernel_image_translate(pages, page->va + 1, &pa));
		g_assert_cmphex(pa, ==, page->pa + 1);
	}
	g_assert_false(vms_kernel_image_translate(pages, last->va + last->size, &(uint64_t) { 0 }));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_regs regs = { 0 };
	struct vms_kernel_image image;
	if (size < HEAD)
		return 0;
	const struct vms_arch *arch = data[0] & 1 ? &vms_arch_aarch64 : &vms_arch_x86_64;
	struct vms_machine *machine = fake_machine_new(arch, 1);
	memcpy(fake_machine_add_ram(machine, 0, RAM_SIZE), data + HEAD, MIN(size - HEAD, RAM_SIZE));
	set_regs(arch, data + 1, &regs);
	struct vms_memory *memory = vms_memory_new(machine, &regs);
	uint64_t steps = VMS_PAGE_STEPS;
	g_autoptr(GArray) pages = vms_kernel_image_map(memory, vms_linux_arch_of(arch), &steps);
	if (pages) {
		vms_kernel_image_read(machine, pages, &image);
		check(pages, &image);
		vms_kernel_image_clear(&image);
	}
	vms_memory_free(memory);
	vms_machine_unref(machine);
	return 0;
}
