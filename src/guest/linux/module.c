/* SPDX-License-Identifier: MIT */
/*
 * Loaded kernel modules. Their list begins at `modules` (include/linux/module.h). Each module has
 * parts in memory, symbols, which are read as /proc/kallsyms shows them (kernel/module/kallsyms.c),
 * and an unwind table.
 */
#include "guest/linux/module.h"
#include "base/search.h"
#include "base/text.h"
#include "guest/linux/change_stamp.h"
#include "guest/linux/list.h"
#include "guest/linux/member.h"
#include "guest/linux/orc_load.h"
#include <stdlib.h>
#include <vmscope/log.h>

#define MODULES_LIMIT 4096
#define BYTES_LIMIT   (256u << 20) /* that one reading of the list may read and keep */
#define NAME_SIZE     64	   /* of a module's name: MODULE_NAME_LEN is 56 */
#define KSYM_SIZE     512	   /* of a symbol's name: KSYM_NAME_LEN */
#define REGIONS_LIMIT 16	   /* parts of a module; the kernel has 7 kinds */
#define REGION_LIMIT  (1u << 30)   /* bytes of a part */
#define MODULE_SIZE   (64u << 10)  /* largest size of a struct module, which has about 1300 bytes */

#define ORC_SIZE 10 /* bytes of an unwind table's entry: 6 and its address */

/* Elf64_Sym */
#define SYM_SIZE  24
#define SYM_NAME  0
#define SYM_INFO  4
#define SYM_SHNDX 6
#define SYM_VALUE 8

/* A part of a module in memory. */
struct region {
	uint64_t va, size;
	bool is_text;
};

/* A module, and what only this file and the unwinder know of it. */
struct loaded_module {
	struct vms_module module; /* first, so that a pointer to one is a pointer to the other */
	uint64_t va;		  /* address of its struct module */
	struct region regions[REGIONS_LIMIT];
	unsigned n_regions;
	bool is_settled;	    /* it cannot change while the list's stamp stays the same */
	bool is_torn;		    /* it may have changed while it was read */
	uint64_t symtab, n_symbols; /* address of its symbols, and their number */
	struct vms_orc *orc;
};

struct vms_linux_modules {
	uint64_t head;	   /* address of the list's head */
	int64_t unformed;  /* MODULE_STATE_UNFORMED: the module is not complete, or unloaded */
	int64_t live;	   /* MODULE_STATE_LIVE: its init function has returned */
	int64_t init_text; /* MOD_INIT_TEXT: an index of `mem`; -1: unknown */
	struct vms_stamp stamp;
	bool counts_parts; /* the stamp also changes when a module's init parts are freed */
	bool is_settled;   /* no module can change while the stamp stays the same */
	GPtrArray *list;   /* struct loaded_module, in the order of reading */
	GArray *regions;   /* struct placed_region of all modules, by address */
	size_t budget;	   /* bytes that this reading of the list may still read and keep */
	uint64_t size;	   /* of a struct module, in bytes */

	struct vms_btf_member node, name, state, kallsyms, syms, num_syms;
	struct vms_btf_member symtab, num_symtab, strtab, typetab;
	struct vms_btf_member core_kallsyms;	       /* without the names of init parts */
	struct vms_btf_member mem, mem_base, mem_size; /* from 6.4 on */
	struct vms_btf_member core_base, core_size, core_text_size; /* until 6.3 */
	struct vms_btf_member init_base, init_size, init_text_size;
	struct vms_btf_member num_orcs, orc_ip, orc_entries; /* CONFIG_UNWINDER_ORC */
	struct vms_btf_member value, name_pointer;	     /* of struct kernel_symbol: absolute */
	struct vms_btf_member value_offset, name_offset;     /* relative to their own addresses */
	uint64_t mem_stride, export_stride;		     /* bytes of the array elements */
};

struct placed_region {
	struct region region;
	const struct loaded_module *module;
};

