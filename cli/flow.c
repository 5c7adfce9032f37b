/* SPDX-License-Identifier: MIT */
/* vmscope flow: probes on the code of the guest, shown as they are hit. */
#include "base/clock.h"
#include "commands.h"
#include "conditions.h"
#include "find_task.h"
#include "flow/saved.h"
#include "flow_export.h"
#include "flow_output.h"
#include "flow_places.h"
#include "flow_script.h"
#include "flow_spec.h"
#include "flow_tables.h"
#include "interrupts.h"
#include "live_records.h"
#include "streams.h"
#include "values.h"
#include <stdio.h>

#define LOOK_US 50000 /* between looks at what has come */

struct options {
	char *common, *hits, *records, *seconds, *cpu, *task, *script, *format;
	char **conditions, **return_conditions;
	gboolean no_tasks, pending;
	struct flow_tables_options tables;
};

struct trace {
	struct session *session;
	struct vms_flow *flow;
	struct vms_task task; /* of --task, if it is there */
	struct flow_places *places;
	char *condition, *return_condition; /* of all places, or NULL */
	struct flow_conditions conditions;
	struct flow_tables *tables;	/* or NULL: hits are shown one by one */
	struct flow_export export;	/* of `tables`, if --format or --output ask for it */
	struct vms_flow_writer *writer; /* of the file of --output, or NULL */
	struct flow_script *script;	/* of --script, or NULL: it shows what it wants to */
	bool script_failed;		/* it is not called any more: records are only saved */
	struct live_records live;
	uint64_t begin_ns, end_ns;
	bool is_enabled;   /* some place is there */
	gboolean is_armed; /* or was: what was recorded before an error is saved, too */
	struct interrupts interrupts;
	uint64_t max_hits;
	uint64_t max_records; /* to keep for the end; 0: they are shown as they come */
};

static bool print_all(const GString *out, GError **error)
{
	return !out->len || streams_print(out, error);
}

/*
 * Saves a record in the file, and appends it, or what the script makes of it, to what is printed.
 * False without an error if it cannot be saved: vms_flow_writer_end says why, and how much is
 * saved.
 */
