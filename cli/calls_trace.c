/* SPDX-License-Identifier: MIT */
#include "calls_trace.h"
#include "base/text.h"
#include <stdio.h>
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

void calls_trace_summary(const struct calls_trace *trace)
{
	const struct vms_calls_stats *stats = &trace->stats;
	const char *directory = trace->options.directory;
	g_autofree char *bytes = vms_text_bytes(stats->bytes), *quoted = g_shell_quote(directory);
	fprintf(stderr, "vmscope: %" G_GUINT64_FORMAT " records (%s) in %s", stats->records, bytes,
		directory);
	if (stats->lost > 0)
		fprintf(stderr, ", %" G_GUINT64_FORMAT " MORE ARE LOST: the disk was too slow",
			stats->lost);
	fprintf(stderr, "; read them with: uftrace report -d %s\n", quoted);
}