#define AT(member) offsetof(struct vms_linux_modules, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "module", "list", AT(node), false },
	{ "module", "name", AT(name), false },
	{ "module", "state", AT(state), false },
	{ "module", "kallsyms", AT(kallsyms), true },
	{ "module", "core_kallsyms", AT(core_kallsyms), true },
	{ "module", "syms", AT(syms), true },
	{ "module", "num_syms", AT(num_syms), true },
	{ "mod_kallsyms", "symtab", AT(symtab), true },
	{ "mod_kallsyms", "num_symtab", AT(num_symtab), true },
	{ "mod_kallsyms", "strtab", AT(strtab), true },
	{ "mod_kallsyms", "typetab", AT(typetab), true },
	{ "module", "mem", AT(mem), true },
	{ "module_memory", "base", AT(mem_base), true },
	{ "module_memory", "size", AT(mem_size), true },
	{ "module", "core_layout.base", AT(core_base), true },
	{ "module", "core_layout.size", AT(core_size), true },
	{ "module", "core_layout.text_size", AT(core_text_size), true },
	{ "module", "init_layout.base", AT(init_base), true },
	{ "module", "init_layout.size", AT(init_size), true },
	{ "module", "init_layout.text_size", AT(init_text_size), true },
	{ "module", "arch.num_orcs", AT(num_orcs), true },
	{ "module", "arch.orc_unwind_ip", AT(orc_ip), true },
	{ "module", "arch.orc_unwind", AT(orc_entries), true },
	{ "kernel_symbol", "value", AT(value), true },
	{ "kernel_symbol", "name", AT(name_pointer), true },
	{ "kernel_symbol", "value_offset", AT(value_offset), true },
	{ "kernel_symbol", "name_offset", AT(name_offset), true },
};

static void free_module(gpointer data)
{
	struct loaded_module *loaded = data;
	vms_symbol_table_unref(loaded->module.symbols);
	vms_orc_free(loaded->orc);
	g_free(loaded->module.name);
	g_free(loaded);
}

/* ---- reading ---------------------------------------------------------- */

/* Takes bytes off the budget. False if there are not so many left. */
static bool spend_budget(struct vms_linux_modules *modules, uint64_t n, size_t element)
{
	if (n > modules->budget / element)
		return false;
	modules->budget -= n * element;
	return true;
}

/* Reads a whole array by one read. NULL if it is too large for the budget or cannot be read. */
static uint8_t *read_array(struct vms_linux_modules *modules, struct vms_memory *memory,
			   uint64_t va, uint64_t n, size_t element, struct vms_bytes *ret)
{
	if (!spend_budget(modules, n, element))
		return NULL;
	g_autofree uint8_t *data = g_malloc(n * element);
	if (!vms_memory_read(memory, va, data, n * element))
		return NULL;
	*ret = (struct vms_bytes) { data, n * element, vms_memory_budget(memory) };
	return g_steal_pointer(&data);
}

/* ---- parts of a module ------------------------------------------------ */

static void add_region(struct loaded_module *loaded, uint64_t va, uint64_t size, bool is_text)
{
	if (!va || !size || size > REGION_LIMIT || va + size < va ||
	    loaded->n_regions == REGIONS_LIMIT)
		return;
	loaded->regions[loaded->n_regions++] = (struct region) { va, size, is_text };
	loaded->module.size += size;
}

/* Reads parts. Since ac3b43283923 ("module: replace module_layout with module_memory") (v6.4). */
static void read_memory_parts(const struct vms_linux_modules *modules, struct vms_bytes raw,
			      struct loaded_module *loaded, bool *has_init)
{
	for (unsigned i = 0; i < REGIONS_LIMIT && i * modules->mem_stride < modules->mem.size;
	     i++) {
		const bool is_init = (int64_t)i == modules->init_text;
		uint64_t at = modules->mem.offset + i * modules->mem_stride, base, size;
		if (!vms_bytes_has(raw, at, modules->mem_stride))
			return;
		struct vms_bytes part = { raw.data + at, modules->mem_stride, raw.budget };
		if (!vms_member_get(part, &modules->mem_base, &base) ||
		    !vms_member_get(part, &modules->mem_size, &size))
			return;
		add_region(loaded, base, size, i == 0 || is_init);
		*has_init |= is_init && base;
	}
}

