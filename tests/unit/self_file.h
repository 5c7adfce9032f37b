/* SPDX-License-Identifier: MIT */
/* This program's own file as a symbol file: what the compiler says of its lines is the truth. */
#pragma once

#include <vmscope/symbol.h>

/* Source of a function of two lines and more: its begin is of another than its byte LATER. */
#define SELF_FILE_SOURCE "/two/lines.c"
#define SELF_FILE_LATER	 0x20
#define SELF_FILE_LINE	 42 /* of that byte */

/*
 * The file, placed so that this function lies at `va`. `*base` is where the file begins then,
 * `*begin` the line of the function's begin.
 */
struct vms_symbol_file *self_file_open(uint64_t va, uint64_t *base, unsigned *begin);
