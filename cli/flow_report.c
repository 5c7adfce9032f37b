/* SPDX-License-Identifier: MIT */
/* vmscope flow report: shows and filters records that `vmscope flow -o FILE` has saved. */
#include "commands.h"
#include "flow_filter.h"
#include "flow_output.h"
#include "flow_timeline.h"
#include "json_values.h"

struct options {
	char **filters;
	gboolean any, reverse;
	char *timeline; /* a path, or NULL */
};

/* Appends which parts of the file could not be read. False if all of it was read. */
static bool append_damage(const struct vms_flow_saved *saved, GString *out)
{
	if (saved->damaged_bytes)
		g_string_append_printf(out,
				       " is damaged at byte %" G_GINT64_MODIFIER
				       "u: %" G_GINT64_MODIFIER "u bytes of it could not be read;",
				       saved->damaged_at, saved->damaged_bytes);
	if (saved->damaged_bytes && !saved->begin_real_ns)
		g_string_append(out, " lacks its begin: times are those of the host's clock;");
	if (saved->missing)
		g_string_append_printf(out, " lacks %" G_GINT64_MODIFIER "u of its records;",
				       saved->missing);
	if (!saved->is_complete)
		g_string_append(out, " lacks its end: there may have been more records;");
	if (out->len)
		g_string_truncate(out, out->len - 1);
	return out->len;
}

/* Reports that records of a damaged file are missing. */
static void report_damage(struct session *session, const char *path,
			  const struct vms_flow_saved *saved)
{
	g_autoptr(GString) told = g_string_new(NULL);
	if (append_damage(saved, told))
		g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_MALFORMED, "%s%s", path,
			    told->str);
}

/* Formats the local time at which the trace began. Newly allocated; NULL if the file lacks it. */
static char *format_time(uint64_t real_ns, const char *format)
{
	if (!real_ns)
		return NULL;
	g_autoptr(GDateTime) time =
		g_date_time_new_from_unix_local((gint64)(real_ns / G_GUINT64_CONSTANT(1000000000)));
	return time ? g_date_time_format(time, format) : NULL;
}

static void add_json_summary(struct session *session, const struct vms_flow_saved *saved,
			     size_t n_shown, size_t n_saved)
{
	g_autofree char *began = format_time(saved->begin_real_ns, "%FT%T%:z");
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "shown", json_object_new_uint64(n_shown));
	json_object_object_add(object, "saved", json_object_new_uint64(n_saved));
	json_object_object_add(object, "began", began ? json_object_new_string(began) : NULL);
	json_object_object_add(object, "complete", json_object_new_boolean(saved->is_complete));
	json_object_object_add(object, "missing", json_object_new_uint64(saved->missing));
	json_object_object_add(object, "damaged_bytes",
			       json_object_new_uint64(saved->damaged_bytes));
	json_object_object_add(object, "damaged_at", json_object_new_uint64(saved->damaged_at));
	flow_output_object(session->out, object);
}

static void add_summary(struct session *session, const struct vms_flow_saved *saved, size_t n_shown,
			size_t n_saved)
{
	if (session->json) {
		add_json_summary(session, saved, n_shown, n_saved);
	} else {
		g_autofree char *began = format_time(saved->begin_real_ns, "%F %T");
		g_string_append_printf(session->out, "%zu of %zu records of a trace of %s\n",
				       n_shown, n_saved, began ? began : "an unknown time");
	}
	if (saved->is_complete)
		flow_output_summary(session, &saved->progress, session->out);
}

static bool show_report(struct session *session, const struct options *options, const char *path,
			GError **error)
{
	struct vms_flow_saved saved;
	g_autoptr(vms_flow_report) report = vms_flow_report_load(path, &saved, error);
	if (!report)
		return false;
	report_damage(session, path, &saved);
	g_autoptr(vms_flow_report) kept = flow_filter_apply(
		report, options->filters, options->any, options->reverse, saved.begin_ns, error);
	if (!kept)
		return false;
	if (session->outputs &&
	    !vms_flow_report_save(kept, NULL, &saved, session->outputs[0], error))
		return false;
	if (options->timeline &&
	    !flow_timeline_write(session, kept, saved.begin_ns, options->timeline, error))
		return false;
	for (size_t i = 0; session->prints && !options->timeline && i < vms_flow_report_count(kept);
	     i++)
		flow_output_record(session, vms_flow_report_record(kept, i, NULL), saved.begin_ns,
				   session->out);
	add_summary(session, &saved, vms_flow_report_count(kept), vms_flow_report_count(report));
	return true;
}

static bool run_report(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	const GOptionEntry entries[] = {
		{ "filter", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.filters,
		  "Only records that match; may be repeated: all must match", "KEY=VALUE" },
		{ "any", 0, 0, G_OPTION_ARG_NONE, &options.any, "One filter that matches is enough",
		  NULL },
		{ "reverse", 0, 0, G_OPTION_ARG_NONE, &options.reverse,
		  "Only records that would be left out", NULL },
		{ "timeline", 0, 0, G_OPTION_ARG_FILENAME, &options.timeline,
		  "Write a timeline (JSON) that ui.perfetto.dev opens", "FILE" },
		{ NULL }
	};
	const bool done = session_parse(session, entries, &argc, &argv, 1, 1, error) &&
			  flow_output_check_file(session, error) &&
			  show_report(session, &options, argv[1], error);
	g_strfreev(options.filters);
	g_free(options.timeline);
	return done;
}

const struct command command_flow_report = {
	.name = "flow report",
	.arguments = "FILE",
	.summary = "Show, filter and save again the records that \"flow -o FILE\" has saved",
	.options = SESSION_JSON | SESSION_OUTPUTS,
	.explain = flow_filter_explain,
	.run = run_report,
};