/* Adds the two parts of a layout, which begins with its code. */
static void add_layout(struct loaded_module *loaded, uint64_t base, uint64_t size, uint64_t text)
{
	text = MIN(text, size);
	add_region(loaded, base, text, true);
	add_region(loaded, base + text, size - text, false);
}

static void read_layouts(const struct vms_linux_modules *modules, struct vms_bytes raw,
			 struct loaded_module *loaded, bool *has_init)
{
	uint64_t base, size, text;
	if (vms_member_get(raw, &modules->core_base, &base) &&
	    vms_member_get(raw, &modules->core_size, &size) &&
	    vms_member_get(raw, &modules->core_text_size, &text))
		add_layout(loaded, base, size, text);
	*has_init = vms_member_get(raw, &modules->init_base, &base) &&
		    vms_member_get(raw, &modules->init_size, &size) &&
		    vms_member_get(raw, &modules->init_text_size, &text) && base;
	if (*has_init)
		add_layout(loaded, base, size, text);
}

/*
 * Reads a module's parts. The first one holds the code, if there is any: MOD_TEXT is 0, and the
 * core layout begins with its code.
 */
static void read_regions(const struct vms_linux_modules *modules, struct vms_bytes raw,
			 struct loaded_module *loaded, bool *has_init)
{
	if (vms_member_there(&modules->mem))
		read_memory_parts(modules, raw, loaded, has_init);
	else
		read_layouts(modules, raw, loaded, has_init);
	if (!loaded->n_regions)
		return;
	loaded->module.text = loaded->regions[0].va;
	loaded->module.text_size = loaded->regions[0].is_text ? loaded->regions[0].size : 0;
	for (unsigned i = 1; i < loaded->n_regions; i++)
		if (loaded->regions[i].is_text) {
			loaded->module.init_text = loaded->regions[i].va;
			loaded->module.init_text_size = loaded->regions[i].size;
		}
}

/* ---- exported symbols ------------------------------------------------- */

struct export
{
	uint64_t value;
	const char *name; /* owned by struct exports */
};

struct exports {
	GArray *array; /* struct export, sorted */
	GStringChunk *names;
};

static int compare_exports(const void *a, const void *b)
{
	const struct export *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return strcmp(x->name, y->name);
}

/*
 * Reads a reference of the struct kernel_symbol at offset `at` of a table: the member `absolute`
 * or, if the kernel does not have it, `relative`, which is relative to its own address.
 */
static bool read_reference(const struct vms_btf_member *absolute,
			   const struct vms_btf_member *relative, struct vms_bytes table,
			   uint64_t at, uint64_t table_va, uint64_t *ret)
{
	struct vms_bytes entry = { table.data + at, table.size - at };
	if (vms_member_there(absolute))
		return vms_member_get(entry, absolute, ret);
	if (!vms_member_get(entry, relative, ret))
		return false;
	*ret = table_va + at + relative->offset + (uint64_t)(int64_t)(int32_t)*ret;
	return true;
}

/*
 * Reads what the module exports: /proc/kallsyms shows the types of these symbols in upper case
 * (is_exported() in kernel/module/kallsyms.c). Reads nothing if the table cannot be read.
 */
