/* SPDX-License-Identifier: MIT */
/* The symbol files that were added to a symbolizer, for the guest that adds them. */
#pragma once

#include "symbol/binary.h"
#include "symbol/mappings.h"
#include <vmscope/symbolizer.h>

struct vms_symbolizer_file {
	struct vms_symbol_file *file;
	struct vms_symbol_table *table;
	uint64_t base;	/* the address where the file begins, with the bias */
	bool is_kernel; /* it is the vmlinux of the guest's kernel */
	bool is_placed; /* the user gave its address */
};

/* Returns the array of struct vms_symbolizer_file, in the order of adding. Not a new reference. */
GArray *vms_symbolizer_files(const struct vms_symbolizer *symbolizer);
/*
 * Gives a process's space a copy of these mappings in place of its own. Their names are those of
 * vms_symbolizer_intern. For any thread.
 */
void vms_symbolizer_set_mappings(struct vms_symbolizer *symbolizer, uint32_t space,
				 const struct vms_mappings *mappings);
/*
 * Tells which file a mapping of `space` is of, and its `functions`, NULL if they are not read yet.
 * The mapping is found by where it begins and its `file`; does nothing if it has been replaced
 * meanwhile. For any thread.
 */
void vms_symbolizer_attach_binary(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t start,
				  uint64_t file, struct vms_binary *binary,
				  struct vms_symbol_table *functions);
/*
 * Tells of the code that a process has made at run time: a table by address, which replaces what
 * was told before. References it. For any thread.
 */
void vms_symbolizer_set_made_code(struct vms_symbolizer *symbolizer, uint32_t space,
				  struct vms_symbol_table *table);
/* Returns the table that was told last, which the symbolizer owns, or NULL. For any thread. */
struct vms_symbol_table *vms_symbolizer_made_code(struct vms_symbolizer *symbolizer,
						  uint32_t space);
/*
 * Sets what the binaries of mappings get besides the guest's own bytes. Before anybody names.
 */
void vms_symbolizer_set_debug_files(struct vms_symbolizer *symbolizer,
				    struct vms_debug_files *files);
/* Returns them, or NULL. Not a new reference. */
struct vms_debug_files *vms_symbolizer_debug_files(const struct vms_symbolizer *symbolizer);
/*
 * Exchanges the files of two symbolizers, debug files included. No other thread may use either
 * meanwhile.
 */
void vms_symbolizer_exchange_files(struct vms_symbolizer *symbolizer, struct vms_symbolizer *other);
