/* SPDX-License-Identifier: MIT */
#include "guest/symbols.h"
#include "base/keyed_hash.h"
#include "base/nearest.h"
#include "guest/guest-private.h"
#include "symbol/symbolizer-private.h"
#include <string.h>

#define ADDRESSES_LISTED 8 /* of symbols with the same name, in a message */

bool vms_guest_add_symbols(struct vms_guest *guest, struct vms_symbol_file *file,
			   const uint64_t *address, GError **error)
{
	GArray *files = vms_symbolizer_files(guest->symbolizer);
	uint64_t bias = 0;
	bool is_same = true;
	const bool is_kernel = VMS_GUEST_HAS(guest, is_own_file) &&
			       guest->ops->is_own_file(guest->system, file, &bias, &is_same);
	if (address) {
		bias = *address - vms_symbol_file_base(file);
	} else if (is_kernel && !is_same) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot use the symbol file: it is the vmlinux of another kernel than "
			    "the guest's %s",
			    guest->info.release);
		vms_symbol_file_close(file);
		return false;
	}
	vms_symbol_file_set_bias(file, bias);
	vms_symbolizer_add_file(guest->symbolizer, file, is_kernel);
	g_array_index(files, struct vms_symbolizer_file, files->len - 1).is_placed = address;
	return true;
}

void vms_guest_set_debug_files(struct vms_guest *guest, struct vms_debug_files *files)
{
	vms_symbolizer_set_debug_files(guest->symbolizer, files);
}

bool vms_guest_has_debug_files(const struct vms_guest *guest)
{
	return vms_symbolizer_debug_files(guest->symbolizer);
}

struct vms_symbolizer *vms_guest_symbolizer(const struct vms_guest *guest)
{
	return guest->symbolizer;
}

bool vms_guest_locate(struct vms_guest *guest, const struct vms_process *process, uint64_t va,
		      struct vms_location *ret)
{
	const bool in_kernel = vms_machine_arch(guest->machine)->is_kernel_address(va);
	const uint32_t space = in_kernel ? VMS_KERNEL_SPACE
			       : process ? process->index
					 : VMS_NO_SPACE;
	return vms_symbolizer_locate(guest->symbolizer, space, 0, va, ret);
}

/* Calls `each` for the symbols of a table that are called `name`, or for all. Returns how many. */
static size_t lookup_in_table(
	const struct vms_symbol_table *table, const char *module, const char *name,
	void (*each)(const struct vms_symbol *symbol, const char *module, void *data), void *data)
{
	size_t n = 0, cursor = 0;
	struct vms_symbol symbol;
	if (name) {
		for (; vms_symbol_table_next(table, name, &cursor, &symbol); n++)
			each(&symbol, module, data);
		return n;
	}
	for (; n < vms_symbol_table_count(table); n++) {
		symbol = vms_symbol_table_get(table, n);
		each(&symbol, module, data);
	}
	return n;
}

/* As the operation `symbols`. */
static struct vms_symbol_table *get_system_symbols(const struct vms_guest *guest, unsigned index)
{
	return VMS_GUEST_HAS(guest, symbols) ? guest->ops->symbols(guest->system, index) : NULL;
}

size_t vms_guest_lookup(struct vms_guest *guest, const char *name,
			void (*each)(const struct vms_symbol *symbol, const char *module,
				     void *data),
			void *data)
{
	const GArray *files = vms_symbolizer_files(guest->symbolizer);
	const struct vms_symbol_table *table = get_system_symbols(guest, 0);
	const size_t in_kernel = table ? lookup_in_table(table, NULL, name, each, data) : 0;
	size_t n = in_kernel;
	size_t n_modules;
	const struct vms_module *const *modules = vms_guest_modules(guest, &n_modules);
	for (size_t i = 0; i < n_modules; i++) {
		const struct vms_module *module = modules[i];
		n += lookup_in_table(module->symbols, module->name, name, each, data);
	}
	for (unsigned i = 1; (table = get_system_symbols(guest, i)); i++)
		n += lookup_in_table(table, vms_symbol_table_module(table), name, each, data);
	for (guint i = 0; i < files->len; i++) {
		const struct vms_symbolizer_file *symbols =
			&g_array_index(files, struct vms_symbolizer_file, i);
		/* The kernel's file has the same symbols as the kernel itself. */
		if (symbols->is_kernel && in_kernel > 0)
			continue;
		n += lookup_in_table(symbols->table, vms_symbol_table_module(symbols->table), name,
				     each, data);
	}
	return n;
}