static void read_exports(struct vms_linux_modules *modules, struct vms_memory *memory, uint64_t va,
			 struct exports *ret)
{
	uint64_t table_va, n, stride = modules->export_stride;
	struct vms_bytes table;
	if (!stride || !vms_member_read(memory, va, &modules->syms, &table_va) ||
	    !vms_member_read(memory, va, &modules->num_syms, &n) ||
	    !spend_budget(modules, n, KSYM_SIZE))
		return;
	g_autofree uint8_t *data = read_array(modules, memory, table_va, n, stride, &table);
	for (uint64_t at = 0; data && at < table.size; at += stride) {
		char name[KSYM_SIZE];
		uint64_t name_va;
		struct export export;
		if (!read_reference(&modules->value, &modules->value_offset, table, at, table_va,
				    &export.value) ||
		    !read_reference(&modules->name_pointer, &modules->name_offset, table, at,
				    table_va, &name_va) ||
		    !vms_memory_read_string(memory, name_va, name, sizeof(name)))
			return;
		export.name = g_string_chunk_insert(ret->names, name);
		g_array_append_val(ret->array, export);
	}
	g_array_sort(ret->array, compare_exports);
}

static bool is_exported(const struct exports *exports, const char *name, uint64_t value)
{
	struct export key = { value, name };
	return exports->array->len > 0 && bsearch(&key, exports->array->data, exports->array->len,
						  sizeof(key), compare_exports) != NULL;
}

/* ---- symbols ---------------------------------------------------------- */

/* A module's symbol table as it was read from the guest. */
struct raw_symbols {
	struct vms_bytes symtab, strtab, typetab;
	uint8_t *symtab_data, *strtab_data, *typetab_data;
};
typedef struct raw_symbols raw_symbols;

