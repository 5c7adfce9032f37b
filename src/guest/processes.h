/* SPDX-License-Identifier: MIT */
/* What a trace of calls asks of a guest's processes: who has which memory, and what is mapped. */
#pragma once

#include <vmscope/guest.h>

/* Where in a task_struct some of a struct vms_task is: offsets of `pid`, `tgid`, `mm`, `comm`. */
struct vms_task_layout {
	uint32_t tid, pid, mm, comm;
};
/* False when it is not known (no types). Constant once the guest was recognised. */
bool vms_guest_task_layout(const struct vms_guest *guest, struct vms_task_layout *ret);
/*
 * Does the task_struct at `task` belong to process `pid`, and has it the address space `mm` now?
 * False also where that cannot be told. For any thread.
 */
bool vms_guest_task_has(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm);

/* Areas of one address space: the kernel's default limit. */
#define VMS_AREAS_LIMIT (1u << 16)
/*
 * Reads the first part with code of the address space `mm` (of a struct vms_task) that ends beyond
 * `va`. The guest may run: what it says may be torn then. Looks at `*areas` areas of any kind at
 * most, and counts them down: whoever lists all gives VMS_AREAS_LIMIT for the whole list. False
 * when there is none or it cannot be read. `ret->name` is owned by the guest's symbolizer. For any
 * thread.
 */
bool vms_guest_next_code(struct vms_guest *guest, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret);
/* A number that changes when mappings of `mm` come or go, as far as two cheap reads can tell.
 * For any thread. */
uint64_t vms_guest_mappings_stamp(struct vms_guest *guest, uint64_t mm);
