/* SPDX-License-Identifier: MIT */
/*
 * The symbolizer. The kernel's image is known before the first address is looked up, and never
 * changes. Most addresses lie in it, and are found without the lock. All other addresses are found
 * in lists of mappings, under the lock. Symbol tables do not change, and are read without it.
 */
#include "base/texts.h"
#include "symbol/binary.h"
#include "symbol/mappings.h"
#include "symbol/symbolizer-private.h"
#include <string.h>

/* Largest number of mappings of an address space: Linux's default limit of areas. */
#define MAPPINGS_LIMIT (1u << 16)
/* Largest sum of the sizes of all names of files, in bytes. */
#define NAMES_LIMIT (64u << 20)
/* Largest size of the symbols of noted code, in bytes. */
#define NOTED_LIMIT (64u << 20)

/* Loaded code that samples refer to by its number. It may have been unloaded since. */
struct noted_code {
	struct vms_symbol_table *symbols;
	uint64_t part; /* where this part of a module begins; 0 for BPF programs */
};

/* The address space of a process. */
struct space {
	struct vms_process process;
	struct vms_mappings *mappings; /* NULL until the first is told */
	/* Tables of code that the process has made, the last one first; names of all are in use. */
	GSList *made;
};

struct vms_symbolizer {
	gatomicrefcount refs;
	struct vms_mapping image; /* the kernel's first mapping; empty until it is told */
	GArray *files;		  /* struct vms_symbolizer_file */
	struct vms_debug_files *debug_files; /* or NULL */
	GMutex lock;			     /* guards all that follows */
	struct vms_mappings *kernel;	     /* mappings of the kernel that stay for ever */
	struct vms_mappings *loaded;	     /* mappings of the code that is loaded into it now */
	GArray *noted; /* struct noted_code; its number is the index plus one */
	size_t noted_bytes;
	GPtrArray *spaces; /* struct space, by index */
	struct vms_texts *names;
	size_t names_bytes;
};

static void clear_file(void *data)
{
	struct vms_symbolizer_file *file = data;
	vms_symbol_table_unref(file->table);
	vms_symbol_file_close(file->file);
}

static void clear_noted(void *data)
{
	vms_symbol_table_unref(((struct noted_code *)data)->symbols);
}

static void unref_table(void *data)
{
	vms_symbol_table_unref(data);
}

static void free_space(void *data)
{
	struct space *space = data;
	g_slist_free_full(space->made, unref_table);
	vms_mappings_free(space->mappings);
	g_free(space);
}

struct vms_symbolizer *vms_symbolizer_new(void)
{
	struct vms_symbolizer *symbolizer = g_new0(struct vms_symbolizer, 1);
	g_atomic_ref_count_init(&symbolizer->refs);
	g_mutex_init(&symbolizer->lock);
	symbolizer->files = g_array_new(FALSE, TRUE, sizeof(struct vms_symbolizer_file));
	g_array_set_clear_func(symbolizer->files, clear_file);
	symbolizer->kernel = vms_mappings_new();
	symbolizer->loaded = vms_mappings_new();
	symbolizer->noted = g_array_new(FALSE, FALSE, sizeof(struct noted_code));
	g_array_set_clear_func(symbolizer->noted, clear_noted);
	symbolizer->spaces = g_ptr_array_new_with_free_func(free_space);
	symbolizer->names = vms_texts_new();
	return symbolizer;
}

struct vms_symbolizer *vms_symbolizer_ref(struct vms_symbolizer *symbolizer)
{
	g_atomic_ref_count_inc(&symbolizer->refs);
	return symbolizer;
}

