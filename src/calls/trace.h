/* SPDX-License-Identifier: MIT */
/* A trace that an agent makes, from the side of its client: what is asked of the agent. */
#pragma once

#include "calls/abi.h"
#include "machine/agent/link.h"
#include <vmscope/calls.h>

struct vms_calls_trace {
	struct vms_agent_link *link;
	const struct vms_calls_abi *abi;
	void *memory; /* struct vms_agent_rings; NULL until the trace is started */
	size_t size;
	int woken;  /* a socket: what arrives means that there is something to do */
	bool waits; /* for functions that filters name, until the guest or a module has them */
	/* What the agent was told last. */
	GArray *functions; /* struct vms_agent_function */
	struct vms_agent_calls start;
	struct vms_agent_tasks tasks;
};

/* Connects to the agent of a machine. Errors: UNSUPPORTED (it has none), those of the link. */
bool vms_calls_trace_open(struct vms_calls_trace *trace, struct vms_machine *machine,
			  GError **error);
/* What was traced so far stays mapped until then. A zeroed trace is no trace. */
void vms_calls_trace_close(struct vms_calls_trace *trace);

/*
 * Tells the agent what functions there are and what is open, and starts. The machine is held
 * meanwhile. Of a guest that was not recognised yet less can be told. Errors: UNSUPPORTED,
 * NOT_FOUND (functions of filters), BUSY, and those of machine and link.
 */
bool vms_calls_trace_start(struct vms_calls_trace *trace, struct vms_guest *guest,
			   const struct vms_calls_options *options, GError **error);
/*
 * Tells anew what functions there are, when more is known of the guest; nothing where the agent
 * knows all that: it would translate all code again. Functions that are not there are waited for,
 * too.
 */
bool vms_calls_trace_update(struct vms_calls_trace *trace, struct vms_guest *guest,
			    const struct vms_calls_options *options, GError **error);
/* Has the agent asked for a look at the guest that was not answered yet? A vCPU waits for it. */
bool vms_calls_trace_wants_look(const struct vms_calls_trace *trace);
/* There was a look: the vCPU goes on. */
void vms_calls_trace_answer_look(const struct vms_calls_trace *trace);
/* Ends the trace: what there is of it is in the rings then, which somebody has to empty meanwhile.
 */
bool vms_calls_trace_stop(struct vms_calls_trace *trace, GError **error);
