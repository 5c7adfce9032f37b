/* SPDX-License-Identifier: MIT */
/*
 * The functions of a program in Go, from the table that its runtime needs (.gopclntab): a program
 * has it even if its symbols were stripped. That is the format of Go 1.18 and later
 * (src/runtime/symtab.go, src/debug/gosym/pclntab.go of Go).
 */
#pragma once

#include "symbol/elf_image.h"

/* True if a file has such a table, of any version. */
bool vms_go_has_functions(const struct vms_elf_image *elf);

/*
 * Calls `each` for every function, by ascending address (without a bias). Does nothing if the file
 * has no such table. Functions whose parts of the table are missing are left out.
 */
void vms_go_functions_each(const struct vms_file_source *source, const struct vms_elf_image *elf,
			   void (*each)(const char *name, uint64_t address, uint64_t size,
					void *data),
			   void *data);
