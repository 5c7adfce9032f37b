/* SPDX-License-Identifier: MIT */
#include "arch/page_entries.h"
#include <string.h>

bool vms_page_walk_entry(struct vms_page_walk *walk, unsigned level, uint64_t pa, size_t size,
			 size_t offset, size_t entry_size, uint64_t *ret)
{
	*ret = 0;
	if (!walk->keeps_tables)
		return walk->phys->read(walk->phys->data, pa + offset, ret, entry_size);
	if (!walk->table[level].bytes)
		walk->table[level].bytes = g_malloc(size);
	if (!walk->table[level].is_read || walk->table[level].pa != pa) {
		walk->table[level].is_read =
			walk->phys->read(walk->phys->data, pa, walk->table[level].bytes, size);
		walk->table[level].pa = pa;
		if (!walk->table[level].is_read)
			return false;
	}
	memcpy(ret, walk->table[level].bytes + offset, entry_size);
	return true;
}

void vms_page_walk_clear(struct vms_page_walk *walk)
{
	for (unsigned level = 0; level < VMS_PAGE_WALK_LEVELS; level++)
		g_free(walk->table[level].bytes);
}

void vms_page_walk_each(uint64_t va, uint64_t last, uint64_t *steps,
			bool (*find)(void *walk, uint64_t va, struct vms_page *ret, uint64_t *next),
			void *walk, bool (*each)(const struct vms_page *page, void *data),
			void *data)
{
	for (; *steps > 0 && va <= last; --*steps) {
		struct vms_page page;
		uint64_t next = 0;
		if (find(walk, va, &page, &next)) {
			if (!each(&page, data))
				return;
			next = page.va + page.size;
		}
		if (next <= va)
			return;
		va = next;
	}
}
