/* SPDX-License-Identifier: MIT */
/*
 * QEMU owns the terminal, so only warnings and errors are printed while it runs. Signals are for
 * QEMU: one that is sent to this process is forwarded. A terminal sends Ctrl-C to both, and it ends
 * QEMU only if it would end a QEMU alone. The job ends with QEMU, but QEMU never with the job.
 */
#include "run_job.h"
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

bool run_job_let_go(struct run_job *job, GError **error)
{
	job->has_let_go = vms_launch_let_go(job->launch, error);
	return job->has_let_go;
}

/* Opens the machine and runs the job. */
static bool run_in_machine(struct run_job *job, struct session *session, GError **error)
{
	session->machine = vms_launch_open(job->launch, error);
	return session->machine && session_detect(session, error) && job->run(job, session, error);
}

static int get_exit_status(int status)
{
	return WIFSIGNALED(status) ? STATUS_OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Runs the job and waits for the child's end. */
static bool follow_child(struct run_job *job, struct session *session, struct child *child,
			 GError **error)
{
	g_autoptr(GError) failure = NULL;
	bool done = run_in_machine(job, session, &failure);
	if (!done && job->has_let_go)
		vms_log(VMS_LOG_WARNING, "the %s has ended, the guest runs on: %s", job->name,
			failure->message);
	else if (!done && child->pid)
		kill(child->pid, SIGTERM); /* the guest has not executed anything yet */
	while (child->pid)
		g_main_context_iteration(NULL, TRUE);
	session->status = get_exit_status(child->status);
	if (!done && session->status == 0)
		session->status = STATUS_FAILED;
	if (done || job->has_let_go)
		return true;
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

/* Starts the command and follows it. Signals are forwarded from before the child exists. */
static bool start_child(struct run_job *job, struct session *session, GError **error)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct child child = { 0 };
	struct forward forwards[G_N_ELEMENTS(signals)];
	guint sources[G_N_ELEMENTS(signals)];
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
		forwards[i] = (struct forward) { &child, signals[i] };
		sources[i] = g_unix_signal_add(signals[i], forward_signal, &forwards[i]);
	}
	bool done = vms_launch_start(job->launch, error);
	if (done) {
		child.pid = vms_launch_pid(job->launch);
		g_child_watch_add(child.pid, note_child_end, &child);
		done = follow_child(job, session, &child, error);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		g_source_remove(sources[i]);
	return done;
}

bool run_job(struct run_job *job, struct session *session, GError **error)
{
	if (vms_launch_has_option((const char *const *)session->launch, "daemonize")) {
		usage_error(error, "%s stays beside QEMU: leave out -daemonize", job->option);
		return false;
	}
	g_autoptr(vms_launch) launch =
		launch_prepare(session->launch, VMS_LAUNCH_NEED_AGENT, true, error);
	if (!launch)
		return false;
	job->launch = launch;
	return start_child(job, session, error);
}
