/* SPDX-License-Identifier: MIT */
#include "functions.h"
#include <string.h>

struct matches {
	GPatternSpec *pattern;
	GHashTable *seen; /* addresses: a function may have several names */
	GArray *vas;	  /* uint64_t */
};

bool functions_is_pattern(const char *text)
{
	return strpbrk(text, "*?");
}

bool functions_is_code(char type)
{
	return strchr("tTwWiu", type) && type;
}

static void add_match(const struct vms_symbol *symbol, const char *module, void *data)
{
	(void)module;
	struct matches *matches = data;
	if (functions_is_code(symbol->type) &&
	    g_pattern_spec_match_string(matches->pattern, symbol->name) &&
	    g_hash_table_add(matches->seen, g_memdup2(&symbol->va, sizeof(symbol->va))))
		g_array_append_val(matches->vas, symbol->va);
}

GArray *functions_match(struct session *session, const char *pattern, GError **error)
{
	struct matches matches = {
		.pattern = g_pattern_spec_new(pattern),
		.seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL),
		.vas = g_array_new(false, false, sizeof(uint64_t)),
	};
	vms_guest_lookup(session->guest, NULL, add_match, &matches);
	g_pattern_spec_free(matches.pattern);
	g_hash_table_unref(matches.seen);
	if (matches.vas->len > 0)
		return matches.vas;
	g_array_unref(matches.vas);
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "no function matches \"%s\" in this guest", pattern);
	return NULL;
}
