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
#include <fcntl.h>
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

/* Opens a file if it still is the mapped one. */
static struct vms_binary *open_binary(const struct vms_recorded_file *file,
				      struct vms_debug_files *debug_files)
{
	struct vms_file_source source;
	const bool has_identity = file->path && (file->build_id || file->stamp);
	const int fd = has_identity ? open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	const uint64_t stamp = fd >= 0 && !file->build_id ? vms_file_stamp(fd) : 0;
	if (fd < 0 || !vms_file_source_of_fd(fd, &source))
		return NULL;
	if (!file->build_id && stamp != file->stamp) {
		vms_file_source_clear(&source);
		return NULL;
	}
	g_autoptr(vms_binary) binary = vms_binary_new(file->path, &source);
	vms_binary_set_debug_files(binary, debug_files);
	return g_strcmp0(vms_binary_build_id(binary), file->build_id) == 0
		       ? g_steal_pointer(&binary)
		       : NULL;
}

/* A file, and the attachment of its symbols. */
struct named_file {
	struct vms_binary *binary; /* NULL: the file is gone, or is another one */
	uint64_t number;
	struct vms_name_attachment attachment;
	GHashTable *code; /* offsets of functions whose code was written */
};

/* Shared by all files. */
struct naming {
	struct vms_recording *recording;
	struct vms_debug_files *debug_files; /* or NULL */
	GHashTable *named;		     /* struct named_file by struct vms_recorded_file */
	GByteArray *out;
	uint64_t code_left; /* bytes of code that may still be written */
	struct vms_name_attachment kernel;
	struct vms_symbol_table *kallsyms; /* NULL: not read yet */
};

static void free_named(void *data)
{
	struct named_file *named = data;
	vms_name_attachment_end(&named->attachment);
	vms_binary_unref(named->binary);
	g_hash_table_unref(named->code);
	g_free(named);
}

static struct named_file *get_named(struct naming *naming, struct vms_recorded_file *file)
{
	struct named_file *found = g_hash_table_lookup(naming->named, file);
	if (found)
		return found;
	found = g_new0(struct named_file, 1);
	found->binary = open_binary(file, naming->debug_files);
	found->number = file->number;
	found->code = g_hash_table_new(vms_hash_direct, NULL);
	vms_name_attachment_init(&found->attachment, naming->out, VMS_RECORDS_SYMBOLS,
				 g_strdup_printf("%" G_GUINT64_FORMAT "\n", file->number));
	g_hash_table_insert(naming->named, file, found);
	return found;
}

/* Writes the code of a sample's function, once. */
static void write_code(struct naming *naming, struct named_file *named, uint64_t offset)
{
	struct vms_symbol symbol;
	if (vms_symbol_table_find(vms_binary_functions(named->binary), offset, &symbol) &&
	    g_hash_table_add(named->code, (gpointer)(uintptr_t)symbol.va))
		vms_recorded_code_put(naming->out, named->number, named->binary, symbol.va,
				      symbol.size, &naming->code_left);
}

/* Finds the file of an address, and the offset there. NULL: there is none that can be read. */
static struct named_file *find_named(struct naming *naming, uint32_t space, uint64_t pc,
				     uint64_t *offset)
{
	struct vms_recording *recording = naming->recording;
	struct vms_mapping mapping;
	if (!vms_symbolizer_mapping(recording->symbolizer, space, pc, &mapping))
		return NULL;
	struct vms_recorded_file *file = g_hash_table_lookup(recording->host.files, &mapping.file);
	struct named_file *named = file ? get_named(naming, file) : NULL;
	*offset = pc - mapping.start + mapping.offset;
	return named && named->binary ? named : NULL;
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

static void open_file(struct naming *naming, uint32_t space, const struct vms_frame *frame,
		      bool is_leaf)
{
	uint64_t offset;
	struct named_file *named = NULL;
	(void)is_leaf;
	if (frame->is_user)
		named = find_named(naming, space, frame->pc - frame->is_return, &offset);
	if (named)
		vms_binary_functions(named->binary);
}

static void name_frame(struct naming *naming, uint32_t space, const struct vms_frame *frame,
		       bool is_leaf)
{
	const uint64_t pc = frame->pc - frame->is_return;
	uint64_t offset;
	if (!frame->is_user) {
		if (!naming->kallsyms)
			naming->kallsyms = read_kallsyms();
		add_symbol(&naming->kernel, naming->kallsyms, pc);
		return;
	}
	struct named_file *named = find_named(naming, space, pc, &offset);
	if (!named)
		return;
	add_symbol(&named->attachment, vms_binary_functions(named->binary), offset);
	if (is_leaf)
		write_code(naming, named, offset);
}

/* Opens all files first, so that servers are asked for all of them at once. */
static void wait_for_debug_files(struct naming *naming)
{
	GHashTableIter iter;
	gpointer value;
	if (!naming->debug_files)
		return;
	each_frame(naming, open_file);
	vms_debug_files_wait(naming->debug_files, SERVERS_WAIT_NS);
	g_hash_table_iter_init(&iter, naming->named);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		struct named_file *named = value;
		if (named->binary)
			vms_binary_refresh(named->binary, vms_clock_now_ns());
	}
}

void vms_recording_write_names(struct vms_recording *recording, struct vms_debug_files *files,
			       GByteArray *out)
{
	g_autoptr(GHashTable) named =
		g_hash_table_new_full(vms_hash_direct, NULL, NULL, free_named);
	struct naming naming = { .recording = recording,
				 .debug_files = files,
				 .named = named,
				 .out = out,
				 .code_left = VMS_RECORDED_CODE_LIMIT };
	if (!recording->host.has_session) /* a guest's session has recorded all names */
		return;
	vms_name_attachment_init(&naming.kernel, out, VMS_RECORDS_KERNEL, g_strdup(""));
	vms_records_put_start(out, VMS_RECORDS_HOST);
	wait_for_debug_files(&naming);
	each_frame(&naming, name_frame);
	vms_name_attachment_end(&naming.kernel);
	vms_symbol_table_unref(naming.kallsyms);
}
