/* SPDX-License-Identifier: MIT */
/* vmscope annotate: shows how many samples each instruction of a function has. */
#include "code_mode.h"
#include "commands.h"
#include "jailed_command.h"
#include "recording_file.h"
#include "sample/annotation.h"
#include "sample_run.h"
#include "values.h"
#include <math.h>
#include <unistd.h>

#define DEFAULT_HZ  999
#define FILES_LIMIT 32 /* of --symbols, that are read in a jail */

struct options {
	char *hz, *seconds;
};

/* Where the samples and the code come from. */
struct source {
	const struct vms_profile *profile;
	struct vms_symbolizer *symbolizer;
	const struct vms_arch *arch; /* of the guest; NULL: its code is in `recording` */
	const struct vms_recording *recording;
	uint64_t samples;
};

/* ---- code ------------------------------------------------------------------------------ */

/* Reads code of the kernel, or of a guest without one, while the machine is held. */
static bool read_from_memory(struct session *session, const struct vms_annotation *annotation,
			     struct vms_code_mode *mode, uint8_t *code, GError **error)
{
	if (!vms_machine_observe(session->machine, error))
		return false;
	const bool done = code_mode_get(session, 0, mode, error) &&
			  session_read_first(session, false, 0, annotation->start, code,
					     annotation->size, error) == annotation->size;
	return vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL) && done;
}

/* Reads the code of the function. Errors: it is nowhere to be had. */
static bool read_code(struct session *session, const struct vms_annotation *annotation,
		      struct vms_code_mode *mode, uint8_t *code, GError **error)
{
	*mode = (struct vms_code_mode) { .bits = 64, .is_certain = true };
	if (annotation->space != VMS_KERNEL_SPACE && annotation->space != VMS_NO_SPACE) {
		if (vms_annotation_read_file(annotation, code))
			return true;
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s of %s is not %s",
			    annotation->function, annotation->path ? annotation->path : "its file",
			    session->machine ? "in the guest's memory" : "in the recording");
		return false;
	}
	if (!session->machine) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "recordings have no code of the kernel");
		return false;
	}
	if (!read_from_memory(session, annotation, mode, code, error))
		return false;
	code_mode_choose(0, annotation->start, 0, mode);
	return true;
}

/* Shows the instructions, or, with a warning, the addresses alone. */
static void decode_function(struct session *session, const struct source *source,
			    struct vms_annotation *annotation)
{
	g_autoptr(GError) error = NULL;
	struct vms_code_mode mode;
	if (annotation->size == 0 || annotation->size > VMS_ANNOTATION_LIMIT) {
		vms_log(VMS_LOG_WARNING, "only addresses are shown: how long %s is is not known",
			annotation->function);
		vms_annotation_list_hits(annotation);
		return;
	}
	g_autofree uint8_t *code = g_malloc(annotation->size);
	if (read_code(session, annotation, &mode, code, &error)) {
		const struct vms_arch *arch =
			source->arch ? source->arch
				     : vms_recording_arch(source->recording, annotation->space);
		if (!arch)
			g_set_error_literal(&error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
					    "the processor of the recording is not known");
		else
			vms_annotation_decode(annotation, arch, &mode, code, annotation->size,
					      &error);
	}
	if (!error)
		return;
	vms_log(VMS_LOG_WARNING, "only addresses are shown: %s", error->message);
	vms_annotation_list_hits(annotation);
}

/* Adds source lines of the files that --symbols names, and of the file itself on this host. */
static void add_lines(const struct session *session, struct vms_annotation *annotation)
{
	for (char **file = session->symbols; file && *file; file++) {
		const int fd = jailed_command_open(session, *file, NULL);
		if (fd >= 0 && vms_annotation_add_lines(annotation, fd, *file, NULL))
			return;
	}
	const int own = annotation->path && annotation->build_id && !session->machine
				? jailed_command_open_mapped(session, annotation->path,
							     annotation->build_id)
				: -1;
	if (own >= 0)
		vms_annotation_add_lines(annotation, own, annotation->path, session->budget);
}

