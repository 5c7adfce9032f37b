/* SPDX-License-Identifier: MIT */
/* Loaded kernel modules: their parts in memory, symbols and unwind tables. */
#pragma once

#include "guest/linux/linux.h"

/* Returns an empty list, or NULL if the kernel's types do not tell where modules are. */
struct vms_linux_modules *vms_linux_modules_new(struct vms_linux *guest);
void vms_linux_modules_free(struct vms_linux_modules *modules);
/* Reads the list anew. Errors: UNSUPPORTED (no types), MALFORMED, UNREADABLE. */
bool vms_linux_modules_refresh(struct vms_linux *guest, GError **error);
/* See vms_guest_modules. */
const GPtrArray *vms_linux_modules_list(const void *system);
/* True if modules may have changed since the list was read. Reads a few bytes of `memory`. */
bool vms_linux_modules_changed(const struct vms_linux *guest, struct vms_memory *memory);
/*
 * Returns the module whose code or data `va` lies in, or NULL. `*orc` becomes its ORC table, which
 * is NULL if it has none; `orc` may be NULL.
 */
const struct vms_module *vms_linux_module_at(const struct vms_linux *guest, uint64_t va,
					     const struct vms_orc **orc);
/* The same. Tells where the module's part with `va` begins, and whether that part is code. */
const struct vms_module *vms_linux_module_part_at(const struct vms_linux *guest, uint64_t va,
						  uint64_t *part, bool *is_text);
/* Gives the address of the struct module of the module whose code or data `va` lies in. */
bool vms_linux_module_struct_at(const struct vms_linux *guest, uint64_t va, uint64_t *ret);
/* Adds each part of each module to an array of struct vms_mapping. The caller holds the lock. */
void vms_linux_modules_list_parts(const struct vms_linux *guest, GArray *mappings);
