/* SPDX-License-Identifier: MIT */
/*
 * Answers requests for traces. The server's thread makes a trace. The trace begins, or changes,
 * when QEMU has stopped all vCPUs and dropped all translated code. It ends at once: code that is
 * still instrumented finds no trace, and QEMU drops that code later.
 */
#include "agent/calls/calls.h"

#include "agent/calls/follow_tasks.h"
#include "agent/calls/instrument.h"
#include "agent/calls/trace.h"
#include "agent/calls/wait_for_client.h"
#include "agent/hold/hold.h"
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include "agent/tasks/tasks.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STACKS_SIZE (64U << 20)
#define BEGIN_US	G_TIME_SPAN_SECOND

/* Tables that a client has sent before START. They are checked. */
struct tables {
	struct vms_agent_function *functions;
	size_t n_functions;
	unsigned char *stacks; /* struct vms_agent_stack, each with its frames */
	size_t stacks_size;
};

/* A START that takes effect when the code is translated again. */
struct start {
	bool update; /* changes options and functions of the current trace */
	struct vms_agent_calls options;
	struct tables tables;
};

static struct {
	GMutex lock;
	struct trace *trace; /* the current one, or one that has not begun; NULL: none */
	bool has_begun;	     /* the trace uses tasks */
	unsigned client;     /* the client that traces */
	pid_t pid;	     /* of that client; 0: unknown */
	struct tables tables[VMS_AGENT_MAX_CLIENTS];
	GSList *starts; /* struct start of this trace that have not taken effect */
	GCond begun;
} calls;

static void tables_clear(struct tables *tables)
{
	free(tables->functions);
	free(tables->stacks);
	*tables = (struct tables) { 0 };
}

/* ---- tables ------------------------------------------------------------------ */

static bool are_sorted(const struct vms_agent_function *functions, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (functions[i].va <= functions[i - 1].va)
			return false;
	return true;
}

static void receive_functions(struct tables *tables, const struct request *request, size_t size,
			      struct reply *reply)
{
	size_t n = size / sizeof(struct vms_agent_function);
	struct vms_agent_function *functions;
	if (size % sizeof(*functions) || n > VMS_AGENT_MAX_FUNCTIONS) {
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot use a table of functions of %zu bytes: it must have whole "
			    "entries, and %d at most",
			    size, VMS_AGENT_MAX_FUNCTIONS);
	} else if (!(functions = request_read_file(request, size))) {
		reply_error(reply, VMS_ERROR_IO, "cannot read the table of functions: %s",
			    g_strerror(errno));
	} else if (!are_sorted(functions, n)) {
		free(functions);
		reply_error(reply, VMS_ERROR_PROTOCOL, "the table of functions is not sorted");
	} else {
		free(tables->functions);
		tables->functions = functions;
		tables->n_functions = n;
		reply_ok(reply);
	}
}

/* Returns the stack at `offset` and moves `offset` past it. NULL if no whole stack is left. */
static const struct vms_agent_stack *next_stack(const struct tables *tables, size_t *offset)
{
	const struct vms_agent_stack *stack;
	size_t left = tables->stacks_size - *offset;
	if (left < sizeof(*stack))
		return NULL; /* also where there are no stacks at all */
	stack = (const void *)(tables->stacks + *offset);
	if (stack->n > VMS_AGENT_MAX_STACK ||
	    left - sizeof(*stack) < stack->n * sizeof(struct vms_agent_frame))
		return NULL;
	*offset += sizeof(*stack) + stack->n * sizeof(struct vms_agent_frame);
	return stack;
}

static void receive_stacks(struct tables *tables, const struct request *request, size_t size,
			   struct reply *reply)
{
	size_t end = 0;
	struct tables read = { .stacks_size = size };
	if (size > MAX_STACKS_SIZE) {
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot use a table of stacks of %zu bytes: it can have %u at most",
			    size, MAX_STACKS_SIZE);
		return;
	}
	if (!(read.stacks = request_read_file(request, size))) {
		reply_error(reply, VMS_ERROR_IO, "cannot read the table of stacks: %s",
			    g_strerror(errno));
		return;
	}
	while (next_stack(&read, &end))
		;
	if (end != size) {
		free(read.stacks);
		reply_error(reply, VMS_ERROR_PROTOCOL, "the table of stacks is malformed");
		return;
	}
	free(tables->stacks);
	tables->stacks = read.stacks;
	tables->stacks_size = size;
	reply_ok(reply);
}

static void receive_table(const struct request *request, struct reply *reply)
{
	const struct vms_agent_table *table = (const void *)request->message;
	struct tables *tables = &calls.tables[request->client];
	if (request->size != sizeof(*table) || request->fd < 0)
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot read a table: its message has a wrong size or no file");
	else if (table->message.kind == VMS_AGENT_CALLS_FUNCTIONS)
		receive_functions(tables, request, table->size, reply);
	else
		receive_stacks(tables, request, table->size, reply);
}

