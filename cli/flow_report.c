/* SPDX-License-Identifier: MIT */
/* vmscope flow report: shows and filters what `vmscope flow -o FILE` has saved. */
#include "commands.h"
#include "flow_filter.h"
#include "flow_output.h"
#include "json_values.h"

struct options {
	char **filters;
	gboolean any, reverse;
};

static void warn_of_damage(const char *path, const struct vms_flow_saved *saved)
{
	if (saved->damaged_bytes)
		vms_log(VMS_LOG_WARNING,
			"%s is damaged at byte %" G_GINT64_MODIFIER "u: %" G_GINT64_MODIFIER
			"u bytes of it could not be read",
			path, saved->damaged_at, saved->damaged_bytes);
	if (saved->missing)
		vms_log(VMS_LOG_WARNING, "%s lacks %" G_GINT64_MODIFIER "u of its records", path,
			saved->missing);
	if (!saved->is_complete)
		vms_log(VMS_LOG_WARNING,
			"the end of %s is missing: there may have been more records", path);
}

/* Returns when the trace began, in the local time. Newly allocated. */
static char *tell_time(uint64_t real_ns, const char *format)
{
	g_autoptr(GDateTime) time =
		g_date_time_new_from_unix_local((gint64)(real_ns / G_GUINT64_CONSTANT(1000000000)));
	return time ? g_date_time_format(time, format) : g_strdup("?");
}

static void add_json_summary(struct session *session, const struct vms_flow_saved *saved,
			     size_t n_shown, size_t n_saved)
{
	g_autofree char *began = tell_time(saved->begin_real_ns, "%FT%T%:z");
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "shown", json_object_new_uint64(n_shown));
	json_object_object_add(object, "saved", json_object_new_uint64(n_saved));
	json_object_object_add(object, "began", json_object_new_string(began));
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
		g_autofree char *began = tell_time(saved->begin_real_ns, "%F %T");
		g_string_append_printf(session->out, "%zu of %zu records of a trace of %s\n",
				       n_shown, n_saved, began);
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
	warn_of_damage(path, &saved);
	g_autoptr(vms_flow_report) kept = flow_filter_apply(
		report, options->filters, options->any, options->reverse, saved.begin_ns, error);
	if (!kept)
		return false;
	if (session->outputs &&
	    !vms_flow_report_save(kept, NULL, &saved, session->outputs[0], error))
		return false;
	for (size_t i = 0; session->prints && i < vms_flow_report_count(kept); i++)
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
		{ NULL }
	};
	const bool done = session_parse(session, entries, &argc, &argv, 1, 1, error) &&
			  flow_output_check_file(session, error) &&
			  show_report(session, &options, argv[1], error);
	g_strfreev(options.filters);
	return done;
}

const struct command command_flow_report = {
	.name = "flow report",
	.arguments = "FILE",
	.summary = "Show, filter and save again what \"flow -o FILE\" has saved",
	.options = SESSION_JSON | SESSION_OUTPUTS,
	.explain = flow_filter_explain,
	.run = run_report,
};