static void clear_raw_symbols(raw_symbols *raw)
{
	g_free(raw->symtab_data);
	g_free(raw->strtab_data);
	g_free(raw->typetab_data);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(raw_symbols, clear_raw_symbols)

/*
 * Reads the names up to the last one that a symbol refers to. The kernel does not keep the size of
 * their table.
 */
static bool read_names(struct vms_linux_modules *modules, struct vms_memory *memory, uint64_t va,
		       struct raw_symbols *raw)
{
	uint32_t last = 0;
	for (uint64_t at = 0; at < raw->symtab.size; at += SYM_SIZE) {
		uint32_t name = 0;
		vms_bytes_u32(raw->symtab, at + SYM_NAME, &name);
		last = MAX(last, name);
	}
	size_t size = (size_t)last + KSYM_SIZE;
	if (!spend_budget(modules, size, 1))
		return false;
	raw->strtab_data = g_malloc0(size);
	raw->strtab = (struct vms_bytes) { raw->strtab_data, size, vms_memory_budget(memory) };
	return vms_memory_read(memory, va, raw->strtab_data, last) &&
	       vms_memory_read_string(memory, va + last, (char *)raw->strtab_data + last,
				      KSYM_SIZE);
}

static bool read_raw_symbols(struct vms_linux_modules *modules, struct vms_memory *memory,
			     const struct loaded_module *loaded, struct raw_symbols *raw)
{
	uint64_t kallsyms, strtab, typetab;
	if (!loaded->n_symbols ||
	    !vms_member_read(memory, loaded->va, &modules->kallsyms, &kallsyms) ||
	    !vms_member_read(memory, kallsyms, &modules->strtab, &strtab))
		return false;
	raw->symtab_data = read_array(modules, memory, loaded->symtab, loaded->n_symbols, SYM_SIZE,
				      &raw->symtab);
	if (!raw->symtab_data || !read_names(modules, memory, strtab, raw))
		return false;
	if (!vms_member_read(memory, kallsyms, &modules->typetab, &typetab))
		return true;
	raw->typetab_data =
		read_array(modules, memory, typetab, loaded->n_symbols, 1, &raw->typetab);
	return raw->typetab_data != NULL;
}

/*
 * Returns the letter that `nm` would show. Before 1c7651f43777 ("kallsyms: store type information
 * in its own array") (in v5.2), the kernel keeps it in st_info of the symbol.
 */
static char get_symbol_type(const struct raw_symbols *raw, uint64_t index)
{
	uint8_t type = 0;
	if (!vms_bytes_u8(raw->typetab, index, &type))
		vms_bytes_u8(raw->symtab, index * SYM_SIZE + SYM_INFO, &type);
	return g_ascii_isalpha(type) ? (char)type : '?';
}

/*
 * True if the symbol marks where code or data begins within a function. The kernel skips such
 * symbols when it names an address (is_mapping_symbol() in include/linux/module_symbol.h).
 */
static bool is_mapping_symbol(const char *name)
{
	return name[0] == '$' || g_str_has_prefix(name, ".L") || g_str_has_prefix(name, "L0");
}

/*
 * Adds the symbols that the kernel names addresses by: they have a name and are defined. Symbols
 * may share the bytes of their names. So each symbol takes its name's size off the budget, also if
 * it is not added. False if the budget is spent.
 */
static bool add_symbols(struct vms_linux_modules *modules, const struct raw_symbols *raw,
			const struct exports *exports, struct vms_symbol_table *table)
{
	uint64_t n = raw->symtab.size / SYM_SIZE;
	for (uint64_t i = 0; i < n; i++) {
		uint32_t name_offset = 0;
		uint16_t section = 0;
		uint64_t value = 0;
		vms_bytes_u32(raw->symtab, i * SYM_SIZE + SYM_NAME, &name_offset);
		vms_bytes_u16(raw->symtab, i * SYM_SIZE + SYM_SHNDX, &section);
		vms_bytes_u64(raw->symtab, i * SYM_SIZE + SYM_VALUE, &value);
		char name[KSYM_SIZE] = { 0 };
		const char *text = (const char *)raw->strtab.data + name_offset;
		size_t length = strnlen(text, KSYM_SIZE - 1);
		if (!spend_budget(modules, length + 1, 1))
			return false;
		memcpy(name, text, length);
		if (!length || !section || is_mapping_symbol(name))
			continue;
		vms_text_clean(name);
		char type = get_symbol_type(raw, i);
		type = is_exported(exports, name, value) ? g_ascii_toupper(type)
							 : g_ascii_tolower(type);
		vms_symbol_table_add(table, name, value, 0, type);
	}
	return true;
}

static uint64_t find_regions_end(const struct loaded_module *loaded)
{
	uint64_t end = 0;
	for (unsigned i = 0; i < loaded->n_regions; i++)
		end = MAX(end, loaded->regions[i].va + loaded->regions[i].size);
	return end;
}

static void read_symbols(struct vms_linux_modules *modules, struct vms_memory *memory,
			 struct loaded_module *loaded)
{
	g_auto(raw_symbols) raw = { 0 };
	struct exports exports = {
		.array = g_array_new(false, false, sizeof(struct export)),
		.names = g_string_chunk_new(4096),
	};
	loaded->module.symbols = vms_symbol_table_new(loaded->module.name);
	if (read_raw_symbols(modules, memory, loaded, &raw)) {
		read_exports(modules, memory, loaded->va, &exports);
		if (!add_symbols(modules, &raw, &exports, loaded->module.symbols))
			vms_log(VMS_LOG_WARNING,
				"symbols of the guest's module %s are left out: all modules have "
				"more than can be",
				loaded->module.name);
	} else {
		vms_log(VMS_LOG_INFO, "symbols of the guest's module %s cannot be read",
			loaded->module.name);
	}
	for (unsigned i = 0; i < loaded->n_regions; i++) {
		const struct region *region = &loaded->regions[i];
		vms_symbol_table_add_bound(loaded->module.symbols, region->va);
		vms_symbol_table_add_bound(loaded->module.symbols, region->va + region->size);
	}
	vms_symbol_table_finish(loaded->module.symbols, find_regions_end(loaded));
	g_array_unref(exports.array);
	g_string_chunk_free(exports.names);
}

/* ---- one module ------------------------------------------------------- */

static void read_orc(struct vms_linux *guest, struct loaded_module *loaded)
{
	struct vms_linux_modules *modules = guest->modules;
	uint64_t n, ip, entries;
	if (vms_member_read(guest->memory, loaded->va, &modules->num_orcs, &n) && n &&
	    vms_member_read(guest->memory, loaded->va, &modules->orc_ip, &ip) &&
	    vms_member_read(guest->memory, loaded->va, &modules->orc_entries, &entries) &&
	    spend_budget(modules, n, ORC_SIZE))
		loaded->orc = vms_linux_orc_load_module(guest, ip, entries, n);
}

/*
 * True if the module cannot change while the stamp stays the same. It cannot if it has no init
 * parts. While its init function runs, it cannot if the stamp counts parts. After that, its init
 * parts are freed: first in the tree whose changes are counted, then in the struct module.
 */
static bool is_module_settled(const struct vms_linux_modules *modules, int64_t state, bool has_init)
{
	return !has_init || (state != modules->live && modules->counts_parts);
}

/*
 * The init function has returned: the kernel has dropped the names of the init code, and is about
 * to free the code.
 */
static void forget_init_code(struct loaded_module *loaded)
{
	loaded->module.init_text = 0;
	loaded->module.init_text_size = 0;
}

/*
 * Reads the module at `va` without its tables. NULL if it cannot be read or is not complete. One
 * read tells whether the module is known: the list is read often while modules come and go.
 */
static struct loaded_module *read_module(const struct vms_linux_modules *modules,
					 struct vms_memory *memory, uint64_t va)
{
	char name[NAME_SIZE];
	uint64_t state, kallsyms;
	bool has_init = false;
	g_autofree uint8_t *data = g_malloc(modules->size);
	const struct vms_bytes raw = { data, modules->size, vms_memory_budget(memory) };
	if (!vms_memory_read(memory, va, data, modules->size) ||
	    !vms_member_get(raw, &modules->state, &state) || (int64_t)state == modules->unformed ||
	    !vms_member_get_string(raw, &modules->name, name, sizeof(name)))
		return NULL;
	struct loaded_module *loaded = g_new0(struct loaded_module, 1);
	loaded->va = va;
	loaded->module.name = g_strdup(name);
	read_regions(modules, raw, loaded, &has_init);
	loaded->is_settled = is_module_settled(modules, (int64_t)state, has_init);
	if (!vms_member_get(raw, &modules->kallsyms, &kallsyms) ||
	    !vms_member_read(memory, kallsyms, &modules->symtab, &loaded->symtab) ||
	    !vms_member_read(memory, kallsyms, &modules->num_symtab, &loaded->n_symbols))
		loaded->n_symbols = 0;
	else if (vms_member_there(&modules->core_kallsyms) &&
		 kallsyms == va + modules->core_kallsyms.offset)
		forget_init_code(loaded);
	return loaded;
}

static bool has_same_regions(const struct loaded_module *a, const struct loaded_module *b)
{
	for (unsigned i = 0; i < a->n_regions; i++)
		if (a->regions[i].va != b->regions[i].va ||
		    a->regions[i].size != b->regions[i].size)
			return false;
	return true;
}

static bool is_same_module(const struct loaded_module *a, const struct loaded_module *b)
{
	return !a->is_torn && a->va == b->va && a->symtab == b->symtab &&
	       a->n_symbols == b->n_symbols && a->n_regions == b->n_regions &&
	       a->module.init_text == b->module.init_text && has_same_regions(a, b) &&
	       strcmp(a->module.name, b->module.name) == 0;
}

/* Takes the same module out of the old list. NULL if the module is new or has changed. */
static struct loaded_module *take_known(GPtrArray *old, const struct loaded_module *loaded)
{
	for (guint i = 0; i < old->len; i++) {
		if (is_same_module(old->pdata[i], loaded))
			return g_ptr_array_steal_index_fast(old, i);
	}
	return NULL;
}

/* ---- the list --------------------------------------------------------- */

static int compare_regions(const void *a, const void *b)
{
	const struct placed_region *x = a, *y = b;
	return x->region.va < y->region.va ? -1 : x->region.va > y->region.va;
}

static void place_regions(struct vms_linux_modules *modules)
{
	g_array_set_size(modules->regions, 0);
	for (guint i = 0; i < modules->list->len; i++) {
		const struct loaded_module *loaded = modules->list->pdata[i];
		for (unsigned j = 0; j < loaded->n_regions; j++) {
			struct placed_region region = { loaded->regions[j], loaded };
			g_array_append_val(modules->regions, region);
		}
	}
	g_array_sort(modules->regions, compare_regions);
}

/* A list that is being read. */
struct listing {
	struct vms_linux *guest;
	GPtrArray *old;	  /* modules of the last list that were not met again yet */
	GPtrArray *added; /* modules of this list that are new or have changed; not owned */
};

/* Adds a module to the list: the known one, or if it is new or has changed, one that is read. */
static bool visit_module(uint64_t node, void *data)
{
	const struct listing *listing = data;
	struct vms_linux *guest = listing->guest;
	struct vms_linux_modules *modules = guest->modules;
	struct loaded_module *loaded =
		read_module(modules, guest->memory, node - modules->node.offset);
	if (!loaded) {
		modules->is_settled = false;
		return true;
	}
	modules->is_settled &= loaded->is_settled;
	struct loaded_module *known = take_known(listing->old, loaded);
	if (known) {
		known->is_settled = loaded->is_settled;
		free_module(loaded);
		loaded = known;
	} else {
		read_symbols(modules, guest->memory, loaded);
		read_orc(guest, loaded);
		g_ptr_array_add(listing->added, loaded);
	}
	g_ptr_array_add(modules->list, loaded);
	return true;
}

static bool read_list(struct vms_linux *guest, GPtrArray *old, GError **error)
{
	struct vms_linux_modules *modules = guest->modules;
	g_autoptr(GPtrArray) added = g_ptr_array_new();
	const struct vms_list list = { guest->memory, "list of modules", modules->head,
				       MODULES_LIMIT };
	struct listing listing = { guest, old, added };
	modules->budget = BYTES_LIMIT;
	modules->is_settled = true;
	vms_stamp_take(&modules->stamp, guest->memory);
	bool walked = vms_list_walk(&list, visit_module, &listing, error);
	if (!walked || vms_stamp_is_old(&modules->stamp, guest->memory))
		for (guint i = 0; i < added->len; i++)
			((struct loaded_module *)added->pdata[i])->is_torn = true;
	return walked;
}

bool vms_linux_modules_refresh(struct vms_linux *guest, GError **error)
{
	struct vms_linux_modules *modules = guest->modules;
	if (!modules) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "modules of the guest: its kernel has no type information (BTF) that "
			    "tells where they are");
		return false;
	}
	g_mutex_lock(&guest->lock);
	g_autoptr(GPtrArray) old = modules->list;
	modules->list = g_ptr_array_new_with_free_func(free_module);
	bool read = read_list(guest, old, error);
	place_regions(modules);
	g_mutex_unlock(&guest->lock);
	return read;
}

