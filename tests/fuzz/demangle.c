/* SPDX-License-Identifier: MIT */
/*
 * A mangled name of C++ or Rust.
 *
 * Covers: src/symbol/demangle.c src/symbol/demangle_rust.c.
 */
#include "symbol/demangle.h"
#include <glib.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t budget = 4096;
	g_autofree char *name = g_strndup((const char *)data, size);
	g_autofree char *readable = vms_demangle(name, &budget);
	g_assert_cmpuint(readable ? strlen(readable) : 0, <=, 4096);
	return 0;
}