static void offer_name(const struct vms_symbol *symbol, const char *module, void *data)
{
	(void)module;
	vms_nearest_add(data, symbol->name);
}

void vms_guest_offer_symbols(struct vms_guest *guest, struct vms_nearest *nearest)
{
	vms_guest_lookup(guest, NULL, offer_name, nearest);
}

char *vms_guest_nearest(struct vms_guest *guest, const char *name)
{
	struct vms_nearest nearest;
	vms_nearest_begin(&nearest, name);
	vms_guest_offer_symbols(guest, &nearest);
	return vms_nearest_end(&nearest);
}

struct address_list {
	GHashTable *seen; /* the addresses */
	GString *text;
	unsigned listed;
};

static void list_address(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct address_list *list = data;
	if (!g_hash_table_add(list->seen, g_memdup2(&symbol->va, sizeof(symbol->va))) ||
	    list->listed == ADDRESSES_LISTED)
		return;
	g_string_append_printf(list->text, "%s0x%" G_GINT64_MODIFIER "x", list->listed ? ", " : "",
			       symbol->va);
	if (module)
		g_string_append_printf(list->text, " (%s)", module);
	list->listed++;
}

char *vms_guest_addresses(struct vms_guest *guest, const char *name, size_t *n)
{
	struct address_list list = {
		.seen = g_hash_table_new_full(vms_hash_int64, g_int64_equal, g_free, NULL),
		.text = g_string_new(NULL),
	};
	vms_guest_lookup(guest, name, list_address, &list);
	*n = g_hash_table_size(list.seen);
	if (*n > list.listed)
		g_string_append_printf(list.text, " and %zu more", *n - list.listed);
	g_hash_table_unref(list.seen);
	return g_string_free(list.text, FALSE);
}

struct vms_types *vms_guest_types(struct vms_guest *guest, uint64_t va, GError **error)
{
	if (VMS_GUEST_HAS(guest, types))
		return guest->ops->types(guest->system, va, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "the types of this guest's code are not known");
	return NULL;
}

struct vms_symbol_table *vms_guest_kernel_symbols(const struct vms_guest *guest, uint64_t *start,
						  uint64_t *end)
{
	const GArray *files = vms_symbolizer_files(guest->symbolizer);
	struct vms_symbol_table *table = get_system_symbols(guest, 0);
	if (!table || !guest->ops->image)
		return NULL;
	/* A kernel without symbols may have a vmlinux that was added. */
	for (guint i = 0; i < files->len; i++) {
		const struct vms_symbolizer_file *symbols =
			&g_array_index(files, struct vms_symbolizer_file, i);
		if (symbols->is_kernel && vms_symbol_table_count(table) == 0)
			table = symbols->table;
	}
	guest->ops->image(guest->system, start, end);
	return vms_symbol_table_ref(table);
}

struct vms_symbol_table *vms_guest_symbol_file(const struct vms_guest *guest, unsigned index,
					       const char **name, uint64_t *base)
{
	const GArray *files = vms_symbolizer_files(guest->symbolizer);
	for (guint i = 0; i < files->len; i++) {
		const struct vms_symbolizer_file *symbols =
			&g_array_index(files, struct vms_symbolizer_file, i);
		if (symbols->is_kernel || index-- > 0)
			continue;
		*name = vms_symbol_table_module(symbols->table);
		*base = symbols->base;
		return vms_symbol_table_ref(symbols->table);
	}
	return NULL;
}

struct vms_symbol_table *vms_guest_symbol_file_offsets(const struct vms_guest *guest,
						       const char *name)
{
	const GArray *files = vms_symbolizer_files(guest->symbolizer);
	for (guint i = 0; i < files->len; i++) {
		const struct vms_symbolizer_file *symbols =
			&g_array_index(files, struct vms_symbolizer_file, i);
		if (!symbols->is_kernel &&
		    strcmp(vms_symbol_table_module(symbols->table), name) == 0)
			return vms_symbol_file_offsets(symbols->file);
	}
	return NULL;
}