const GPtrArray *vms_linux_modules_list(const void *system)
{
	const struct vms_linux *guest = system;
	return guest->modules ? guest->modules->list : NULL;
}

bool vms_linux_modules_changed(const struct vms_linux *guest, struct vms_memory *memory)
{
	const struct vms_linux_modules *modules = guest->modules;
	return modules && (!modules->is_settled || vms_stamp_is_old(&modules->stamp, memory));
}

/* Returns the region that `va` lies in, or NULL. */
static const struct placed_region *find_region(const struct vms_linux_modules *modules, uint64_t va)
{
	if (!modules)
		return NULL;
	const struct placed_region *regions =
		(const struct placed_region *)(void *)modules->regions->data;
	const size_t n = VMS_SEARCH(modules->regions->len, i, regions[i].region.va <= va);
	if (n == 0)
		return NULL;
	const struct placed_region *placed = &regions[n - 1];
	return va - placed->region.va < placed->region.size ? placed : NULL;
}

const struct vms_module *vms_linux_module_at(const struct vms_linux *guest, uint64_t va,
					     const struct vms_orc **orc)
{
	const struct placed_region *placed = find_region(guest->modules, va);
	if (!placed)
		return NULL;
	if (orc)
		*orc = placed->module->orc;
	return &placed->module->module;
}

