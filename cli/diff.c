/* SPDX-License-Identifier: MIT */
/* vmscope diff: shows what has changed between two recordings. */
#include "commands.h"
#include "jailed_command.h"
#include "recording_file.h"
#include "values.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S  1000000000.0
#define MS_PER_NS 1e-6

enum measure { MEASURE_SHARE, MEASURE_RATE };

struct options {
	char *by;
	gboolean total, all;
	int measure; /* enum measure */
};

/* A recording and what is compared of it. */
struct side {
	const char *path;
	struct vms_recording *recording;
	struct vms_profile *profile;
	double scale; /* ms of processor time in a second, by sample */
	uint64_t samples;
	double seconds;
};

/* A function with its change, for the table. */
struct row {
	const struct vms_compared_function *function;
	struct vms_compared_change change;
};

static bool load_side(struct session *session, struct side *side, GError **error)
{
	struct vms_recording_stats stats;
	side->recording = open_recording(session, side->path, error);
	if (!side->recording)
		return false;
	side->profile = make_recording_profile(session, side->recording, side->path,
					       VMS_PROFILE_BY_COMM, false, error);
	if (!side->profile) {
		g_prefix_error(error, "%s: ", side->path);
		return false;
	}
	g_autoptr(vms_run_facts) facts = vms_recording_facts(side->recording);
	vms_recording_get_stats(side->recording, &stats);
	side->seconds = (double)facts->elapsed_ns / NS_PER_S;
	side->scale = side->seconds > 0 ? (double)stats.period_ns * MS_PER_NS / side->seconds : NAN;
	return true;
}

static void clear_side(struct side *side)
{
	g_clear_pointer(&side->profile, vms_profile_free);
	g_clear_pointer(&side->recording, vms_recording_free);
}

/* ---- the table ---------------------------------------------------------------------- */

static double get_size(const struct vms_compared_change *change)
{
	return fabs(change->after - change->before);
}

/* What is no chance comes first, the largest change above all. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	const double first = get_size(&x->change), second = get_size(&y->change);
	if (x->change.is_chance != y->change.is_chance)
		return x->change.is_chance ? 1 : -1;
	if (first != second)
		return first > second ? -1 : 1;
	const int names = g_strcmp0(x->function->name, y->function->name);
	return names ? names : g_strcmp0(x->function->process, y->function->process);
}

static struct vms_compared_counts get_counts(const struct vms_compared_function *function,
					     const struct options *options)
{
	return options->total ? function->total : function->self;
}

/* Returns the rows of the table, sorted: struct row. `*n_left_out` is how many are not in it. */
static GArray *make_rows(const struct vms_comparison *comparison, const struct side sides[2],
			 const struct options *options, size_t *n_left_out)
{
	size_t n;
	const struct vms_compared_function *functions = vms_comparison_functions(comparison, &n);
	const struct vms_compared_counts all = vms_comparison_samples(comparison);
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct row));
	*n_left_out = 0;
	for (size_t i = 0; i < n; i++) {
		const struct vms_compared_counts counts = get_counts(&functions[i], options);
		const struct row row = {
			.function = &functions[i],
			.change =
				options->measure == MEASURE_RATE
					? vms_compared_rate(counts, sides[0].scale, sides[1].scale)
					: vms_compared_share(counts, all),
		};
		if (counts.before == 0 && counts.after == 0)
			continue;
		if (options->all || !row.change.is_chance)
			g_array_append_val(rows, row);
		else
			++*n_left_out;
	}
	g_array_sort(rows, compare_rows);
	return rows;
}

static const char *name_module(const struct vms_compared_function *function)
{
	return function->module || function->is_user ? function->module : "vmlinux";
}

