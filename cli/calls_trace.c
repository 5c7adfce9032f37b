/* SPDX-License-Identifier: MIT */
#include "calls_trace.h"
#include "base/text.h"
#include "progress.h"
#include <stdio.h>
#include <string.h>
#include <vmscope/log.h>

#define COST_US G_TIME_SPAN_SECOND /* over which the cost is measured */

struct run {
	struct calls_trace *trace;
	gint64 begin_us;     /* of the trace, or 0 */
	uint64_t begin_size; /* bytes then */
	bool has_warned;
	GMutex lock;
	bool has_begun;		     /* under lock */
	struct vms_calls_stats seen; /* of late; under lock */
};

static char *describe_progress(void *data)
{
	struct run *run = data;
	g_mutex_lock(&run->lock);
	struct vms_calls_stats stats = run->seen;
	bool has_begun = run->has_begun;
	g_mutex_unlock(&run->lock);
	if (!has_begun)
		return NULL;
	g_autofree char *bytes = vms_text_bytes(stats.bytes);
	return g_strdup_printf("calls: %" G_GUINT64_FORMAT " records, %s, %" G_GUINT64_FORMAT
			       " lost; Ctrl-C ends it",
			       stats.records, bytes, stats.lost);
}

/* What a second takes, where nobody has said how long, or for longer than the limit allows. */
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

static void measure_cost(struct run *run, const struct vms_calls_stats *stats)
{
	const gint64 now_us = g_get_monotonic_time();
	if (!run->begin_us) {
		run->begin_us = now_us;
		run->begin_size = stats->bytes;
	}
	if (run->has_warned || now_us - run->begin_us < COST_US || stats->bytes == run->begin_size)
		return;
	run->has_warned = true;
	warn_of_cost(&run->trace->options, (double)(stats->bytes - run->begin_size) * 1e6 /
						   (double)(now_us - run->begin_us));
}

static bool on_progress(const struct vms_calls_stats *stats, void *data)
{
	struct run *run = data;
	g_mutex_lock(&run->lock);
	run->seen = *stats;
	run->has_begun = true;
	g_mutex_unlock(&run->lock);
	if (run->trace->warn_of_cost)
		measure_cost(run, stats);
	while (g_main_context_iteration(NULL, FALSE))
		;
	return !run->trace->stopped;
}

static bool started(void *data, GError **error)
{
	struct calls_trace *trace = ((struct run *)data)->trace;
	vms_log(VMS_LOG_INFO, "every call is recorded from now on");
	trace->has_started = !trace->started || trace->started(trace->data, error);
	return trace->has_started;
}

bool calls_trace_run(struct calls_trace *trace, struct session *session, GError **error)
{
	struct run run = { .trace = trace };
	g_mutex_init(&run.lock);
	struct progress *line =
		trace->show_progress ? progress_start(describe_progress, &run) : NULL;
	bool done = vms_calls_run(session->guest, &trace->options, started, on_progress, &run,
				  &trace->stats, &trace->end, error);
	progress_end(line);
	g_mutex_clear(&run.lock);
	if (done && trace->end == VMS_CALLS_FULL) {
		g_autofree char *limit = vms_text_bytes(trace->options.max_bytes);
		vms_log(VMS_LOG_WARNING,
			"the trace has reached %s and has ended, the guest runs on; --max-size "
			"names another limit",
			limit);
	}
	return done;
}

/* As a shell takes it. */
static char *quote(const char *path)
{
	static const char plain[] = G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "/._-+,:@%";
	return path[strspn(path, plain)] ? g_shell_quote(path) : g_strdup(path);
}

void calls_trace_summary(const struct calls_trace *trace)
{
	const struct vms_calls_stats *stats = &trace->stats;
	g_autofree char *bytes = vms_text_bytes(stats->bytes);
	g_autofree char *path = quote(trace->options.directory);
	vms_log_flush();
	fprintf(stderr,
		"vmscope: %" G_GUINT64_FORMAT
		" records (%s) in %s: uftrace report -d %s, or replay, graph, tui\n",
		stats->records, bytes, trace->options.directory, path);
	if (stats->records == 0 && trace->options.n_pids > 0)
		fprintf(stderr,
			"vmscope: nothing was recorded: no process of the guest that --process "
			"names has run (vmscope ps shows them)\n");
	if (stats->lost > 0)
		fprintf(stderr,
			"vmscope: %" G_GUINT64_FORMAT
			" more are lost, as vmscope or its disk was too slow for them: record "
			"less, or into memory (/dev/shm)\n",
			stats->lost);
}
