/* SPDX-License-Identifier: MIT */
/* vmscope sample: shows where a guest spends its time. */
#include "commands.h"
#include "profile_flags.h"
#include "sample_run.h"
#include "values.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_HZ 99

struct options {
	char *hz, *interval_us, *seconds;
	gboolean reverse, merge;
	char *by, *processes, *format;
	int depth;
	char *min_percent;
	char *facts;
};

static bool parse_interval(const struct options *options, uint64_t *interval_us, GError **error)
{
	double hz = DEFAULT_HZ, us = 0;
	if (options->hz && options->interval_us) {
		usage_error(error, "--frequency and --interval exclude each other");
		return false;
	}
	if (!value_number("--frequency", options->hz, 0.1, 100000, "from 0.1 to 100000 Hz", &hz,
			  error) ||
	    !value_number("--interval", options->interval_us, VMS_SAMPLE_INTERVAL_MIN_US,
			  VMS_SAMPLE_INTERVAL_MAX_US, "from 10 to 10000000 us", &us, error))
		return false;
	/* Rounds up: a second must not have more samples than were asked for. */
	*interval_us = (uint64_t)(options->interval_us ? llround(us) : ceil(1e6 / hz - 1e-6));
	return true;
}

static bool is_fact(GArray *facts, const char *name)
{
	for (size_t i = 0; i < facts->len; i++) {
		if (strcmp(g_array_index(facts, struct vms_fact, i).name, name) == 0)
			return true;
	}
	return false;
}

/* Adds all items, or only those that a report has by default. */
static void add_facts(GPtrArray *chosen, GArray *facts, bool all)
{
	for (size_t i = 0; i < facts->len; i++) {
		const struct vms_fact *fact = &g_array_index(facts, struct vms_fact, i);
		if (all || fact->in_report)
			g_ptr_array_add(chosen, g_strdup(fact->name));
	}
}

static void remove_fact(GPtrArray *chosen, const char *name)
{
	guint index;
	while (g_ptr_array_find_with_equal_func(chosen, name, g_str_equal, &index))
		g_ptr_array_remove_index(chosen, index);
}

/*
 * Chooses the items of the machine that a report adds. The option lists items, "all", "none", or
 * "-ITEM" to leave one out. An option that begins with "-ITEM" starts from the default items.
 * Called before the run, so that a run with a wrong option does not begin. Returns NULL without an
 * error if there is no option, which means the default items.
 */
static char **choose_facts(struct session *session, const char *option, GError **error)
{
	if (!option)
		return NULL;
	if (!option[0]) {
		usage_error(error, "--facts \"\": it must name items, all or none");
		return NULL;
	}
	g_autoptr(GArray) facts = vms_facts_list(session->guest);
	g_autoptr(GPtrArray) chosen = g_ptr_array_new_with_free_func(g_free);
	g_auto(GStrv) items = g_strsplit(option, ",", -1);
	if (option[0] == '-')
		add_facts(chosen, facts, false);
	for (char **item = items; *item; item++) {
		bool unwanted = (*item)[0] == '-';
		if (strcmp(*item, "none") == 0)
			g_ptr_array_set_size(chosen, 0);
		else if (strcmp(*item, "all") == 0)
			add_facts(chosen, facts, true);
		else if (!is_fact(facts, *item + unwanted)) {
			usage_error(error,
				    "--facts: no item \"%s\": \"vmscope info help\" lists them",
				    *item + unwanted);
			return NULL;
		} else if (unwanted)
			remove_fact(chosen, *item + 1);
		else
			g_ptr_array_add(chosen, g_strdup(*item));
	}
	g_ptr_array_add(chosen, NULL);
	return (char **)g_ptr_array_steal(chosen, NULL);
}

static struct vms_sample_report *make_report(struct session *session, const struct options *options,
					     uint64_t interval_us, GError **error)
{
	if (options->depth < 1 || options->depth > VMS_STACK_LIMIT) {
		usage_error(error, "--depth %d: it must be from 1 to %d", options->depth,
			    VMS_STACK_LIMIT);
		return NULL;
	}
	struct vms_sample_report *report =
		vms_sample_report_new(session->machine, session->guest, interval_us,
				      options->reverse ? VMS_SAMPLE_LEAF_FIRST : 0, error);
	if (report)
		vms_sample_report_set_depth(report, (unsigned)options->depth, NULL);
	return report;
}

