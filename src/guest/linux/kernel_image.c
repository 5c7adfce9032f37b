/* SPDX-License-Identifier: MIT */
#include "guest/linux/kernel_image.h"

#include <sys/mman.h>

/* Largest size of an image. A kernel with everything built in has 100 MiB. */
#define IMAGE_LIMIT (UINT64_C(256) << 20)
/*
 * The image begins with its code. Other code around it, of modules and BPF programs, is smaller. A
 * search ends when it has found this much contiguous code.
 */
#define CODE_ENOUGH (UINT64_C(4) << 20)
/* Largest hole in an image: freed memory of __init, or alignment between code and data. */
#define HOLE_LIMIT (UINT64_C(32) << 20)

const struct vms_linux_arch *vms_linux_arch_of(const struct vms_arch *arch)
{
	static const struct vms_linux_arch *const known[] = { &vms_linux_x86_64,
							      &vms_linux_aarch64 };
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
		if (known[i]->arch == arch)
			return known[i];
	return NULL;
}

/* Code that is contiguous in virtual and in physical memory. */
struct code {
	uint64_t va, pa, size;
};

struct code_search {
	struct code at; /* the piece that is being visited */
	struct code largest;
};

static bool visit_code(const struct vms_page *page, void *data)
{
	struct code_search *search = data;
	struct code *at = &search->at;
	if (!page->executable || page->va != at->va + at->size || page->pa != at->pa + at->size)
		*at = (struct code) { .va = page->va, .pa = page->pa };
	if (page->executable)
		at->size += page->size;
	if (at->size > search->largest.size)
		search->largest = *at;
	return at->size < CODE_ENOUGH;
}

/* Adds `page` if it belongs to the image: that is one piece of memory. False ends the search. */
static bool add_page(const struct vms_page *page, void *data)
{
	GArray *pages = data;
	if (pages->len > 0) {
		const struct vms_page *first = &g_array_index(pages, struct vms_page, 0);
		const struct vms_page *last = first + pages->len - 1;
		if (page->va - (last->va + last->size) > HOLE_LIMIT ||
		    page->va + page->size - first->va > IMAGE_LIMIT)
			return false;
		if (page->pa - first->pa != page->va - first->va)
			return true;
	}
	/* With paging off, no kernel is mapped at these addresses. */
	if (page->pa == page->va || page->size > IMAGE_LIMIT)
		return false;
	g_array_append_vals(pages, page, 1);
	return true;
}

GArray *vms_kernel_image_map(struct vms_memory *memory, const struct vms_linux_arch *arch,
			     uint64_t *steps)
{
	g_autoptr(GArray) pages = g_array_new(FALSE, FALSE, sizeof(struct vms_page));
	struct code_search search = { 0 };
	vms_memory_each_page(memory, arch->image_first, arch->image_last, steps, visit_code,
			     &search);
	if (search.largest.size)
		vms_memory_each_page(memory, search.largest.va, arch->image_last, steps, add_page,
				     pages);
	return pages->len ? g_steal_pointer(&pages) : NULL;
}

bool vms_kernel_image_translate(const GArray *pages, uint64_t va, uint64_t *ret)
{
	for (guint i = 0; i < pages->len; i++) {
		const struct vms_page *page = &g_array_index(pages, struct vms_page, i);
		if (va - page->va >= page->size)
			continue;
		*ret = page->pa + (va - page->va);
		return true;
	}
	return false;
}

/*
 * Allocates zeroed memory, in huge pages where the host has them: filling some 44 MiB in small ones
 * takes longer than copying them. NULL: none is left.
 */
static uint8_t *allocate_image(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

void vms_kernel_image_read(struct vms_machine *machine, const GArray *pages,
			   struct vms_kernel_image *ret)
{
	const struct vms_page *page = &g_array_index(pages, struct vms_page, 0);
	const struct vms_page *end = page + pages->len;
	const size_t image_size = end[-1].va + end[-1].size - page->va;
	uint8_t *data = allocate_image(image_size);
	if (!data)
		g_error("no memory for a kernel's image of %zu bytes", image_size);
	*ret = (struct vms_kernel_image) {
		.va = page->va,
		.bytes = { data, image_size },
		.is_complete = true,
	};
	while (page < end) {
		/* Pages that are adjacent in virtual and physical memory are read at once. */
		const struct vms_page *run = page;
		uint64_t size = 0;
		do {
			size += page->size;
			page++;
		} while (page < end && page->va == run->va + size && page->pa == run->pa + size);
		if (vms_machine_read_phys(machine, run->pa, data + (run->va - ret->va), size))
			continue;
		memset(data + (run->va - ret->va), 0, size);
		ret->is_complete = false;
	}
}

void vms_kernel_image_clear(struct vms_kernel_image *image)
{
	if (image->bytes.data)
		munmap((void *)image->bytes.data, image->bytes.size);
	*image = (struct vms_kernel_image) { 0 };
}
