/* SPDX-License-Identifier: MIT */
/* All source lines that a symbol file tells of. */
#pragma once

#include <vmscope/symbol.h>

/* The code from `va` to before `end`, with the bias, comes from this line. */
struct vms_line_row {
	uint64_t va, end;
	const char *source; /* owned by the file */
	unsigned line;
	bool is_statement; /* the line's code begins here */
};

/*
 * Calls `each` for every row of the file's tables of lines. A line may have several rows, and code
 * none. Without DWARF it calls nothing.
 */
void vms_symbol_file_each_line(struct vms_symbol_file *file,
			       void (*each)(const struct vms_line_row *row, void *data),
			       void *data);
