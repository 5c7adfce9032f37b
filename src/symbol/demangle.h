/* SPDX-License-Identifier: MIT */
/* Makes names of C++ and Rust readable. */
#pragma once

#include <stddef.h>

/*
 * Returns the name as a programmer writes it, newly allocated: "std::sort(...)" for "_ZSt4sort…".
 * Rust's names of the legacy kind lose their hash. NULL if it is not such a name, or too long: the
 * name may be hostile. `*budget` is how many bytes may still be read and written in all; when it is
 * used up, the result is NULL.
 */
char *vms_demangle(const char *name, size_t *budget);
