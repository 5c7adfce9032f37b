/* SPDX-License-Identifier: MIT */
#include "run_calls.h"
#include "calls_trace.h"
#include "run_job.h"

static bool resume_machine(void *data, GError **error)
{
	return run_job_let_go(data, error);
}

static bool trace_guest(struct run_job *job, struct session *session, GError **error)
{
	struct calls_trace *trace = job->data;
	if (!calls_trace_run(trace, session, error))
		return false;
	if (!session->quiet)
		calls_trace_summary(trace);
	return true;
}

bool trace_new_qemu(struct session *session, const struct calls_words *words, const char *directory,
		    GError **error)
{
	uint32_t pids[CALLS_PIDS_MAX];
	struct calls_trace trace = { 0 };
	struct run_job job = {
		.run = trace_guest, .data = &trace, .option = "--calls", .name = "trace"
	};
	if (!calls_parse(words, &trace.options, pids, error) ||
	    !calls_check_directory(directory, error))
		return false;
	trace.options.directory = directory;
	trace.options.sysroot = session->sysroot;
	trace.started = resume_machine;
	trace.data = &job;
	return run_job(&job, session, error);
}
