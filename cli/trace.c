/* SPDX-License-Identifier: MIT */
/* vmscope trace: prints the system calls of a guest, like strace those of a program. */
#include "base/keyed_hash.h"
#include "base/outfile.h"
#include "commands.h"
#include "flow_output.h"
#include "interrupts.h"
#include "json_values.h"
#include "live_run.h"
#include "streams.h"
#include "syscall_text.h"
#include "values.h"
#include <string.h>

#define STRING_BYTES	 32 /* the default of strace */
#define STRING_BYTES_MAX 1024

struct options {
	char *names, *task, *seconds, *calls, *string_size;
	gboolean failed;
};

struct trace {
	struct session *session;
	GArray *calls;		 /* struct vms_syscall */
	struct vms_types *types; /* the kernel's, or NULL */
	unsigned string_size;
	GHashTable *by_va; /* traced calls: address of the function → struct syscall_shape */
	struct vms_flow *flow;
	struct live_records live;
	uint64_t begin_ns;
};

/* ---- what to trace ---------------------------------------------------------------- */

/* True if a pattern matches, or if there are no patterns. */
static bool is_wanted(const char *name, char **patterns)
{
	for (size_t i = 0; patterns && patterns[i]; i++)
		if (g_pattern_match_simple(patterns[i], name))
			return true;
	return !patterns;
}

static struct vms_probe *make_call_probe(const struct trace *trace, struct syscall_shape *shape,
					 const struct options *options, GError **error)
{
	g_autoptr(vms_probe) probe =
		vms_probe_new(trace->session->machine, trace->session->guest, shape->call->name);
	g_autofree char *condition =
		options->task ? g_strdup_printf("pid == %s", options->task) : NULL;
	if (!syscall_add_call_entries(probe, shape, error))
		return NULL;
	if (condition && !vms_probe_set_condition(probe, condition, error))
		return NULL;
	return g_steal_pointer(&probe);
}

/*
 * Makes the probe of the return: it collects the result and the memory that the kernel has written.
 * With --failed it only counts errors.
 */
static struct vms_probe *make_return_probe(const struct trace *trace, struct syscall_shape *shape,
					   const struct options *options, GError **error)
{
	g_autoptr(vms_probe) probe =
		vms_probe_new(trace->session->machine, trace->session->guest, NULL);
	if (!syscall_add_return_entries(probe, shape, error) ||
	    (options->failed &&
	     !vms_probe_set_condition(probe, "retval > 0xfffffffffffff000", error)))
		return NULL;
	return g_steal_pointer(&probe);
}

static bool add_call(struct trace *trace, const struct vms_syscall *call,
		     const struct options *options, GError **error)
{
	g_autofree struct syscall_shape *shape = g_new(struct syscall_shape, 1);
	syscall_shape_init(shape, vms_machine_arch(trace->session->machine), trace->types, call,
			   trace->string_size);
	if (options->failed && !shape->returns)
		return true;
	g_autoptr(vms_probe) probe = make_call_probe(trace, shape, options, error);
	g_autoptr(vms_probe) result =
		probe ? make_return_probe(trace, shape, options, error) : NULL;
	if (!result ||
	    !(shape->returns ? vms_flow_add_call(trace->flow, call->va, probe, result, error)
			     : vms_flow_add(trace->flow, call->va, VMS_FLOW_BEFORE, probe, error)))
		return false;
	g_hash_table_insert(trace->by_va, (gpointer)&call->va, g_steal_pointer(&shape));
	return true;
}

/* Warns of names that were mistyped: nothing else would tell that their calls are missing. */
static void warn_of_unknown(const struct trace *trace, char **patterns)
{
	for (unsigned i = 0; patterns && patterns[i]; i++) {
		bool is_known = false;
		for (guint k = 0; k < trace->calls->len && !is_known; k++)
			is_known = g_pattern_match_simple(
				patterns[i],
				g_array_index(trace->calls, struct vms_syscall, k).name);
		if (!is_known)
			vms_log(VMS_LOG_WARNING,
				"-e %s: no system call of this guest has such a name", patterns[i]);
	}
}

