/* SPDX-License-Identifier: MIT */
#include "guest/linux/kernel_image.h"

/* A kernel with everything built in has 100 MiB; x86-64 cannot map more than 1 GiB. */
#define IMAGE_LIMIT (UINT64_C(256) << 20)
/* Holes: memory of __init that was freed, alignment between code and data. */
#define HOLE_LIMIT (UINT64_C(32) << 20)

const struct vms_linux_arch *vms_linux_arch_of(const struct vms_arch *arch)
{
	static const struct vms_linux_arch *const known[] = { &vms_linux_x86_64 };
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
		if (known[i]->arch == arch)
			return known[i];
	return NULL;
}

/* Is `page` one more of the image that `pages` map so far? */
static bool add_page(const struct vms_page *page, void *data)
{
	GArray *pages = data;
	if (pages->len > 0) {
		const struct vms_page *first = &g_array_index(pages, struct vms_page, 0);
		const struct vms_page *last = first + pages->len - 1;
		if (page->va - (last->va + last->size) > HOLE_LIMIT ||
		    page->va + page->size - first->va > IMAGE_LIMIT)
			return false;
	}
	/* With paging off there is no kernel up here. */
	if (page->pa == page->va || page->size > IMAGE_LIMIT)
		return false;
	g_array_append_vals(pages, page, 1);
	return true;
}

GArray *vms_kernel_image_map(struct vms_memory *memory, const struct vms_linux_arch *arch)
{
	g_autoptr(GArray) pages = g_array_new(FALSE, FALSE, sizeof(struct vms_page));
	vms_memory_each_page(memory, arch->image_first, arch->image_last, add_page, pages);
	return pages->len ? g_steal_pointer(&pages) : NULL;
}

void vms_kernel_image_read(struct vms_machine *machine, const GArray *pages,
			   struct vms_kernel_image *ret)
{
	const struct vms_page *page = &g_array_index(pages, struct vms_page, 0);
	const struct vms_page *end = page + pages->len;
	ret->va = page->va;
	ret->bytes.size = end[-1].va + end[-1].size - page->va;
	uint8_t *data = g_malloc0(ret->bytes.size);
	ret->bytes.data = data;
	while (page < end) {
		/* Neighbours in both address spaces are read at once. */
		const struct vms_page *run = page;
		uint64_t size = 0;
		do {
			size += page->size;
			page++;
		} while (page < end && page->va == run->va + size && page->pa == run->pa + size);
		if (!vms_machine_read_phys(machine, run->pa, data + (run->va - ret->va), size))
			memset(data + (run->va - ret->va), 0, size);
	}
}

void vms_kernel_image_clear(struct vms_kernel_image *image)
{
	g_free((uint8_t *)image->bytes.data);
	*image = (struct vms_kernel_image) { 0 };
}