/* ---- output ---------------------------------------------------------------------------- */

static const char *name_module(const struct vms_annotation *annotation)
{
	return annotation->module ? annotation->module : annotation->is_user ? NULL : "vmlinux";
}

/* Returns "main.c:7", newly allocated, or NULL. */
static char *name_line(const struct vms_annotated_instruction *instruction)
{
	return instruction->source
		       ? g_strdup_printf("%s:%u", instruction->source, instruction->line)
		       : NULL;
}

static double get_percent(uint64_t part, uint64_t whole)
{
	return 100 * (double)part / (double)whole;
}

static void add_rows(struct vms_table *table, const struct vms_annotation *annotation)
{
	for (guint i = 0; i < annotation->instructions->len; i++) {
		const struct vms_annotated_instruction *instruction = &g_array_index(
			annotation->instructions, struct vms_annotated_instruction, i);
		g_autofree char *line = name_line(instruction);
		vms_table_add(table, name_module(annotation), instruction->hits,
			      get_percent(instruction->hits, annotation->hits), instruction->va,
			      instruction->va - annotation->start, instruction->text, line);
	}
}

static void print_instruction(GString *out, const struct vms_annotation *annotation,
			      const struct vms_annotated_instruction *instruction)
{
	if (instruction->hits)
		g_string_append_printf(out, "%8" G_GUINT64_FORMAT " %6.2f%%", instruction->hits,
				       get_percent(instruction->hits, annotation->hits));
	else
		g_string_append_printf(out, "%16s", "");
	g_string_append_printf(out, "  %16" G_GINT64_MODIFIER "x  %s\n", instruction->va,
			       instruction->text ? instruction->text : "?");
}

/* Prints the instructions, and each source line above the first of its instructions. */
static void print_function(GString *out, const struct source *source,
			   const struct vms_annotation *annotation)
{
	g_autofree char *last = NULL;
	const char *module = name_module(annotation);
	g_string_append_printf(
		out, "%s%s (%s): %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " samples, %.2f%%\n",
		out->len ? "\n" : "", annotation->function, module ? module : "?", annotation->hits,
		source->samples, get_percent(annotation->hits, source->samples));
	for (guint i = 0; i < annotation->instructions->len; i++) {
		const struct vms_annotated_instruction *instruction = &g_array_index(
			annotation->instructions, struct vms_annotated_instruction, i);
		char *line = name_line(instruction);
		if (line && g_strcmp0(line, last) != 0)
			g_string_append_printf(out, "%36s%s\n", "", line);
		g_free(last);
		last = line;
		print_instruction(out, annotation, instruction);
	}
}

static bool show_functions(struct session *session, const struct source *source,
			   const char *function, GError **error)
{
	static const struct vms_column columns[] = {
		{ "module", VMS_COLUMN_TEXT },	 { "hits", VMS_COLUMN_NUMBER },
		{ "percent", VMS_COLUMN_REAL },	 { "address", VMS_COLUMN_ADDRESS },
		{ "offset", VMS_COLUMN_NUMBER }, { "instruction", VMS_COLUMN_TEXT },
		{ "line", VMS_COLUMN_TEXT },	 { NULL }
	};
	g_autoptr(GPtrArray) found =
		vms_annotations_find(source->profile, source->symbolizer, function, error);
	if (!found)
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (guint i = 0; i < found->len; i++) {
		struct vms_annotation *annotation = g_ptr_array_index(found, i);
		decode_function(session, source, annotation);
		add_lines(session, annotation);
		if (session->json)
			add_rows(table, annotation);
		else
			print_function(session->out, source, annotation);
	}
	if (session->json)
		session_table(session, table);
	return true;
}

/* ---- where samples come from ------------------------------------------------------------ */

static uint64_t count_samples(const struct vms_profile *profile)
{
	size_t n;
	uint64_t samples = 0;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);
	for (size_t i = 0; i < n; i++)
		samples += trees[i].samples;
	return samples;
}