const struct vms_module *vms_linux_module_part_at(const struct vms_linux *guest, uint64_t va,
						  uint64_t *part, bool *is_text)
{
	const struct placed_region *placed = find_region(guest->modules, va);
	if (!placed)
		return NULL;
	*part = placed->region.va;
	*is_text = placed->region.is_text;
	return &placed->module->module;
}

bool vms_linux_module_struct_at(const struct vms_linux *guest, uint64_t va, uint64_t *ret)
{
	const struct placed_region *placed = find_region(guest->modules, va);
	if (placed)
		*ret = placed->module->va;
	return placed;
}

void vms_linux_modules_list_parts(const struct vms_linux *guest, GArray *mappings)
{
	const struct vms_linux_modules *modules = guest->modules;
	for (guint i = 0; modules && i < modules->regions->len; i++) {
		const struct placed_region *placed =
			&g_array_index(modules->regions, struct placed_region, i);
		const struct vms_mapping mapping = {
			.start = placed->region.va,
			.end = placed->region.va + placed->region.size,
			.offset = placed->region.va,
			.symbols = placed->module->module.symbols,
			.kind = VMS_MAPPING_MODULE,
		};
		g_array_append_val(mappings, mapping);
	}
}

/* ---- beginning and end ------------------------------------------------ */