static bool add_calls(struct trace *trace, const struct options *options, GError **error)
{
	g_auto(GStrv) patterns = options->names ? g_strsplit(options->names, ",", -1) : NULL;
	for (guint i = 0; i < trace->calls->len; i++) {
		struct vms_syscall *call = &g_array_index(trace->calls, struct vms_syscall, i);
		const bool is_known = g_hash_table_contains(trace->by_va, &call->va);
		if (!is_wanted(call->name, patterns) || is_known)
			continue;
		if (!add_call(trace, call, options, error))
			return false;
	}
	if (g_hash_table_size(trace->by_va) == 0) {
		usage_error(error, "-e %s: no system call of this guest has such a name",
			    options->names);
		return false;
	}
	warn_of_unknown(trace, patterns);
	return true;
}

/* ---- output ----------------------------------------------------------------------- */

static void append_text(const struct trace *trace, const struct syscall_shape *shape,
			const struct vms_flow_record *record, GString *out)
{
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	g_string_append_printf(out, "%12.6f  ",
			       (double)(hit.time_ns - hit.duration_ns - trace->begin_ns) / 1e9);
	if (hit.has_task)
		g_string_append_printf(out, "%s %u/%u  ", hit.comm, hit.pid, hit.tid);
	syscall_append_call(out, shape, record);
	g_string_append(out, " = ");
	if (hit.is_call) {
		syscall_append_result(out, shape, record);
		g_string_append_printf(out, " <%.6f>", (double)hit.duration_ns / 1e9);
	} else {
		g_string_append_c(out, '?');
	}
	g_string_append_c(out, '\n');
}