/* What to write of a run. */
struct results {
	const struct vms_exporter *exporter; /* NULL: the name of each output chooses it */
	unsigned profile_flags;
	const char *const *items; /* of the machine; NULL: the default ones */
	struct vms_export_options options;
};

/* Returns the exporter of an output, or that of the terminal if `path` is NULL. */
static const struct vms_exporter *choose_exporter(const struct results *results, const char *path)
{
	return results->exporter ? results->exporter : vms_exporter_by_path(path ? path : "");
}

/* True if an output shows items of the machine. */
static bool shows_items(const struct session *session, const struct results *results)
{
	bool shown = session->prints && choose_exporter(results, NULL)->shows_items;
	for (char **path = session->outputs; path && *path; path++)
		shown |= choose_exporter(results, *path)->shows_items;
	return shown;
}

static bool export_report(struct session *session, struct vms_sample_report *report,
			  const struct results *results, GError **error)
{
	g_autoptr(vms_profile) profile =
		vms_sample_report_profile(report, results->profile_flags, error);
	if (!profile)
		return false;
	g_autoptr(vms_run_facts) facts = vms_sample_report_facts(report);
	if (shows_items(session, results))
		vms_run_facts_read_items(facts, vms_sample_report_guest(report), results->items);
	for (char **path = session->outputs; path && *path; path++) {
		if (!vms_export_file(choose_exporter(results, *path), profile, facts,
				     &results->options, *path, error))
			return false;
	}
	return !session->prints || vms_export_text(choose_exporter(results, NULL), profile, facts,
						   &results->options, session->out, error);
}

/* Samples of all vCPUs together. */
struct totals {
	uint64_t samples, missed, failed; /* `failed`: for all reasons together */
	uint64_t failed_by[VMS_SAMPLE_N_FAILURES];
};

static struct totals sum_stats(struct vms_sample_report *report)
{
	struct totals totals = { 0 };
	struct vms_sample_stats stats;
	for (unsigned i = 0; vms_sample_report_stats(report, i, &stats); i++) {
		totals.samples += stats.samples;
		totals.missed += stats.missed;
		for (unsigned j = 0; j < VMS_SAMPLE_N_FAILURES; j++) {
			totals.failed += stats.failed[j];
			totals.failed_by[j] += stats.failed[j];
		}
	}
	return totals;
}

/* Prints one line about the run, for results that go into a file. */
static void print_summary(struct session *session, struct vms_sample_report *report)
{
	const struct totals totals = sum_stats(report);
	g_autofree char *files = g_strjoinv(", ", session->outputs);
	vms_log_flush();
	fprintf(stderr,
		"vmscope: %" G_GUINT64_FORMAT " samples in %.1f s (%" G_GUINT64_FORMAT
		" missed, %" G_GUINT64_FORMAT " failed) in %s\n",
		totals.samples, (double)vms_sample_report_elapsed_ns(report) / 1e9, totals.missed,
		totals.failed, files);
}

/* Warns with the likely reason if more samples were missed than not. */
static void warn_of_missed(struct vms_sample_report *report, const struct totals *totals,
			   uint64_t interval_us)
{
	const uint64_t others = totals->samples + totals->failed;
	double load;
	if (totals->missed <= others)
		return;
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const bool is_busy = getloadavg(&load, 1) == 1 && load > (double)cpus;
	g_autofree char *reason = vms_sample_report_reason(report, VMS_SAMPLE_FAIL_HOLD);
	if (!reason && is_busy)
		reason = g_strdup_printf("this host is busy, its load is %.1f with %ld CPUs", load,
					 cpus);
	else if (!reason)
		reason = g_strdup_printf("a sample takes longer than the %" G_GUINT64_FORMAT
					 " us between two, a lower --frequency has fewer gaps",
					 interval_us);
	vms_log(VMS_LOG_WARNING,
		"%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " samples were missed, likely as %s",
		totals->missed, totals->missed + others, reason);
}

