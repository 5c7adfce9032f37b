/* SPDX-License-Identifier: MIT */
/* Functions of the guest by patterns of their names. */
#pragma once

#include "session.h"

/* True for the type of a symbol, as `nm` shows it, that names code. */
bool functions_is_code(char type);
/* True if the text has the signs of a pattern: * or ?. */
bool functions_is_pattern(const char *text);
/* Addresses of functions whose names match a pattern, each once. */
struct functions {
	GPatternSpec *pattern;
	GHashTable *seen; /* addresses: a function may have several names */
	GArray *vas;	  /* uint64_t */
};
void functions_begin(struct functions *functions, const char *pattern);
/* Adds the symbol's address if its name matches. */
void functions_add(struct functions *functions, const struct vms_symbol *symbol);
/* Returns the addresses: a new array of uint64_t, or NULL if there are none. Frees the rest. */
GArray *functions_end(struct functions *functions);

/*
 * Returns the addresses of all functions whose names match, each once: a new array of uint64_t.
 * Errors: NOT_FOUND (there is none).
 */
GArray *functions_match(struct session *session, const char *pattern, GError **error);
