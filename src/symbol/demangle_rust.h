/* SPDX-License-Identifier: MIT */
/* Names as Rust mangles them since "v0" (RFC 2603, rustc's book, "Symbol mangling"). */
#pragma once

#include <stddef.h>

/*
 * Returns a readable form of a name that begins with "_R", newly allocated, of at most `limit`
 * bytes. NULL if it is no such name, or its readable form is longer. Hashes of crates, lifetimes
 * and the types of constants are left out.
 */
char *vms_demangle_rust(const char *name, size_t limit);
