/* SPDX-License-Identifier: MIT */
#include "sample/seen_code.h"
#include "capture/sample_records.h"
#include "sample/name_attachment.h"
#include "sample/recording_code.h"
#include "symbol/binary.h"
#include "symbol/mappings.h"
#include <string.h>

/* Limits of recorded mappings of a process, and of files of all processes. */
#define MAPPINGS_LIMIT (1u << 13)
#define FILES_LIMIT    (1u << 20)
/* The limit of addresses to name. They take 128 MiB. */
#define ADDRESSES_LIMIT (UINT32_C(4) << 20)

struct seen_file {
	uint64_t id;	  /* as in struct vms_mapping */
	const char *name; /* the symbolizer's */
	uint32_t number;
	uint32_t space; /* a space in which it was mapped */
	uint64_t va;
};

struct vms_seen_code {
	struct vms_sampler *sampler;
	struct vms_symbolizer *symbolizer;
	uint32_t files_before;
	GPtrArray *files; /* struct seen_file, by number */
	GTree *by_id;	  /* the same; a tree, because a guest could make a hash table slow */
	/* By space: the array of its recorded mappings, or NULL. `stamp` is a file's number. */
	GPtrArray *spaces;
	GTree *last_space;	    /* of each process, plus one */
	struct vms_tree *addresses; /* keys: all addresses of samples */
	uint64_t code_left;	    /* bytes of code that may still be recorded */
};

static void free_mappings(void *data)
{
	vms_mappings_free(data);
}

static int compare_files(const void *a, const void *b)
{
	const struct seen_file *x = a, *y = b;
	return x->id != y->id ? (x->id < y->id ? -1 : 1) : strcmp(x->name, y->name);
}

static int compare_numbers(const void *a, const void *b)
{
	const unsigned x = GPOINTER_TO_UINT(a), y = GPOINTER_TO_UINT(b);
	return x < y ? -1 : x > y;
}

struct vms_seen_code *vms_seen_code_new(struct vms_sampler *sampler,
					struct vms_symbolizer *symbolizer, uint32_t files_before)
{
	struct vms_seen_code *seen = g_new0(struct vms_seen_code, 1);
	seen->sampler = sampler;
	seen->symbolizer = vms_symbolizer_ref(symbolizer);
	seen->files_before = files_before;
	seen->files = g_ptr_array_new_with_free_func(g_free);
	seen->by_id = g_tree_new(compare_files);
	seen->spaces = g_ptr_array_new_with_free_func(free_mappings);
	seen->last_space = g_tree_new(compare_numbers);
	seen->addresses = vms_tree_new(ADDRESSES_LIMIT);
	seen->code_left = VMS_RECORDED_CODE_LIMIT;
	return seen;
}

void vms_seen_code_free(struct vms_seen_code *seen)
{
	if (!seen)
		return;
	g_tree_unref(seen->by_id);
	g_ptr_array_unref(seen->files);
	g_ptr_array_unref(seen->spaces);
	g_tree_unref(seen->last_space);
	vms_tree_free(seen->addresses);
	vms_symbolizer_unref(seen->symbolizer);
	g_free(seen);
}

/* ---- processes and mappings -------------------------------------------------------- */

/*
 * Returns the recorded mappings of a sample's space. If the last sample of the process was in
 * another space, the process has a new program or a new name, and is recorded.
 */
static struct vms_mappings *record_space(struct vms_seen_code *seen,
					 const struct vms_sample_record *sample)
{
	const void *pid = GUINT_TO_POINTER(sample->pid);
	const uint32_t last = GPOINTER_TO_UINT(g_tree_lookup(seen->last_space, pid));
	if (sample->space >= seen->spaces->len)
		g_ptr_array_set_size(seen->spaces, (gint)sample->space + 1);
	struct vms_mappings *recorded = seen->spaces->pdata[sample->space];
	const bool is_same = last == sample->space + 1 || sample->pid == 0;
	if (recorded && is_same)
		return recorded;
	const struct vms_process *process = vms_symbolizer_process(seen->symbolizer, sample->space);
	vms_mappings_free(recorded);
	recorded = seen->spaces->pdata[sample->space] = vms_mappings_new();
	/* The idle tasks of all CPUs count as one process. */
	if (process && (sample->pid || !last))
		vms_sampler_record_process(seen->sampler, sample->time_ns, sample->pid, 0,
					   sample->pid ? process->comm : "swapper",
					   process->container ? process->container : "");
	g_tree_replace(seen->last_space, (gpointer)pid, GUINT_TO_POINTER(sample->space + 1));
	return recorded;
}

