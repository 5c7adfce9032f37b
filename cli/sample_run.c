/* SPDX-License-Identifier: MIT */
#include "sample_run.h"
#include "progress.h"
#include <glib-unix.h>

/* What the main thread needs while it waits for a run. */
struct run {
	struct vms_sample_report *report;
	struct vms_budget *budget; /* of the names */
	GMainLoop *loop;
	uint64_t duration_ns; /* 0 if the run goes on until it is stopped */
	bool is_stopped;      /* by a signal */
};

static gboolean quit_loop(gpointer data)
{
	g_main_loop_quit(data);
	return G_SOURCE_REMOVE;
}

/* Ends the main loop when the run is done. Called from the sampling thread. */
static bool end_loop_when_done(int percent, void *data)
{
	struct run *run = data;
	if (percent == 100)
		g_idle_add(quit_loop, run->loop);
	return true;
}

static char *describe_progress(void *data)
{
	const struct run *run = data;
	uint64_t elapsed_ns = vms_sample_report_elapsed_ns(run->report);
	if (!run->duration_ns)
		return g_strdup_printf("sampling: %.0f s, Ctrl-C ends it",
				       (double)elapsed_ns / 1e9);
	double percent = 100 * (double)elapsed_ns / (double)run->duration_ns;
	return g_strdup_printf("sampling: %.0f %%", MIN(percent, 99));
}

/* Ends the run on a signal. Its results are kept. The second one hurries the names. */
static gboolean stop_run(gpointer data)
{
	struct run *run = data;
	vms_sample_report_stop(run->report, NULL);
	if (run->is_stopped)
		vms_budget_hurry(run->budget);
	run->is_stopped = true;
	return G_SOURCE_CONTINUE;
}

/* The same on signals that do not come from a user's Ctrl-C: they hurry at once (interrupts.h). */
static gboolean end_run(gpointer data)
{
	struct run *run = data;
	run->is_stopped = true;
	return stop_run(data);
}

bool run_sample_report(struct vms_sample_report *report, uint64_t duration_ns, bool show_progress,
		       GError **error)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	guint sources[G_N_ELEMENTS(signals)];
	g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
	struct vms_machine *machine = vms_guest_machine(vms_sample_report_guest(report));
	struct run run = { report, vms_machine_budget(machine), loop, duration_ns, false };
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		sources[i] = g_unix_signal_add(signals[i],
					       signals[i] == SIGINT ? stop_run : end_run, &run);
	struct progress *line = NULL;
	bool started =
		vms_sample_report_start(report, duration_ns, end_loop_when_done, &run, error);
	if (started) {
		line = show_progress ? progress_start(describe_progress, &run) : NULL;
		g_main_loop_run(loop);
		vms_sample_report_wait(report, UINT64_MAX);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		g_source_remove(sources[i]);
	/* This may wait for the terminal. Ctrl-C can end the process now: the sources are gone. */
	progress_end(line);
	return started;
}