static void append_json(const struct trace *trace, const struct syscall_shape *shape,
			const struct vms_flow_record *record, GString *out)
{
	struct json_object *object = json_object_new_object();
	g_autoptr(GString) text = g_string_new(NULL);
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	uint64_t result;
	syscall_append_call(text, shape, record);
	const bool has_result = syscall_get_result(record, &result);
	json_object_object_add(
		object, "time_ns",
		json_object_new_uint64(hit.time_ns - hit.duration_ns - trace->begin_ns));
	json_object_object_add(object, "pid", hit.has_task ? json_object_new_int64(hit.pid) : NULL);
	json_object_object_add(object, "tid", hit.has_task ? json_object_new_int64(hit.tid) : NULL);
	json_object_object_add(object, "comm",
			       hit.has_task ? json_object_new_string(hit.comm) : NULL);
	json_object_object_add(object, "name", json_object_new_string(shape->call->name));
	json_object_object_add(object, "text", json_object_new_string(text->str));
	json_object_object_add(object, "result",
			       has_result ? json_object_new_int64((int64_t)result) : NULL);
	json_object_object_add(object, "duration_ns", json_object_new_uint64(hit.duration_ns));
	g_string_append_printf(
		out, "%s\n",
		json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
							       JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

static bool append_record(const struct vms_flow_record *record, void *data, GString *out,
			  GError **error)
{
	(void)error;
	const struct trace *trace = data;
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	const struct syscall_shape *shape = g_hash_table_lookup(trace->by_va, &hit.va);
	if (trace->session->json)
		append_json(trace, shape, record, out);
	else
		append_text(trace, shape, record, out);
	return true;
}

/* ---- the run ---------------------------------------------------------------------- */

static bool has_ended(void *data)
{
	const struct trace *trace = data;
	return vms_flow_wait(trace->flow, 0);
}

/* Shows calls until the flow ends or has to end, then the remaining ones. */
static bool show_calls(struct trace *trace, uint64_t duration_ns, GError **error)
{
	const struct live_run run = { .live = &trace->live,
				      .give = append_record,
				      .duration_ns = duration_ns,
				      .has_ended = has_ended,
				      .data = trace };
	struct interrupts interrupts;
	interrupts_catch(&interrupts, trace->session->budget);
	bool done = live_run_until_end(&run, error);
	done = vms_flow_disable(trace->flow, done ? error : NULL) && done;
	interrupts_forget();
	done = live_run_show_rest(&run, done ? error : NULL) && done;
	interrupts_release(&interrupts);
	return done;
}

static void report_losses(struct trace *trace)
{
	struct vms_flow_progress progress;
	vms_flow_get_progress(trace->flow, &progress);
	const uint64_t lost = progress.lost + live_records_left(&trace->live);
	if (lost)
		vms_log(VMS_LOG_WARNING, "%" G_GUINT64_FORMAT " system calls were lost", lost);
	if (progress.unknown)
		vms_log(VMS_LOG_WARNING,
			"%" G_GUINT64_FORMAT
			" system calls are missing: the condition for them could "
			"not be evaluated",
			progress.unknown);
}

/* Opens the file of --output, if it is given. */
static bool open_output(struct trace *trace, GError **error)
{
	const struct session *session = trace->session;
	trace->live.is_silent = !session->prints;
	if (!session->outputs)
		return true;
	trace->live.file = vms_outfile_open(session->outputs[0], error);
	return trace->live.file;
}

static bool trace_until_end(struct trace *trace, const struct options *options, uint64_t max_calls,
			    GError **error)
{
	const struct vms_flow_options made = { .size = sizeof(made),
					       .each = live_records_add,
					       .data = &trace->live };
	uint64_t duration_ns;
	trace->flow = vms_flow_new(trace->session->machine, trace->session->guest, &made, error);
	if (!trace->flow || !add_calls(trace, options, error) ||
	    !value_seconds(options->seconds, &duration_ns, error) || !open_output(trace, error) ||
	    !vms_flow_enable(trace->flow, max_calls, 1, error))
		return false;
	trace->begin_ns = (uint64_t)g_get_monotonic_time() * 1000;
	vms_log(VMS_LOG_INFO, "the probes are armed");
	bool done = show_calls(trace, duration_ns, error);
	if (trace->live.file)
		done = vms_outfile_commit(trace->live.file, done ? error : NULL) && done;
	report_losses(trace);
	return done;
}

static bool trace_calls(struct session *session, const struct options *options, GError **error)
{
	struct trace trace = { .session = session, .string_size = STRING_BYTES };
	uint64_t pid, max_calls = 0;
	if (options->task && !value_in_c(options->task, &pid)) {
		usage_error(error, "--task %s: a pid is needed", options->task);
		return false;
	}
	if (options->calls && (!value_in_c(options->calls, &max_calls) || !max_calls)) {
		usage_error(error, "--calls %s: a whole number from 1 is needed", options->calls);
		return false;
	}
	if (!value_unsigned("--string-size", options->string_size, 1, STRING_BYTES_MAX,
			    &trace.string_size, error) ||
	    !flow_output_check_file(session, error) || !session_open_guest(session, error))
		return false;
	trace.calls = vms_guest_syscalls(session->guest, error);
	if (!trace.calls)
		return false;
	trace.types = vms_guest_types(session->guest, vms_guest_info(session->guest)->text, NULL);
	trace.by_va = g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, g_free);
	live_records_init(&trace.live);
	const bool done = trace_until_end(&trace, options, max_calls, error);
	vms_flow_unref(trace.flow);
	vms_outfile_close(trace.live.file);
	live_records_clear(&trace.live);
	g_hash_table_unref(trace.by_va);
	g_array_unref(trace.calls);
	vms_types_unref(trace.types);
	return done;
}

static bool run_trace(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	const GOptionEntry entries[] = {
		{ "expression", 'e', 0, G_OPTION_ARG_STRING, &options.names,
		  "Only system calls of these names, as \"open*,read\"", "NAME,…" },
		{ "task", 0, 0, G_OPTION_ARG_STRING, &options.task,
		  "Only those of the guest's process PID", "PID" },
		{ "failed", 0, 0, G_OPTION_ARG_NONE, &options.failed, "Only those that fail",
		  NULL },
		{ "string-size", 's', 0, G_OPTION_ARG_STRING, &options.string_size,
		  "Show N bytes of what programs read and write (default: 32)", "N" },
		{ "calls", 0, 0, G_OPTION_ARG_STRING, &options.calls, "End after N of them", "N" },
		{ "time", 't', 0, G_OPTION_ARG_STRING, &options.seconds,
		  "How long to trace (default: until Ctrl-C)", "SECONDS" },
		{ NULL }
	};
	const bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
			  trace_calls(session, &options, error);
	g_free(options.names);
	g_free(options.task);
	g_free(options.calls);
	g_free(options.string_size);
	g_free(options.seconds);
	return done;
}

static char *explain_trace(void)
{
	return g_strdup(
		"Each line has the time since the start, the program with its pid and tid,\n"
		"the call with its arguments, its result, and how long it took in seconds.\n"
		"Needs vmscope's agent in QEMU.\n");
}

const struct command command_trace = {
	.name = "trace",
	.arguments = "",
	.summary = "The guest's system calls: arguments, results and times, as strace prints them",
	.options =
		SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_RUNNING | SESSION_OUTPUTS,
	.explain = explain_trace,
	.run = run_trace,
};
