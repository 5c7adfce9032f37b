/* SPDX-License-Identifier: MIT */
/* The dump runs in its own threads. The main thread waits for its end and for signals. */
#include "core_write.h"
#include "base/clock.h"
#include "base/text.h"
#include "progress.h"
#include <glib-unix.h>
#include <math.h>
#include <unistd.h>

#define TICK_NS (UINT64_C(50) * 1000 * 1000)

static char *describe_progress(void *data)
{
	static const char *const doing[] = {
		[VMS_DUMP_COPYING] = "copying",
		[VMS_DUMP_WRITING] = "the guest runs, writing",
		[VMS_DUMP_COMPRESSING] = "compressing",
	};
	struct vms_dump_progress now;
	vms_dump_progress(data, &now);
	if (now.phase == VMS_DUMP_PREPARING)
		return NULL;
	g_autofree char *done = vms_text_bytes(now.done);
	g_autofree char *total = vms_text_bytes(now.total);
	g_autofree char *rate = vms_text_bytes(now.bytes_per_second);
	if (now.phase == VMS_DUMP_SYNCING)
		return g_strdup_printf("core: %s copied, waiting for the disk", total);
	/* The time left is unknown until the first byte is copied. */
	g_autofree char *left =
		now.bytes_per_second == 0
			? g_strdup("")
			: g_strdup_printf(", %s/s, %" G_GUINT64_FORMAT " s left", rate,
					  (now.total - now.done) / now.bytes_per_second + 1);
	return g_strdup_printf("core: %s %.0f %%, %s of %s%s", doing[now.phase],
			       floor(100 * (double)now.done / (double)now.total), done, total,
			       left);
}

/* Removes its source, so that the same signal has its default effect the next time. */
static gboolean cancel_dump(gpointer data)
{
	vms_dump_stop(data);
	return G_SOURCE_REMOVE;
}

bool core_write(struct session *session, const char *path, const struct vms_dump_options *options,
		struct vms_dump_result *ret, GError **error)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	GSource *sources[G_N_ELEMENTS(signals)];
	g_autoptr(vms_dump) dump =
		vms_dump_start(session->machine, session->guest, path, options, error);
	if (!dump)
		return false;
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
		sources[i] = g_unix_signal_source_new(signals[i]);
		g_source_set_callback(sources[i], cancel_dump, dump, NULL);
		g_source_attach(sources[i], NULL);
	}
	bool on_terminal = isatty(STDERR_FILENO) && !session->quiet;
	struct progress *line = on_terminal ? progress_start(describe_progress, dump) : NULL;
	while (!vms_dump_wait(dump, vms_clock_now_ns() + TICK_NS)) {
		while (g_main_context_iteration(NULL, FALSE))
			;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
		g_source_destroy(sources[i]);
		g_source_unref(sources[i]);
	}
	GError *failure = NULL;
	bool done = vms_dump_finish(dump, ret, &failure);
	if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_CANCELLED)) {
		g_clear_error(&failure);
		g_set_error(&failure, VMS_ERROR, VMS_ERROR_CANCELLED,
			    "interrupted: %s was not written", path);
	}
	progress_end(line);
	if (failure)
		g_propagate_error(error, failure);
	return done;
}
