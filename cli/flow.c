/* SPDX-License-Identifier: MIT */
/* vmscope flow: places probes on the guest's code, and shows their hits. */
#include "base/clock.h"
#include "commands.h"
#include "flow/saved.h"
#include "flow_export.h"
#include "flow_output.h"
#include "flow_places.h"
#include "flow_script.h"
#include "flow_spec.h"
#include "flow_tables.h"
#include "interrupts.h"
#include "live_run.h"
#include "streams.h"
#include "values.h"
#include <stdio.h>

struct options {
	char *common, *hits, *records, *seconds, *cpu, *task, *script, *format;
	char **conditions, **return_conditions;
	gboolean no_tasks, pending, halt;
	struct flow_tables_options tables;
};

struct trace {
	struct session *session;
	struct vms_flow *flow;
	struct flow_places_request request;
	struct flow_places *places;
	struct flow_tables *tables;	/* NULL: hits are shown one by one */
	struct flow_export export;	/* of `tables`, if --format or --output ask for it */
	struct vms_flow_writer *writer; /* of the file of --output, or NULL */
	struct flow_script *script;	/* of --script, or NULL; it prints instead of us */
	bool script_failed;		/* no longer called: records are only saved */
	struct live_records live;
	struct live_run run;
	uint64_t begin_ns;
	bool is_enabled;   /* the flow is enabled: at least one place exists */
	gboolean is_armed; /* or was: records from before an error are saved, too */
	struct interrupts interrupts;
	uint64_t max_hits;
	uint64_t max_records; /* kept until the end; 0: records are shown at once */
};

static bool print_text(const GString *out, GError **error)
{
	return !out->len || streams_print(out, error);
}

/*
 * Saves a record in the file. Appends the text of the record, or what the script prints, to `out`.
 * False without an error if the record cannot be saved: vms_flow_writer_end reports why, and how
 * many were saved.
 */
static bool output_record(const struct vms_flow_record *record, void *data, GString *out,
			  GError **error)
{
	struct trace *trace = data;
	if (trace->writer && !vms_flow_writer_add(trace->writer, record, NULL))
		return false;
	if (!trace->script && trace->session->prints)
		flow_output_record(trace->session, record, trace->begin_ns, out);
	if (trace->script && !trace->script_failed)
		trace->script_failed = !flow_script_hit(trace->script, record, out, error);
	return !trace->script_failed;
}

/* Prints the table, unless it only goes into files or is exported. */
static bool show_table(struct trace *trace, GError **error)
{
	if (!trace->session->prints || trace->export.format)
		return true;
	g_autoptr(GString) out = g_string_new(NULL);
	const bool made = flow_tables_append(trace->session, trace->tables, trace->flow,
					     vms_clock_now_ns() - trace->begin_ns, out, error);
	return print_text(out, made ? error : NULL) && made;
}

/* Prints and exports the final table. */
static bool output_final_table(struct trace *trace, GError **error)
{
	const uint64_t elapsed_ns = vms_clock_now_ns() - trace->begin_ns;
	const bool is_shown = show_table(trace, error);
	return is_shown &&
	       ((!trace->session->outputs && !trace->export.format) ||
		flow_export_write(trace->session, &trace->export, trace->flow, elapsed_ns, error));
}

/* Returns how many more hits --hits allows. 0 if it allows none, or is not set. */
static uint64_t count_allowed_hits(const struct trace *trace)
{
	struct vms_flow_progress progress;
	vms_flow_get_progress(trace->flow, &progress);
	return trace->max_hits - MIN(progress.records, trace->max_hits);
}

/* Enables the flow if a place exists and more hits are allowed. */
static bool enable_flow(struct trace *trace, GError **error)
{
	const uint64_t left = count_allowed_hits(trace);
	trace->is_enabled = !flow_places_is_empty(trace->places) && (left || !trace->max_hits);
	/* Records that are shown at once need not be kept. */
	return !trace->is_enabled ||
	       vms_flow_enable(trace->flow, left, MAX(trace->max_records, 1), error);
}

