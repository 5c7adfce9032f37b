/* SPDX-License-Identifier: MIT */
/* Whole tables of symbols of a guest, for a trace of calls, which names by them itself. */
#pragma once

#include <vmscope/guest.h>

/*
 * The symbols of Linux's kernel itself, a new reference, and the addresses of its image. NULL
 * without a kernel that is understood.
 */
struct vms_symbol_table *vms_guest_kernel_symbols(const struct vms_guest *guest, uint64_t *start,
						  uint64_t *end);
/*
 * The symbol files that were added and are not the kernel's, by index; their name, their symbols (a
 * new reference, with the bias) and the address of the file's begin. NULL beyond the last.
 */
struct vms_symbol_table *vms_guest_symbol_file(const struct vms_guest *guest, unsigned index,
					       const char **name, uint64_t *base);
/*
 * Functions of the added symbol file `name` (without folders) by their offsets in the file: see
 * vms_symbol_file_offsets. NULL where none was added that is called so.
 */
struct vms_symbol_table *vms_guest_symbol_file_offsets(const struct vms_guest *guest,
						       const char *name);
