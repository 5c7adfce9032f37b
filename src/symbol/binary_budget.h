/* SPDX-License-Identifier: MIT */
/*
 * What the tables of all programs and libraries of one guest may cost. Each file alone is limited,
 * but a guest can have any number of them, and a file of some kilobytes can have millions of
 * symbols (.gnu_debugdata is compressed). For any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vms_binary_budget;

/* `bytes`: of memory for all tables. */
struct vms_binary_budget *vms_binary_budget_new(size_t bytes);
struct vms_binary_budget *vms_binary_budget_ref(struct vms_binary_budget *budget);
void vms_binary_budget_unref(struct vms_binary_budget *budget);

/*
 * True if another table may be read. Tells once if it may not. Of processor time there are ten
 * seconds at the begin, and a tenth of all time that passes.
 */
bool vms_binary_budget_has_room(struct vms_binary_budget *budget);
/* Counts memory that a table has taken, and the time of the thread that has read it. */
void vms_binary_budget_charge(struct vms_binary_budget *budget, size_t bytes, uint64_t thread_ns);
/* Returns the processor time of this thread so far. */
uint64_t vms_binary_budget_thread_ns(void);