static struct vms_table *make_table(const GArray *rows, const struct options *options)
{
	static const struct vms_column columns[] = {
		{ "before", VMS_COLUMN_REAL },	   { "after", VMS_COLUMN_REAL },
		{ "change", VMS_COLUMN_CHANGE },   { "error", VMS_COLUMN_REAL },
		{ "n_before", VMS_COLUMN_NUMBER }, { "n_after", VMS_COLUMN_NUMBER },
		{ "process", VMS_COLUMN_TEXT },	   { "function", VMS_COLUMN_TEXT },
		{ "module", VMS_COLUMN_TEXT },	   { NULL }
	};
	struct vms_table *table = vms_table_new(columns);
	for (guint i = 0; i < rows->len; i++) {
		const struct row *row = &g_array_index(rows, struct row, i);
		const struct vms_compared_counts counts = get_counts(row->function, options);
		vms_table_add(table, row->change.before, row->change.after,
			      row->change.after - row->change.before, row->change.error,
			      counts.before, counts.after, row->function->process,
			      row->function->name, name_module(row->function));
	}
	return table;
}

static void append_side_text(GString *out, const char *name, const struct side *side)
{
	g_string_append_printf(out, "%s %" G_GUINT64_FORMAT " samples in %.1f s (%s)\n", name,
			       side->samples, side->seconds, side->path);
}

static void append_text(GString *out, const struct vms_table *table, const struct side sides[2],
			const struct options *options, size_t n_left_out)
{
	append_side_text(out, "Before:", &sides[0]);
	append_side_text(out, "After: ", &sides[1]);
	g_string_append_printf(out,
			       "%s of each function%s. \"error\" is half the 95 %% confidence "
			       "interval of the change.\n\n",
			       options->measure == MEASURE_RATE
				       ? "Milliseconds of processor time per second"
				       : "Percent of all samples",
			       options->total ? " and what it calls" : "");
	if (vms_table_rows(table) > 0)
		vms_table_text(table, out);
	else
		g_string_append(out, "No function has changed by more than chance explains.\n");
	if (n_left_out)
		g_string_append_printf(out,
				       "\n%zu function%s whose change may be chance %s left out: "
				       "--all shows them.\n",
				       n_left_out, n_left_out == 1 ? "" : "s",
				       n_left_out == 1 ? "is" : "are");
}

static void append_side_json(GString *out, const char *name, const struct side *side)
{
	char seconds[G_ASCII_DTOSTR_BUF_SIZE];
	g_ascii_formatd(seconds, sizeof(seconds), "%.3f", side->seconds);
	g_string_append_printf(out,
			       "\"%s\": { \"samples\": %" G_GUINT64_FORMAT ", \"seconds\": %s },\n",
			       name, side->samples, seconds);
}

static void append_json(GString *out, const struct vms_table *table, const struct side sides[2],
			const struct options *options, size_t n_left_out)
{
	g_string_append_printf(out, "{\n\"unit\": \"%s\",\n",
			       options->measure == MEASURE_RATE ? "ms/s" : "percent");
	append_side_json(out, "before", &sides[0]);
	append_side_json(out, "after", &sides[1]);
	g_string_append_printf(out, "\"left_out\": %zu,\n\"functions\": ", n_left_out);
	vms_table_json(table, out);
	g_string_append(out, "}\n");
}

/* Appends the functions that have changed. */
static void append_functions(GString *out, const struct session *session,
			     const struct vms_comparison *comparison, const struct side sides[2],
			     const struct options *options)
{
	size_t n_left_out;
	g_autoptr(GArray) rows = make_rows(comparison, sides, options, &n_left_out);
	g_autoptr(vms_table) table = make_table(rows, options);
	if (session->json)
		append_json(out, table, sides, options, n_left_out);
	else
		append_text(out, table, sides, options, n_left_out);
}

/* ---- outputs -------------------------------------------------------------------------- */

/* Returns the format that shows a comparison as a picture, if the output is to be one, or NULL. */
static const struct vms_exporter *choose_picture(const char *path)
{
	const struct vms_exporter *exporter = vms_exporter_by_path(path);
	return exporter->compares ? exporter : NULL;
}

