/* SPDX-License-Identifier: MIT */
/* The dump runs in its own threads. The main thread waits for its end and for signals. */
#include "core_write.h"
#include "base/clock.h"
#include "base/text.h"
#include "end_signals.h"
#include "progress.h"
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

static void cancel_dump(void *data)
{
	vms_dump_stop(data);
}

bool core_write(struct session *session, const char *path, const struct vms_dump_options *options,
		struct vms_dump_result *ret, GError **error)
{
	g_autoptr(vms_dump) dump =
		vms_dump_start(session->machine, session->guest, path, options, error);
	if (!dump)
		return false;
	struct end_signals signals = { .end = cancel_dump,
				       .data = dump,
				       .budget = session->budget };
	end_signals_watch(&signals);
	bool on_terminal = isatty(STDERR_FILENO) && !session->quiet;
	struct progress *line = on_terminal ? progress_start(describe_progress, dump) : NULL;
	while (!vms_dump_wait(dump, vms_clock_now_ns() + TICK_NS)) {
		while (g_main_context_iteration(NULL, FALSE))
			;
	}
	end_signals_release(&signals);
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