/* Warns of vCPUs that came or went. A run samples those that the machine had when it was opened. */
static void warn_of_plugged_vcpus(struct session *session)
{
	g_autoptr(GError) error = NULL;
	vms_machine_check_vcpus(session->machine, &error);
	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_INVALID_STATE))
		vms_log(VMS_LOG_WARNING, "new vCPUs were not sampled: %s", error->message);
}

/*
 * Warns of what only the text output tells: why samples are missing, and why the run ended early.
 * Sets the exit status if it ended early. A run without any sample is an error anyway.
 */
static void warn_of_losses(struct session *session, struct vms_sample_report *report,
			   uint64_t interval_us)
{
	const struct totals totals = sum_stats(report);
	if (totals.samples == 0)
		return;
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++) {
		enum vms_sample_failure failure = (enum vms_sample_failure)i;
		g_autofree char *reason = vms_sample_report_reason(report, failure);
		uint64_t failed = totals.failed_by[i];
		if (failed > 0)
			vms_log(VMS_LOG_WARNING, "%" G_GUINT64_FORMAT " sample%s missing (%s)%s%s",
				failed, failed == 1 ? " is" : "s are",
				vms_sample_failure_name(failure), reason ? ": " : "",
				reason ? reason : "");
	}
	enum vms_sample_end end = vms_sample_report_end(report);
	const GError *error = vms_sample_report_error(report);
	if (!vms_sample_ended_early(end)) {
		warn_of_missed(report, &totals, interval_us);
		warn_of_plugged_vcpus(session);
		return;
	}
	session->status = 1;
	vms_log(VMS_LOG_WARNING, "sampling ended early, after %.1f s: %s",
		(double)vms_sample_report_elapsed_ns(report) / 1e9,
		error ? error->message : vms_sample_end_text(end));
}

/* Refuses one format for several outputs: each would get the same text, whatever its name. */
static bool check_format(const struct session *session, const char *format, GError **error)
{
	unsigned n = (session->outputs ? g_strv_length(session->outputs) : 0) + session->prints;
	if (!format || n == 1)
		return true;
	usage_error(error,
		    "--format %s: there is more than one --output; without --format the "
		    "name of each tells what to write",
		    format);
	return false;
}

static bool sample_guest(struct session *session, const struct options *options, GError **error)
{
	uint64_t interval_us, duration_ns;
	struct results results = {
		.options = { .size = sizeof(results.options) },
		.profile_flags = options->merge ? VMS_PROFILE_MERGE_VCPUS : 0,
	};
	if (!parse_interval(options, &interval_us, error) ||
	    !value_number("--min-percent", options->min_percent, 0, 100, "from 0 to 100",
			  &results.options.min_percent, error) ||
	    !value_seconds(options->seconds, &duration_ns, error) ||
	    !profile_flags_parse(options->by, options->processes, &results.profile_flags, error) ||
	    (options->format &&
	     !(results.exporter = vms_exporter_by_name(options->format, error))) ||
	    !check_format(session, options->format, error) ||
	    !session_check_binary(session, results.exporter, error) ||
	    !session_open_guest(session, error))
		return false;
	GError *refused = NULL;
	g_auto(GStrv) facts = choose_facts(session, options->facts, &refused);
	results.items = (const char *const *)facts;
	if (refused) {
		g_propagate_error(error, refused);
		return false;
	}
	g_autoptr(vms_sample_report) report = make_report(session, options, interval_us, error);
	if (!report || !run_sample_report(report, duration_ns,
					  isatty(STDERR_FILENO) && !session->quiet, error))
		return false;
	warn_of_losses(session, report, interval_us);
	session_read_names(session, vms_sample_report_guest(report));
	if (!export_report(session, report, &results, error))
		return false;
	if (session->outputs && !session->quiet)
		print_summary(session, report);
	return true;
}

