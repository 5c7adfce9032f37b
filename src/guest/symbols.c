/* SPDX-License-Identifier: MIT */
#include "guest/symbols.h"
#include "guest/guest-private.h"
#include "guest/kernel_code.h"
#include <string.h>

/* ---- symbols ---------------------------------------------------------- */

bool vms_guest_add_symbols(struct vms_guest *guest, struct vms_symbol_file *file,
			   const uint64_t *address, GError **error)
{
	struct vms_guest_symbols symbols = { .file = file, .is_placed = address != NULL };
	uint64_t bias = 0;
	bool is_same = true;
	if (VMS_GUEST_HAS(guest, is_own_file))
		symbols.is_kernel = guest->ops->is_own_file(guest->system, file, &bias, &is_same);
	if (address) {
		bias = *address - vms_symbol_file_base(file);
	} else if (symbols.is_kernel && !is_same) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot use the symbol file: it is the vmlinux of another kernel than "
			    "the guest's %s",
			    guest->info.release);
		vms_symbol_file_close(file);
		return false;
	}
	vms_symbol_file_set_bias(file, bias);
	symbols.base = vms_symbol_file_base(file) + bias;
	symbols.table = vms_symbol_file_table(file);
	g_array_append_val(guest->symbol_files, symbols);
	return true;
}

/* Adds what symbol files know: the name where there is none yet, and the line. */
static bool locate_in_files(const struct vms_guest *guest, uint64_t va, struct vms_location *ret)
{
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		struct vms_symbol symbol;
		if (!vms_symbol_table_find(symbols->table, va, &symbol))
			continue;
		vms_symbol_file_line(symbols->file, va, &ret->source, &ret->line);
		if (ret->symbol)
			return true;
		ret->symbol = symbol.name;
		ret->module = symbols->is_kernel ? NULL : vms_symbol_table_module(symbols->table);
		ret->offset = va - symbol.va;
		ret->start = symbol.va;
		ret->size = symbol.size;
		return true;
	}
	return false;
}

uint32_t vms_guest_note_code(struct vms_guest *guest, uint64_t va)
{
	return VMS_GUEST_HAS(guest, note_code) ? guest->ops->note_code(guest->system, va) : 0;
}

bool vms_guest_locate_noted(struct vms_guest *guest, uint32_t number, uint64_t va,
			    struct vms_location *ret)
{
	*ret = (struct vms_location) { 0 };
	bool in_guest = VMS_GUEST_HAS(guest, locate_noted) &&
			guest->ops->locate_noted(guest->system, number, va, ret);
	bool in_files = locate_in_files(guest, va, ret);
	return in_guest || in_files;
}

bool vms_guest_locate(struct vms_guest *guest, const struct vms_process *process, uint64_t va,
		      struct vms_location *ret)
{
	*ret = (struct vms_location) { 0 };
	bool in_guest =
		VMS_GUEST_HAS(guest, locate) && guest->ops->locate(guest->system, process, va, ret);
	bool in_files = locate_in_files(guest, va, ret);
	return in_guest || in_files;
}

/* Calls `each` for the symbols of a table called `name`, or all; their number. */
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

/* See the operation `symbols`. */
static struct vms_symbol_table *system_symbols(const struct vms_guest *guest, unsigned index)
{
	return VMS_GUEST_HAS(guest, symbols) ? guest->ops->symbols(guest->system, index) : NULL;
}

size_t vms_guest_lookup(struct vms_guest *guest, const char *name,
			void (*each)(const struct vms_symbol *symbol, const char *module,
				     void *data),
			void *data)
{
	const struct vms_symbol_table *table = system_symbols(guest, 0);
	const size_t in_kernel = table ? lookup_in_table(table, NULL, name, each, data) : 0;
	size_t n = in_kernel;
	const GPtrArray *modules = vms_guest_modules(guest);
	for (guint i = 0; modules && i < modules->len; i++) {
		const struct vms_module *module = modules->pdata[i];
		n += lookup_in_table(module->symbols, module->name, name, each, data);
	}
	for (unsigned i = 1; (table = system_symbols(guest, i)); i++)
		n += lookup_in_table(table, vms_symbol_table_module(table), name, each, data);
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		/* The kernel's file repeats what the kernel says itself. */
		if (symbols->is_kernel && in_kernel > 0)
			continue;
		n += lookup_in_table(symbols->table, vms_symbol_table_module(symbols->table), name,
				     each, data);
	}
	return n;
}

/* Its own, or where it has none those of its vmlinux. */
struct vms_symbol_table *vms_guest_kernel_symbols(const struct vms_guest *guest, uint64_t *start,
						  uint64_t *end)
{
	struct vms_symbol_table *table = system_symbols(guest, 0);
	if (!table || !guest->ops->image)
		return NULL;
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		if (symbols->is_kernel && vms_symbol_table_count(table) == 0)
			table = symbols->table;
	}
	guest->ops->image(guest->system, start, end);
	return vms_symbol_table_ref(table);
}

struct vms_symbol_table *vms_guest_symbol_file(const struct vms_guest *guest, unsigned index,
					       const char **name, uint64_t *base)
{
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
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
	for (guint i = 0; i < guest->symbol_files->len; i++) {
		const struct vms_guest_symbols *symbols =
			&g_array_index(guest->symbol_files, struct vms_guest_symbols, i);
		if (!symbols->is_kernel &&
		    strcmp(vms_symbol_table_module(symbols->table), name) == 0)
			return vms_symbol_file_offsets(symbols->file);
	}
	return NULL;
}
