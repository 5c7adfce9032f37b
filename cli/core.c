/* SPDX-License-Identifier: MIT */
/* vmscope core and vmscope core convert: write a machine or another core file into a core file. */
#include "base/text.h"
#include "commands.h"
#include "core_write.h"
#include "values.h"
#include <string.h>

#define UNREADABLE_SHOWN 16
#define HOLD_LIMIT_MAX	 86400	   /* seconds */
#define BUFFER_MAX	 (1 << 24) /* MiB */

struct options {
	char *format, *compress, *thread_ids, *hold_limit, *buffer;
	gboolean force, compress_held;
};

static const struct choice formats[] = {
	{ "elf", VMS_CORE_ELF }, { "vbox", VMS_CORE_VBOX }, { "kdump", VMS_CORE_KDUMP }, { NULL }
};
static const struct choice compressions[] = { { "zlib", VMS_DUMP_ZLIB },
					      { "zstd", VMS_DUMP_ZSTD },
					      { NULL } };
static const struct choice thread_ids[] = { { "task", VMS_DUMP_THREADS_TASK },
					    { "vcpu", VMS_DUMP_THREADS_VCPU },
					    { NULL } };

static bool parse_options(const struct options *options, struct vms_dump_options *ret,
			  GError **error)
{
	int format = options->compress ? VMS_CORE_KDUMP : VMS_CORE_ELF;
	int compression = VMS_DUMP_ZLIB, threads = VMS_DUMP_THREADS_TASK;
	double hold_limit_s = 0;
	unsigned buffer_mib = 0;
	if (!value_choose("--format", options->format, formats, &format, error) ||
	    !value_choose("--compress", options->compress, compressions, &compression, error) ||
	    !value_choose("--thread-ids", options->thread_ids, thread_ids, &threads, error) ||
	    !value_number("--hold-limit", options->hold_limit, 0.001, HOLD_LIMIT_MAX,
			  "from 0.001 to 86400 s", &hold_limit_s, error) ||
	    !value_unsigned("--buffer", options->buffer, 1, BUFFER_MAX, &buffer_mib, error))
		return false;
	if (options->compress && format != VMS_CORE_KDUMP) {
		usage_error(error, "--compress %s: only --format kdump has compressed pages",
			    options->compress);
		return false;
	}
	*ret = (struct vms_dump_options) {
		.size = sizeof(*ret),
		.format = (enum vms_core_format)format,
		.compression = format == VMS_CORE_KDUMP ? (enum vms_dump_compression)compression
							: VMS_DUMP_PLAIN,
		.threads = (enum vms_dump_threads)threads,
		.overwrite = options->force,
		.compress_held = options->compress_held,
		.hold_limit_ns = (uint64_t)(hold_limit_s * 1e9),
		.buffer = (uint64_t)buffer_mib << 20,
	};
	return true;
}

/* ---- what was written ---- */

static void print_unreadable(GString *out, const struct vms_dump_result *result)
{
	g_autofree char *bytes = vms_text_bytes(result->unreadable);
	g_string_append_printf(out, "unreadable  %s, zeros in the file:\n", bytes);
	for (size_t i = 0; i < result->unreadable_at->len && i < UNREADABLE_SHOWN; i++) {
		const struct vms_range *range =
			&g_array_index(result->unreadable_at, struct vms_range, i);
		g_string_append_printf(
			out, "            0x%" G_GINT64_MODIFIER "x-0x%" G_GINT64_MODIFIER "x\n",
			range->pa, range->pa + range->size - 1);
	}
	if (result->unreadable_at->len > UNREADABLE_SHOWN)
		g_string_append_printf(out, "            … and %u more ranges\n",
				       result->unreadable_at->len - UNREADABLE_SHOWN);
}

/* Lists the registers that are unknown although the layout has a place for them. */
static void print_made_up(GString *out, const struct vms_dump_result *result)
{
	for (size_t i = 0; i < result->made_up->len; i++)
		g_string_append_printf(out, "%s%s", i ? ", " : "unknown     ",
				       (const char *)result->made_up->pdata[i]);
	g_string_append(out, ":\n            other tools read zeros or usual values for them\n");
}

