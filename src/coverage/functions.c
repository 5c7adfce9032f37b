/* SPDX-License-Identifier: MIT */
#include "coverage/functions.h"
#include "base/keyed_hash.h"
#include "base/texts.h"

#include <string.h>

struct vms_coverage_functions {
	struct vms_guest *guest;
	struct vms_texts *names;
	GHashTable *by_key; /* struct vms_coverage_function: the same as value; owned by `all` */
	GPtrArray *all;
	guint n_tried; /* so many functions of `all`, from the first, have had their graph made */
};

/* ---- the table ---------------------------------------------------------------------- */

static guint hash_function(gconstpointer key)
{
	const struct vms_coverage_function *function = key;
	return vms_hash_int64(&function->va) ^ vms_hash_text(function->name);
}

static gboolean is_same_function(gconstpointer a, gconstpointer b)
{
	const struct vms_coverage_function *x = a, *y = b;
	return x->va == y->va && strcmp(x->name, y->name) == 0 &&
	       g_strcmp0(x->module, y->module) == 0;
}

static void free_function(void *data)
{
	struct vms_coverage_function *function = data;
	g_array_unref(function->blocks);
	g_free(function->graph);
	g_free(function);
}

struct vms_coverage_functions *vms_coverage_functions_new(struct vms_guest *guest)
{
	struct vms_coverage_functions *functions = g_new0(struct vms_coverage_functions, 1);
	functions->guest = guest;
	functions->names = vms_texts_new();
	functions->by_key = g_hash_table_new(hash_function, is_same_function);
	functions->all = g_ptr_array_new_with_free_func(free_function);
	return functions;
}

void vms_coverage_functions_free(struct vms_coverage_functions *functions)
{
	if (!functions)
		return;
	g_hash_table_unref(functions->by_key);
	g_ptr_array_unref(functions->all);
	vms_texts_free(functions->names);
	g_free(functions);
}

static struct vms_coverage_function *take_function(struct vms_coverage_functions *functions,
						   const char *name, const char *module,
						   uint64_t va, uint64_t size)
{
	const struct vms_coverage_function key = { .name = name, .module = module, .va = va };
	struct vms_coverage_function *function = g_hash_table_lookup(functions->by_key, &key);
	if (function)
		return function;
	function = g_new(struct vms_coverage_function, 1);
	*function = (struct vms_coverage_function) {
		.name = vms_texts_keep(functions->names, name),
		.module = vms_texts_keep(functions->names, module),
		.va = va,
		.size = size,
		.blocks = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
	};
	g_hash_table_add(functions->by_key, function);
	g_ptr_array_add(functions->all, function);
	return function;
}

const GPtrArray *vms_coverage_functions_all(const struct vms_coverage_functions *functions)
{
	return functions->all;
}

bool vms_coverage_function_is_part(const struct vms_coverage_function *function)
{
	return strstr(function->name, ".cold");
}

/* ---- blocks ------------------------------------------------------------------------- */

/* A block may extend over several symbols, because execution may run from one into the next. */
bool vms_coverage_functions_add(struct vms_coverage_functions *functions, uint32_t block,
				uint64_t va, uint32_t size)
{
	const uint64_t end = va + size;
	struct vms_location location;
	bool is_first = true;
	for (uint64_t at = va; at < end; at = location.start + location.size) {
		if (!vms_guest_locate(functions->guest, NULL, at, &location) || !location.symbol)
			return !is_first;
		struct vms_coverage_function *function = take_function(
			functions, location.symbol, location.module, location.start, location.size);
		g_array_append_val(function->blocks, block);
		is_first = false;
		if (location.start + location.size <= at)
			return true;
	}
	return true;
}

/* ---- graphs ------------------------------------------------------------------------- */

bool vms_coverage_functions_lack_graphs(const struct vms_coverage_functions *functions)
{
	return functions->n_tried < functions->all->len;
}

static void make_graph(struct vms_coverage_function *function, struct vms_guest *guest,
		       struct vms_memory *memory)
{
	g_autoptr(vms_cfg) cfg = vms_cfg_new(guest, memory, function->va, NULL, NULL);
	if (!cfg)
		return;
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	function->graph = g_new(uint64_t, n);
	function->n_graph = (uint32_t)n;
	for (size_t i = 0; i < n; i++)
		function->graph[i] = blocks[i].va;
}

void vms_coverage_functions_make_graphs(struct vms_coverage_functions *functions,
					struct vms_memory *memory)
{
	for (; functions->n_tried < functions->all->len; functions->n_tried++) {
		struct vms_coverage_function *function =
			g_ptr_array_index(functions->all, functions->n_tried);
		if (!vms_coverage_function_is_part(function))
			make_graph(function, functions->guest, memory);
	}
}

/* ---- functions that did not run ------------------------------------------------------- */

/*
 * True for functions and parts of functions in code. The areas before functions, for patches and
 * for hashes of types, are never executed.
 */
static bool is_function(const struct vms_symbol *symbol)
{
	return symbol->type && strchr("tTwW", symbol->type) && !strstr(symbol->name, ".cold") &&
	       !g_str_has_prefix(symbol->name, "__pfx_") &&
	       !g_str_has_prefix(symbol->name, "__cfi_");
}

/* Adds a function. If an address has several names, uses the one that the symbolizer shows. */
static void add_symbol(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct vms_coverage_functions *functions = data;
	struct vms_location location;
	(void)module;
	if (is_function(symbol) &&
	    vms_guest_locate(functions->guest, NULL, symbol->va, &location) && location.symbol &&
	    location.start == symbol->va && strcmp(location.symbol, symbol->name) == 0)
		take_function(functions, location.symbol, location.module, location.start,
			      location.size);
}

void vms_coverage_functions_add_others(struct vms_coverage_functions *functions)
{
	vms_guest_lookup(functions->guest, NULL, add_symbol, functions);
}
