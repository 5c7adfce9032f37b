/* SPDX-License-Identifier: MIT */
/*
 * The entry trampoline of aarch64 with page table isolation (CONFIG_UNMAP_KERNEL_AT_EL0). It is
 * code of the image that switches between the page tables of kernel and user. While user code runs,
 * no other part of the kernel is mapped. The trampoline is mapped a second time at another address,
 * which hides where the kernel is (map_entry_trampoline() in arch/arm64/mm/mmu.c). No symbol tells
 * that address. A vCPU that executes there shows it: its physical address lies in the image.
 */
#include "guest/linux/trampoline.h"
#include "guest/linux/module.h"

#define TRAMPOLINE "__entry_tramp_text_start"
/* How many pages to try before and behind the one that was seen. The kernel has room for 4. */
#define PAGES_LIMIT 4

void vms_linux_find_image_pa(struct vms_linux *guest, const GArray *pages)
{
	guest->image_pa = 0;
	if (guest->arch != &vms_arch_aarch64)
		return;
	/*
	 * The image is one piece of memory. Since 6.9 its head is no code, and not among the pages.
	 */
	for (guint i = 0; i < pages->len; i++) {
		const struct vms_page *page = &g_array_index(pages, struct vms_page, i);
		if (page->va < guest->image || page->va >= guest->image_end ||
		    page->pa <= page->va - guest->image)
			continue;
		guest->image_pa = page->pa - (page->va - guest->image);
		return;
	}
}

/*
 * True for memory of the image that the kernel frees when it has booted. If such memory is mapped
 * elsewhere, it is something else, such as a module.
 */
static bool is_freed_after_boot(const struct vms_linux *guest, uint64_t va)
{
	uint64_t begin, end;
	return vms_linux_symbol(guest, "__init_begin", &begin) &&
	       vms_linux_symbol(guest, "__init_end", &end) && va >= begin && va < end;
}

/* A part of the image that is mapped somewhere else. */
struct part {
	uint64_t begin, end;
	uint64_t offset; /* in the image, of its begin */
};

/* True if `va` is code of the image, mapped elsewhere. `*ret` is the part that its page maps. */
static bool find_part(const struct vms_linux *guest, struct vms_memory *memory, uint64_t va,
		      struct part *ret)
{
	struct vms_page page;
	const uint64_t size = guest->image_end - guest->image;
	if (!vms_memory_translate(memory, va, &page) || !page.executable)
		return false;
	const uint64_t before = va - page.va, offset = page.pa + before - guest->image_pa;
	if (offset >= size || is_freed_after_boot(guest, guest->image + offset))
		return false;
	ret->begin = va - MIN(before, offset);
	ret->end = va + MIN(page.size - before, size - offset);
	ret->offset = offset - (va - ret->begin);
	return true;
}

/* Extends the part by parts that are adjacent in virtual memory and in the image. */
static void extend_part(const struct vms_linux *guest, struct vms_memory *memory, struct part *part)
{
	struct part next;
	for (int i = 1; i < PAGES_LIMIT && find_part(guest, memory, part->begin - 1, &next) &&
			next.offset + (next.end - next.begin) == part->offset;
	     i++) {
		part->begin = next.begin;
		part->offset = next.offset;
	}
	for (int i = 1; i < PAGES_LIMIT && find_part(guest, memory, part->end, &next) &&
			next.offset == part->offset + (part->end - part->begin);
	     i++)
		part->end = next.end;
}

/*
 * Returns symbols for the trampoline, a new reference. It lies in read-only data. So kallsyms that
 * has functions only does not have its symbol, and a table with that symbol is made.
 */
static struct vms_symbol_table *get_symbols(const struct vms_linux *guest, uint64_t in_image,
					    uint64_t size)
{
	struct vms_symbol symbol;
	if (vms_symbol_table_lookup(guest->symbols, TRAMPOLINE, &symbol))
		return vms_symbol_table_ref(guest->symbols);
	struct vms_symbol_table *table =
		vms_symbol_table_new(vms_symbol_table_module(guest->symbols));
	vms_symbol_table_add(table, TRAMPOLINE, in_image, size, 't');
	vms_symbol_table_finish(table, in_image + size);
	return table;
}

/* Tells the symbolizer of the trampoline. The caller holds the lock. */
static void set_trampoline(struct vms_linux *guest, const struct part *part)
{
	const uint64_t in_image = guest->image + part->offset, size = part->end - part->begin;
	g_autoptr(vms_symbol_table) symbols = get_symbols(guest, in_image, size);
	const struct vms_mapping mapping = {
		.start = part->begin,
		.end = part->end,
		.offset = in_image,
		.symbols = symbols,
		.kind = VMS_MAPPING_KERNEL,
	};
	vms_symbolizer_map(guest->symbolizer, VMS_KERNEL_SPACE, &mapping);
	guest->trampoline.size = size;
	__atomic_store_n(&guest->trampoline.va, part->begin, __ATOMIC_RELEASE);
}

void vms_linux_note_trampoline(void *system, struct vms_memory *memory, uint64_t va)
{
	struct vms_linux *guest = system;
	struct part part;
	if (!guest->image_pa || __atomic_load_n(&guest->trampoline.va, __ATOMIC_ACQUIRE) ||
	    (va >= guest->image && va < guest->image_end) || vms_linux_module_at(guest, va, NULL) ||
	    !find_part(guest, memory, va, &part))
		return;
	extend_part(guest, memory, &part);
	g_mutex_lock(&guest->lock);
	if (!guest->trampoline.va)
		set_trampoline(guest, &part);
	g_mutex_unlock(&guest->lock);
}

bool vms_linux_in_trampoline(const struct vms_linux *guest, uint64_t va)
{
	uint64_t begin = __atomic_load_n(&guest->trampoline.va, __ATOMIC_ACQUIRE);
	return begin && va - begin < guest->trampoline.size;
}
