/* SPDX-License-Identifier: MIT */
#include "agent/calls/trace.h"

#include "agent/calls/callees.h"
#include "agent/tasks/tasks.h"
#include <errno.h>
#include <stdlib.h>

struct trace *_Atomic trace_current;
struct gate *trace_gates;
unsigned trace_n_gates;
qemu_plugin_u64 trace_instructions;

bool trace_init(void)
{
	trace_gates = gates_new(vcpus_max());
	if (!trace_gates)
		return false;
	trace_n_gates = vcpus_max();
	trace_instructions.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return trace_instructions.score;
}

struct trace *trace_take_away(void)
{
	struct trace *trace = atomic_exchange(&trace_current, NULL);
	if (!trace)
		return NULL;
	gates_wait(trace_gates, trace->n);
	return trace;
}

/* ---- making a trace -------------------------------------------------------- */

static void set_functions(struct trace *trace, const struct vms_agent_function *functions, size_t n)
{
	trace->first_function = n ? functions[0].va : UINT64_MAX;
	trace->last_function = n ? functions[n - 1].va : 0;
}

static bool make_tracers(struct trace *trace, unsigned n)
{
	for (; trace->n < n; trace->n++) {
		struct tracer *tracer = &trace->tracer[trace->n];
		tracer->trace = trace;
		vms_ring_init(&tracer->ring, &trace->rings.shared->ring[trace->n],
			      rings_data(&trace->rings, trace->n), trace->rings.ring_size,
			      trace->rings.wake);
		tracer->tracker = call_tracker_new(trace->trackers, trace->n, &tracer->ring);
		if (!tracer->tracker ||
		    (vcpu_is_there(trace->n) && !rings_reserve(&trace->rings, trace->n)))
			return false;
	}
	return true;
}

struct trace *trace_new(const struct vms_agent_calls *options, struct vms_agent_function *functions,
			size_t n_functions)
{
	unsigned n = vcpus_max();
	struct trace *trace = calloc(1, sizeof(*trace) + n * sizeof(trace->tracer[0]));
	if (!trace) {
		free(functions);
		return NULL;
	}
	trace->options = *options;
	trace->rings = RINGS_NONE;
	if (!gates_prepare()) {
		free(functions);
		trace_free(trace);
		return NULL;
	}
	set_functions(trace, functions, n_functions);
	trace->trackers =
		call_trackers_new(options, &vcpu_arch()->levels, functions, n_functions, n);
	trace->callees = callees_new();
	if (trace->trackers && trace->callees &&
	    rings_make(&trace->rings, "vmscope-calls", n, options->ring_size) &&
	    make_tracers(trace, n))
		return trace;
	int error = errno;
	trace_free(trace);
	errno = error;
	return NULL;
}

void trace_update(struct trace *trace, const struct vms_agent_calls *options,
		  struct vms_agent_function *functions, size_t n_functions)
{
	uint64_t first = n_functions ? functions[0].va : UINT64_MAX;
	uint64_t last = n_functions ? functions[n_functions - 1].va : 0;
	if (!call_trackers_update(trace->trackers, options, functions, n_functions))
		return;
	trace->first_function = first;
	trace->last_function = last;
	trace->options = *options;
}

/* ---- ending a trace --------------------------------------------------------- */

void trace_abandon(struct trace *trace)
{
	for (unsigned i = 0; i < trace->n; i++)
		vms_ring_abandon(&trace->tracer[i].ring);
}

void trace_finish(struct trace *trace)
{
	bool stalled = false;
	for (unsigned i = 0; i < trace->n; i++) {
		struct tracer *tracer = &trace->tracer[i];
		/* If the client did not empty one ring in time, do not wait for the next one. */
		tracer->ring.stalled |= stalled;
		if (tracer->tracker)
			call_tracker_finish(tracer->tracker, tracer_time(tracer, i));
		stalled |= tracer->ring.stalled;
	}
	for (unsigned i = 0; i < trace->n; i++)
		vms_ring_flush(&trace->tracer[i].ring);
}

void tracer_restart(struct tracer *tracer, unsigned vcpu)
{
	call_tracker_finish(tracer->tracker, tracer_time(tracer, vcpu));
	call_tracker_free(tracer->tracker);
	tracer->tracker = call_tracker_new(tracer->trace->trackers, vcpu, &tracer->ring);
	tasks_forget(vcpu);
	tracer->has_system = false;
	vms_ring_flush(&tracer->ring);
}

void tracer_on_begin(unsigned vcpu, void *data)
{
	struct tracer *tracer = tracer_enter(vcpu);
	if (!tracer)
		return;
	if (tracer->has_system || data)
		tracer_restart(tracer, vcpu);
	tracer_leave(vcpu);
}

void tracer_check_stop(struct tracer *tracer)
{
	if (!call_trackers_stopped(tracer->trace->trackers))
		return;
	atomic_store(&tracer->trace->rings.shared->stopped, 1);
	vms_ring_flush(&tracer->ring);
}

void trace_free(struct trace *trace)
{
	for (unsigned i = 0; i < trace->n; i++)
		if (trace->tracer[i].tracker)
			call_tracker_free(trace->tracer[i].tracker);
	if (trace->trackers)
		call_trackers_free(trace->trackers);
	callees_free(trace->callees);
	rings_free(&trace->rings);
	free(trace);
}
