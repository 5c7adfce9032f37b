/* SPDX-License-Identifier: MIT */
/* A call trace with progress, warnings and a summary for the user. */
#pragma once

#include "session.h"
#include <vmscope/calls.h>

struct calls_trace {
	struct vms_calls_options options;
	/*
	 * Called as soon as calls are recorded: lets a machine run that was started paused. NULL if
	 * the machine runs already.
	 */
	bool (*started)(void *data, GError **error);
	void *data; /* passed to `started` */
	bool show_progress;
	bool warn_of_cost;	      /* warn what a second takes once that is known */
	bool stopped;		      /* a source of the main context sets it to end the trace */
	bool has_started;	      /* calls are recorded and the machine may run */
	struct vms_calls_stats stats; /* valid after the trace's end */
	enum vms_calls_end end;
};

/* Traces the session's guest until the end. Runs the main context's sources meanwhile. */
bool calls_trace_run(struct calls_trace *trace, struct session *session, GError **error);
/* Prints to stderr what was traced and how to read it. */
void calls_trace_summary(const struct calls_trace *trace);