static void print_summary(GString *out, const char *path, const struct vms_dump_options *options,
			  const struct vms_dump_result *result)
{
	g_autofree char *size = vms_text_bytes(result->file_size);
	g_autofree char *written = vms_text_bytes(result->written);
	g_autofree char *memory = vms_text_bytes(result->memory);
	g_autofree char *zeros = vms_text_bytes(result->zeros);
	bool compressed = options->compression != VMS_DUMP_PLAIN;
	g_string_append_printf(out, "file        %s\n", path);
	g_string_append_printf(out, "layout      %s%s%s\n",
			       value_word(formats, (int)options->format), compressed ? ", " : "",
			       compressed ? value_word(compressions, (int)options->compression)
					  : "");
	g_string_append_printf(out, "size        %s, %s of it written\n", size, written);
	g_string_append_printf(out, "memory      %s, %s of it zeros\n", memory, zeros);
	g_string_append_printf(out, "vCPUs       %u\n", result->vcpus);
	if (result->held_ns)
		g_string_append_printf(out, "guest held  %.1f ms\n", (double)result->held_ns / 1e6);
	g_string_append_printf(out, "time        %.2f s\n", (double)result->elapsed_ns / 1e9);
	if (result->made_up->len > 0)
		print_made_up(out, result);
	if (result->unreadable)
		print_unreadable(out, result);
}

static void print_json_summary(GString *out, const char *path,
			       const struct vms_dump_options *options,
			       const struct vms_dump_result *result)
{
	static const struct vms_column columns[] = {
		{ "file", VMS_COLUMN_TEXT },	     { "layout", VMS_COLUMN_TEXT },
		{ "compression", VMS_COLUMN_TEXT },  { "size", VMS_COLUMN_BYTES },
		{ "written", VMS_COLUMN_BYTES },     { "memory", VMS_COLUMN_BYTES },
		{ "zeros", VMS_COLUMN_BYTES },	     { "unreadable", VMS_COLUMN_BYTES },
		{ "vcpus", VMS_COLUMN_NUMBER },	     { "held_ns", VMS_COLUMN_NUMBER },
		{ "elapsed_ns", VMS_COLUMN_NUMBER }, { NULL }
	};
	static const struct vms_column range_columns[] = { { "address", VMS_COLUMN_ADDRESS },
							   { "size", VMS_COLUMN_BYTES },
							   { NULL } };
	static const struct vms_column register_columns[] = { { "register", VMS_COLUMN_TEXT },
							      { NULL } };
	g_autoptr(vms_table) core = vms_table_new(columns);
	g_autoptr(vms_table) unreadable = vms_table_new(range_columns);
	g_autoptr(vms_table) unknown = vms_table_new(register_columns);
	vms_table_add(core, path, value_word(formats, (int)options->format),
		      options->compression != VMS_DUMP_PLAIN
			      ? value_word(compressions, (int)options->compression)
			      : NULL,
		      result->file_size, result->written, result->memory, result->zeros,
		      result->unreadable, (uint64_t)result->vcpus, result->held_ns,
		      result->elapsed_ns);
	for (size_t i = 0; i < result->unreadable_at->len; i++) {
		const struct vms_range *range =
			&g_array_index(result->unreadable_at, struct vms_range, i);
		vms_table_add(unreadable, range->pa, range->size);
	}
	for (size_t i = 0; i < result->made_up->len; i++)
		vms_table_add(unknown, (const char *)result->made_up->pdata[i]);
	g_string_append(out, "{\n\"core\": ");
	vms_table_json(core, out);
	g_string_append(out, ",\n\"unreadable\": ");
	vms_table_json(unreadable, out);
	g_string_append(out, ",\n\"unknown\": ");
	vms_table_json(unknown, out);
	g_string_append(out, "}\n");
}

/* Warns what a core file lacks. Its copy will have zeros there. */
static void warn_of_damage(struct vms_machine *machine)
{
	const struct vms_core *core = vms_machine_core(machine);
	for (size_t i = 0; core && i < core->damage->len; i++)
		vms_log(VMS_LOG_WARNING, "%s is damaged: %s", core->path,
			(const char *)core->damage->pdata[i]);
	if (core && core->unreadable->len > 0)
		vms_log(VMS_LOG_WARNING,
			"%s has zeros for memory that could not be read: \"vmscope core info\" "
			"lists it",
			core->path);
}

/* Writes the machine that the session's options name into `path`. */
static bool write_core(struct session *session, const struct options *options, const char *path,
		       GError **error)
{
	struct vms_dump_options dump;
	g_auto(vms_dump_result) result = { 0 };
	if (!parse_options(options, &dump, error) || !session_open_guest(session, error))
		return false;
	warn_of_damage(session->machine);
	if (!core_write(session, path, &dump, &result, error))
		return false;
	if (session->json)
		print_json_summary(session->out, path, &dump, &result);
	else if (!session->quiet)
		print_summary(session->out, path, &dump, &result);
	return true;
}

