/* SPDX-License-Identifier: MIT */
/* A call trace in front of a user. */
#pragma once

#include "session.h"
#include <vmscope/calls.h>

struct calls_trace {
	struct vms_calls_options options;
	/* Lets the machine go that was started paused; NULL where it runs. */
	bool (*started)(void *data, GError **error);
	void *data; /* of `started` */
	bool show_progress;
	bool warn_of_cost; /* once it is known what a second takes */
	bool stopped;	   /* set it, from a source of the main context, to end the trace */
	bool has_started;
	struct vms_calls_stats stats; /* at the end */
	enum vms_calls_end end;
};

/* Traces the session's guest until the end; runs the main context's sources meanwhile. */
bool calls_trace_run(struct calls_trace *trace, struct session *session, GError **error);
/* Says on stderr what was traced and how to read it. */
void calls_trace_summary(const struct calls_trace *trace);