static bool annotate_recording(struct session *session, const char *function, const char *path,
			       GError **error)
{
	g_autoptr(vms_recording) recording = open_recording(session, path, error);
	if (!recording)
		return false;
	g_autoptr(vms_profile) profile = make_recording_profile(
		session, recording, path, VMS_PROFILE_BY_ADDRESS, false, error);
	if (!profile)
		return false;
	const struct source source = { .profile = profile,
				       .symbolizer = vms_recording_symbolizer(recording),
				       .recording = recording,
				       .samples = count_samples(profile) };
	return show_functions(session, &source, function, error);
}

/* Has this command annotate the recording in a jail, with the files that --symbols names. */
static bool annotate_in_jail(struct session *session, const char *path, GError **error)
{
	g_autoptr(GPtrArray) files = g_ptr_array_new();
	g_ptr_array_add(files, (char *)path);
	for (char **file = session->symbols; file && *file && files->len < FILES_LIMIT; file++)
		g_ptr_array_add(files, *file);
	return jailed_command_run(session, (const char *const *)files->pdata, files->len, NULL,
				  error);
}

static bool annotate_guest(struct session *session, const struct options *options,
			   const char *function, GError **error)
{
	double hz = DEFAULT_HZ;
	uint64_t duration_ns;
	if (!value_number("--frequency", options->hz, 0.1, 100000, "from 0.1 to 100000 Hz", &hz,
			  error) ||
	    !value_seconds(options->seconds, &duration_ns, error) ||
	    !session_open_guest(session, error))
		return false;
	g_autoptr(vms_sample_report) report = vms_sample_report_new(
		session->machine, session->guest, (uint64_t)ceil(1e6 / hz - 1e-6), 0, error);
	if (!report || !run_sample_report(report, duration_ns,
					  isatty(STDERR_FILENO) && !session->quiet, error))
		return false;
	session_read_names(session, vms_sample_report_guest(report));
	g_autoptr(vms_profile) profile = vms_sample_report_profile(
		report, VMS_PROFILE_BY_ADDRESS | VMS_PROFILE_MERGE_VCPUS, error);
	if (!profile)
		return false;
	const struct source source = { .profile = profile,
				       .symbolizer = vms_guest_symbolizer(
					       vms_sample_report_guest(report)),
				       .arch = vms_machine_arch(session->machine),
				       .samples = count_samples(profile) };
	return show_functions(session, &source, function, error);
}

static bool check_recording_options(const struct session *session, const struct options *options,
				    const char *path, GError **error)
{
	if (!options->hz && !options->seconds && !session_names_target(session) && !session->launch)
		return true;
	usage_error(error, "%s is a recording: it has neither a target nor --time or --frequency",
		    path);
	return false;
}

static bool run_annotate(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	const GOptionEntry entries[] = { { "frequency", 'F', 0, G_OPTION_ARG_STRING, &options.hz,
					   "Samples per second and vCPU (default 999)", "HZ" },
					 { "time", 't', 0, G_OPTION_ARG_STRING, &options.seconds,
					   "How long to sample (default: until Ctrl-C)",
					   "SECONDS" },
					 { NULL } };
	bool done = session_parse(session, entries, &argc, &argv, 1, 2, error);
	if (done && argc > 2)
		done = check_recording_options(session, &options, argv[2], error) &&
		       (jailed_command_is_due(session)
				? annotate_in_jail(session, argv[2], error)
				: annotate_recording(session, argv[1], argv[2], error));
	else if (done)
		done = annotate_guest(session, &options, argv[1], error);
	g_free(options.hz);
	g_free(options.seconds);
	return done;
}

const struct command command_annotate = {
	.name = "annotate",
	.arguments = "FUNCTION [RECORDING]",
	.summary = "How often samples find each instruction of a function executing",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_RUNNING,
	.run = run_annotate,
};
