/* SPDX-License-Identifier: MIT */
/* vmscope calls: records every call and return of a guest in a data directory of uftrace. */
#include "calls_options.h"
#include "calls_trace.h"
#include "commands.h"
#include "end_signals.h"
#include "values.h"
#include <unistd.h>

#define STATUS_GONE 1 /* exit status if the machine ended before the trace */

static void stop_trace(void *data)
{
	struct calls_trace *trace = data;
	trace->stopped = true;
}

static bool run_until_signal(struct calls_trace *trace, struct session *session, GError **error)
{
	struct end_signals signals = { .end = stop_trace,
				       .data = trace,
				       .budget = session->budget };
	end_signals_watch(&signals);
	const bool done = calls_trace_run(trace, session, error);
	end_signals_release(&signals);
	return done;
}

static void add_json_summary(struct session *session, const struct calls_trace *trace)
{
	static const struct vms_column columns[] = { { "directory", VMS_COLUMN_TEXT },
						     { "records", VMS_COLUMN_NUMBER },
						     { "bytes", VMS_COLUMN_BYTES },
						     { "lost", VMS_COLUMN_NUMBER },
						     { "files", VMS_COLUMN_NUMBER },
						     { "end", VMS_COLUMN_TEXT },
						     { NULL } };
	static const char *const ends[] = { [VMS_CALLS_STOPPED] = "stopped",
					    [VMS_CALLS_COMPLETE] = "complete",
					    [VMS_CALLS_GONE] = "gone",
					    [VMS_CALLS_FULL] = "full" };
	g_autoptr(vms_table) table = vms_table_new(columns);
	vms_table_add(table, trace->options.directory, trace->stats.records, trace->stats.bytes,
		      trace->stats.lost, (uint64_t)trace->stats.streams, ends[trace->end]);
	session_table(session, table);
}

static bool trace_calls(struct session *session, const struct calls_words *words,
			const char *seconds, GError **error)
{
	uint32_t pids[CALLS_PIDS_MAX];
	struct calls_trace trace = {
		.show_progress = isatty(STDERR_FILENO) && !session->quiet,
		.warn_of_cost = true,
	};
	if (!session->outputs) {
		usage_error(error, "no output: --output DIR names the directory to write");
		return false;
	}
	if (!calls_parse(words, &trace.options, pids, error) ||
	    !value_seconds(seconds, &trace.options.duration_ns, error) ||
	    !calls_check_directory(session->outputs[0], error) ||
	    !session_open_guest(session, error))
		return false;
	trace.options.directory = session->outputs[0];
	trace.options.sysroot = session->sysroot;
	if (!run_until_signal(&trace, session, error))
		return false;
	if (trace.end == VMS_CALLS_GONE) {
		const struct vms_machine_info *info = vms_machine_info(session->machine);
		vms_log(VMS_LOG_WARNING, "%s (process %d) has ended, and the trace with it",
			info->name, (int)info->pid);
		session->status = STATUS_GONE;
	}
	if (session->json)
		add_json_summary(session, &trace);
	else if (!session->quiet)
		calls_trace_summary(&trace);
	return true;
}

static bool run_calls(struct session *session, int argc, char **argv, GError **error)
{
	struct calls_words words = { 0 };
	g_autofree char *seconds = NULL;
	const GOptionEntry own[] = { { "time", 't', 0, G_OPTION_ARG_STRING, &seconds,
				       "How long to trace (default: until Ctrl-C)", "SECONDS" },
				     { NULL } };
	g_autofree GOptionEntry *entries = calls_entries(&words, own);
	bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
		    trace_calls(session, &words, seconds, error);
	calls_words_clear(&words);
	return done;
}

const struct command command_calls = {
	.name = "calls",
	.arguments = "",
	.summary = "Every call and return of a guest, for uftrace",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_DIRECTORY |
		   SESSION_RUNNING | SESSION_AGENT,
	.run = run_calls,
};
