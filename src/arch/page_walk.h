/* SPDX-License-Identifier: MIT */
/*
 * The part of a page table walk that is the same on all architectures. A walk through neighbouring
 * addresses reads each table once.
 */
#pragma once

#include <vmscope/arch.h>

#define VMS_PAGE_WALK_LEVELS 6

/*
 * The state of a walk. The caller zeroes it and sets `phys`. If the caller also sets
 * `keeps_tables`, it must call vms_page_walk_clear at the end.
 */
struct vms_page_walk {
	const struct vms_reader *phys;
	bool keeps_tables; /* keeps the last table of each level; if false, reads single entries */
	struct {
		uint64_t pa;
		bool is_read;
		uint8_t *bytes;
	} table[VMS_PAGE_WALK_LEVELS];
};

/*
 * Reads the entry at `offset` of the table at physical address `pa`. The entry has `entry_size`
 * bytes, and the table has `size` bytes, which is always the same at one level. False if memory
 * cannot be read.
 */
bool vms_page_walk_entry(struct vms_page_walk *walk, unsigned level, uint64_t pa, size_t size,
			 size_t offset, size_t entry_size, uint64_t *ret);
/* Frees the tables that the walk has kept. */
void vms_page_walk_clear(struct vms_page_walk *walk);

/*
 * Calls `each` for every page from `va` up to and including `last`. It ends early if `each` returns
 * false or if `*steps` is used up. `find` looks for the page that maps `va`. If there is none, it
 * returns false and sets *next to the next address that may be mapped, or to 0 if there is none.
 */
void vms_page_walk_each(uint64_t va, uint64_t last, uint64_t *steps,
			bool (*find)(void *walk, uint64_t va, struct vms_page *ret, uint64_t *next),
			void *walk, bool (*each)(const struct vms_page *page, void *data),
			void *data);
