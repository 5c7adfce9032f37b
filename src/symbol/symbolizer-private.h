/* SPDX-License-Identifier: MIT */
/* The symbol files that were added to a symbolizer, for the guest that adds them. */
#pragma once

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
/* Exchanges the files of two symbolizers. No other thread may use either meanwhile. */
void vms_symbolizer_exchange_files(struct vms_symbolizer *symbolizer, struct vms_symbolizer *other);
