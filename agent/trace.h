/* SPDX-License-Identifier: MIT */
/*
 * The trace that is going on, as instrumented code comes to it.
 *
 * A vCPU's part of a trace is used by the vCPU's thread alone, between tracer_enter and
 * tracer_leave, which cost it no more than two stores. Who ends a trace takes it away from where
 * tracer_enter looks, has the kernel order the memory of all threads (membarrier), and waits for
 * those that are inside: from then on it is his, whether the vCPUs run, are halted or held.
 */
#pragma once

#include "call_tracker.h"
#include "clock.h"
#include "vcpu.h"

/* Of a vCPU. */
struct tracer {
	struct trace *trace;
	struct call_tracker *tracker; /* NULL: no memory was left for it */
	struct vms_ring ring;
	struct clock clock;
	uint64_t target; /* of the indirect call that is being executed */
	bool has_system; /* an operating system has been seen to run since the vCPU began */
	/* The task that runs; va 0: not known. */
	struct tracked_task task;
	uint64_t look_end_ns; /* until when its last look is waited for; 0: there was none */
};

struct trace {
	struct vms_agent_calls options;
	struct call_trackers *trackers;
	/* Addresses between these that are no function's begin are none's: the client told all. */
	uint64_t first_function, last_function;
	_Atomic uint64_t
		*callees; /* of direct calls outside of them, as far as translated; a hash */
	_Atomic uint32_t n_kernel_blocks; /* translated while the client knew no tasks */
	_Atomic bool has_programs;	  /* user code was translated since */
	struct vms_calls_shared *shared;
	size_t size;
	int memfd;
	int wake, woken; /* two ends of a socket; `woken` is the client's */
	unsigned n;
	struct tracer tracer[];
};

/* Of a vCPU, and there as long as the plugin. */
struct tracer_gate {
	_Alignas(64) _Atomic bool inside;
};

extern struct trace *_Atomic trace_current; /* NULL: none */
extern struct tracer_gate *trace_gates;	    /* vcpus_max() of them; NULL before the first trace */
extern qemu_plugin_u64 trace_instructions;  /* that each vCPU has executed, where it is counted */

static inline void tracer_leave(unsigned vcpu)
{
	atomic_store_explicit(&trace_gates[vcpu].inside, false, memory_order_release);
}

/* The vCPU's part of the trace, for its callback that runs; NULL: there is nothing to leave. */
static inline struct tracer *tracer_enter(unsigned vcpu)
{
	if (vcpu >= vcpus_max() || !trace_gates)
		return NULL;
	atomic_store_explicit(&trace_gates[vcpu].inside, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* the other half is trace_take_away's */
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

/* Before anything else. False: no memory. */
bool trace_init(void);
/* Takes the `functions` (of malloc), also where it fails. NULL: errno tells. */
struct trace *trace_new(const struct vms_agent_calls *options, struct vms_agent_function *functions,
			size_t n_functions);
/*
 * Takes the memory of a vCPU's ring: who writes where the host has none left is killed. Before the
 * vCPU runs. False: errno tells.
 */
bool trace_reserve(struct trace *trace, unsigned vcpu);
/* Other options and functions; nobody is inside. */
void trace_update(struct trace *trace, const struct vms_agent_calls *options,
		  struct vms_agent_function *functions, size_t n_functions);
/* Nobody will make room in the rings: those who wait for it stop to. */
void trace_abandon(struct trace *trace);
/* The current trace becomes the caller's alone. NULL: there is none. */
struct trace *trace_take_away(void);
/* Writes the end of all that is open. Whoever calls has the trace alone. */
void trace_finish(struct trace *trace);
void trace_free(struct trace *trace);
/* Tells the client whether a STOP function was called. Whoever calls is inside. */
void tracer_check_stop(struct tracer *tracer);
/* What the vCPU had open is over, and it begins anew. Whoever calls is inside or has it alone. */
void tracer_restart(struct tracer *tracer, unsigned vcpu);
/* A callback where a block begins that a machine executes as it begins: after a reset, on whichever
 * vCPU, the operating system is over. `data`: not NULL where it surely was reset. */
void tracer_on_begin(unsigned vcpu, void *data);
