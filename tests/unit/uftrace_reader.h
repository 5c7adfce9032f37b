/* SPDX-License-Identifier: MIT */
/*
 * Reads a data directory as uftrace does, made from its format and not from the code that writes
 * it: names a record's address by the first mapping that has it, and a line of that mapping's
 * symbol file. What is not as uftrace has it fails the test.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

enum { UFTRACE_ENTRY, UFTRACE_EXIT, UFTRACE_LOST };

struct uftrace_record {
	uint64_t time;
	unsigned type, more, magic, depth;
	uint64_t address;
};

/* A file of the directory; newly allocated. `size` may be NULL. */
char *uftrace_read_file(const char *directory, const char *name, gsize *size);
struct uftrace_record uftrace_read_record(const char *directory, const char *name, size_t index);
/* The symbol at `offset` of a file of symbols; newly allocated, or NULL. */
char *uftrace_find_symbol(const char *text, uint64_t offset);
/* What a record's function is called is this; NULL: it has no name. */
void uftrace_assert_name(const char *directory, const char *file, size_t index,
			 const char *expected);
