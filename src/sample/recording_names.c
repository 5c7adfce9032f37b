/* SPDX-License-Identifier: MIT */
/*
 * Finds the names of all functions in the samples of a recording, and the code of those that were
 * executing. With these, the recording can be read on any host.
 */
#include "base/clock.h"
#include "base/keyed_hash.h"
#include "capture/sample_records.h"
#include "sample/name_attachment.h"
#include "sample/recording-private.h"
#include "sample/recording_code.h"
#include "symbol/binary.h"
#include "symbol/build_id.h"
#include <stdlib.h>
#include <string.h>

static void add_symbol(struct vms_name_attachment *attachment, const struct vms_symbol_table *table,
		       uint64_t address)
{
	struct vms_symbol symbol;
	if (table && vms_symbol_table_find(table, address, &symbol))
		vms_name_attachment_add(attachment, symbol.va, symbol.size, symbol.name);
}

/* ---- the kernel -------------------------------------------------------------------- */

/*
 * Reads /proc/kallsyms. The table is empty without the right to see addresses: they are all 0 then.
 */
static struct vms_symbol_table *read_kallsyms(void)
{
	struct vms_symbol_table *table = vms_symbol_table_new("vmlinux");
	g_autofree char *text = NULL;
	g_file_get_contents("/proc/kallsyms", &text, NULL, NULL);
	for (char *line = text, *end; line && *line; line = end) {
		char *rest;
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		const uint64_t address = g_ascii_strtoull(line, &rest, 16);
		if (address && rest[0] == ' ' && strchr("tTwW", rest[1]) && rest[2] == ' ')
			vms_symbol_table_add(table, g_strdelimit(rest + 3, "\t", ' '), address, 0,
					     rest[1]);
	}
	vms_symbol_table_finish(table, UINT64_MAX);
	return table;
}

/* ---- files ------------------------------------------------------------------------- */

/* How long to wait for servers with symbols. */
#define SERVERS_WAIT_NS (UINT64_C(10) * 1000 * 1000 * 1000)
#define MAPPERS		4

/* A file, and where samples were in it. */
struct named_file {
	const struct vms_recorded_file *file;
	GHashTable *places;	    /* offsets of frames; and of leaves, as others */
	struct vms_binary *awaited; /* servers are asked for its symbols; or NULL */
};

/* An offset in a file and whether a leaf was there, as a key. */
#define PLACE(offset, is_leaf) ((gpointer)(uintptr_t)((offset) << 1 | (is_leaf)))
#define PLACE_OFFSET(place)    ((uint64_t)(uintptr_t)(place) >> 1)
#define PLACE_IS_LEAF(place)   ((uintptr_t)(place)&1)

/* Processes that have mapped a file: the last ones. One of them may live. */
struct mappers {
	struct vms_foreign_name names[MAPPERS];
	unsigned n; /* all that were noted */
};

/* Shared by all files. */
struct naming {
	struct vms_recording *recording;
	struct vms_debug_files *debug_files; /* or NULL */
	struct vms_foreign_files *foreign;
	struct vms_budget *budget;
	struct vms_jail *jail; /* that reads functions; NULL: they are read here */
	GHashTable *mappers;   /* struct mappers by number of the file */
	GHashTable *named;     /* struct named_file by struct vms_recorded_file */
	GByteArray *out;
	uint64_t code_left; /* bytes of code that may still be written */
	struct vms_name_attachment kernel;
	struct vms_symbol_table *kallsyms; /* NULL: not read yet */
};

/* ---- opening ----------------------------------------------------------------------- */

static void note_mappers(struct naming *naming)
{
	const GArray *events = naming->recording->host.process_events;
	for (guint i = 0; i < events->len; i++) {
		const struct vms_recorded_event *event =
			&g_array_index(events, struct vms_recorded_event, i);
		if (event->kind != VMS_RECORDED_MAPPING)
			continue;
		struct mappers *mappers = g_hash_table_lookup(naming->mappers, &event->file);
		if (!mappers) {
			uint64_t *number = g_memdup2(&event->file, sizeof(event->file));
			mappers = g_new0(struct mappers, 1);
			g_hash_table_insert(naming->mappers, number, mappers);
		}
		mappers->names[mappers->n++ % MAPPERS] = (struct vms_foreign_name) {
			.pid = (pid_t)event->pid, .start = event->start, .end = event->end
		};
	}
}

