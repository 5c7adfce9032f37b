/* SPDX-License-Identifier: MIT */
/*
 * The entry trampoline of aarch64 with page table isolation (CONFIG_UNMAP_KERNEL_AT_EL0): code that
 * switches between the page tables of kernel and user. While user code runs nothing else of the
 * kernel is mapped, and it is mapped at an address of its own, to hide the kernel's
 * (map_entry_trampoline() in arch/arm64/mm/mmu.c). That address no symbol tells; a vCPU that
 * executes there shows it.
 */
#include "guest/linux/kernel_image.h"
#include "guest/linux/linux.h"

void vms_linux_find_trampoline(struct vms_linux *guest, const GArray *pages)
{
	uint64_t begin, end, pa;
	if (!vms_linux_symbol(guest, "__entry_tramp_text_start", &begin) ||
	    !vms_linux_symbol(guest, "__entry_tramp_text_end", &end) || end <= begin ||
	    !vms_kernel_image_translate(pages, begin, &pa))
		return;
	guest->trampoline.begin = begin;
	guest->trampoline.end = end;
	guest->trampoline.pa = pa;
}

void vms_linux_note_trampoline(struct vms_linux *guest, struct vms_memory *memory, uint64_t va)
{
	struct vms_page page;
	const uint64_t size = guest->trampoline.end - guest->trampoline.begin;
	if (!size || __atomic_load_n(&guest->trampoline.alias, __ATOMIC_RELAXED) ||
	    (va >= guest->image && va < guest->image_end) ||
	    !vms_memory_translate(memory, va, &page))
		return;
	uint64_t offset = page.pa + (va - page.va) - guest->trampoline.pa;
	if (offset < size)
		__atomic_store_n(&guest->trampoline.alias, va - offset, __ATOMIC_RELAXED);
}

uint64_t vms_linux_image_address(const struct vms_linux *guest, uint64_t va)
{
	uint64_t alias = __atomic_load_n(&guest->trampoline.alias, __ATOMIC_RELAXED);
	if (!alias || va - alias >= guest->trampoline.end - guest->trampoline.begin)
		return va;
	return guest->trampoline.begin + (va - alias);
}
