/* SPDX-License-Identifier: MIT */
#include "calls/functions.h"

#include <fnmatch.h>
#include <string.h>

struct table {
	const struct vms_calls_abi *abi;
	GArray *functions; /* struct vms_agent_function */
};

/*
 * True if the symbol is a function: a symbol in a code section (by the letters of nm, weak ones
 * included) that calls lead to. The kernel jumps to the cold parts of functions, but does not call
 * them. The areas before functions, for patches and for hashes of types, are never executed.
 */
static bool is_function(const struct vms_symbol *symbol)
{
	return symbol->type && strchr("tTwW", symbol->type) && !strstr(symbol->name, ".cold") &&
	       !g_str_has_prefix(symbol->name, "__pfx_") &&
	       !g_str_has_prefix(symbol->name, "__cfi_");
}

static bool matches_pattern(const char *name, const char *pattern)
{
	/* This comparison is fast, and most names fail it. */
	return strncmp(name, pattern, strcspn(pattern, "*[")) == 0 &&
	       fnmatch(pattern, name, 0) == 0;
}

static uint32_t find_kernel_flags(const struct vms_calls_abi *abi, const char *name)
{
	for (size_t i = 0; i < abi->n_names; i++)
		if (matches_pattern(name, abi->names[i].pattern))
			return abi->names[i].flags;
	return 0;
}

static void add_function(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct table *table = data;
	if (!is_function(symbol) || table->functions->len >= VMS_AGENT_MAX_FUNCTIONS)
		return;
	const struct vms_agent_function function = {
		.va = symbol->va,
		.flags = module ? 0 : find_kernel_flags(table->abi, symbol->name),
	};
	g_array_append_val(table->functions, function);
}

static int compare_functions(const void *a, const void *b)
{
	const struct vms_agent_function *x = a, *y = b;
	return x->va < y->va ? -1 : x->va > y->va;
}

/* Leaves one function for each address, with the flags of all its symbols. */
static void merge_aliases(GArray *functions)
{
	struct vms_agent_function *all = &g_array_index(functions, struct vms_agent_function, 0);
	guint n = 0;
	for (guint i = 0; i < functions->len; i++) {
		if (n > 0 && all[n - 1].va == all[i].va)
			all[n - 1].flags |= all[i].flags;
		else
			all[n++] = all[i];
	}
	g_array_set_size(functions, n);
}

/* ---- filters ---------------------------------------------------------- */

struct mark {
	GArray *functions;
	uint64_t flag;
	bool found;
};

static void mark_function(const struct vms_symbol *symbol, const char *module, void *data)
{
	(void)module;
	struct mark *mark = data;
	const struct vms_agent_function key = { .va = symbol->va };
	guint index;
	if (!is_function(symbol) ||
	    !g_array_binary_search(mark->functions, &key, compare_functions, &index))
		return;
	g_array_index(mark->functions, struct vms_agent_function, index).flags |= mark->flag;
	mark->found = true;
}

static bool mark_functions(struct vms_guest *guest, GArray *functions, const char *const *names,
			   uint64_t flag, GError **error)
{
	for (size_t i = 0; names && names[i]; i++) {
		struct mark mark = { functions, flag, false };
		vms_guest_lookup(guest, names[i], mark_function, &mark);
		if (mark.found)
			continue;
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			"cannot filter by the function %s: it is not in the guest's kernel, its "
			"loaded modules or the given symbol files (--symbols)",
			names[i]);
		return false;
	}
	return true;
}

GArray *vms_calls_list_functions(struct vms_guest *guest, const struct vms_calls_abi *abi,
				 const struct vms_calls_options *options, GError **error)
{
	g_autoptr(GArray) functions = g_array_new(FALSE, FALSE, sizeof(struct vms_agent_function));
	struct table table = { abi, functions };
	vms_guest_lookup(guest, NULL, add_function, &table);
	g_array_sort(functions, compare_functions);
	merge_aliases(functions);
	if (!mark_functions(guest, functions, options->only, VMS_AGENT_FUNCTION_ONLY, error) ||
	    !mark_functions(guest, functions, options->without, VMS_AGENT_FUNCTION_NOT, error) ||
	    !mark_functions(guest, functions, options->start_at, VMS_AGENT_FUNCTION_START, error) ||
	    !mark_functions(guest, functions, options->stop_at, VMS_AGENT_FUNCTION_STOP, error))
		return NULL;
	return g_steal_pointer(&functions);
}

bool vms_calls_has_names(const struct vms_calls_options *options)
{
	const char *const *const lists[] = { options->only, options->without, options->start_at,
					     options->stop_at };
	for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
		if (lists[i] && lists[i][0])
			return true;
	return false;
}

/* ---- one function ----------------------------------------------------- */

struct search {
	uint64_t va;
	bool found;
};

static void take_first(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct search *search = data;
	if (module || search->found || !is_function(symbol))
		return;
	search->va = symbol->va;
	search->found = true;
}

bool vms_calls_find_function(struct vms_guest *guest, const char *name, uint64_t *ret)
{
	struct search search = { 0 };
	vms_guest_lookup(guest, name, take_first, &search);
	*ret = search.va;
	return search.found;
}