/* ---- the two commands ---- */

static bool dump_machine(struct session *session, const struct options *options, char **argv,
			 GError **error)
{
	(void)argv;
	if (!session->outputs) {
		usage_error(error, "no output: --output FILE names the core file to write; it is "
				   "not written to standard output");
		return false;
	}
	/* The summary goes to the terminal. */
	g_auto(GStrv) outputs = g_steal_pointer(&session->outputs);
	session->prints = true;
	return write_core(session, options, outputs[0], error);
}

static bool convert_core(struct session *session, const struct options *options, char **argv,
			 GError **error)
{
	if (session->outputs) {
		usage_error(error, "--output: the file to write is the second argument here");
		return false;
	}
	if (strcmp(argv[2], "-") == 0) {
		usage_error(error, "OUT -: a core file is not written to standard output");
		return false;
	}
	session->core = g_strdup(argv[1]);
	return write_core(session, options, argv[2], error);
}

static void add_layout_options(GArray *entries, struct options *options)
{
	const GOptionEntry own[] = {
		{ "format", 0, 0, G_OPTION_ARG_STRING, &options->format,
		  "Layout: ELF (default), VirtualBox's, or kdump, with compressed pages",
		  "elf|vbox|kdump" },
		{ "compress", 0, 0, G_OPTION_ARG_STRING, &options->compress,
		  "How kdump's pages are compressed (default zlib); alone it means kdump",
		  "zlib|zstd" },
		{ "thread-ids", 0, 0, G_OPTION_ARG_STRING, &options->thread_ids,
		  "Name vCPUs by the guest's thread (default), or by number as QEMU does",
		  "task|vcpu" },
		{ "force", 0, 0, G_OPTION_ARG_NONE, &options->force, "Replace an existing file",
		  NULL },
	};
	g_array_append_vals(entries, own, G_N_ELEMENTS(own));
}

/* Adds the options about holding a guest. A core file has no guest to hold. */
static void add_hold_options(GArray *entries, struct options *options)
{
	const GOptionEntry own[] = {
		{ "compress-held", 0, 0, G_OPTION_ARG_NONE, &options->compress_held,
		  "Compress at once, without a copy on the disk: the guest is held until what is "
		  "left fits into the buffer",
		  NULL },
		{ "hold-limit", 0, 0, G_OPTION_ARG_STRING, &options->hold_limit,
		  "Longest hold of the guest; nothing is written if it takes longer (default 10)",
		  "SECONDS" },
		{ "buffer", 0, 0, G_OPTION_ARG_STRING, &options->buffer,
		  "Memory for what the disk does not take at once (default: a quarter of what the "
		  "host has available)",
		  "MIB" },
	};
	g_array_append_vals(entries, own, G_N_ELEMENTS(own));
}

static bool parse_and_act(struct session *session, int argc, char **argv, int arguments,
			  bool (*act)(struct session *session, const struct options *options,
				      char **argv, GError **error),
			  GError **error)
{
	struct options options = { 0 };
	g_autoptr(GArray) entries = g_array_new(TRUE, FALSE, sizeof(GOptionEntry));
	add_layout_options(entries, &options);
	if (act == dump_machine)
		add_hold_options(entries, &options);
	bool done = session_parse(session, (const GOptionEntry *)(void *)entries->data, &argc,
				  &argv, arguments, arguments, error) &&
		    act(session, &options, argv, error);
	g_free(options.format);
	g_free(options.compress);
	g_free(options.thread_ids);
	g_free(options.hold_limit);
	g_free(options.buffer);
	return done;
}

static bool run_core(struct session *session, int argc, char **argv, GError **error)
{
	return parse_and_act(session, argc, argv, 0, dump_machine, error);
}

static bool run_convert(struct session *session, int argc, char **argv, GError **error)
{
	return parse_and_act(session, argc, argv, 2, convert_core, error);
}

const struct command command_core = {
	.name = "core",
	.arguments = "",
	.summary = "Write memory and vCPUs of a machine into a core file",
	.options = SESSION_TARGET | SESSION_JSON,
	.run = run_core,
};

const struct command command_core_convert = {
	.name = "core convert",
	.arguments = "IN OUT",
	.summary = "Write a core file in another layout",
	.options = SESSION_JSON,
	.run = run_convert,
};