/* ---- beginning ----------------------------------------------------------------- */

/* Opens the calls of the client's stacks. No vCPU is in guest code. */
static void open_stacks(struct trace *trace, const struct tables *tables)
{
	struct vcpu *here = vcpu_current();
	const struct task *task;
	const struct vms_agent_stack *stack;
	for (size_t at = 0; (stack = next_stack(tables, &at));) {
		unsigned vcpu = stack->vcpu < trace->n ? stack->vcpu : 0;
		struct tracer *tracer = &trace->tracer[vcpu];
		uint64_t time = tracer_time(tracer, vcpu);
		if (!tracer->tracker)
			continue;
		if (stack->task && stack->vcpu < trace->n && here &&
		    (task = tasks_note(vcpu, here, stack->task)))
			track_switch(tracer->tracker, task, time);
		track_open_calls(tracer->tracker, stack, (const void *)(stack + 1), time);
	}
}

/* Makes a START take effect. No vCPU is in guest code. */
static void begin_trace(void *data)
{
	struct start *start = data;
	g_mutex_lock(&calls.lock);
	if (g_slist_find(calls.starts, start)) {
		calls.starts = g_slist_remove(calls.starts, start);
		if (calls.has_begun)
			tasks_update(calls.client);
		else
			tasks_begin_use(calls.client);
		calls.has_begun = true;
		if (start->update) {
			trace_update(calls.trace, &start->options, start->tables.functions,
				     start->tables.n_functions);
			start->tables.functions = NULL;
		}
		open_stacks(calls.trace, &start->tables);
		atomic_store(&trace_current, calls.trace);
		g_cond_broadcast(&calls.begun);
	}
	g_mutex_unlock(&calls.lock);
	tables_clear(&start->tables);
	free(start);
}

/* Returns what is wrong with the options, or NULL. */
static const char *check_options(const struct vms_agent_calls *options, size_t size)
{
	if (size != sizeof(*options))
		return "the message has a wrong size: vmscope and the agent in QEMU are of "
		       "different versions";
	if (options->by > VMS_AGENT_BY_TASK || options->clock > VMS_AGENT_CLOCK_INSTRUCTIONS)
		return "its kind of streams or clock is unknown";
	if (!rings_is_size(options->ring_size))
		return "the size of a ring must be a power of two from 64 KiB to 64 MiB";
	if (options->n_pids > G_N_ELEMENTS(options->pids))
		return "it names too many processes";
	return NULL;
}

/* The lock is held. False with an error in the reply. */
static bool make_trace(const struct request *request, struct tables *tables, struct reply *reply)
{
	errno = 0;
	calls.trace =
		trace_new((const void *)request->message, tables->functions, tables->n_functions);
	tables->functions = NULL;
	if (!calls.trace) {
		reply_error(reply, VMS_ERROR_IO,
			    "cannot trace calls: QEMU cannot allocate memory: %s",
			    g_strerror(errno));
		return false;
	}
	calls.trace->asks_for_looks = request->features & VMS_AGENT_CAN_LOOK;
	reply_ok(reply);
	reply->fds[0] = calls.trace->rings.memfd;
	reply->fds[1] = calls.trace->rings.woken;
	reply->n_fds = 2;
	return true;
}

/* The lock is held. NULL with an error in the reply. */
static struct start *prepare_start(const struct request *request, struct reply *reply)
{
	const struct vms_agent_calls *options = (const void *)request->message;
	struct tables *tables = &calls.tables[request->client];
	const char *wrong = check_options(options, request->size);
	if (wrong) {
		reply_error(reply, VMS_ERROR_PROTOCOL, "cannot trace calls: %s", wrong);
		return NULL;
	}
	if (vcpus_mixed_up()) {
		reply_error(
			reply, VMS_ERROR_UNSUPPORTED,
			"cannot trace calls: this QEMU runs several vCPUs in one thread and mixes "
			"them up: start it with -accel tcg,thread=multi, or with -smp 1");
		return NULL;
	}
	if (calls.trace && calls.client != request->client) {
		reply_error(reply, VMS_ERROR_BUSY,
			    "cannot trace calls: process %d already traces them; end it first",
			    (int)calls.pid);
		return NULL;
	}
	struct start *start = calloc(1, sizeof(*start));
	if (!start) {
		reply_error(reply, VMS_ERROR_IO, "cannot trace calls: no memory in QEMU");
		return NULL;
	}
	start->update = calls.trace;
	start->options = *options;
	if (start->update) {
		/* Streams, memory and clock stay as they are. */
		start->options.by = calls.trace->options.by;
		start->options.clock = calls.trace->options.clock;
		start->options.ring_size = calls.trace->options.ring_size;
		reply_ok(reply);
	} else if (!make_trace(request, tables, reply)) {
		free(start);
		return NULL;
	}
	start->tables = *tables;
	*tables = (struct tables) { 0 };
	calls.client = request->client;
	calls.pid = request->pid;
	calls.starts = g_slist_append(calls.starts, start);
	return start;
}

