/* SPDX-License-Identifier: MIT */
/* Loaded kernel modules: their parts in memory, symbols and unwind tables. */
#pragma once

#include "guest/linux/linux.h"

/* NULL where the kernel's types do not tell. The list is empty. */
struct vms_linux_modules *vms_linux_modules_new(struct vms_linux *guest);
void vms_linux_modules_free(struct vms_linux_modules *modules);
/* Reads the list anew. Errors: UNSUPPORTED (no types), MALFORMED, UNREADABLE. */
bool vms_linux_modules_refresh(struct vms_linux *guest, GError **error);
/* See vms_guest_modules. */
const GPtrArray *vms_linux_modules_list(const void *system);
/* Have modules come or gone since the list was read? Reads a few bytes of `memory`. */
bool vms_linux_modules_changed(const struct vms_linux *guest, struct vms_memory *memory);
/* The module whose code or data `va` lies in, or NULL; its ORC table, or NULL. */
const struct vms_module *vms_linux_module_at(const struct vms_linux *guest, uint64_t va,
					     const struct vms_orc **orc);
/* The same; where the part of it begins that `va` lies in, and whether that is code. */
const struct vms_module *vms_linux_module_part_at(const struct vms_linux *guest, uint64_t va,
						  uint64_t *part, bool *is_text);
/* Adds every part to an array of struct vms_mapping. Under the lock. */
void vms_linux_modules_list_parts(const struct vms_linux *guest, GArray *mappings);