/* Returns the number of a mapping's file, or 0 if there are too many files. */
static uint32_t number_file(struct vms_seen_code *seen, const struct vms_mapping *mapping,
			    uint32_t space)
{
	const struct seen_file key = { .id = mapping->file,
				       .name = mapping->name ? mapping->name : "[anon]",
				       .space = space,
				       .va = mapping->start };
	struct seen_file *file = g_tree_lookup(seen->by_id, &key);
	if (!file) {
		if (seen->files->len == FILES_LIMIT)
			return 0;
		file = g_memdup2(&key, sizeof(key));
		g_ptr_array_add(seen->files, file);
		file->number = seen->files_before + seen->files->len;
		g_tree_insert(seen->by_id, file, file);
	}
	file->space = space;
	file->va = mapping->start;
	return file->number;
}

static bool is_recorded(const struct vms_mapping *recorded, const struct vms_mapping *mapping)
{
	return recorded && recorded->start == mapping->start && recorded->end == mapping->end &&
	       recorded->offset == mapping->offset && recorded->file == mapping->file &&
	       recorded->name == mapping->name;
}

/* Records the mapping that contains an address. Returns the number of its file, or 0. */
static uint32_t record_mapping(struct vms_seen_code *seen, const struct vms_sample_record *sample,
			       struct vms_mappings *recorded, uint64_t va, struct vms_mapping *ret)
{
	if (!vms_symbolizer_mapping(seen->symbolizer, sample->space, va, ret))
		return 0;
	const struct vms_mapping *known = vms_mappings_find(recorded, va);
	if (is_recorded(known, ret))
		return (uint32_t)known->stamp;
	const uint32_t number = number_file(seen, ret, sample->space);
	if (number == 0)
		return 0;
	ret->symbols = NULL;
	ret->binary = NULL;
	ret->stamp = number;
	vms_mappings_put(recorded, ret, MAPPINGS_LIMIT);
	vms_sampler_record_mapping(seen->sampler, sample->time_ns, sample->pid, ret->start,
				   ret->end, ret->offset, number);
	return number;
}

/*
 * Notes an address. The kind is LOADED_PC in the kernel; elsewhere PC if it was executing, or
 * RETURN.
 */
static void note_address(struct vms_seen_code *seen, enum vms_tree_kind kind, uint32_t owner,
			 uint64_t value)
{
	const struct vms_tree_key key = { .kind = kind, .owner = owner, .value = value };
	vms_tree_child(seen->addresses, VMS_TREE_ROOT, key);
}

bool vms_seen_code_note(struct vms_seen_code *seen, const struct vms_sample_record *sample)
{
	const uint32_t before = seen->addresses->n_nodes;
	struct vms_mappings *recorded =
		sample->space != VMS_NO_SPACE ? record_space(seen, sample) : NULL;
	for (unsigned i = 0; i < sample->stack.n; i++) {
		const struct vms_frame *frame = &sample->stack.frame[i];
		const uint64_t va = frame->pc - frame->is_return;
		struct vms_mapping mapping;
		if (!frame->is_user) {
			note_address(seen, VMS_TREE_LOADED_PC, frame->code, va);
			continue;
		}
		const uint32_t file =
			recorded ? record_mapping(seen, sample, recorded, va, &mapping) : 0;
		if (file)
			note_address(seen, i == 0 ? VMS_TREE_PC : VMS_TREE_RETURN, file,
				     va - mapping.start + mapping.offset);
	}
	return seen->addresses->n_nodes != before;
}

/* ---- names ------------------------------------------------------------------------- */

static bool is_kernel(const struct vms_tree_node *node)
{
	return node->key.kind == VMS_TREE_LOADED_PC;
}

