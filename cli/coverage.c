/* SPDX-License-Identifier: MIT */
/* vmscope coverage: shows which code of the guest's kernel ran. */
#include "commands.h"
#include "coverage_job.h"
#include "end_signals.h"
#include "values.h"
#include <string.h>
#include <unistd.h>

#define STATUS_GONE 1 /* exit status if the machine has ended before the coverage */

static void stop_job(void *data)
{
	struct coverage_job *job = data;
	job->stopped = true;
}

static bool run_until_signal(struct coverage_job *job, struct session *session, GError **error)
{
	struct end_signals signals = { .end = stop_job, .data = job, .budget = session->budget };
	end_signals_watch(&signals);
	const bool done = coverage_job_run(job, session, error);
	end_signals_release(&signals);
	return done;
}

static bool measure_coverage(struct session *session, const struct coverage_words *words,
			     const char *seconds, GError **error)
{
	struct coverage_job job = {
		.words = words,
		.show_progress = isatty(STDERR_FILENO) && !session->quiet,
	};
	if (!value_seconds(seconds, &job.duration_ns, error) ||
	    !session_open_guest(session, error) || !run_until_signal(&job, session, error))
		return false;
	if (job.end == VMS_COVERAGE_GONE) {
		const struct vms_machine_info *info = vms_machine_info(session->machine);
		vms_log(VMS_LOG_WARNING, "%s (process %d) has ended, and the coverage with it",
			info->name, (int)info->pid);
		session->status = STATUS_GONE;
	}
	return true;
}

static bool run_coverage(struct session *session, int argc, char **argv, GError **error)
{
	struct coverage_words words = { 0 };
	g_autofree char *seconds = NULL;
	GOptionEntry entries[COVERAGE_ENTRIES + 2] = {
		[COVERAGE_ENTRIES] = { "time", 't', 0, G_OPTION_ARG_STRING, &seconds,
				       "How long (default: until Ctrl-C)", "SECONDS" },
	};
	coverage_entries(&words, entries);
	const bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
			  measure_coverage(session, &words, seconds, error);
	coverage_words_clear(&words);
	return done;
}

const struct command command_coverage = {
	.name = "coverage",
	.arguments = "",
	.summary = "Which code of the guest's kernel ran, and which never",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_RUNNING | SESSION_AGENT,
	.run = run_coverage,
};