/* Opens a file if it still is the mapped one. */
static struct vms_binary *open_name(struct naming *naming, const struct vms_recorded_file *file,
				    const struct vms_foreign_name *name)
{
	int number;
	struct vms_foreign_file *found =
		vms_foreign_files_open(naming->foreign, name, naming->budget, &number);
	if (!found)
		return NULL;
	const uint64_t stamp = vms_file_stamp(vms_foreign_file_status(found));
	const struct vms_file_source source = vms_file_source_of_foreign(found, naming->budget);
	g_autoptr(vms_binary) binary = vms_binary_new(file->path, &source);
	vms_binary_set_jail(binary, naming->jail);
	vms_binary_set_debug_files(binary, naming->debug_files);
	if (g_strcmp0(vms_binary_build_id(binary), file->build_id) != 0 ||
	    (!file->build_id && stamp != file->stamp))
		return NULL;
	return g_steal_pointer(&binary);
}

/* Opens a file by a process that maps it and still lives, or else by its path on this host. */
static struct vms_binary *open_binary(struct naming *naming, const struct vms_recorded_file *file)
{
	const struct vms_foreign_name by_path = { .path = file->path };
	const struct mappers *mappers = g_hash_table_lookup(naming->mappers, &file->number);
	struct vms_binary *binary = NULL;
	if (!file->path || (!file->build_id && !file->stamp))
		return NULL;
	for (unsigned i = 0; mappers && !binary && i < MIN(mappers->n, MAPPERS); i++) {
		struct vms_foreign_name name = mappers->names[(mappers->n - 1 - i) % MAPPERS];
		name.path = file->path;
		binary = open_name(naming, file, &name);
	}
	return binary ?: open_name(naming, file, &by_path);
}

static void free_named(void *data)
{
	struct named_file *named = data;
	vms_binary_unref(named->awaited);
	g_hash_table_unref(named->places);
	g_free(named);
}

static struct named_file *get_named(struct naming *naming, struct vms_recorded_file *file)
{
	struct named_file *found = g_hash_table_lookup(naming->named, file);
	if (found)
		return found;
	found = g_new0(struct named_file, 1);
	found->file = file;
	found->places = g_hash_table_new(vms_hash_direct, NULL);
	g_hash_table_insert(naming->named, file, found);
	return found;
}

/* Finds the file of an address, and the offset there. NULL: there is none. */
static struct named_file *find_named(struct naming *naming, uint32_t space, uint64_t pc,
				     uint64_t *offset)
{
	struct vms_recording *recording = naming->recording;
	struct vms_mapping mapping;
	if (!vms_symbolizer_mapping(recording->symbolizer, space, pc, &mapping))
		return NULL;
	struct vms_recorded_file *file = g_hash_table_lookup(recording->host.files, &mapping.file);
	*offset = pc - mapping.start + mapping.offset;
	return file ? get_named(naming, file) : NULL;
}

/* ---- names of a file --------------------------------------------------------------- */

/* Names all places of a file, and writes the code of functions that were executing, once. */
static void write_file_names(struct naming *naming, const struct named_file *named,
			     struct vms_binary *binary)
{
	const uint64_t number = named->file->number;
	const struct vms_symbol_table *functions = vms_binary_functions(binary);
	g_autoptr(GHashTable) code = g_hash_table_new(vms_hash_direct, NULL);
	struct vms_name_attachment attachment;
	struct vms_symbol symbol;
	GHashTableIter iter;
	gpointer place;
	vms_name_attachment_init(&attachment, naming->out, VMS_RECORDS_SYMBOLS,
				 g_strdup_printf("%" G_GUINT64_FORMAT "\n", number));
	g_hash_table_iter_init(&iter, named->places);
	while (g_hash_table_iter_next(&iter, &place, NULL)) {
		if (!vms_symbol_table_find(functions, PLACE_OFFSET(place), &symbol))
			continue;
		vms_name_attachment_add(&attachment, symbol.va, symbol.size, symbol.name);
		if (PLACE_IS_LEAF(place) && g_hash_table_add(code, (gpointer)(uintptr_t)symbol.va))
			vms_recorded_code_put(naming->out, number, binary, symbol.va, symbol.size,
					      &naming->code_left);
	}
	vms_name_attachment_end(&attachment);
}