/*
 * Waits until the trace has begun, so that a client that resumes the machine after this misses no
 * call. Does not wait while a vCPU is held: that vCPU begins the trace when it is released, before
 * it executes anything.
 */
static void wait_until_trace_begins(const struct start *start)
{
	gint64 end = g_get_monotonic_time() + BEGIN_US;
	if (hold_any_vcpu())
		return;
	g_mutex_lock(&calls.lock);
	while (g_slist_find(calls.starts, start) &&
	       g_cond_wait_until(&calls.begun, &calls.lock, end))
		;
	g_mutex_unlock(&calls.lock);
}

/* Ends the wait of the vCPUs that had asked the client for a look when it began to look. */
static void end_client_wait(unsigned client)
{
	g_mutex_lock(&calls.lock);
	if (calls.trace && calls.client == client)
		look_answer(calls.trace);
	g_mutex_unlock(&calls.lock);
}

static void start_trace(const struct request *request, struct reply *reply)
{
	g_mutex_lock(&calls.lock);
	struct start *start = prepare_start(request, reply);
	g_mutex_unlock(&calls.lock);
	if (!start)
		return;
	retranslate_code(begin_trace, start);
	end_client_wait(request->client);
	if (!kick_needs_code())
		wait_until_trace_begins(start);
}

/* ---- ending ---------------------------------------------------------------------- */

/*
 * Removes the client's trace from all vCPUs and returns it to the caller, who owns it then.
 * `abandon`: no client reads its rings any more. NULL if the client has no trace.
 */
static struct trace *take_trace(unsigned client, bool abandon)
{
	struct trace *trace = NULL;
	g_mutex_lock(&calls.lock);
	if (calls.trace && calls.client == client) {
		trace = calls.trace;
		if (abandon)
			trace_abandon(trace);
		trace_take_away();
		calls.trace = NULL;
		if (calls.has_begun)
			tasks_end_use();
		calls.has_begun = false;
		g_slist_free(g_steal_pointer(&calls.starts));
	}
	g_mutex_unlock(&calls.lock);
	return trace;
}

static void stop_trace(unsigned client, struct reply *reply)
{
	struct trace *trace = take_trace(client, false);
	if (!trace) {
		reply_error(reply, VMS_ERROR_INVALID_STATE,
			    "cannot stop the trace: this client traces no calls");
		return;
	}
	trace_finish(trace);
	trace_free(trace);
	retranslate_code(NULL, NULL);
	reply_ok(reply);
}

static void calls_client_gone(unsigned client)
{
	struct trace *trace = take_trace(client, true);
	tables_clear(&calls.tables[client]);
	if (!trace)
		return;
	trace_free(trace);
	retranslate_code(NULL, NULL);
}

static void calls_quit(void)
{
	struct trace *trace = take_trace(calls.client, false);
	if (!trace)
		return;
	trace_finish(trace);
	trace_free(trace);
}

/* ---- the service -------------------------------------------------------------------- */

static void calls_answer(const struct request *request, struct reply *reply)
{
	switch (request->message->kind) {
	case VMS_AGENT_CALLS_START: start_trace(request, reply); break;
	case VMS_AGENT_CALLS_STOP: stop_trace(request->client, reply); break;
	default: receive_table(request, reply);
	}
}

static bool calls_init(void)
{
	follow_tasks();
	return trace_init();
}

static bool calls_need_code(void)
{
	g_mutex_lock(&calls.lock);
	bool any = calls.trace;
	g_mutex_unlock(&calls.lock);
	return any;
}

static void calls_vcpu_begins(struct vcpu *vcpu)
{
	struct tracer *tracer = tracer_enter(vcpu->index);
	if (!tracer)
		return;
	if (!rings_reserve(&tracer->trace->rings, vcpu->index)) {
		fprintf(stderr, "vmscope agent: calls of vCPU %u are not traced: %s\n", vcpu->index,
			g_strerror(errno));
		call_tracker_free(tracer->tracker);
		tracer->tracker = NULL;
	}
	tracer_leave(vcpu->index);
}

/* Ends the open calls, because another vCPU may get the index. */
static void calls_vcpu_ends(struct vcpu *vcpu)
{
	struct tracer *tracer = tracer_enter(vcpu->index);
	if (!tracer)
		return;
	tracer_restart(tracer, vcpu->index);
	tracer_leave(vcpu->index);
}

const struct service calls_service = {
	.first_kind = VMS_AGENT_CALLS_FUNCTIONS,
	.last_kind = VMS_AGENT_CALLS_STOP,
	.init = calls_init,
	.quit = calls_quit,
	.answer = calls_answer,
	.client_gone = calls_client_gone,
	.needs_code = calls_need_code,
	.translate = instrument_block,
	.vcpu_begins = calls_vcpu_begins,
	.vcpu_ends = calls_vcpu_ends,
	.vcpu_kicked = look_wait,
};
