/* SPDX-License-Identifier: MIT */
/* Asks an agent to trace calls. This is the client's side of the requests for a trace. */
#pragma once

#include "calls/abi.h"
#include "machine/agent/link.h"
#include <vmscope/calls.h>

struct vms_calls_trace {
	struct vms_agent_link *link;
	const struct vms_calls_abi *abi;
	void *memory; /* struct vms_agent_rings, `size` bytes; NULL until the trace is started */
	size_t size;
	int woken;  /* a socket: the agent sends bytes when there is something to do; or -1 */
	bool waits; /* filters name functions that the guest does not have yet */
	_Atomic uint32_t looks_begun; /* looks that had been asked for when the last one began */
	/* The last tables and requests that the agent got. */
	GArray *functions; /* struct vms_agent_function */
	struct vms_agent_calls start;
	struct vms_agent_tasks tasks;
};

/*
 * Connects to the agent of a machine. The caller closes the trace in any case. Errors: UNSUPPORTED
 * (there is no agent), those of the link.
 */
bool vms_calls_trace_open(struct vms_calls_trace *trace, struct vms_machine *machine,
			  GError **error);
/* Unmaps the rings and closes the connection. A zeroed trace may be closed. */
void vms_calls_trace_close(struct vms_calls_trace *trace);

/*
 * Sends the agent the guest's functions and open calls, and starts the trace. Holds the machine for
 * a part of this. A guest that is not recognised yet has fewer functions. Errors: UNSUPPORTED,
 * NOT_FOUND (functions of filters), BUSY, and those of machine and link.
 */
bool vms_calls_trace_start(struct vms_calls_trace *trace, struct vms_guest *guest,
			   const struct vms_calls_options *options, GError **error);
/*
 * Sends the agent the guest's functions again, when more is known of the guest. Sends nothing if
 * nothing has changed, because the agent would translate all code again. Functions of filters that
 * the guest does not have may come later. Errors: as for the start, but no NOT_FOUND.
 */
bool vms_calls_trace_update(struct vms_calls_trace *trace, struct vms_guest *guest,
			    const struct vms_calls_options *options, GError **error);
/*
 * True if the agent has asked for a look at the guest since the last one began. A vCPU waits for
 * the answer.
 */
bool vms_calls_trace_wants_look(const struct vms_calls_trace *trace);
/* Begins a look. Returns what vms_calls_trace_wants_look did. */
bool vms_calls_trace_begin_look(struct vms_calls_trace *trace);
/*
 * Answers what had been asked for when the look began, so that the vCPU goes on. Another vCPU may
 * have asked meanwhile: that needs a look of its own, even if a request to the agent has let that
 * vCPU go on.
 */
void vms_calls_trace_answer_look(const struct vms_calls_trace *trace);
/* Ends the trace. Returns when all of it is in the rings: another thread must empty them. */
bool vms_calls_trace_stop(struct vms_calls_trace *trace, GError **error);
