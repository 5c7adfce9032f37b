/* SPDX-License-Identifier: MIT */
#include "agent/calls/trace.h"

#include "agent/calls/callees.h"
#include "agent/tasks/tasks.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct trace *_Atomic trace_current;
struct tracer_gate *trace_gates;
unsigned trace_n_gates;
qemu_plugin_u64 trace_instructions;

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

bool trace_init(void)
{
	size_t size = vcpus_max() * sizeof(*trace_gates);
	trace_gates = aligned_alloc(_Alignof(struct tracer_gate), size);
	if (!trace_gates)
		return false;
	memset(trace_gates, 0, size);
	trace_n_gates = vcpus_max();
	trace_instructions.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return trace_instructions.score;
}

struct trace *trace_take_away(void)
{
	struct trace *trace = atomic_exchange(&trace_current, NULL);
	if (!trace)
		return NULL;
	membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	for (unsigned i = 0; i < trace->n; i++)
		while (atomic_load_explicit(&trace_gates[i].inside, memory_order_acquire))
			g_usleep(50);
	return trace;
}

/* ---- making one ----------------------------------------------------------- */

static bool share_memory(struct trace *trace, unsigned n, uint64_t ring_size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t header = sizeof(*trace->shared) + n * sizeof(trace->shared->ring[0]);
	header = (header + page - 1) / page * page;
	trace->size = header + n * ring_size;
	trace->memfd = memfd_create("vmscope-calls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (trace->memfd < 0 || ftruncate(trace->memfd, (off_t)trace->size) < 0 ||
	    fcntl(trace->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return false;
	void *memory = mmap(NULL, trace->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    trace->memfd, 0);
	if (memory == MAP_FAILED)
		return false;
	trace->shared = memory;
	trace->shared->rings_offset = header;
	trace->shared->ring_size = ring_size;
	trace->shared->n_rings = n;
	int wake[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wake) < 0)
		return false;
	trace->wake = wake[0];
	trace->woken = wake[1];
	return true;
}

static void set_functions(struct trace *trace, const struct vms_agent_function *functions, size_t n)
{
	trace->first_function = n ? functions[0].va : UINT64_MAX;
	trace->last_function = n ? functions[n - 1].va : 0;
}

bool trace_reserve(struct trace *trace, unsigned vcpu)
{
	uint64_t size = trace->shared->ring_size;
	errno = posix_fallocate(trace->memfd, (off_t)(trace->shared->rings_offset + vcpu * size),
				(off_t)size);
	return errno == 0;
}

static bool is_there(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	g_mutex_lock(&vcpu->lock);
	bool is_there = vcpu->state != VMS_AGENT_ABSENT;
	g_mutex_unlock(&vcpu->lock);
	return is_there;
}

static bool make_tracers(struct trace *trace, unsigned n)
{
	unsigned char *rings = (unsigned char *)trace->shared + trace->shared->rings_offset;
	for (; trace->n < n; trace->n++) {
		struct tracer *tracer = &trace->tracer[trace->n];
		size_t size = trace->options.ring_size;
		tracer->trace = trace;
		vms_ring_init(&tracer->ring, &trace->shared->ring[trace->n],
			      rings + trace->n * size, size, trace->wake);
		tracer->tracker = call_tracker_new(trace->trackers, trace->n, &tracer->ring);
		if (!tracer->tracker || (is_there(trace->n) && !trace_reserve(trace, trace->n)))
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
	trace->memfd = trace->wake = trace->woken = -1;
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) < 0) {
		free(functions);
		trace_free(trace);
		return NULL;
	}
	set_functions(trace, functions, n_functions);
	trace->trackers =
		call_trackers_new(options, &vcpu_arch()->levels, functions, n_functions, n);
	trace->callees = callees_new();
	if (trace->trackers && trace->callees && share_memory(trace, n, options->ring_size) &&
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

/* ---- ending it -------------------------------------------------------------- */

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
		/* A client that let one ring wait in vain gets no more time for the next. */
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
	atomic_store(&tracer->trace->shared->stopped, 1);
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
	if (trace->shared)
		munmap(trace->shared, trace->size);
	if (trace->memfd >= 0)
		close(trace->memfd);
	if (trace->wake >= 0)
		close(trace->wake);
	if (trace->woken >= 0)
		close(trace->woken);
	free(trace);
}