void vms_symbolizer_unref(struct vms_symbolizer *symbolizer)
{
	if (!symbolizer || !g_atomic_ref_count_dec(&symbolizer->refs))
		return;
	vms_symbol_table_unref(symbolizer->image.symbols);
	g_array_unref(symbolizer->files);
	vms_debug_files_unref(symbolizer->debug_files);
	vms_mappings_free(symbolizer->kernel);
	vms_mappings_free(symbolizer->loaded);
	g_array_unref(symbolizer->noted);
	g_ptr_array_unref(symbolizer->spaces);
	vms_texts_free(symbolizer->names);
	g_mutex_clear(&symbolizer->lock);
	g_free(symbolizer);
}

/* ---- filling it ------------------------------------------------------- */

/* Returns the one copy of `name`. The caller holds the lock. */
static const char *intern_name(struct vms_symbolizer *symbolizer, const char *name)
{
	const char *known = vms_texts_find(symbolizer->names, name);
	if (known)
		return known;
	const size_t size = strlen(name) + 1;
	if (size > NAMES_LIMIT - symbolizer->names_bytes)
		return "[file]";
	symbolizer->names_bytes += size;
	return vms_texts_keep(symbolizer->names, name);
}

const char *vms_symbolizer_intern(struct vms_symbolizer *symbolizer, const char *name)
{
	g_mutex_lock(&symbolizer->lock);
	const char *interned = intern_name(symbolizer, name);
	g_mutex_unlock(&symbolizer->lock);
	return interned;
}

const struct vms_process *vms_symbolizer_add_space(struct vms_symbolizer *symbolizer,
						   const struct vms_process *process)
{
	struct space *space = g_new0(struct space, 1);
	space->process = *process;
	g_mutex_lock(&symbolizer->lock);
	space->process.index = symbolizer->spaces->len;
	g_ptr_array_add(symbolizer->spaces, space);
	g_mutex_unlock(&symbolizer->lock);
	return &space->process;
}

/* Returns a process's space, or NULL for another `index`. The caller holds the lock. */
static struct space *find_space(const struct vms_symbolizer *symbolizer, uint32_t index)
{
	return index < symbolizer->spaces->len ? symbolizer->spaces->pdata[index] : NULL;
}

/* Keeps the file of a mapping that is told again: its teller may not know of it yet. */
static void keep_binary(const struct vms_mappings *mappings, struct vms_mapping *again)
{
	const struct vms_mapping *known = vms_mappings_find(mappings, again->start);
	if (again->binary || again->file == 0 || !known || known->start != again->start ||
	    known->file != again->file || known->offset != again->offset)
		return;
	again->binary = known->binary;
	again->symbols = known->symbols;
}

void vms_symbolizer_map(struct vms_symbolizer *symbolizer, uint32_t space,
			const struct vms_mapping *mapping)
{
	struct vms_mapping kept = *mapping;
	g_mutex_lock(&symbolizer->lock);
	struct space *process = find_space(symbolizer, space);
	if (process && !process->mappings)
		process->mappings = vms_mappings_new();
	struct vms_mappings *mappings = process			    ? process->mappings
					: space == VMS_KERNEL_SPACE ? symbolizer->kernel
								    : NULL;
	if (mappings) {
		kept.name = kept.name ? intern_name(symbolizer, kept.name) : NULL;
		kept.build_id = kept.build_id ? intern_name(symbolizer, kept.build_id) : NULL;
		keep_binary(mappings, &kept);
		vms_mappings_put(mappings, &kept, MAPPINGS_LIMIT);
		if (space == VMS_KERNEL_SPACE && symbolizer->image.end == 0) {
			symbolizer->image = kept;
			if (kept.symbols)
				vms_symbol_table_ref(kept.symbols);
		}
	}
	g_mutex_unlock(&symbolizer->lock);
}

void vms_symbolizer_set_mappings(struct vms_symbolizer *symbolizer, uint32_t space,
				 const struct vms_mappings *mappings)
{
	g_mutex_lock(&symbolizer->lock);
	struct space *process = find_space(symbolizer, space);
	if (process) {
		vms_mappings_free(process->mappings);
		process->mappings = vms_mappings_copy(mappings);
	}
	g_mutex_unlock(&symbolizer->lock);
}