/* Only files that servers are asked for stay open, so that the memory of one file is enough. */
static void name_files(struct naming *naming)
{
	GHashTableIter iter;
	gpointer value;
	g_hash_table_iter_init(&iter, naming->named);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		struct named_file *named = value;
		g_autoptr(vms_binary) binary = open_binary(naming, named->file);
		if (!binary)
			continue;
		vms_binary_functions(binary);
		if (vms_binary_is_awaited(binary))
			named->awaited = g_steal_pointer(&binary);
		else
			write_file_names(naming, named, binary);
	}
}

/* Servers have been asked for all these files at once. */
static void name_awaited_files(struct naming *naming)
{
	GHashTableIter iter;
	gpointer value;
	if (!naming->debug_files)
		return;
	vms_debug_files_wait(naming->debug_files, SERVERS_WAIT_NS);
	g_hash_table_iter_init(&iter, naming->named);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		struct named_file *named = value;
		if (!named->awaited)
			continue;
		vms_binary_refresh(named->awaited, vms_clock_now_ns());
		write_file_names(naming, named, named->awaited);
		g_clear_pointer(&named->awaited, vms_binary_unref);
	}
}

/* ---- the frames of a host's samples ------------------------------------------------- */

typedef void (*frame_function)(struct naming *naming, uint32_t space, const struct vms_frame *frame,
			       bool is_leaf);

static void each_frame(struct naming *naming, frame_function each)
{
	g_autofree struct vms_sample_record *sample = g_new(struct vms_sample_record, 1);
	const GPtrArray *stacks = naming->recording->stacks->all;
	for (guint n = 0; n < stacks->len; n++) {
		const struct vms_recorded_stack *stack = stacks->pdata[n];
		if (stack->is_of_guest)
			continue;
		vms_recorded_stack_get(stack, sample);
		for (unsigned i = 0; i < sample->stack.n; i++)
			each(naming, stack->space, &sample->stack.frame[i], i == 0);
	}
}

static void note_user_frame(struct naming *naming, uint32_t space, const struct vms_frame *frame,
			    bool is_leaf)
{
	uint64_t offset;
	struct named_file *named = NULL;
	if (frame->is_user)
		named = find_named(naming, space, frame->pc - frame->is_return, &offset);
	if (named)
		g_hash_table_add(named->places, PLACE(offset, is_leaf));
}

static void name_kernel_frame(struct naming *naming, uint32_t space, const struct vms_frame *frame,
			      bool is_leaf)
{
	(void)space, (void)is_leaf;
	if (frame->is_user)
		return;
	if (!naming->kallsyms)
		naming->kallsyms = read_kallsyms();
	add_symbol(&naming->kernel, naming->kallsyms, frame->pc - frame->is_return);
}

void vms_recording_write_names(struct vms_recording *recording, struct vms_debug_files *files,
			       struct vms_budget *budget, GByteArray *out)
{
	g_autoptr(GHashTable) named =
		g_hash_table_new_full(vms_hash_direct, NULL, NULL, free_named);
	g_autoptr(GHashTable) mappers =
		g_hash_table_new_full(vms_hash_int64, g_int64_equal, g_free, g_free);
	struct naming naming = { .recording = recording,
				 .debug_files = files,
				 .named = named,
				 .mappers = mappers,
				 .out = out,
				 .code_left = VMS_RECORDED_CODE_LIMIT };
	if (!recording->host.has_session) /* a guest's session has recorded all names */
		return;
	naming.budget = budget ? vms_budget_ref(budget) : vms_budget_new(NULL, NULL);
	naming.jail = vms_jail_new(naming.budget, "the symbols of programs");
	naming.foreign = files ? vms_foreign_files_ref(vms_debug_files_foreign(files))
			       : vms_foreign_files_new(naming.budget);
	note_mappers(&naming);
	vms_name_attachment_init(&naming.kernel, out, VMS_RECORDS_KERNEL, g_strdup(""));
	vms_records_put_start(out, VMS_RECORDS_HOST);
	each_frame(&naming, name_kernel_frame);
	each_frame(&naming, note_user_frame);
	name_files(&naming);
	name_awaited_files(&naming);
	vms_name_attachment_end(&naming.kernel);
	vms_symbol_table_unref(naming.kallsyms);
	g_hash_table_remove_all(named); /* what it has is on the budget */
	vms_jail_unref(naming.jail);
	vms_foreign_files_unref(naming.foreign);
	vms_budget_unref(naming.budget);
}
