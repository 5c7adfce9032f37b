/* SPDX-License-Identifier: MIT */
#include "functions.h"
#include "base/keyed_hash.h"
#include <string.h>

bool functions_is_pattern(const char *text)
{
	return strpbrk(text, "*?");
}

bool functions_is_code(char type)
{
	return strchr("tTwWiu", type) && type;
}

void functions_begin(struct functions *functions, const char *pattern)
{
	*functions = (struct functions) {
		.pattern = g_pattern_spec_new(pattern),
		.seen = g_hash_table_new_full(vms_hash_int64, g_int64_equal, g_free, NULL),
		.vas = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
	};
}

void functions_add(struct functions *functions, const struct vms_symbol *symbol)
{
	if (g_pattern_spec_match_string(functions->pattern, symbol->name) &&
	    g_hash_table_add(functions->seen, g_memdup2(&symbol->va, sizeof(symbol->va))))
		g_array_append_val(functions->vas, symbol->va);
}

GArray *functions_end(struct functions *functions)
{
	g_pattern_spec_free(functions->pattern);
	g_hash_table_unref(functions->seen);
	if (functions->vas->len > 0)
		return functions->vas;
	g_array_unref(functions->vas);
	return NULL;
}

static void add_code(const struct vms_symbol *symbol, const char *module, void *data)
{
	(void)module;
	if (functions_is_code(symbol->type))
		functions_add(data, symbol);
}

GArray *functions_match(struct session *session, const char *pattern, GError **error)
{
	struct functions functions;
	functions_begin(&functions, pattern);
	vms_guest_lookup(session->guest, NULL, add_code, &functions);
	GArray *vas = functions_end(&functions);
	if (!vas)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no function matches \"%s\" in this guest", pattern);
	return vas;
}
