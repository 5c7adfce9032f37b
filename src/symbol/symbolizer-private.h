/* SPDX-License-Identifier: MIT */
/* The symbol files that were added to a symbolizer, for the guest that has them added. */
#pragma once

#include <vmscope/symbolizer.h>

struct vms_symbolizer_file {
	struct vms_symbol_file *file;
	struct vms_symbol_table *table;
	uint64_t base;	/* address of the file's begin */
	bool is_kernel; /* it is the kernel's own */
	bool is_placed; /* whoever added it was given its address */
};

/* Of struct vms_symbolizer_file, in the order of adding. */
GArray *vms_symbolizer_files(const struct vms_symbolizer *symbolizer);
/* Gives each the other's files. Nobody may use the two meanwhile. */
void vms_symbolizer_exchange_files(struct vms_symbolizer *symbolizer, struct vms_symbolizer *other);