static bool have_one_owner(const struct vms_tree_node *a, const struct vms_tree_node *b)
{
	return is_kernel(a) == is_kernel(b) && a->key.owner == b->key.owner;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct vms_tree_node *x = a, *y = b;
	if (is_kernel(x) != is_kernel(y))
		return is_kernel(x) ? -1 : 1;
	if (x->key.owner != y->key.owner)
		return x->key.owner < y->key.owner ? -1 : 1;
	return x->key.value < y->key.value ? -1 : x->key.value > y->key.value;
}

static void name_kernel_address(struct vms_seen_code *seen, const struct vms_tree_key *key,
				struct vms_name_attachment *names)
{
	struct vms_location location;
	if (!vms_symbolizer_locate(seen->symbolizer, VMS_KERNEL_SPACE, key->owner, key->value,
				   &location) ||
	    !location.symbol)
		return;
	g_autofree char *name =
		location.module ? g_strdup_printf("%s [%s]", location.symbol, location.module)
				: g_strdup(location.symbol);
	vms_name_attachment_add(names, location.start, location.size, name);
}

/* Records the functions at `n` offsets of a file, and the code of those that were executing. */
static void record_functions(struct vms_seen_code *seen, const struct seen_file *file,
			     const struct vms_mapping *mapping, const struct vms_tree_node *offsets,
			     size_t n, GByteArray *out)
{
	const struct vms_symbol_table *functions = vms_mappings_functions(mapping);
	struct vms_name_attachment names;
	uint64_t written = UINT64_MAX;
	vms_name_attachment_init(&names, out, VMS_RECORDS_SYMBOLS,
				 g_strdup_printf("%" G_GUINT32_FORMAT "\n", file->number));
	for (size_t i = 0; i < n; i++) {
		const struct vms_tree_key *key = &offsets[i].key;
		struct vms_symbol symbol;
		if (!vms_symbol_table_find(functions, key->value, &symbol))
			continue;
		vms_name_attachment_add(&names, symbol.va, symbol.size, symbol.name);
		if (key->kind != VMS_TREE_PC || symbol.va == written || !mapping->binary)
			continue;
		vms_recorded_code_put(out, file->number, mapping->binary, symbol.va, symbol.size,
				      &seen->code_left);
		written = symbol.va;
	}
	vms_name_attachment_end(&names);
}

static void record_file(struct vms_seen_code *seen, const struct seen_file *file,
			const struct vms_tree_node *offsets, size_t n, GByteArray *out)
{
	struct vms_mapping mapping;
	const bool is_mapped =
		vms_symbolizer_mapping(seen->symbolizer, file->space, file->va, &mapping) &&
		mapping.file == file->id;
	vms_sampler_record_file(
		seen->sampler, file->number, file->name,
		is_mapped && mapping.binary ? vms_binary_build_id(mapping.binary) : NULL, 0);
	if (is_mapped && vms_mappings_functions(&mapping))
		record_functions(seen, file, &mapping, offsets, n, out);
}

uint32_t vms_seen_code_finish(struct vms_seen_code *seen)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	struct vms_tree_node *nodes = seen->addresses->nodes;
	const uint32_t n = seen->addresses->n_nodes;
	struct vms_name_attachment kernel;
	uint32_t first = 0, next;
	vms_records_put_start(out, VMS_RECORDS_GUEST);
	vms_name_attachment_init(&kernel, out, VMS_RECORDS_KERNEL, g_strdup(""));
	if (n > 0) /* no address is added after this */
		qsort(nodes, n, sizeof(*nodes), compare_addresses);
	for (; first < n; first = next) {
		next = first;
		while (next < n && have_one_owner(&nodes[next], &nodes[first])) {
			if (is_kernel(&nodes[next]))
				name_kernel_address(seen, &nodes[next].key, &kernel);
			next++;
		}
		const uint32_t file = nodes[first].key.owner - seen->files_before - 1;
		if (!is_kernel(&nodes[first]))
			record_file(seen, seen->files->pdata[file], &nodes[first], next - first,
				    out);
	}
	vms_name_attachment_end(&kernel);
	vms_sampler_add_records(seen->sampler, out);
	return seen->files_before + seen->files->len;
}