/*
 * Adapts the places to modules that were loaded or unloaded, and to the process. The flow is
 * disabled for a short time. Hits in this time are missing.
 */
static bool change_places(struct trace *trace, GError **error)
{
	const bool was_enabled = trace->is_enabled;
	const uint64_t begin_ns = vms_clock_now_ns();
	if (was_enabled && !vms_flow_disable(trace->flow, error))
		return false;
	/* Their places are named by the process, which may become another one. */
	if (!live_run_show_rest(&trace->run, error))
		return false;
	if (!flow_places_change(trace->places, error) || !enable_flow(trace, error))
		return false;
	if (!was_enabled && trace->is_enabled)
		vms_log(VMS_LOG_INFO, "the probes are armed");
	if (was_enabled && trace->is_enabled)
		vms_log(VMS_LOG_WARNING,
			"no probe was armed for %.1f ms while the places changed: hits may be "
			"missing",
			(double)(vms_clock_now_ns() - begin_ns) / 1e6);
	return true;
}

/* True if the flow has ended, or --hits allows no more. */
static bool has_ended(void *data)
{
	const struct trace *trace = data;
	return trace->is_enabled ? vms_flow_wait(trace->flow, 0)
				 : trace->max_hits && count_allowed_hits(trace) == 0;
}

static bool change_or_show_table(void *data, GError **error)
{
	struct trace *trace = data;
	if (flow_places_must_change(trace->places) && !change_places(trace, error))
		return false;
	return !trace->tables ||
	       !flow_tables_is_due(trace->tables, trace->begin_ns, vms_clock_now_ns()) ||
	       show_table(trace, error);
}

/* Shows and saves the records that --records has kept. */
static bool output_kept_records(struct trace *trace, GError **error)
{
	g_autoptr(vms_flow_report) report = vms_flow_get_report(trace->flow);
	g_autoptr(GString) out = g_string_new(NULL);
	bool done = true;
	for (size_t i = 0; i < vms_flow_report_count(report); i++)
		done = output_record(vms_flow_report_record(report, i, NULL), trace, out,
				     done ? error : NULL) &&
		       done;
	return print_text(out, done ? error : NULL) && done;
}

/* After the end of the flow: shows the remaining records until another interrupt comes. */
static bool show_remaining(struct trace *trace, GError **error)
{
	if (trace->tables)
		return output_final_table(trace, error);
	const bool done = !trace->max_records || output_kept_records(trace, error);
	interrupts_forget();
	return live_run_show_rest(&trace->run, done ? error : NULL) && done;
}

/* Loads the script of --script, if any, and prints the output of its main part. */
static bool load_script(struct trace *trace, const char *path, GError **error)
{
	g_autoptr(GString) out = g_string_new(NULL);
	if (!path)
		return true;
	trace->script = flow_script_load(trace->session, path, out, error);
	return print_text(out, trace->script ? error : NULL) && trace->script;
}

/* Calls the script's finish() and prints its output. */
static bool finish_script(struct trace *trace, GError **error)
{
	g_autoptr(GString) out = g_string_new(NULL);
	const bool done = flow_script_finish(trace->script, out, error);
	return print_text(out, done ? error : NULL) && done;
}

/* Sets the time at which the trace begins, and opens the file of --output, if any. */
static bool open_writer(struct trace *trace, GError **error)
{
	trace->begin_ns = vms_clock_now_ns();
	if (trace->script)
		flow_script_begin(trace->script, trace->begin_ns);
	if (!trace->session->outputs || trace->tables)
		return true;
	trace->writer = vms_flow_writer_open(trace->session->outputs[0], trace->session->guest,
					     &trace->session->process, trace->begin_ns,
					     (uint64_t)g_get_real_time() * 1000, error);
	return trace->writer;
}

