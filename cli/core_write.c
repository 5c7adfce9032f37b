/* SPDX-License-Identifier: MIT */
/* The dump has a thread of its own; the main thread waits for it, and for signals. */
#include "core_write.h"
#include "base/text.h"
#include <glib-unix.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_WIDTH 76

struct run {
	struct session *session;
	const char *path;
	struct vms_dump_options *options;
	struct vms_dump_result *result;
	GMainLoop *loop;
	bool show_progress;
	gint cancelled; /* atomic */
	bool done;
	GError *error;
};

static void print_progress(const struct vms_dump_progress *progress)
{
	g_autofree char *done = vms_text_bytes(progress->done);
	g_autofree char *total = vms_text_bytes(progress->total);
	g_autofree char *rate = vms_text_bytes(progress->bytes_per_second);
	uint64_t left = progress->total - progress->done,
		 speed = MAX(progress->bytes_per_second, 1);
	g_autoptr(GString) line = g_string_new("core: ");
	if (progress->phase == VMS_DUMP_SYNCING)
		g_string_append_printf(line, "%s copied, waiting for the disk", total);
	else
		g_string_append_printf(
			line, "%s %.0f %%, %s of %s, %s/s, %" G_GUINT64_FORMAT " s left",
			progress->phase == VMS_DUMP_COPYING ? "copying" : "compressing",
			100 * (double)progress->done / (double)progress->total, done, total, rate,
			left / speed + 1);
	fprintf(stderr, "\r%-*s", LINE_WIDTH, line->str);
}

static bool progress(const struct vms_dump_progress *progress, void *data)
{
	struct run *run = data;
	if (run->show_progress)
		print_progress(progress);
	return !g_atomic_int_get(&run->cancelled);
}

static gboolean quit_loop(gpointer data)
{
	g_main_loop_quit(data);
	return G_SOURCE_REMOVE;
}

static gpointer dump(gpointer data)
{
	struct run *run = data;
	run->done = vms_dump(run->session->machine, run->session->guest, run->path, run->options,
			     run->result, &run->error);
	g_idle_add(quit_loop, run->loop);
	return NULL;
}

/* Without its source a signal does again what it does by default. */
static gboolean cancel(gpointer data)
{
	struct run *run = data;
	g_atomic_int_set(&run->cancelled, 1);
	return G_SOURCE_REMOVE;
}

bool core_write(struct session *session, const char *path, struct vms_dump_options *options,
		struct vms_dump_result *ret, GError **error)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	GSource *sources[G_N_ELEMENTS(signals)];
	g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
	struct run run = { session, path, options, ret, loop };
	run.show_progress = isatty(STDERR_FILENO) && !session->quiet;
	options->progress = progress;
	options->data = &run;
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
		sources[i] = g_unix_signal_source_new(signals[i]);
		g_source_set_callback(sources[i], cancel, &run, NULL);
		g_source_attach(sources[i], NULL);
	}
	GThread *thread = g_thread_new("dump", dump, &run);
	g_main_loop_run(loop);
	g_thread_join(thread);
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
		g_source_destroy(sources[i]);
		g_source_unref(sources[i]);
	}
	if (run.show_progress)
		fprintf(stderr, "\r%*s\r", LINE_WIDTH, "");
	if (g_error_matches(run.error, VMS_ERROR, VMS_ERROR_CANCELLED)) {
		g_clear_error(&run.error);
		g_set_error(&run.error, VMS_ERROR, VMS_ERROR_CANCELLED,
			    "interrupted: %s was not written", path);
	}
	if (run.error)
		g_propagate_error(error, run.error);
	return run.done;
}