void vms_symbolizer_attach_binary(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t start,
				  uint64_t file, struct vms_binary *binary,
				  struct vms_symbol_table *functions)
{
	g_mutex_lock(&symbolizer->lock);
	const struct space *process = find_space(symbolizer, space);
	const struct vms_mapping *found =
		process ? vms_mappings_find(process->mappings, start) : NULL;
	if (found && found->start == start && found->file == file &&
	    (!found->binary || (functions && !found->symbols))) {
		struct vms_mapping mapping = *found;
		mapping.binary = binary;
		mapping.symbols = functions;
		vms_mappings_put(process->mappings, &mapping, MAPPINGS_LIMIT);
	}
	g_mutex_unlock(&symbolizer->lock);
}

void vms_symbolizer_load(struct vms_symbolizer *symbolizer, const struct vms_mapping *loaded,
			 size_t n)
{
	struct vms_mappings *mappings = vms_mappings_new_of(loaded, n);
	g_mutex_lock(&symbolizer->lock);
	struct vms_mappings *before = symbolizer->loaded;
	symbolizer->loaded = mappings;
	g_mutex_unlock(&symbolizer->lock);
	vms_mappings_free(before);
}

void vms_symbolizer_add_file(struct vms_symbolizer *symbolizer, struct vms_symbol_file *file,
			     bool is_kernel)
{
	const struct vms_symbolizer_file added = {
		.file = file,
		.table = vms_symbol_file_table(file),
		.base = vms_symbol_file_base(file) + vms_symbol_file_bias(file),
		.is_kernel = is_kernel,
	};
	g_array_append_val(symbolizer->files, added);
}

GArray *vms_symbolizer_files(const struct vms_symbolizer *symbolizer)
{
	return symbolizer->files;
}

void vms_symbolizer_set_made_code(struct vms_symbolizer *symbolizer, uint32_t space,
				  struct vms_symbol_table *table)
{
	g_mutex_lock(&symbolizer->lock);
	struct space *process = find_space(symbolizer, space);
	if (process)
		process->made = g_slist_prepend(process->made, vms_symbol_table_ref(table));
	g_mutex_unlock(&symbolizer->lock);
}

struct vms_symbol_table *vms_symbolizer_made_code(struct vms_symbolizer *symbolizer, uint32_t space)
{
	g_mutex_lock(&symbolizer->lock);
	const struct space *process = find_space(symbolizer, space);
	struct vms_symbol_table *table = process && process->made ? process->made->data : NULL;
	g_mutex_unlock(&symbolizer->lock);
	return table;
}

void vms_symbolizer_set_debug_files(struct vms_symbolizer *symbolizer,
				    struct vms_debug_files *files)
{
	vms_debug_files_ref(files);
	vms_debug_files_unref(symbolizer->debug_files);
	symbolizer->debug_files = files;
}

struct vms_debug_files *vms_symbolizer_debug_files(const struct vms_symbolizer *symbolizer)
{
	return symbolizer->debug_files;
}

void vms_symbolizer_exchange_files(struct vms_symbolizer *symbolizer, struct vms_symbolizer *other)
{
	GArray *files = symbolizer->files;
	struct vms_debug_files *debug_files = symbolizer->debug_files;
	symbolizer->files = other->files;
	symbolizer->debug_files = other->debug_files;
	other->files = files;
	other->debug_files = debug_files;
}

/* ---- naming ----------------------------------------------------------- */

const struct vms_process *vms_symbolizer_process(struct vms_symbolizer *symbolizer, uint32_t space)
{
	g_mutex_lock(&symbolizer->lock);
	const struct space *found = find_space(symbolizer, space);
	g_mutex_unlock(&symbolizer->lock);
	return found ? &found->process : NULL;
}