/*
 * Finds bytes that change with the list. The kernel finds modules by a tree (struct mod_tree_root
 * in kernel/module/), whose counter also changes when init parts are freed. A kernel without it has
 * the list's head, where modules are added.
 */
static void find_stamp(const struct vms_linux *guest, struct vms_linux_modules *modules)
{
	uint64_t tree;
	modules->counts_parts =
		vms_linux_symbol(guest, "mod_tree", &tree) &&
		vms_stamp_find(guest->btf, tree, "mod_tree_root", "root.seq", &modules->stamp);
	if (!modules->counts_parts)
		modules->stamp =
			(struct vms_stamp) { .va = modules->head, .size = 2 * sizeof(uint64_t) };
}

struct vms_linux_modules *vms_linux_modules_new(struct vms_linux *guest)
{
	struct vms_linux_modules modules = { .unformed = -1, .init_text = -1 };
	if (!guest->btf || !vms_linux_symbol(guest, "modules", &modules.head) ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &modules) ||
	    !vms_btf_size(guest->btf, "module", &modules.size) || modules.size > MODULE_SIZE)
		return NULL;
	vms_btf_enumerator(guest->btf, "MODULE_STATE_UNFORMED", &modules.unformed);
	vms_btf_enumerator(guest->btf, "MODULE_STATE_LIVE", &modules.live);
	vms_btf_enumerator(guest->btf, "MOD_INIT_TEXT", &modules.init_text);
	vms_btf_size(guest->btf, "kernel_symbol", &modules.export_stride);
	if (!vms_btf_size(guest->btf, "module_memory", &modules.mem_stride) || !modules.mem_stride)
		modules.mem = (struct vms_btf_member) { 0 };
	find_stamp(guest, &modules);
	modules.list = g_ptr_array_new_with_free_func(free_module);
	modules.regions = g_array_new(false, false, sizeof(struct placed_region));
	return g_memdup2(&modules, sizeof(modules));
}

void vms_linux_modules_free(struct vms_linux_modules *modules)
{
	if (!modules)
		return;
	g_ptr_array_unref(modules->list);
	g_array_unref(modules->regions);
	g_free(modules);
}