static bool give_record(const struct vms_flow_record *record, void *data, GString *out,
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

static bool show(struct trace *trace, uint64_t wait_us, GError **error)
{
	return live_records_show(&trace->live, wait_us, give_record, trace, error);
}

/* Shows what was added up, unless it goes into files alone or is exported. */
static bool show_table(struct trace *trace, GError **error)
{
	if (!trace->session->prints || trace->export.format)
		return true;
	g_autoptr(GString) out = g_string_new(NULL);
	const bool made = flow_tables_append(trace->session, trace->tables, trace->flow,
					     vms_clock_now_ns() - trace->begin_ns, out, error);
	return print_all(out, made ? error : NULL) && made;
}

/* Shows and exports what was added up in all. */
static bool show_result(struct trace *trace, GError **error)
{
	const uint64_t elapsed_ns = vms_clock_now_ns() - trace->begin_ns;
	const bool is_shown = show_table(trace, error);
	return is_shown &&
	       ((!trace->session->outputs && !trace->export.format) ||
		flow_export_write(trace->session, &trace->export, trace->flow, elapsed_ns, error));
}

/* Returns how many hits the limit still allows; 0: none, or there is no limit. */
static uint64_t count_left(const struct trace *trace)
{
	struct vms_flow_progress progress;
	vms_flow_get_progress(trace->flow, &progress);
	return trace->max_hits - MIN(progress.records, trace->max_hits);
}

/* Arms what there is. */
static bool enable(struct trace *trace, GError **error)
{
	const uint64_t left = count_left(trace);
	trace->is_enabled = !flow_places_is_empty(trace->places) && (left || !trace->max_hits);
	/* What is shown as it comes need not be kept. */
	return !trace->is_enabled ||
	       vms_flow_enable(trace->flow, left, MAX(trace->max_records, 1), error);
}

/*
 * Lets the places follow modules that came or went. Hits of the short time in which nothing is
 * armed are missing.
 */
static bool change_places(struct trace *trace, GError **error)
{
	const bool was_enabled = trace->is_enabled;
	const uint64_t begin_ns = vms_clock_now_ns();
	if (was_enabled && !vms_flow_disable(trace->flow, error))
		return false;
	if (!flow_places_change(trace->places, error) || !enable(trace, error))
		return false;
	if (was_enabled && trace->is_enabled)
		vms_log(VMS_LOG_WARNING,
			"no probe was armed for %.1f ms, while they changed: hits may be missing",
			(double)(vms_clock_now_ns() - begin_ns) / 1e6);
	return true;
}

/* Shows hits until the flow has ended, or has to end. */
static bool follow(struct trace *trace, GError **error)
{
	bool done = true, ended = false;
	while (done && !ended && !interrupts_came()) {
		ended = (trace->is_enabled ? vms_flow_wait(trace->flow, 0)
					   : trace->max_hits && count_left(trace) == 0) ||
			(trace->end_ns && vms_clock_now_ns() >= trace->end_ns);
		done = show(trace, LOOK_US, error) &&
		       (ended || !flow_places_must_change(trace->places) ||
			change_places(trace, error));
		if (done && !ended && trace->tables &&
		    flow_tables_is_due(trace->tables, trace->begin_ns, vms_clock_now_ns()))
			done = show_table(trace, error);
	}
	return done;
}

/* Shows and saves the records that were kept for the end. */
static bool show_kept(struct trace *trace, GError **error)
{
	g_autoptr(vms_flow_report) report = vms_flow_get_report(trace->flow);
	g_autoptr(GString) out = g_string_new(NULL);
	bool done = true;
	for (size_t i = 0; i < vms_flow_report_count(report); i++)
		done = give_record(vms_flow_report_record(report, i, NULL), trace, out,
				   done ? error : NULL) &&
		       done;
	return print_all(out, done ? error : NULL) && done;
}

/* Shows what is left when the flow has ended, unless there is another interrupt. */
static bool show_rest(struct trace *trace, GError **error)
{
	if (trace->tables)
		return show_result(trace, error);
	bool done = !trace->max_records || show_kept(trace, error);
	interrupts_forget();
	while (!live_records_is_empty(&trace->live) && !interrupts_came())
		done = show(trace, 0, done ? error : NULL) && done;
	return done;
}

/* Loads the script of --script. It may print something already. */
static bool load_script(struct trace *trace, const char *path, GError **error)
{
	g_autoptr(GString) out = g_string_new(NULL);
	if (!path)
		return true;
	trace->script = flow_script_load(trace->session, path, out, error);
	return print_all(out, trace->script ? error : NULL) && trace->script;
}

/* Lets the script finish. */
static bool finish_script(struct trace *trace, GError **error)
{
	g_autoptr(GString) out = g_string_new(NULL);
	const bool done = flow_script_finish(trace->script, out, error);
	return print_all(out, done ? error : NULL) && done;
}

/* Begins the trace's time, and its file if there is one. */
static bool open_writer(struct trace *trace, GError **error)
{
	trace->begin_ns = vms_clock_now_ns();
	if (trace->script)
		flow_script_begin(trace->script, trace->begin_ns);
	if (!trace->session->outputs || trace->tables)
		return true;
	trace->writer = vms_flow_writer_open(trace->session->outputs[0], trace->session->guest,
					     trace->session->process, trace->begin_ns,
					     (uint64_t)g_get_real_time() * 1000, error);
	return trace->writer;
}

static bool run_trace(struct trace *trace, const struct options *options, GError **error)
{
	uint64_t duration_ns;
	if (!value_seconds(options->seconds, &duration_ns, error) || !open_writer(trace, error))
		return false;
	interrupts_catch(&trace->interrupts);
	bool done = enable(trace, error);
	trace->is_armed = done;
	trace->end_ns = duration_ns ? vms_clock_now_ns() + duration_ns : 0;
	if (done) {
		vms_log(VMS_LOG_INFO, "the probes are armed");
		done = follow(trace, error);
		flow_places_warn(trace->places);
		done = vms_flow_disable(trace->flow, done ? error : NULL) && done;
		done = show_rest(trace, done ? error : NULL) && done;
		if (done && trace->script)
			done = finish_script(trace, error);
	}
	interrupts_release(&trace->interrupts);
	return done;
}

/* Shows how many hits there were in all: not in the midst of what is exported. */
static bool sum_up_table(struct trace *trace, GError **error)
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

/* Shows what has happened in all, and ends the file. */
static bool sum_up(struct trace *trace, GError **error)
{
	struct vms_flow_progress progress;
	if (trace->tables)
		return sum_up_table(trace, error);
	vms_flow_get_progress(trace->flow, &progress);
	if (!trace->max_records)
		progress.dropped = 0; /* they have all been shown */
	const unsigned n_unshown = live_records_left(&trace->live);
	progress.lost += n_unshown;
	flow_output_summary(trace->session, &progress, trace->session->out);
	if (progress.lost > n_unshown && !trace->session->prints)
		vms_log(VMS_LOG_WARNING,
			"%" G_GUINT64_FORMAT
			" hits were lost: they came faster than they were taken",
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
	if (!session_vcpu(session, options->cpu, &made.vcpu, error))
		return NULL;
	if (options->common) {
		common = flow_spec_probe(session, options->common, error);
		if (!common)
			return NULL;
	}
	made.common = common;
	g_autoptr(vms_flow) flow = vms_flow_new(session->machine, session->guest, &made, error);
	if (flow && trace->tables && !flow_tables_prepare(trace->tables, flow, error))
		return NULL;
	return g_steal_pointer(&flow);
}

/* Finds the process of --task, whose functions can be probed. */
static const struct vms_task *find_process(struct trace *trace, uint64_t pid)
{
	struct session *session = trace->session;
	g_autoptr(GError) error = NULL;
	if (!find_task(session, (unsigned)MIN(pid, G_MAXUINT), &trace->task, &error)) {
		vms_log(VMS_LOG_WARNING, "--task: %s", error->message);
		return NULL;
	}
	session->process = vms_guest_process(session->guest, &trace->task);
	return &trace->task;
}

/* Adds the places to the flow. */
static bool make_places(struct trace *trace, const struct options *options, int n_specs,
			char **specs, GError **error)
{
	if (!conditions_join("--if", options->task, options->conditions, &trace->condition,
			     error) ||
	    !conditions_join("--if-return", NULL, options->return_conditions,
			     &trace->return_condition, error))
		return false;
	uint64_t pid;
	trace->conditions = (struct flow_conditions) {
		.at_place = trace->condition,
		.at_return = trace->return_condition,
		.adds_up = trace->tables,
		.task = options->task && value_in_c(options->task, &pid) ? find_process(trace, pid)
									 : NULL,
	};
	trace->places = flow_places_new(trace->session, trace->flow, &trace->conditions, specs,
					(size_t)n_specs, options->pending, error);
	return trace->places;
}

/* Finds out whether hits are to be added up, and how. */
static bool make_tables(struct trace *trace, const struct options *options, GError **error)
{
	GError *failure = NULL;
	trace->tables = flow_tables_new(trace->session, &options->tables, &failure);
	if (trace->tables && (options->common || options->records || options->script))
		usage_error(&failure, "--%s is for hits one by one: it does not go with a table",
			    options->common    ? "common"
			    : options->records ? "records"
					       : "script");
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
	uint64_t pid = 0;
	const bool has_key = options->tables.by || options->tables.count_by;
	if ((!has_key && !flow_output_check_file(session, error)) ||
	    !parse_count("--hits", options->hits, &trace.max_hits, error) ||
	    !parse_count("--records", options->records, &trace.max_records, error))
		return false;
	if (options->task && !value_in_c(options->task, &pid)) {
		usage_error(error, "--task %s: the pid of a process is needed", options->task);
		return false;
	}
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
		    run_trace(&trace, options, &failure);
	if (trace.is_armed)
		done = sum_up(&trace, failure ? NULL : &failure) && done;
	if (failure)
		g_propagate_error(error, failure);
	flow_script_free(trace.script);
	vms_flow_writer_free(trace.writer);
	flow_places_free(trace.places);
	vms_flow_unref(trace.flow);
	g_free(trace.condition);
	g_free(trace.return_condition);
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
		  "Only hits of the guest's process PID count; functions of its programs can be "
		  "probed",
		  "PID" },
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &options.cpu, "Only hits of vCPU N count",
		  "N" },
		{ "common", 0, 0, G_OPTION_ARG_STRING, &options.common,
		  "Collect this at every place, too", "ENTRY,…" },
		{ "hits", 0, 0, G_OPTION_ARG_STRING, &options.hits, "End after N hits", "N" },
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
		  "Wait for places that are not there yet: functions of modules", NULL },
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
	.options =
		SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_RUNNING | SESSION_OUTPUTS,
	.explain = explain_flow,
	.run = run_flow,
};