static bool write_picture(const struct vms_exporter *exporter,
			  const struct vms_comparison *comparison, const struct side sides[2],
			  GString *text, GError **error)
{
	const struct vms_export_options options = { .size = sizeof(options),
						    .comparison = comparison };
	g_autoptr(vms_run_facts) facts = vms_recording_facts(sides[1].recording);
	g_autofree char *before = g_path_get_basename(sides[0].path);
	g_autofree char *after = g_path_get_basename(sides[1].path);
	g_free(facts->title);
	facts->title = g_strdup_printf("%s, by its change since %s", after, before);
	return vms_export_text(exporter, sides[1].profile, facts, &options, text, error);
}

static bool write_outputs(struct session *session, const struct vms_comparison *comparison,
			  const struct side sides[2], const struct options *options, GError **error)
{
	for (char **path = session->outputs; path && *path; path++) {
		const struct vms_exporter *exporter = choose_picture(*path);
		g_autoptr(GString) text = g_string_new(NULL);
		if (!exporter)
			append_functions(text, session, comparison, sides, options);
		else if (!write_picture(exporter, comparison, sides, text, error))
			return false;
		if (!jailed_command_write(session, *path, text, error))
			return false;
	}
	if (session->prints)
		append_functions(session->out, session, comparison, sides, options);
	return true;
}

static bool compare_recordings(struct session *session, struct side sides[2],
			       struct options *options, GError **error)
{
	static const struct choice measures[] = { { "share", MEASURE_SHARE },
						  { "rate", MEASURE_RATE },
						  { NULL, 0 } };
	if (!value_choose("--by", options->by, measures, &options->measure, error))
		return false;
	if (jailed_command_is_due(session)) {
		const char *const paths[] = { sides[0].path, sides[1].path };
		return jailed_command_run(session, paths, G_N_ELEMENTS(paths), NULL, error);
	}
	if (!load_side(session, &sides[0], error) || !load_side(session, &sides[1], error))
		return false;
	if (options->measure == MEASURE_RATE && !(sides[0].scale > 0 && sides[1].scale > 0)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "--by rate: %s has no rates: it was recorded by instructions, or does "
			    "not tell how long it was",
			    sides[0].scale > 0 ? sides[1].path : sides[0].path);
		return false;
	}
	g_autoptr(vms_comparison) comparison =
		vms_comparison_new(sides[0].profile, sides[1].profile, error);
	if (!comparison)
		return false;
	sides[0].samples = vms_comparison_samples(comparison).before;
	sides[1].samples = vms_comparison_samples(comparison).after;
	return write_outputs(session, comparison, sides, options, error);
}

static bool run_diff(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	const GOptionEntry entries[] = {
		{ "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
		  "Compare shares of all samples (default), or processor time per second of the "
		  "recording",
		  "share|rate" },
		{ "total", 0, 0, G_OPTION_ARG_NONE, &options.total,
		  "Count what a function calls, too, not only its own samples", NULL },
		{ "all", 0, 0, G_OPTION_ARG_NONE, &options.all,
		  "Show functions whose change may be chance, too", NULL },
		{ NULL }
	};
	struct side sides[2] = { 0 };
	bool done = session_parse(session, entries, &argc, &argv, 2, 2, error);
	if (done) {
		sides[0].path = argv[1];
		sides[1].path = argv[2];
		done = compare_recordings(session, sides, &options, error);
	}
	clear_side(&sides[0]);
	clear_side(&sides[1]);
	g_free(options.by);
	return done;
}

const struct command command_diff = {
	.name = "diff",
	.arguments = "BEFORE AFTER",
	.summary =
		"What has changed between two recordings: functions, a flame graph (-o FILE.svg)",
	.options = SESSION_JSON | SESSION_OUTPUTS,
	.run = run_diff,
};