/* Returns the names of the formats, like "text|folded|svg". */
static char *list_formats(void)
{
	size_t n;
	const struct vms_exporter *const *exporters = vms_exporters(&n);
	GString *names = g_string_new(NULL);
	for (size_t i = 0; i < n; i++)
		g_string_append_printf(names, "%s%s", i ? "|" : "", exporters[i]->name);
	return g_string_free(names, FALSE);
}

/* Returns the part of the help about formats. docs/man/add_formats.py parses it. */
static char *explain_formats(void)
{
	size_t n;
	const struct vms_exporter *const *exporters = vms_exporters(&n);
	GString *text = g_string_new(NULL);
	g_string_append_printf(text,
			       "Formats, and the endings of file names that choose them (else "
			       "%s):\n",
			       exporters[0]->name);
	for (size_t i = 0; i < n; i++)
		g_string_append_printf(text, "  %-10s %-16s %s\n", exporters[i]->name,
				       exporters[i]->suffix, exporters[i]->help);
	return g_string_free(text, FALSE);
}

/* Options of "record", which users expect here, too. */
static gboolean refuse_option(const char *name, const char *value G_GNUC_UNUSED,
			      gpointer data G_GNUC_UNUSED, GError **error)
{
	usage_error(error,
		    "sample has no %s: it shows what vCPUs execute. Use \"vmscope record %s -o "
		    "FILE\" with the same guest, and \"vmscope report FILE\"",
		    name, name);
	return FALSE;
}

static bool run_sample(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { .depth = VMS_STACK_DEFAULT };
	g_autofree char *formats = list_formats();
	const GOptionEntry entries[] = {
		{ "wall", 0, G_OPTION_FLAG_HIDDEN | G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK,
		  (gpointer)refuse_option, NULL, NULL },
		{ "host", 0, G_OPTION_FLAG_HIDDEN | G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK,
		  (gpointer)refuse_option, NULL, NULL },
		{ "frequency", 'F', 0, G_OPTION_ARG_STRING, &options.hz,
		  "Samples per second and vCPU (default 99)", "HZ" },
		{ "interval", 0, 0, G_OPTION_ARG_STRING, &options.interval_us,
		  "Microseconds between samples, 10 to 10000000", "US" },
		{ "time", 't', 0, G_OPTION_ARG_STRING, &options.seconds,
		  "How long to sample (default: until Ctrl-C)", "SECONDS" },
		{ "reverse", 0, 0, G_OPTION_ARG_NONE, &options.reverse,
		  "Trees begin with the leaf, callers below it", NULL },
		{ "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
		  "A node per function (default) or per address", "function|address" },
		{ "processes", 0, 0, G_OPTION_ARG_STRING, &options.processes,
		  "A node per process (default), per name, per container or service, or none",
		  "pid|name|container|none" },
		{ "merge", 0, 0, G_OPTION_ARG_NONE, &options.merge, "One tree for all vCPUs",
		  NULL },
		{ "format", 0, 0, G_OPTION_ARG_STRING, &options.format,
		  "Format to write (default: by the name of the output, see below)", formats },
		{ "depth", 0, 0, G_OPTION_ARG_INT, &options.depth,
		  "Frames per stack, 1 to 1024 (default 128)", "N" },
		{ "min-percent", 0, 0, G_OPTION_ARG_STRING, &options.min_percent,
		  "Leave out what has less than P % of the samples (text)", "P" },
		{ "facts", 0, 0, G_OPTION_ARG_STRING, &options.facts,
		  "Facts of the machine to add to a text report: items of \"vmscope info help\", "
		  "all, none; -ITEM leaves one out",
		  "ITEM,…" },
		{ NULL }
	};
	bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
		    sample_guest(session, &options, error);
	g_free(options.hz);
	g_free(options.interval_us);
	g_free(options.seconds);
	g_free(options.by);
	g_free(options.processes);
	g_free(options.format);
	g_free(options.min_percent);
	g_free(options.facts);
	return done;
}

const struct command command_sample = {
	.name = "sample",
	.arguments = "",
	.summary = "Where a guest spends its time: call trees of every vCPU",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_OUTPUTS | SESSION_RUNNING,
	.explain = explain_formats,
	.run = run_sample,
};
