/* SPDX-License-Identifier: MIT */
/*
 * The current trace, as instrumented code reaches it.
 *
 * Only a vCPU's own thread uses its tracer, between tracer_enter and tracer_leave (agent/gate.h).
 */
#pragma once

#include "agent/calls/call_tracker.h"
#include "agent/clock.h"
#include "agent/gate.h"
#include "agent/qemu/vcpu.h"
#include "agent/rings.h"

/* A vCPU's part of a trace. */
struct tracer {
	struct trace *trace;
	struct call_tracker *tracker; /* NULL: there was no memory, and the vCPU is not traced */
	struct vms_ring ring;
	struct clock clock;
	uint64_t target;      /* of the indirect call that the vCPU executes */
	bool has_system;      /* an operating system has run since the vCPU began */
	uint64_t look_end_ns; /* until when the vCPU waits for its last look; 0: it had none */
};

struct trace {
	struct vms_agent_calls options;
	bool asks_for_looks; /* the client answers them */
	struct call_trackers *trackers;
	/* The client knows all functions that begin between these two addresses. */
	uint64_t first_function, last_function;
	/* Addresses outside of them that direct calls go to, as far as translated (callees.h). */
	_Atomic uint64_t *callees;
	_Atomic uint32_t n_kernel_blocks; /* translated while the client knew no tasks */
	_Atomic bool has_programs;	  /* user code was translated since */
	struct rings rings;
	unsigned n;
	struct tracer tracer[];
};

extern struct trace *_Atomic trace_current; /* NULL: none */
extern struct gate *trace_gates;	    /* NULL before trace_init */
extern unsigned trace_n_gates;		    /* vcpus_max() */
extern qemu_plugin_u64
	trace_instructions; /* how many each vCPU has executed, if the trace counts them */

static inline void tracer_leave(unsigned vcpu)
{
	gate_leave(&trace_gates[vcpu]);
}

/*
 * Returns the vCPU's tracer for use in one of its callbacks. NULL: the vCPU is not traced, and
 * there is nothing to leave.
 */
static inline struct tracer *tracer_enter(unsigned vcpu)
{
	if (vcpu >= trace_n_gates)
		return NULL;
	gate_enter(&trace_gates[vcpu]);
	struct trace *trace = atomic_load_explicit(&trace_current, memory_order_acquire);
	if (trace && trace->tracer[vcpu].tracker)
		return &trace->tracer[vcpu];
	tracer_leave(vcpu);
	return NULL;
}

static inline uint64_t tracer_time(struct tracer *tracer, unsigned vcpu)
{
	return tracer->trace->options.clock == VMS_AGENT_CLOCK_INSTRUCTIONS
		       ? qemu_plugin_u64_get(trace_instructions, vcpu)
		       : clock_read(&tracer->clock);
}

/* Called once before anything else here. False: no memory. */
bool trace_init(void);
/* Takes ownership of `functions` (from malloc), also on failure. NULL: errno tells. */
struct trace *trace_new(const struct vms_agent_calls *options, struct vms_agent_function *functions,
			size_t n_functions);
/* Sets other options and functions. No vCPU is inside. Takes ownership as trace_new. */
void trace_update(struct trace *trace, const struct vms_agent_calls *options,
		  struct vms_agent_function *functions, size_t n_functions);
/* Ends all waits for room in the rings: nobody reads them any more. */
void trace_abandon(struct trace *trace);
/* Takes the current trace from all vCPUs. It is the caller's alone then. NULL: there is none. */
struct trace *trace_take_away(void);
/* Writes exits of all open calls. The caller has the trace alone. */
void trace_finish(struct trace *trace);
void trace_free(struct trace *trace);
/* Tells the client if a STOP function was called. The caller is inside. */
void tracer_check_stop(struct tracer *tracer);
/* Ends all calls of the vCPU, which begins anew. The caller is inside or has the trace alone. */
void tracer_restart(struct tracer *tracer, unsigned vcpu);
/*
 * A callback at the begin of a block that a machine executes as it starts. After a reset, of
 * whichever vCPU, the operating system is over. `data` is not NULL if the machine surely was reset.
 */
void tracer_on_begin(unsigned vcpu, void *data);