bool vms_symbolizer_mapping(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t va,
			    struct vms_mapping *ret)
{
	g_mutex_lock(&symbolizer->lock);
	const struct space *process = find_space(symbolizer, space);
	const struct vms_mapping *found = process ? vms_mappings_find(process->mappings, va) : NULL;
	if (found)
		*ret = *found;
	g_mutex_unlock(&symbolizer->lock);
	return found != NULL;
}

static bool is_in_image(const struct vms_symbolizer *symbolizer, uint64_t va)
{
	return va >= symbolizer->image.start && va < symbolizer->image.end;
}

/* Finds the mapping of a kernel address outside the image. */
static bool find_in_kernel(struct vms_symbolizer *symbolizer, uint64_t va, struct vms_mapping *ret)
{
	g_mutex_lock(&symbolizer->lock);
	const struct vms_mapping *found = vms_mappings_find(symbolizer->kernel, va);
	if (!found)
		found = vms_mappings_find(symbolizer->loaded, va);
	if (found)
		*ret = *found;
	g_mutex_unlock(&symbolizer->lock);
	return found != NULL;
}

/* Locates `va` in a table of symbols. `moved` is added to the table's addresses. */
static bool locate_symbol(const struct vms_symbol_table *symbols, uint64_t moved, uint64_t va,
			  struct vms_location *ret)
{
	struct vms_symbol symbol;
	if (!symbols || !vms_symbol_table_find(symbols, va - moved, &symbol))
		return false;
	ret->symbol = symbol.name;
	ret->start = symbol.va + moved;
	ret->offset = va - ret->start;
	ret->size = symbol.size;
	return true;
}

/* Locates `va` in loaded code. */
static bool locate_code(const struct noted_code *code, uint64_t va, struct vms_location *ret)
{
	if (!locate_symbol(code->symbols, 0, va, ret))
		return false;
	ret->module = vms_symbol_table_module(code->symbols);
	ret->part = code->part;
	return true;
}

static struct noted_code get_loaded_code(const struct vms_mapping *mapping)
{
	return (struct noted_code) {
		.symbols = mapping->symbols,
		.part = mapping->kind == VMS_MAPPING_MODULE ? mapping->start : 0,
	};
}

static bool is_loaded_code(const struct vms_mapping *mapping)
{
	return mapping->kind == VMS_MAPPING_MODULE || mapping->kind == VMS_MAPPING_PROGRAM;
}

static bool locate_in_mapping(const struct vms_mapping *mapping, uint64_t va,
			      struct vms_location *ret)
{
	if (is_loaded_code(mapping)) {
		const struct noted_code code = get_loaded_code(mapping);
		return locate_code(&code, va, ret);
	}
	ret->module = mapping->name;
	if (locate_symbol(vms_mappings_functions(mapping), mapping->start - mapping->offset, va,
			  ret))
		return true;
	if (mapping->kind == VMS_MAPPING_FILE)
		ret->offset = va - mapping->start + mapping->offset;
	return mapping->kind == VMS_MAPPING_FILE;
}

static bool locate_noted(struct vms_symbolizer *symbolizer, uint32_t number, uint64_t va,
			 struct vms_location *ret)
{
	struct noted_code code = { 0 };
	g_mutex_lock(&symbolizer->lock);
	if (number <= symbolizer->noted->len)
		code = g_array_index(symbolizer->noted, struct noted_code, number - 1);
	g_mutex_unlock(&symbolizer->lock);
	return locate_code(&code, va, ret);
}

/* Locates `va` in code that a process has made at run time. */
static bool locate_made(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t va,
			struct vms_location *ret)
{
	const struct vms_symbol_table *made = vms_symbolizer_made_code(symbolizer, space);
	if (!locate_symbol(made, 0, va, ret))
		return false;
	ret->module = vms_symbol_table_module(made);
	return true;
}