static bool trace_until_end(struct trace *trace, const struct options *options, GError **error)
{
	trace->run = (struct live_run) { .live = &trace->live,
					 .give = output_record,
					 .has_ended = has_ended,
					 .after_round = change_or_show_table,
					 .data = trace };
	if (!value_seconds(options->seconds, &trace->run.duration_ns, error) ||
	    !open_writer(trace, error))
		return false;
	interrupts_catch(&trace->interrupts, trace->session->budget);
	bool done = enable_flow(trace, error);
	trace->is_armed = done;
	if (done) {
		vms_log(VMS_LOG_INFO, "the probes are armed");
		done = live_run_until_end(&trace->run, error);
		flow_places_warn(trace->places);
		done = vms_flow_disable(trace->flow, done ? error : NULL) && done;
		done = show_remaining(trace, done ? error : NULL) && done;
		if (done && trace->script)
			done = finish_script(trace, error);
	}
	interrupts_release(&trace->interrupts);
	return done;
}

/* Prints the number of hits; on stderr if the export goes to stdout. */
static bool print_table_summary(struct trace *trace, GError **error)
{
	struct session *session = trace->session;
	g_autoptr(GString) text = g_string_new(NULL);
	const bool is_apart = flow_export_prints(session, &trace->export);
	if (!flow_tables_append_summary(session, trace->flow, is_apart ? text : session->out,
					error))
		return false;
	if (is_apart && !session->quiet)
		fprintf(stderr, "vmscope: %s", text->str);
	return true;
}

/* Prints the summary, and completes the file. */
static bool finish_output(struct trace *trace, GError **error)
{
	struct vms_flow_progress progress;
	if (trace->tables)
		return print_table_summary(trace, error);
	vms_flow_get_progress(trace->flow, &progress);
	if (!trace->max_records)
		progress.dropped = 0; /* they were all shown */
	const unsigned n_unshown = live_records_left(&trace->live);
	progress.lost += n_unshown;
	flow_output_summary(trace->session, &progress, trace->session->out);
	if (vms_machine_is_paused(trace->session->machine))
		vms_log(VMS_LOG_WARNING,
			"the machine stands still; if it is paused, or at a breakpoint, `cont` in "
			"QEMU's monitor, or \"virsh resume\", lets it go on");
	if (progress.lost > n_unshown && !trace->session->prints)
		vms_log(VMS_LOG_WARNING,
			"%" G_GUINT64_FORMAT
			" hits were lost: vmscope could not take them fast enough",
			progress.lost - n_unshown);
	if (n_unshown)
		vms_log(VMS_LOG_WARNING, "%u hits were lost: %s", n_unshown,
			trace->script ? "the script was not fast enough"
				      : "the output could not be written fast enough");
	return !trace->writer || vms_flow_writer_end(trace->writer, &progress, error);
}

static bool parse_count(const char *option, const char *text, uint64_t *ret, GError **error)
{
	*ret = 0;
	if (!text || (value_in_c(text, ret) && *ret > 0))
		return true;
	usage_error(error, "%s %s: a whole number from 1 is needed", option, text);
	return false;
}

/* What all places collect: --common, and the break of --break. *ret is NULL if that is nothing. */
static bool make_common(struct session *session, const struct options *options,
			struct vms_probe **ret, GError **error)
{
	*ret = NULL;
	if (!options->common && !options->halt)
		return true;
	g_autofree char *entries = !options->halt    ? g_strdup(options->common)
				   : options->common ? g_strdup_printf("%s,break", options->common)
						     : g_strdup("break");
	*ret = flow_spec_probe(session, entries, error);
	return *ret;
}

static struct vms_flow *make_flow(struct trace *trace, const struct options *options,
				  GError **error)
{
	struct session *session = trace->session;
	struct vms_flow_options made = { .size = sizeof(made),
					 .one_vcpu = options->cpu,
					 .without_tasks = options->no_tasks,
					 .each = trace->max_records ? NULL : live_records_add,
					 .data = &trace->live };
	g_autoptr(vms_probe) common = NULL;
	if (!session_vcpu(session, options->cpu, &made.vcpu, error) ||
	    !make_common(session, options, &common, error))
		return NULL;
	made.common = common;
	g_autoptr(vms_flow) flow = vms_flow_new(session->machine, session->guest, &made, error);
	if (flow && trace->tables && !flow_tables_prepare(trace->tables, flow, error))
		return NULL;
	return g_steal_pointer(&flow);
}

