/* SPDX-License-Identifier: MIT */
/* vmscope report: shows what `vmscope record` has written. */
#include "commands.h"
#include "jailed_command.h"
#include "profile_flags.h"
#include "profile_pages.h"
#include "profile_server.h"
#include "recording_file.h"
#include "values.h"
#include <string.h>

#define OPEN_SECONDS 600 /* without a request */

struct options {
	char *by, *processes, *format, *min_percent, *open_for;
	gboolean reverse, stats, open, callgrind;
};

/* Writes a text to all outputs. */
static bool write_text(struct session *session, const GString *text, GError **error)
{
	for (char **output = session->outputs; output && *output; output++)
		if (!jailed_command_write(session, *output, text, error))
			return false;
	if (session->prints)
		g_string_append_len(session->out, text->str, (gssize)text->len);
	return true;
}

static bool write_stats(struct session *session, const struct vms_recording *recording,
			GError **error)
{
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = { { "samples", stats.samples },
		     { "waiting samples", stats.waiting },
		     { "processes", stats.processes },
		     { "processes without mappings", stats.unmapped },
		     { "period ns", stats.period_ns },
		     { "period instructions", stats.period_instructions },
		     { "guest samples", stats.guest_samples },
		     { "guest lost", stats.guest_session.lost },
		     { "guest missed", stats.guest_session.missed },
		     { "in the guest", stats.in_guest },
		     { "joined", stats.joined },
		     { "not joined", stats.in_guest - stats.joined },
		     { "collected", stats.session.collected },
		     { "lost", stats.session.lost },
		     { "missed", stats.session.missed },
		     { "throttled", stats.session.throttled },
		     { "mappings lost", stats.session.mappings_lost },
		     { "elapsed ns", stats.session.elapsed_ns },
		     { "sample ns mean", stats.session.sample_ns_mean },
		     { "sample ns median", stats.session.sample_ns_median },
		     { "sample ns min", stats.session.sample_ns_min },
		     { "sample ns max", stats.session.sample_ns_max } };
	static const struct vms_column columns[] = { { "statistic", VMS_COLUMN_TEXT },
						     { "value", VMS_COLUMN_NUMBER },
						     { NULL } };
	g_autoptr(vms_table) table = vms_table_new(columns);
	g_autoptr(GString) text = g_string_new(NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
		vms_table_add(table, rows[i].name, rows[i].value);
	if (session->json)
		vms_table_json(table, text);
	else
		vms_table_text(table, text);
	return write_text(session, text, error);
}

/* Serves a profile to a viewer in a browser. Takes the text. */
static bool open_in_browser(const struct session *session, const struct options *options,
			    const struct vms_exporter *exporter, GString *text, GError **error)
{
	double seconds = OPEN_SECONDS;
	if (value_number("--open-for", options->open_for, 0.1, 1e6, "from 0.1 to 1000000 s",
			 &seconds, error))
		return serve_profile(session, exporter, text, (uint64_t)(seconds * 1e9), error);
	g_string_free(text, TRUE);
	return false;
}

static bool write_profile(struct session *session, const struct vms_exporter *exporter,
			  const struct vms_profile *profile, const struct vms_run_facts *facts,
			  const struct vms_export_options *options, GError **error)
{
	for (char **path = session->outputs; path && *path; path++) {
		g_autoptr(GString) text = g_string_new(NULL);
		if (!vms_export_text(exporter ? exporter : vms_exporter_by_path(*path), profile,
				     facts, options, text, error) ||
		    !jailed_command_write(session, *path, text, error))
			return false;
	}
	return !session->prints || vms_export_text(exporter ? exporter : vms_exporter_by_path(""),
						   profile, facts, options, session->out, error);
}

static bool export_profile(struct session *session, struct vms_recording *recording,
			   const struct options *options, const struct vms_exporter *exporter,
			   const char *path, GError **error)
{
	struct vms_export_options export_options = { .size = sizeof(export_options) };
	unsigned flags = 0;
	if (!profile_flags_parse(options->by, options->processes, &flags, error) ||
	    !value_number("--min-percent", options->min_percent, 0, 100, "from 0 to 100",
			  &export_options.min_percent, error))
		return false;
	g_autoptr(vms_profile) profile =
		make_recording_profile(session, recording, path, flags, options->reverse, error);
	if (!profile)
		return false;
	g_autoptr(vms_run_facts) facts = vms_recording_facts(recording);
	export_options.budget = vms_recording_budget(recording);
	if (options->open)
		return vms_export_text(exporter, profile, facts, NULL,
				       jailed_command_served(session), error);
	return write_profile(session, exporter, profile, facts, &export_options, error);
}

/* Writes the call graph of a directory of "vmscope calls". */
static bool report_calls(struct session *session, const struct options *options, const char *path,
			 GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);
	if (options->stats || options->open || options->open_for || options->format ||
	    options->by || options->processes || options->reverse || options->min_percent ||
	    session->json) {
		usage_error(error, "--callgrind has no other options than --output");
		return false;
	}
	return vms_calls_write_callgrind(path, text, error) && write_text(session, text, error);
}

