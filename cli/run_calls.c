/* SPDX-License-Identifier: MIT */
/*
 * QEMU owns the terminal, so only warnings and errors are printed while it runs. Signals are for
 * QEMU: one that is sent to this process is forwarded. A terminal sends Ctrl-C to both, and it ends
 * QEMU only if it would end a QEMU alone. The trace ends with QEMU, but QEMU never with the trace.
 */
#include "run_calls.h"
#include "calls_trace.h"
#include "launch.h"
#include <glib-unix.h>
#include <string.h>
#include <sys/wait.h>

#define STATUS_FAILED	 1
#define STATUS_OF_SIGNAL 128 /* a shell adds the signal's number to it */

struct child {
	pid_t pid;  /* 0 once it has ended */
	int status; /* from waitpid, once it has ended */
};

struct forward {
	struct child *child;
	int number;
};

static gboolean forward_signal(gpointer data)
{
	const struct forward *forward = data;
	if (forward->child->pid)
		kill(forward->child->pid, forward->number);
	return G_SOURCE_CONTINUE;
}

static void note_child_end(GPid pid, gint status, gpointer data)
{
	struct child *child = data;
	(void)pid;
	child->pid = 0;
	child->status = status;
}

/* Lets the machine execute its first instruction. */
static bool let_machine_go(void *data, GError **error)
{
	return vms_launch_let_go(data, error);
}

/* Starts the guest's trace and follows it to its end. */
static bool trace_child(struct session *session, const struct vms_launch *launch,
			struct calls_trace *trace, GError **error)
{
	session->machine = vms_launch_open(launch, error);
	return session->machine && session_detect(session, error) &&
	       calls_trace_run(trace, session, error);
}

static int get_exit_status(int status)
{
	return WIFSIGNALED(status) ? STATUS_OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Traces the child and waits for its end. */
static bool follow_child(struct session *session, struct vms_launch *launch, struct child *child,
			 struct calls_trace *trace, GError **error)
{
	g_autoptr(GError) failure = NULL;
	bool traced = trace_child(session, launch, trace, &failure);
	if (traced && !session->quiet)
		calls_trace_summary(trace);
	if (!traced && trace->has_started)
		vms_log(VMS_LOG_WARNING, "the trace has ended, the guest runs on: %s",
			failure->message);
	else if (!traced && child->pid)
		kill(child->pid, SIGTERM); /* the guest has not executed anything yet */
	while (child->pid)
		g_main_context_iteration(NULL, TRUE);
	session->status = get_exit_status(child->status);
	if (!traced && session->status == 0)
		session->status = STATUS_FAILED;
	if (traced || trace->has_started)
		return true;
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

/* Starts the command and follows it. Signals are forwarded from before the child exists. */
static bool start_child(struct session *session, struct vms_launch *launch,
			struct calls_trace *trace, GError **error)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct child child = { 0 };
	struct forward forwards[G_N_ELEMENTS(signals)];
	guint sources[G_N_ELEMENTS(signals)];
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
		forwards[i] = (struct forward) { &child, signals[i] };
		sources[i] = g_unix_signal_add(signals[i], forward_signal, &forwards[i]);
	}
	bool done = vms_launch_start(launch, error);
	if (done) {
		child.pid = vms_launch_pid(launch);
		g_child_watch_add(child.pid, note_child_end, &child);
		done = follow_child(session, launch, &child, trace, error);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		g_source_remove(sources[i]);
	return done;
}

bool trace_new_qemu(struct session *session, const struct calls_words *words, const char *directory,
		    GError **error)
{
	uint32_t pids[CALLS_PIDS_MAX];
	struct calls_trace trace = { 0 };
	if (vms_launch_has_option((const char *const *)session->launch, "daemonize")) {
		usage_error(error, "--calls stays beside QEMU: leave out -daemonize");
		return false;
	}
	if (!calls_parse(words, &trace.options, pids, error) ||
	    !calls_check_directory(directory, error))
		return false;
	g_autoptr(vms_launch) launch =
		launch_prepare(session->launch, VMS_LAUNCH_NEED_AGENT, true, error);
	if (!launch)
		return false;
	trace.options.directory = directory;
	trace.started = let_machine_go;
	trace.data = launch;
	return start_child(session, launch, &trace, error);
}