/* Adds the places to the flow. */
static bool make_places(struct trace *trace, const struct options *options, int n_specs,
			char **specs, GError **error)
{
	trace->request = (struct flow_places_request) {
		.specs = specs,
		.n_specs = (size_t)n_specs,
		.conditions = options->conditions,
		.return_conditions = options->return_conditions,
		.adds_up = trace->tables,
		.task = options->task,
		.waits = options->pending,
	};
	trace->places = flow_places_new(trace->session, trace->flow, &trace->request, error);
	return trace->places;
}

/* Makes the tables that the options ask for, if any, and checks the options that exclude them. */
static bool make_tables(struct trace *trace, const struct options *options, GError **error)
{
	GError *failure = NULL;
	trace->tables = flow_tables_new(trace->session, &options->tables, &failure);
	if (trace->tables &&
	    (options->common || options->records || options->script || options->halt))
		usage_error(&failure, "--%s cannot be used with a table: it is for single hits",
			    options->common    ? "common"
			    : options->records ? "records"
			    : options->script  ? "script"
					       : "break");
	if (!failure && flow_export_prepare(trace->session, trace->tables, options->format,
					    &trace->export, &failure))
		return true;
	g_propagate_error(error, failure);
	flow_tables_free(g_steal_pointer(&trace->tables));
	return false;
}

static bool trace_flow(struct session *session, const struct options *options, int n_specs,
		       char **specs, GError **error)
{
	struct trace trace = { .session = session };
	const bool has_key = options->tables.by || options->tables.count_by;
	if ((!has_key && !flow_output_check_file(session, error)) ||
	    !parse_count("--hits", options->hits, &trace.max_hits, error) ||
	    !parse_count("--records", options->records, &trace.max_records, error))
		return false;
	if (options->halt && !trace.max_hits)
		trace.max_hits = 1;
	if (options->common && !*g_strstrip(options->common)) {
		usage_error(error, "--common is empty: write entries as \"comm,u32(rsi+8)\"");
		return false;
	}
	if (!session_open_guest(session, error))
		return false;
	if (!make_tables(&trace, options, error))
		return false;
	GError *failure = NULL;
	live_records_init(&trace.live);
	trace.flow = make_flow(&trace, options, &failure);
	bool done = trace.flow && make_places(&trace, options, n_specs, specs, &failure) &&
		    load_script(&trace, options->script, &failure) &&
		    trace_until_end(&trace, options, &failure);
	if (trace.is_armed)
		done = finish_output(&trace, failure ? NULL : &failure) && done;
	if (failure)
		g_propagate_error(error, failure);
	flow_script_free(trace.script);
	vms_flow_writer_free(trace.writer);
	flow_places_free(trace.places);
	vms_flow_unref(trace.flow);
	flow_tables_free(trace.tables);
	live_records_clear(&trace.live);
	return done;
}

