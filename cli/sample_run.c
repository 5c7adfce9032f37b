/* SPDX-License-Identifier: MIT */
#include "sample_run.h"
#include "end_signals.h"
#include "progress.h"

/* What the main thread needs while it waits for a run. */
struct run {
	struct vms_sample_report *report;
	GMainLoop *loop;
	uint64_t duration_ns; /* 0 if the run goes on until it is stopped */
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

static void stop_run(void *data)
{
	const struct run *run = data;
	vms_sample_report_stop(run->report, NULL);
}

bool run_sample_report(struct vms_sample_report *report, uint64_t duration_ns, bool show_progress,
		       GError **error)
{
	g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
	struct vms_machine *machine = vms_guest_machine(vms_sample_report_guest(report));
	struct run run = { report, loop, duration_ns };
	struct end_signals signals = { .end = stop_run,
				       .data = &run,
				       .budget = vms_machine_budget(machine) };
	end_signals_watch(&signals);
	struct progress *line = NULL;
	bool started =
		vms_sample_report_start(report, duration_ns, end_loop_when_done, &run, error);
	if (started) {
		line = show_progress ? progress_start(describe_progress, &run) : NULL;
		g_main_loop_run(loop);
		vms_sample_report_wait(report, UINT64_MAX);
	}
	end_signals_release(&signals);
	/* This may wait for the terminal. Ctrl-C can end the process now: the sources are gone. */
	progress_end(line);
	return started;
}
