/* SPDX-License-Identifier: MIT */
/* Formats numbers, addresses and bytes like strace. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns the little-endian number of `n` bytes, at most 8, at offset `at`. Bytes beyond `size`
 * count as 0.
 */
uint64_t syscall_read_number(const void *bytes, size_t size, size_t at, size_t n);
/* Extends the sign of a number of `size` bytes. */
int64_t syscall_extend_sign(uint64_t number, unsigned size);
/* Appends a signed number. */
void syscall_append_signed(GString *out, int64_t number);
/* Appends an address; 0 is NULL. */
void syscall_append_address(GString *out, uint64_t address);
/* Appends bytes in quotes, and "..." if they are `cut`: there are more of them. */
void syscall_append_bytes(GString *out, const void *bytes, size_t size, bool cut);
/* The same with each byte in hexadecimal. */
void syscall_append_hex_bytes(GString *out, const void *bytes, size_t size, bool cut);
/* Appends the string in a buffer of `size` bytes. */
void syscall_append_string(GString *out, const void *bytes, size_t size);
/* Appends the numbers of the bits that are set, in [], with `between` between them. */
void syscall_append_bits(GString *out, const void *bytes, size_t size, const char *between);
