/* SPDX-License-Identifier: MIT */
/* All source lines that a symbol file tells of. */
#pragma once

#include <vmscope/symbol.h>

/*
 * Calls `each` for every row of the file's tables of lines: the code from `va` to before `end`,
 * with the bias, comes from this line. A line may have several rows, and code none. The file owns
 * `source`. Without DWARF it calls nothing.
 */
void vms_symbol_file_each_line(struct vms_symbol_file *file,
			       void (*each)(uint64_t va, uint64_t end, const char *source,
					    unsigned line, void *data),
			       void *data);