static bool locate_in_process(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t va,
			      struct vms_location *ret)
{
	struct vms_mapping mapping;
	const bool is_mapped = vms_symbolizer_mapping(symbolizer, space, va, &mapping);
	if (is_mapped && mapping.file)
		return locate_in_mapping(&mapping, va, ret);
	return locate_made(symbolizer, space, va, ret) ||
	       (is_mapped && locate_in_mapping(&mapping, va, ret));
}

/* Locates `va` by what is mapped there. */
static bool locate_in_space(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t va,
			    struct vms_location *ret)
{
	struct vms_mapping mapping;
	if (space != VMS_KERNEL_SPACE)
		return locate_in_process(symbolizer, space, va, ret);
	if (is_in_image(symbolizer, va))
		return locate_in_mapping(&symbolizer->image, va, ret);
	return find_in_kernel(symbolizer, va, &mapping) && locate_in_mapping(&mapping, va, ret);
}

/* Adds what symbol files know: the line, and the name if there is none yet. */
static bool locate_in_files(const struct vms_symbolizer *symbolizer, uint64_t va,
			    struct vms_location *ret)
{
	for (guint i = 0; i < symbolizer->files->len; i++) {
		const struct vms_symbolizer_file *file =
			&g_array_index(symbolizer->files, struct vms_symbolizer_file, i);
		struct vms_symbol symbol;
		if (!vms_symbol_table_find(file->table, va, &symbol))
			continue;
		vms_symbol_file_line(file->file, va, &ret->source, &ret->line);
		if (ret->symbol)
			return true;
		ret->symbol = symbol.name;
		ret->module = file->is_kernel ? NULL : vms_symbol_table_module(file->table);
		ret->offset = va - symbol.va;
		ret->start = symbol.va;
		ret->size = symbol.size;
		return true;
	}
	return false;
}

bool vms_symbolizer_locate(struct vms_symbolizer *symbolizer, uint32_t space, uint32_t code,
			   uint64_t va, struct vms_location *ret)
{
	*ret = (struct vms_location) { 0 };
	bool is_mapped = code ? locate_noted(symbolizer, code, va, ret)
			      : locate_in_space(symbolizer, space, va, ret);
	bool in_files = locate_in_files(symbolizer, va, ret);
	return is_mapped || in_files;
}

/* ---- noting ----------------------------------------------------------- */

/* Returns the number of `code`, or 0 if NOTED_LIMIT is reached. The caller holds the lock. */
static uint32_t number_code(struct vms_symbolizer *symbolizer, const struct noted_code *code)
{
	GArray *noted = symbolizer->noted;
	/* The search begins at the end, where the code is that is loaded now. */
	for (guint i = noted->len; i-- > 0;) {
		const struct noted_code *known = &g_array_index(noted, struct noted_code, i);
		if (known->symbols == code->symbols && known->part == code->part)
			return i + 1;
	}
	const size_t bytes = sizeof(*code) + vms_symbol_table_bytes(code->symbols);
	if (bytes > NOTED_LIMIT - symbolizer->noted_bytes)
		return 0;
	symbolizer->noted_bytes += bytes;
	vms_symbol_table_ref(code->symbols);
	g_array_append_vals(noted, code, 1);
	return noted->len;
}

uint32_t vms_symbolizer_note_code(struct vms_symbolizer *symbolizer, uint64_t va)
{
	struct vms_symbol symbol;
	uint32_t number = 0;
	if (is_in_image(symbolizer, va))
		return 0;
	g_mutex_lock(&symbolizer->lock);
	const struct vms_mapping *found = vms_mappings_find(symbolizer->kernel, va)
						  ? NULL
						  : vms_mappings_find(symbolizer->loaded, va);
	if (found && found->symbols && vms_symbol_table_find(found->symbols, va, &symbol)) {
		const struct noted_code code = get_loaded_code(found);
		number = number_code(symbolizer, &code);
	}
	g_mutex_unlock(&symbolizer->lock);
	return number;
}