/* Refuses options that would have no effect. */
static bool check_options(const struct session *session, const struct options *options,
			  GError **error)
{
	const bool shapes = options->format || options->by || options->processes ||
			    options->reverse || options->min_percent;
	if ((options->open || options->open_for) && (session->outputs || options->stats))
		usage_error(error, "--open takes the place of --output and --stats");
	else if (options->open_for && !options->open)
		usage_error(error, "--open-for needs --open");
	else if (options->stats && shapes)
		usage_error(error, "--stats has no other options than --json and --output");
	else if (session->json && !options->stats)
		usage_error(error, "--json needs --stats: --format has formats for programs, as "
				   "firefox and speedscope, which are JSON");
	else
		return true;
	return false;
}

/* Reads the recording, in the jail. */
static bool read_recording(struct session *session, const struct options *options,
			   const struct vms_exporter *exporter, const char *path, GError **error)
{
	g_autoptr(vms_recording) recording = open_recording(session, path, error);
	if (!recording)
		return false;
	return options->stats ? write_stats(session, recording, error)
			      : export_profile(session, recording, options, exporter, path, error);
}

static bool report_recording(struct session *session, const struct options *options,
			     const char *path, GError **error)
{
	GString *page = NULL;
	const struct vms_exporter *exporter = NULL;
	if (options->callgrind)
		return report_calls(session, options, path, error);
	if (!check_options(session, options, error) ||
	    (options->format && !(exporter = vms_exporter_by_name(options->format, error))) ||
	    (!options->open && !session_check_binary(session, exporter, error)))
		return false;
	if (options->open && !exporter)
		exporter = profile_pages_default();
	if (!jailed_command_is_due(session))
		return read_recording(session, options, exporter, path, error);
	return jailed_command_run(session, &path, 1, options->open ? &page : NULL, error) &&
	       (!options->open || open_in_browser(session, options, exporter, page, error));
}

static bool run_report(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	const GOptionEntry entries[] = {
		{ "stats", 0, 0, G_OPTION_ARG_NONE, &options.stats,
		  "Print statistics of the recording, not its samples", NULL },
		{ "format", 0, 0, G_OPTION_ARG_STRING, &options.format,
		  "Format to write (default: by the name of the output, as \"vmscope sample\")",
		  "FORMAT" },
		{ "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
		  "A node per function (default) or per address", "function|address" },
		{ "processes", 0, 0, G_OPTION_ARG_STRING, &options.processes,
		  "A node per process (default), per name, per container or service, or none",
		  "pid|name|container|none" },
		{ "reverse", 0, 0, G_OPTION_ARG_NONE, &options.reverse,
		  "Trees begin with the leaf, callers below it", NULL },
		{ "min-percent", 0, 0, G_OPTION_ARG_STRING, &options.min_percent,
		  "Leave out what has less than P % of the samples (text)", "P" },
		{ "callgrind", 0, 0, G_OPTION_ARG_NONE, &options.callgrind,
		  "Write the call graph of a directory of \"vmscope calls\", for KCachegrind",
		  NULL },
		{ "open", 0, 0, G_OPTION_ARG_NONE, &options.open,
		  "Open the report in a browser, until Ctrl-C: firefox (default), speedscope or "
		  "svg",
		  NULL },
		{ "open-for", 0, 0, G_OPTION_ARG_STRING, &options.open_for,
		  "End --open when the browser has not asked for so long (default 600)",
		  "SECONDS" },
		{ NULL }
	};
	const bool done = session_parse(session, entries, &argc, &argv, 1, 1, error) &&
			  report_recording(session, &options, argv[1], error);
	g_free(options.by);
	g_free(options.processes);
	g_free(options.format);
	g_free(options.min_percent);
	g_free(options.open_for);
	return done;
}

const struct command command_report = {
	.name = "report",
	.arguments = "FILE|DIRECTORY",
	.summary = "Show what \"record\" has written: call trees, flame graphs",
	.options = SESSION_JSON | SESSION_OUTPUTS,
	.run = run_report,
};
