/* SPDX-License-Identifier: MIT */
/* This program's own file as a symbol file: what the compiler says of its lines is the truth. */
#pragma once

#include <vmscope/symbol.h>

/* Source of a function of several lines. */
#define SELF_FILE_SOURCE "/two/lines.c"
#define SELF_FILE_LATER	 0x80 /* its byte that is of another line than its begin */

/* Where the file begins, and the lines of the function's begin and of that byte. */
struct self_file {
	uint64_t base;
	unsigned begin, later;
};

/* The file, placed so that this function lies at `va`. */
struct vms_symbol_file *self_file_open(uint64_t va, struct self_file *ret);
