/* SPDX-License-Identifier: MIT */
#include "calls_trace.h"
#include "base/text.h"
#include "progress.h"
#include <stdio.h>
#include <string.h>
#include <vmscope/log.h>

struct run {
	struct calls_trace *trace;
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

static bool on_progress(const struct vms_calls_stats *stats, void *data)
{
	struct run *run = data;
	g_mutex_lock(&run->lock);
	run->seen = *stats;
	run->has_begun = true;
	g_mutex_unlock(&run->lock);
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
	if (stats->lost > 0)
		fprintf(stderr,
			"vmscope: %" G_GUINT64_FORMAT " more are lost, the disk was too slow for "
			"them: record less, or into memory "
			"(/dev/shm)\n",
			stats->lost);
}
