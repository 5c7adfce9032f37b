/* SPDX-License-Identifier: MIT */
#include "calls_trace.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>
#include <vmscope/log.h>

#define LINE_WIDTH 76

static void print_progress(const struct vms_calls_stats *stats)
{
	g_autofree char *bytes = vms_text_bytes(stats->bytes), *line = NULL;
	line = g_strdup_printf("calls: %" G_GUINT64_FORMAT " records, %s, %" G_GUINT64_FORMAT
			       " lost; Ctrl-C ends it",
			       stats->records, bytes, stats->lost);
	fprintf(stderr, "\r%-*s", LINE_WIDTH, line);
}

static bool progress(const struct vms_calls_stats *stats, void *data)
{
	struct calls_trace *trace = data;
	if (trace->show_progress)
		print_progress(stats);
	while (g_main_context_iteration(NULL, FALSE))
		;
	return !trace->stopped;
}

static bool started(void *data, GError **error)
{
	struct calls_trace *trace = data;
	vms_log(VMS_LOG_INFO, "every call is recorded from now on");
	trace->has_started = !trace->started || trace->started(trace->data, error);
	return trace->has_started;
}

bool calls_trace_run(struct calls_trace *trace, struct session *session, GError **error)
{
	bool done = vms_calls_run(session->guest, &trace->options, started, progress, trace,
				  &trace->stats, &trace->end, error);
	if (trace->show_progress)
		fprintf(stderr, "\r%*s\r", LINE_WIDTH, "");
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
