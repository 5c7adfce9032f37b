/* SPDX-License-Identifier: MIT */
/*
 * Finds the names of all functions in the samples of a recording, and the code of those that were
 * executing. With these, the recording can be read on any host.
 */
#include "capture/sample_records.h"
#include "sample/name_attachment.h"
#include "sample/recording-private.h"
#include "sample/recording_code.h"
#include "symbol/binary.h"
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

/* Opens a file if it still is the mapped one. */
static struct vms_binary *open_binary(const struct vms_recorded_file *file)
{
	struct vms_file_source source;
	const int fd = file->build_id ? open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0 || !vms_file_source_of_fd(fd, &source))
		return NULL;
	g_autoptr(vms_binary) binary = vms_binary_new(file->path, &source);
	return g_strcmp0(vms_binary_build_id(binary), file->build_id) == 0
		       ? g_steal_pointer(&binary)
		       : NULL;
}

/* A file, and the attachment of its symbols. */
struct named_file {
	struct vms_binary *binary; /* NULL: the file is gone, or is another one */
	struct vms_name_attachment attachment;
	GHashTable *code; /* offsets of functions whose code was written */
};

/* Shared by all files. */
struct naming {
	struct vms_recording *recording;
	GHashTable *named; /* struct named_file by struct vms_recorded_file */
	GByteArray *out;
	uint64_t code_left; /* bytes of code that may still be written */
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
	found->binary = open_binary(file);
	found->code = g_hash_table_new(NULL, NULL);
	vms_name_attachment_init(&found->attachment, naming->out, VMS_RECORDS_SYMBOLS,
				 g_strdup_printf("%" G_GUINT64_FORMAT "\n", file->number));
	g_hash_table_insert(naming->named, file, found);
	return found;
}

/* Writes the code of a sample's function, once. */
static void write_code(struct naming *naming, struct named_file *named, uint64_t file,
		       uint64_t offset)
{
	struct vms_symbol symbol;
	if (vms_symbol_table_find(vms_binary_functions(named->binary), offset, &symbol) &&
	    g_hash_table_add(named->code, (gpointer)(uintptr_t)symbol.va))
		vms_recorded_code_put(naming->out, file, named->binary, symbol.va, symbol.size,
				      &naming->code_left);
}

static void name_user(struct naming *naming, uint32_t space, uint64_t pc, bool is_leaf)
{
	struct vms_recording *recording = naming->recording;
	struct vms_mapping mapping;
	if (!vms_symbolizer_mapping(recording->symbolizer, space, pc, &mapping))
		return;
	struct vms_recorded_file *file = g_hash_table_lookup(recording->host.files, &mapping.file);
	if (!file)
		return;
	struct named_file *named = get_named(naming, file);
	const uint64_t offset = pc - mapping.start + mapping.offset;
	if (!named->binary)
		return;
	add_symbol(&named->attachment, vms_binary_functions(named->binary), offset);
	if (is_leaf)
		write_code(naming, named, file->number, offset);
}

void vms_recording_write_names(struct vms_recording *recording, GByteArray *out)
{
	g_autofree struct vms_sample_record *sample = g_new(struct vms_sample_record, 1);
	g_autoptr(vms_symbol_table) kallsyms = NULL;
	g_autoptr(GHashTable) named = g_hash_table_new_full(NULL, NULL, NULL, free_named);
	struct naming naming = { recording, named, out, VMS_RECORDED_CODE_LIMIT };
	struct vms_name_attachment kernel;
	GHashTableIter iter;
	gpointer key;
	if (!recording->host.has_session) /* a guest's session has recorded all names */
		return;
	vms_name_attachment_init(&kernel, out, VMS_RECORDS_KERNEL, g_strdup(""));
	vms_records_put_start(out, VMS_RECORDS_HOST);
	g_hash_table_iter_init(&iter, recording->stacks);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		const struct vms_recorded_stack *stack = key;
		if (stack->is_of_guest)
			continue;
		vms_recorded_stack_get(stack, sample);
		if (sample->stack.n_kernel && !kallsyms)
			kallsyms = read_kallsyms();
		for (unsigned i = 0; i < sample->stack.n; i++) {
			const struct vms_frame *frame = &sample->stack.frame[i];
			const uint64_t pc = frame->pc - frame->is_return;
			if (frame->is_user)
				name_user(&naming, stack->space, pc, i == 0);
			else
				add_symbol(&kernel, kallsyms, pc);
		}
	}
	vms_name_attachment_end(&kernel);
}