static bool run_flow(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	struct flow_tables_options *tables = &options.tables;
	const GOptionEntry entries[] = {
		{ "if", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.conditions,
		  "Only hits for which an expression is not 0 count; may be repeated: all must "
		  "hold",
		  "EXPRESSION" },
		{ "if-return", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.return_conditions,
		  "The same, at the return of a call", "EXPRESSION" },
		{ "task", 0, 0, G_OPTION_ARG_STRING, &options.task,
		  "Only hits of this process of the guest count; functions of its programs can be "
		  "probed",
		  "PID|NAME" },
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &options.cpu, "Only hits of vCPU N count",
		  "N" },
		{ "common", 0, 0, G_OPTION_ARG_STRING, &options.common,
		  "Collect this at every place, too", "ENTRY,…" },
		{ "hits", 0, 0, G_OPTION_ARG_STRING, &options.hits, "End after N hits", "N" },
		{ "break", 0, 0, G_OPTION_ARG_NONE, &options.halt,
		  "Stop the machine at the first hit, or at each of --hits, and leave it so: by "
		  "the gdb stub",
		  NULL },
		{ "records", 0, 0, G_OPTION_ARG_STRING, &options.records,
		  "Show nothing until the end, then the last N hits", "N" },
		{ "time", 't', 0, G_OPTION_ARG_STRING, &options.seconds,
		  "How long to trace (default: until Ctrl-C)", "SECONDS" },
		{ "script", 0, 0, G_OPTION_ARG_FILENAME, &options.script,
		  "Call a function in Lua for every hit, instead of showing it", "FILE" },
		{ "count", 0, 0, G_OPTION_ARG_NONE, &tables->count, "Count hits", NULL },
		{ "count-by", 0, 0, G_OPTION_ARG_STRING, &tables->count_by, "Count hits by key",
		  "KEY,…" },
		{ "sum", 0, 0, G_OPTION_ARG_STRING_ARRAY, &tables->sum, "Sum up a number",
		  "EXPRESSION" },
		{ "min", 0, 0, G_OPTION_ARG_STRING_ARRAY, &tables->min, "Find its least value",
		  "EXPRESSION" },
		{ "max", 0, 0, G_OPTION_ARG_STRING_ARRAY, &tables->max, "Find its greatest value",
		  "EXPRESSION" },
		{ "avg", 0, 0, G_OPTION_ARG_STRING_ARRAY, &tables->average, "Find its average",
		  "EXPRESSION" },
		{ "hist", 0, 0, G_OPTION_ARG_STRING_ARRAY, &tables->hist,
		  "Draw a histogram of it, by powers of two", "EXPRESSION" },
		{ "lhist", 0, 0, G_OPTION_ARG_STRING_ARRAY, &tables->lhist,
		  "Draw one from MIN to MAX, by STEP", "EXPRESSION:MIN:MAX:STEP" },
		{ "by", 0, 0, G_OPTION_ARG_STRING, &tables->by,
		  "Do these for each key, a row of a table", "KEY,…" },
		{ "unsigned", 0, 0, G_OPTION_ARG_NONE, &tables->is_unsigned,
		  "These numbers have no sign", NULL },
		{ "interval", 'i', 0, G_OPTION_ARG_STRING, &tables->interval,
		  "Show the table every so often, not only at the end", "SECONDS" },
		{ "max-keys", 0, 0, G_OPTION_ARG_STRING, &tables->max_keys,
		  "How many keys a table holds for each vCPU (default: 4096)", "N" },
		{ "format", 0, 0, G_OPTION_ARG_STRING, &options.format,
		  "Format of hits by stack (default: by the name of the output)", "FORMAT" },
		{ "pending", 0, 0, G_OPTION_ARG_NONE, &options.pending,
		  "Wait for places that are not there yet: functions of modules, of programs",
		  NULL },
		{ "no-tasks", 0, 0, G_OPTION_ARG_NONE, &options.no_tasks,
		  "Do not tell processes and threads: hits cost less", NULL },
		{ NULL }
	};
	bool done = session_parse(session, entries, &argc, &argv, 1, -1, error) &&
		    trace_flow(session, &options, argc - 1, argv + 1, error);
	g_free(options.common);
	g_strfreev(options.conditions);
	g_strfreev(options.return_conditions);
	g_free(options.hits);
	g_free(options.records);
	g_free(options.seconds);
	g_free(options.cpu);
	g_free(options.task);
	g_free(options.script);
	g_free(options.format);
	flow_tables_clear_options(tables);
	return done;
}

static char *explain_flow(void)
{
	g_autofree char *spec = flow_spec_explain(), *script = flow_script_explain();
	return g_strconcat(spec, script ? "\n" : "", script, NULL);
}

const struct command command_flow = {
	.name = "flow",
	.arguments = "SPEC…",
	.summary = "Probes on the guest's code: arguments, registers and memory at every hit",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_RUNNING |
		   SESSION_OUTPUTS | SESSION_PROBES,
	.explain = explain_flow,
	.run = run_flow,
};
