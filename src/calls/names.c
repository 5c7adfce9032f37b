/* SPDX-License-Identifier: MIT */
#include "calls/names.h"
#include "base/clock.h"
#include "base/keyed_hash.h"
#include "guest/processes.h"
#include "guest/symbols.h"
#include "symbol/binary.h"
#include "symbol/symbol_file.h"
#include <string.h>
#include <vmscope/log.h>

#define SPACES_LIMIT   (1u << 16)
#define REFRESH_NS     (UINT64_C(100) * 1000 * 1000) /* of reading symbols again, at a time */
#define MAPPINGS_LIMIT (1u << 12)		     /* of one address space, with code */

/*
 * When an address space ended. Blocks about it may arrive later. A time of 0 means that it exists.
 */
struct end {
	uint64_t time_ns;
	uint32_t pid;
};

/* An address space of the guest. */
struct space {
	uint64_t mm;
	uint64_t task; /* a task that uses it */
	uint32_t pid;
	struct vms_calls_mappings *mappings;
	uint64_t stamp; /* of the mappings that were read; 0: read them again */
	struct end end;
	struct end before; /* the end of an earlier space with this `mm` */
};

struct vms_calls_names {
	struct vms_calls_directory *directory;
	struct vms_guest *guest;
	bool recognised; /* the guest was recognised */
	const char *sysroot;
	struct vms_foreign_files *foreign; /* opens its files */
	/* Images whose symbols were searched for, and the binaries that gave them, or NULL. */
	GHashTable *searched;
	GTree *spaces; /* struct space, by mm; a tree, because the guest chooses these keys */
	bool (*is_late)(uint64_t mm, void *data);
	void *late_data;
	bool doubted; /* something was read since the last refresh, but may be wrong */
};

static int compare_spaces(const void *a, const void *b, void *data)
{
	(void)data;
	const struct space *x = a, *y = b;
	return x->mm < y->mm ? -1 : x->mm > y->mm;
}

static void free_space(void *data)
{
	struct space *space = data;
	vms_calls_mappings_unref(space->mappings);
	g_free(space);
}

/* ---- user code -------------------------------------------------------- */

/* Reads the symbols of the guest's file from the user's copy. NULL if there is none. */
static struct vms_symbol_table *read_sysroot_symbols(const struct vms_calls_names *names,
						     const char *path)
{
	const struct vms_foreign_name name = { .root = names->sysroot, .path = path };
	g_autoptr(GError) error = NULL;
	if (!names->sysroot)
		return NULL;
	struct vms_budget *part =
		vms_budget_new_part(vms_machine_budget(vms_guest_machine(names->guest)), path);
	struct vms_symbol_file *file =
		vms_symbol_file_open_foreign(names->foreign, &name, part, &error);
	struct vms_symbol_table *offsets = file ? vms_symbol_file_offsets(file) : NULL;
	if (!file)
		vms_log(VMS_LOG_INFO, "%s", error->message);
	vms_symbol_file_close(file);
	vms_budget_unref(part);
	return offsets;
}

/*
 * Gives a mapped file symbols: of the symbol file with its name, or else those that the guest has
 * in memory, completed by files of this host with the same build id. A file without a build id has
 * those of the copy of the guest's file. Searches once for each image, because files without
 * symbols are mapped by many processes.
 */
static void set_file_symbols(struct vms_calls_names *names, struct vms_calls_image *image,
			     const struct vms_mapping *mapping)
{
	if (g_hash_table_contains(names->searched, image))
		return;
	struct vms_binary *binary = NULL;
	g_autofree char *name = g_path_get_basename(mapping->name);
	g_autoptr(vms_symbol_table) table = vms_guest_symbol_file_offsets(names->guest, name);
	if (!table && !(mapping->binary && vms_binary_build_id(mapping->binary)))
		table = read_sysroot_symbols(names, mapping->name);
	if (!table && mapping->binary) {
		binary = vms_binary_ref(mapping->binary);
		table = vms_symbol_table_ref(vms_binary_functions(binary));
	}
	g_hash_table_insert(names->searched, image, binary);
	if (table)
		vms_calls_image_set_symbols(image, table, 0);
}

