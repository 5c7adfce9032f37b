/* SPDX-License-Identifier: MIT */
/*
 * Symbols of a guest: whole tables for a call trace, whose reader names addresses itself, and names
 * to choose from.
 */
#pragma once

#include "base/nearest.h"
#include <vmscope/guest.h>

/* Offers the names of all symbols to a search for the nearest ones. */
void vms_guest_offer_symbols(struct vms_guest *guest, struct vms_nearest *nearest);
/* True if vms_guest_set_debug_files was called. */
bool vms_guest_has_debug_files(const struct vms_guest *guest);
/*
 * Returns a new reference to the kernel's own symbols or, if it has none, to those of its vmlinux.
 * Gives the bounds of the kernel's image. NULL if no kernel is understood.
 */
struct vms_symbol_table *vms_guest_kernel_symbols(const struct vms_guest *guest, uint64_t *start,
						  uint64_t *end);
/*
 * Returns the symbols of an added symbol file by its index. Files of the kernel are not counted.
 * The symbols are a new reference and include the bias. `*base` is the address where the file
 * begins. NULL beyond the last.
 */
struct vms_symbol_table *vms_guest_symbol_file(const struct vms_guest *guest, unsigned index,
					       const char **name, uint64_t *base);
/*
 * Returns the functions of the added symbol file `name` (without folders) by their offsets in the
 * file: see vms_symbol_file_offsets. NULL if no such file was added.
 */
struct vms_symbol_table *vms_guest_symbol_file_offsets(const struct vms_guest *guest,
						       const char *name);
