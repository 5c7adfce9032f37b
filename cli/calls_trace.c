/* SPDX-License-Identifier: MIT */
#include "calls_trace.h"
#include "base/clock.h"
#include "base/text.h"
#include "progress.h"
#include <stdio.h>
#include <string.h>
#include <vmscope/log.h>

#define COST_US G_TIME_SPAN_SECOND /* how long to measure the cost */
#define TICK_NS (UINT64_C(100) * 1000 * 1000)

/* Measures how many bytes a second of the trace takes. */
struct cost {
	gint64 begin_us;     /* when measuring began; 0 before that */
	uint64_t begin_size; /* bytes recorded by then */
	bool has_warned;
};

static char *describe_progress(void *data)
{
	struct vms_calls_stats stats;
	vms_calls_progress(data, &stats);
	g_autofree char *bytes = vms_text_bytes(stats.bytes);
	return g_strdup_printf("calls: %" G_GUINT64_FORMAT " records, %s, %" G_GUINT64_FORMAT
			       " lost; Ctrl-C ends it",
			       stats.records, bytes, stats.lost);
}

/* Warns what a second takes, unless the limit leaves room for the whole duration. */
static void warn_of_cost(const struct vms_calls_options *options, double bytes_per_second)
{
	const double ns = (double)options->duration_ns, max = (double)options->max_bytes;
	g_autofree char *cost = vms_text_bytes((uint64_t)bytes_per_second);
	g_autofree char *limit = vms_text_bytes(options->max_bytes);
	if (!options->max_bytes)
		vms_log(VMS_LOG_WARNING,
			"a second of this takes %s, and the trace has no limit (--max-size)", cost);
	else if (!options->duration_ns || ns / 1e9 * bytes_per_second > max)
		vms_log(VMS_LOG_WARNING,
			"a second of this takes %s: the trace ends at %s (--max-size), after some "
			"%.0f s; --only, --depth and other filters record less",
			cost, limit, max / bytes_per_second);
}

static void measure_cost(struct cost *cost, const struct calls_trace *trace,
			 struct vms_calls *calls)
{
	struct vms_calls_stats stats;
	const gint64 now_us = g_get_monotonic_time();
	vms_calls_progress(calls, &stats);
	if (!cost->begin_us) {
		cost->begin_us = now_us;
		cost->begin_size = stats.bytes;
	}
	if (cost->has_warned || now_us - cost->begin_us < COST_US ||
	    stats.bytes == cost->begin_size)
		return;
	cost->has_warned = true;
	warn_of_cost(&trace->options, (double)(stats.bytes - cost->begin_size) * 1e6 /
					      (double)(now_us - cost->begin_us));
}

/* Waits for the end of the trace. Runs the main context's sources, which may stop it. */
static void wait_for_end(const struct calls_trace *trace, struct vms_calls *calls)
{
	struct cost cost = { 0 };
	do {
		if (trace->warn_of_cost)
			measure_cost(&cost, trace, calls);
		while (g_main_context_iteration(NULL, FALSE))
			;
		if (trace->stopped)
			vms_calls_stop(calls);
	} while (!vms_calls_wait(calls, vms_clock_now_ns() + TICK_NS));
}

bool calls_trace_run(struct calls_trace *trace, struct session *session, GError **error)
{
	g_autoptr(vms_calls) calls = vms_calls_start(session->guest, &trace->options, error);
	if (!calls)
		return false;
	vms_log(VMS_LOG_INFO, "every call is recorded from now on");
	trace->has_started = !trace->started || trace->started(trace->data, error);
	if (!trace->has_started)
		return false;
	struct progress *line =
		trace->show_progress ? progress_start(describe_progress, calls) : NULL;
	wait_for_end(trace, calls);
	bool done = vms_calls_finish(calls, &trace->stats, &trace->end, error);
	progress_end(line);
	if (done && trace->end == VMS_CALLS_FULL) {
		g_autofree char *limit = vms_text_bytes(trace->options.max_bytes);
		vms_log(VMS_LOG_WARNING,
			"the trace has reached %s and has ended, the guest runs on; --max-size "
			"names another limit",
			limit);
	}
	return done;
}

/* Quotes a path for a shell if it needs that. */
static char *quote_path(const char *path)
{
	static const char plain[] = G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "/._-+,:@%";
	return path[strspn(path, plain)] ? g_shell_quote(path) : g_strdup(path);
}

void calls_trace_summary(const struct calls_trace *trace)
{
	const struct vms_calls_stats *stats = &trace->stats;
	g_autofree char *bytes = vms_text_bytes(stats->bytes);
	g_autofree char *path = quote_path(trace->options.directory);
	vms_log_flush();
	fprintf(stderr,
		"vmscope: %" G_GUINT64_FORMAT
		" records (%s) in %s: uftrace report -d %s, or replay, graph, tui\n",
		stats->records, bytes, trace->options.directory, path);
	if (stats->records == 0 && trace->options.n_pids > 0)
		fprintf(stderr,
			"vmscope: nothing was recorded: no process that --process names has "
			"run in the guest (\"vmscope ps\" lists processes)\n");
	if (stats->lost > 0)
		fprintf(stderr,
			"vmscope: %" G_GUINT64_FORMAT
			" more records are lost: vmscope or its disk was too slow for them. Record "
			"less, or write into memory (/dev/shm)\n",
			stats->lost);
}