static void unref_binary(void *data)
{
	vms_binary_unref(data);
}

/* Reads symbols again that were not in the guest's memory, and may be now. */
static void refresh_symbols(struct vms_calls_names *names)
{
	const uint64_t now_ns = vms_clock_now_ns();
	GHashTableIter iter;
	gpointer image, binary;
	g_hash_table_iter_init(&iter, names->searched);
	while (g_hash_table_iter_next(&iter, &image, &binary)) {
		if (!binary)
			continue;
		if (vms_clock_now_ns() < now_ns + REFRESH_NS)
			vms_binary_refresh(binary, now_ns);
		vms_calls_image_set_symbols(image, vms_binary_known_functions(binary), 0);
	}
}

static void add_mapping(struct vms_calls_names *names, struct vms_calls_mappings *mappings,
			const struct vms_mapping *mapping)
{
	/* Code without a file was made by the process, so other processes do not have it. */
	if (!mapping->file && strcmp(mapping->name, "[vdso]") != 0)
		return;
	struct vms_calls_image *image =
		vms_calls_directory_image(names->directory, mapping->file, mapping->name);
	if (!image)
		return;
	set_file_symbols(names, image, mapping);
	vms_calls_mappings_add(mappings, mapping->start, mapping->end, mapping->offset, image);
}

/* False if what was read may belong to another space. Then the space is read again later. */
static bool check_read(struct vms_calls_names *names, struct space *space)
{
	if (!names->is_late(space->mm, names->late_data))
		return true;
	space->stamp = 0;
	names->doubted = true;
	return false;
}

static void read_space(struct vms_calls_names *names, struct space *space)
{
	g_autoptr(GArray) read = g_array_new(FALSE, FALSE, sizeof(struct vms_mapping));
	const uint64_t stamp = vms_guest_mappings_stamp(names->guest, space->mm);
	struct vms_mapping mapping = { 0 };
	unsigned areas = VMS_AREAS_LIMIT;
	while (read->len < MAPPINGS_LIMIT &&
	       vms_guest_next_code(names->guest, space->mm, mapping.end, &areas, &mapping))
		g_array_append_val(read, mapping);
	if (!check_read(names, space))
		return;
	for (guint i = 0; i < read->len; i++)
		add_mapping(names, space->mappings, &g_array_index(read, struct vms_mapping, i));
	space->stamp = stamp;
}

struct search {
	const struct vms_calls_mappings *mappings;
	struct space *found;
};

static gboolean match_mappings(void *key, void *value, void *data)
{
	(void)key;
	struct search *search = data;
	struct space *space = value;
	if (space->mappings == search->mappings)
		search->found = space;
	return search->found != NULL;
}

/* Looks up an address that is in no known mapping. The directory calls this. */
static void learn_mapping(struct vms_calls_mappings *mappings, uint64_t va, void *data)
{
	struct vms_calls_names *names = data;
	struct search search = { .mappings = mappings };
	struct vms_mapping mapping;
	unsigned areas = VMS_AREAS_LIMIT;
	g_tree_foreach(names->spaces, match_mappings, &search);
	if (search.found && !search.found->end.time_ns &&
	    vms_guest_next_code(names->guest, search.found->mm, va, &areas, &mapping) &&
	    mapping.start <= va && check_read(names, search.found))
		add_mapping(names, mappings, &mapping);
}

/*
 * True if a block was written before its space ended. Such a block may arrive after the end,
 * because it is in another ring.
 */
static bool is_before(const struct vms_calls_space *block, const struct end *end)
{
	return block->time_ns <= end->time_ns && block->pid == end->pid;
}

static struct space *find_mm(struct vms_calls_names *names, uint64_t mm)
{
	const struct space key = { .mm = mm };
	return g_tree_lookup(names->spaces, &key);
}

/* Finds the space that a block is about. NULL if it is new, or an earlier one with this `mm`. */
static struct space *find_space(struct vms_calls_names *names, const struct vms_calls_space *block)
{
	struct space *space = find_mm(names, block->mm);
	if (!space || is_before(block, &space->before))
		return NULL;
	return !space->end.time_ns || is_before(block, &space->end) ? space : NULL;
}

