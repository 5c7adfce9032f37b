/* SPDX-License-Identifier: MIT */
/* Functions of the guest by patterns of their names. */
#pragma once

#include "session.h"

/* True for the type of a symbol, as `nm` shows it, that names code. */
bool functions_is_code(char type);
/* True if the text has the signs of a pattern: * or ?. */
bool functions_is_pattern(const char *text);
/*
 * Returns the addresses of all functions whose names match, each once: a new array of uint64_t.
 * Errors: NOT_FOUND (there is none).
 */
GArray *functions_match(struct session *session, const char *pattern, GError **error);
