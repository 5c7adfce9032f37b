/* SPDX-License-Identifier: MIT */
/*
 * Options that a caller of the library fills. Each struct of options begins with its size in bytes,
 * as the caller was compiled with it: a library that is newer or older than its caller knows which
 * options the caller knows.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Copies the options of a caller into `ret`, of `size` bytes, which begins with a size, too. What
 * the caller does not know is 0, and so is everything if `options` is NULL. `name` is the struct's,
 * for messages. Errors: INVALID_ARGUMENT (the size makes no sense), UNSUPPORTED (the caller sets an
 * option that this library does not know).
 */
bool vms_options_copy(const void *options, void *ret, size_t size, const char *name,
		      GError **error);