/* Adds a space that was not found. NULL if it ended long ago, or there is no room. */
static struct space *add_space(struct vms_calls_names *names, const struct vms_calls_space *block)
{
	const struct space *old = find_mm(names, block->mm);
	if (!block->mm || !names->recognised || (old && is_before(block, &old->before)) ||
	    (guint)g_tree_nnodes(names->spaces) >= SPACES_LIMIT)
		return NULL;
	struct space *space = g_new0(struct space, 1);
	space->mm = block->mm;
	space->pid = block->pid;
	space->mappings = vms_calls_mappings_new(names->directory);
	if (old)
		space->before = old->end;
	g_tree_replace(names->spaces, space, space);
	return space;
}

void vms_calls_names_enter_space(struct vms_calls_names *names, uint64_t id,
				 const struct vms_calls_space *space)
{
	struct space *found = find_space(names, space);
	if (!found) {
		found = add_space(names, space);
		if (found)
			read_space(names, found);
	}
	if (found)
		found->task = space->task;
	vms_calls_directory_set_space(names->directory, id, found ? found->mappings : NULL);
}

struct lost {
	struct vms_calls_names *names;
	GPtrArray *spaces;
};

/* Lists a space that the guest does not show to be in use. */
static gboolean list_lost(void *key, void *value, void *data)
{
	(void)key;
	const struct lost *lost = data;
	struct space *space = value;
	if (!space->end.time_ns &&
	    !vms_guest_task_has(lost->names->guest, space->task, space->pid, space->mm))
		g_ptr_array_add(lost->spaces, space);
	return FALSE;
}

/* Forgets all spaces except those that the guest shows to be in use. */
static void forget_lost(struct vms_calls_names *names)
{
	g_autoptr(GPtrArray) spaces = g_ptr_array_new();
	g_tree_foreach(names->spaces, list_lost, &(struct lost) { names, spaces });
	for (guint i = 0; i < spaces->len; i++)
		g_tree_remove(names->spaces, spaces->pdata[i]);
}

void vms_calls_names_end_space(struct vms_calls_names *names, const struct vms_calls_space *space,
			       bool gone)
{
	if (space->mm == 0)
		forget_lost(names);
	/* A space that ended before it was read is kept: blocks about it may still arrive. */
	struct space *found = find_space(names, space) ?: add_space(names, space);
	if (!found)
		return;
	if (!gone)
		read_space(names, found);
	found->end = (struct end) { MAX(space->time_ns, 1), space->pid };
}

static gboolean refresh_space(void *key, void *value, void *data)
{
	(void)key;
	struct vms_calls_names *names = data;
	struct space *space = value;
	if (!space->end.time_ns &&
	    vms_guest_mappings_stamp(names->guest, space->mm) != space->stamp)
		read_space(names, space);
	return FALSE;
}

void vms_calls_names_refresh(struct vms_calls_names *names)
{
	names->doubted = false;
	g_tree_foreach(names->spaces, refresh_space, names);
	refresh_symbols(names);
}

void vms_calls_names_retry(struct vms_calls_names *names)
{
	if (names->doubted)
		vms_calls_names_refresh(names);
}

/* ---- kernel code ------------------------------------------------------ */

/* Adds an image that the kernel has at [start, end). */
static void add_kernel_image(struct vms_calls_names *names, uint64_t key, const char *name,
			     struct vms_symbol_table *table, uint64_t start, uint64_t end)
{
	struct vms_calls_image *image = vms_calls_directory_image(names->directory, key, name);
	if (!image)
		return;
	vms_calls_image_set_symbols(image, table, start);
	vms_calls_mappings_add(vms_calls_directory_kernel(names->directory), start, end, 0, image);
}

static void add_module_code(struct vms_calls_names *names, const struct vms_module *module,
			    const char *name, uint64_t va, uint64_t size)
{
	if (size > 0)
		add_kernel_image(names, va, name, module->symbols, va, va + size);
}

