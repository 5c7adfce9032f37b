/* SPDX-License-Identifier: MIT */
/* The source lines that ran, and the lines where functions begin. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct vms_covered_line {
	uint32_t file; /* index */
	uint32_t line;
	bool ran;
};

/* Where a function begins. `line` is 0 if that is not known. */
struct vms_function_place {
	uint32_t file, line;
};

struct vms_covered_lines {
	GPtrArray *files;  /* char *: paths, as DWARF has them */
	GHashTable *index; /* path → index + 1 */
	GArray *lines;	   /* struct vms_covered_line; when finished: sorted, each line once */
	GArray *places;	   /* struct vms_function_place by index of the function */
};

struct vms_covered_lines *vms_covered_lines_new(uint32_t n_functions);
/* NULL is allowed. */
void vms_covered_lines_free(struct vms_covered_lines *lines);
/* Returns the index of a file. */
uint32_t vms_covered_lines_file(struct vms_covered_lines *lines, const char *path);
/* Adds a line. A line that was added several times has run if it ran in any of them. */
void vms_covered_lines_add(struct vms_covered_lines *lines, uint32_t file, uint32_t line, bool ran);
/* Sets where a function begins, unless that was set before. */
void vms_covered_lines_place(struct vms_covered_lines *lines, uint32_t function, uint32_t file,
			     uint32_t line);
/* Sorts the lines. Must be called once, after the last vms_covered_lines_add. */
void vms_covered_lines_finish(struct vms_covered_lines *lines);
