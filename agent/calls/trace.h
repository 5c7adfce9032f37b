/* SPDX-License-Identifier: MIT */
/*
 * The current trace, for the callbacks of instrumented code.
 *
 * Only a vCPU's own thread uses its tracer, between tracer_enter and tracer_leave (agent/gate.h).
 */
#pragma once

#include "agent/calls/call_tracker.h"
#include "agent/clock.h"
#include "agent/gate.h"
#include "agent/look.h"
#include "agent/qemu/vcpu.h"
#include "agent/rings.h"

/* A vCPU's part of a trace. */
struct tracer {
	struct trace *trace;
	struct call_tracker *tracker; /* NULL: there was no memory, and the vCPU is not traced */
	struct vms_ring ring;
	struct clock clock;
	uint64_t target; /* of the indirect call that the vCPU is executing */
	bool has_system; /* an operating system has run since the vCPU began */
	struct look look;
};

struct trace {
	struct vms_agent_calls options;
	bool asks_for_looks; /* because the client answers them */
	struct call_trackers *trackers;
	/* The client has sent all functions that begin between these two addresses. */
	uint64_t first_function, last_function;
	/* Targets of direct calls in translated code that are outside of this range (callees.h). */
	_Atomic uint64_t *callees;
	_Atomic uint32_t n_kernel_blocks; /* translated before the client knew tasks */
	_Atomic bool has_programs;	  /* user code was translated after that */
	struct rings rings;
	unsigned n;
	struct tracer tracer[];
};

extern struct trace *_Atomic trace_current; /* NULL: none */
extern struct gate *trace_gates;	    /* NULL before trace_init */
extern unsigned trace_n_gates;		    /* vcpus_max() */
/* Instructions that each vCPU has executed, if the trace counts them. */
extern qemu_plugin_u64 trace_instructions;

static inline void tracer_leave(unsigned vcpu)
{
	gate_leave(&trace_gates[vcpu]);
}

/*
 * Returns the vCPU's tracer for use in one of its callbacks. NULL if the vCPU is not traced: then
 * tracer_leave must not be called.
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

/* Called once before anything else here. False if there is no memory. */
bool trace_init(void);
/* Takes ownership of `functions` (from malloc), also on failure. NULL with errno set. */
struct trace *trace_new(const struct vms_agent_calls *options, struct vms_agent_function *functions,
			size_t n_functions);
/*
 * Sets other options and functions. No vCPU is inside its gate. Takes ownership of `functions`,
 * also on failure.
 */
void trace_update(struct trace *trace, const struct vms_agent_calls *options,
		  struct vms_agent_function *functions, size_t n_functions);
/* Ends all waits for room in the rings, because no client reads them any more. */
void trace_abandon(struct trace *trace);
/* Removes the current trace from all vCPUs. The caller owns it then. NULL if there is none. */
struct trace *trace_take_away(void);
/* Writes exits of all open calls. No other thread may use the trace. */
void trace_finish(struct trace *trace);
void trace_free(struct trace *trace);
/* Wakes the client if a STOP function was called. The caller is inside the vCPU's gate. */
void tracer_check_stop(struct tracer *tracer);
/*
 * Ends all calls of the vCPU, which was reset or removed. The caller is inside the vCPU's gate, or
 * no other thread uses the trace.
 */
void tracer_restart(struct tracer *tracer, unsigned vcpu);
/*
 * A callback at the begin of a block that a machine executes when it starts. If an operating system
 * has run on the vCPU, this means that the machine was reset. `data` is not NULL if the machine was
 * certainly reset.
 */
void tracer_on_begin(unsigned vcpu, void *data);