static void add_modules(struct vms_calls_names *names)
{
	size_t n;
	const struct vms_module *const *modules = vms_guest_modules(names->guest, &n);
	for (size_t i = 0; i < n; i++) {
		const struct vms_module *module = modules[i];
		g_autofree char *init = g_strdup_printf("%s.init", module->name);
		add_module_code(names, module, module->name, module->text, module->text_size);
		add_module_code(names, module, init, module->init_text, module->init_text_size);
	}
}

/*
 * Adds the symbol files for the kernel's half of the addresses. If the guest is not recognised,
 * adds all symbol files, because no process is known that a user address may belong to.
 */
static void add_symbol_files(struct vms_calls_names *names)
{
	const struct vms_arch *arch = vms_machine_arch(vms_guest_machine(names->guest));
	const bool all = !names->recognised;
	const char *name;
	uint64_t base;
	for (unsigned i = 0;; i++) {
		g_autoptr(vms_symbol_table) table =
			vms_guest_symbol_file(names->guest, i, &name, &base);
		if (!table)
			return;
		size_t n = vms_symbol_table_count(table);
		if (n == 0 || (!all && !arch->is_kernel_address(base)))
			continue;
		const struct vms_symbol last = vms_symbol_table_get(table, n - 1);
		add_kernel_image(names, base, name, table, base, last.va + MAX(last.size, 1));
	}
}

void vms_calls_names_update_kernel(struct vms_calls_names *names)
{
	uint64_t start, end;
	names->recognised = vms_guest_kind(names->guest) != VMS_GUEST_NONE;
	/* An image that was unloaded, for example a module, must not name what is there now. */
	vms_calls_mappings_clear(vms_calls_directory_kernel(names->directory));
	g_autoptr(vms_symbol_table) table = vms_guest_kernel_symbols(names->guest, &start, &end);
	if (table)
		add_kernel_image(names, start, "vmlinux", table, start, end);
	add_modules(names);
	add_symbol_files(names);

	const struct vms_guest_info *info = vms_guest_info(names->guest);
	g_autofree char *kernel =
		info->name ? g_strdup_printf("%s %s", info->name, info->release ?: "") : NULL;
	vms_calls_directory_describe(
		names->directory,
		&(struct vms_calls_about) {
			.command = "vmscope calls",
			.kernel = kernel,
			.hostname = info->hostname,
			.cpus = vms_machine_vcpus(vms_guest_machine(names->guest)),
		});
}

/* ---- all -------------------------------------------------------------- */

/* Lets the binaries of a guest without debug files have the copies of the sysroot. */
static void complete_binaries(const struct vms_calls_names *names)
{
	const struct vms_debug_files_options options = {
		.size = sizeof(options),
		.sysroot = names->sysroot,
	};
	if (!names->sysroot || vms_guest_has_debug_files(names->guest))
		return;
	g_autoptr(vms_debug_files) files = vms_debug_files_new(&options, NULL);
	if (files)
		vms_guest_set_debug_files(names->guest, files);
}

struct vms_calls_names *vms_calls_names_new(struct vms_calls_directory *directory,
					    struct vms_guest *guest, const char *sysroot,
					    bool (*is_late)(uint64_t mm, void *data), void *data)
{
	struct vms_calls_names *names = g_new0(struct vms_calls_names, 1);
	names->directory = directory;
	names->guest = guest;
	names->sysroot = sysroot;
	names->foreign = vms_foreign_files_new(vms_machine_budget(vms_guest_machine(guest)));
	complete_binaries(names);
	names->is_late = is_late;
	names->late_data = data;
	names->searched = g_hash_table_new_full(vms_hash_direct, NULL, NULL, unref_binary);
	names->spaces = g_tree_new_full(compare_spaces, NULL, NULL, free_space);
	vms_calls_directory_set_learn(directory, learn_mapping, names);
	vms_calls_names_update_kernel(names);
	return names;
}

void vms_calls_names_free(struct vms_calls_names *names)
{
	if (!names)
		return;
	vms_calls_directory_set_learn(names->directory, NULL, NULL);
	g_tree_unref(names->spaces);
	g_hash_table_unref(names->searched);
	vms_foreign_files_unref(names->foreign);
	g_free(names);
}
