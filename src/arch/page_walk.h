/* SPDX-License-Identifier: MIT */
/*
 * What walks of page tables have in common on all architectures. Going through neighbouring
 * addresses reads each table once.
 */
#pragma once

#include <vmscope/arch.h>

#define VMS_PAGE_WALK_LEVELS 6

/* Of {} with `phys` set. With `keeps_tables` to be cleared in the end. */
struct vms_page_walk {
	const struct vms_reader *phys;
	bool keeps_tables; /* reads whole tables and keeps the last of each level; else entries */
	struct {
		uint64_t pa;
		bool is_read;
		uint8_t *bytes;
	} table[VMS_PAGE_WALK_LEVELS];
};

/*
 * Reads the entry of `entry_size` bytes at `offset` of the table at `pa`, which has `size` bytes,
 * always the same at one level. False when it cannot be read.
 */
bool vms_page_walk_entry(struct vms_page_walk *walk, unsigned level, uint64_t pa, size_t size,
			 size_t offset, size_t entry_size, uint64_t *ret);
void vms_page_walk_clear(struct vms_page_walk *walk);

/*
 * Calls `each` for every page from `va` up to and including `last` until it returns false, or
 * `*steps` is used up. `find` looks for the page of `va`, and where there is none says in *next
 * where there may be one, 0 for nowhere.
 */
void vms_page_walk_each(uint64_t va, uint64_t last, uint64_t *steps,
			bool (*find)(void *walk, uint64_t va, struct vms_page *ret, uint64_t *next),
			void *walk, bool (*each)(const struct vms_page *page, void *data),
			void *data);
