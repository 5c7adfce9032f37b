/* SPDX-License-Identifier: MIT */
/* Bytes of programs, as strace shows them. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gets a little-endian number of 8 bytes at most; what is not among the bytes is 0. */
uint64_t syscall_number(const void *bytes, size_t size, size_t at, size_t n);
int64_t syscall_with_sign(uint64_t number, unsigned size);
/* Appends a signed number. */
void syscall_append_signed(GString *out, int64_t number);
/* Appends an address; 0 is NULL. */
void syscall_append_address(GString *out, uint64_t address);
/* Appends bytes in quotes. `cut`: there are more of them. */
void syscall_append_bytes(GString *out, const void *bytes, size_t size, bool cut);
/* The same with each byte in hexadecimal. */
void syscall_append_hex_bytes(GString *out, const void *bytes, size_t size, bool cut);
/* Appends the string that begins there and has `size` bytes at most. */
void syscall_append_string(GString *out, const void *bytes, size_t size);
/* Appends the numbers of the bits that are set, in []. */
void syscall_append_bits(GString *out, const void *bytes, size_t size, const char *between);
