/* SPDX-License-Identifier: MIT */
/*
 * Requests for traces. A trace is made in the server's thread; it begins, or changes, when QEMU has
 * stopped all vCPUs for us and forgotten all translated code. It ends at once: what is still
 * translated finds no trace, and is forgotten when QEMU gets to it.
 */
#include "calls.h"

#include "call.h"
#include "hold.h"
#include "linux_task.h"
#include "look.h"
#include "plugin.h"
#include "trace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIN_RING	(64U << 10)
#define MAX_RING	(64U << 20)
#define MAX_OFFSET	(64U << 10) /* in a task_struct */
#define MAX_STACKS_SIZE (64U << 20)
#define BEGIN_US	G_TIME_SPAN_SECOND

/* What the client sent before it starts: read and checked. */
struct tables {
	struct vms_agent_function *functions;
	size_t n_functions;
	unsigned char *stacks; /* struct vms_agent_stack, each with its frames */
	size_t stacks_size;
};

/* What begins when the code is translated anew. */
struct start {
	bool update; /* the trace that goes on gets other options and functions */
	struct vms_agent_calls options;
	struct tables tables;
};

static struct {
	GMutex lock;
	struct trace *trace; /* the one that goes on, or waits to begin */
	unsigned client;     /* whose it is */
	struct tables tables[VMS_AGENT_MAX_CLIENTS];
	GSList *starts; /* struct start of this trace that are still to begin */
	GCond begun;
} calls;

static void tables_clear(struct tables *tables)
{
	free(tables->functions);
	free(tables->stacks);
	*tables = (struct tables) { 0 };
}

/* ---- tables ------------------------------------------------------------------ */

/* The file's content, of malloc; NULL: errno tells. */
static void *read_file(int fd, size_t size)
{
	struct stat stat;
	size_t done = 0;
	char *content = malloc(size ? size : 1);
	if (fstat(fd, &stat) == 0 && !S_ISREG(stat.st_mode))
		errno = EINVAL;
	else
		errno = 0;
	while (content && !errno && done < size) {
		ssize_t n = pread(fd, content + done, size - done, (off_t)done);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			errno = ENODATA;
	}
	if (done == size)
		return content;
	free(content);
	return NULL;
}

static bool are_sorted(const struct vms_agent_function *functions, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (functions[i].va <= functions[i - 1].va)
			return false;
	return true;
}

static void take_functions(struct tables *tables, size_t size, int fd, struct reply *reply)
{
	size_t n = size / sizeof(struct vms_agent_function);
	struct vms_agent_function *functions;
	if (size % sizeof(*functions) || n > VMS_AGENT_MAX_FUNCTIONS) {
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot take a table of functions of %zu bytes: it is no whole number "
			    "of them, or has more than %d",
			    size, VMS_AGENT_MAX_FUNCTIONS);
	} else if (!(functions = read_file(fd, size))) {
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

/* The stack at `offset`, which moves on to the next; NULL: none is whole. */
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

static void take_stacks(struct tables *tables, size_t size, int fd, struct reply *reply)
{
	size_t end = 0;
	struct tables read = { .stacks_size = size };
	if (size > MAX_STACKS_SIZE) {
		reply_error(reply, VMS_ERROR_PROTOCOL, "a table of stacks has at most %u bytes",
			    MAX_STACKS_SIZE);
		return;
	}
	if (!(read.stacks = read_file(fd, size))) {
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

static void take_table(struct tables *tables, const struct vms_agent_message *message, size_t size,
		       int fd, struct reply *reply)
{
	const struct vms_agent_table *table = (const void *)message;
	if (size != sizeof(*table) || fd < 0)
		reply_error(reply, VMS_ERROR_PROTOCOL, "a table's message has no file with it");
	else if (message->kind == VMS_AGENT_CALLS_FUNCTIONS)
		take_functions(tables, table->size, fd, reply);
	else
		take_stacks(tables, table->size, fd, reply);
}

/* ---- beginning ----------------------------------------------------------------- */

static void seed(struct trace *trace, const struct tables *tables)
{
	struct vcpu *here = vcpu_current();
	const struct vms_agent_stack *stack;
	for (size_t at = 0; (stack = next_stack(tables, &at));) {
		unsigned vcpu = stack->vcpu < trace->n ? stack->vcpu : 0;
		struct tracer *tracer = &trace->tracer[vcpu];
		uint64_t time = tracer_time(tracer, vcpu);
		if (!tracer->flow)
			continue;
		if (stack->task && stack->vcpu < trace->n && here)
			task_switch(tracer, here, stack->task, time);
		flow_seed(tracer->flow, stack, (const void *)(stack + 1), time);
	}
}

/* No vCPU is in guest code. */
static void begin(void *data)
{
	struct start *start = data;
	g_mutex_lock(&calls.lock);
	if (g_slist_find(calls.starts, start)) {
		calls.starts = g_slist_remove(calls.starts, start);
		if (start->update) {
			trace_update(calls.trace, &start->options, start->tables.functions,
				     start->tables.n_functions);
			start->tables.functions = NULL;
		}
		seed(calls.trace, &start->tables);
		atomic_store(&trace_current, calls.trace);
		g_cond_broadcast(&calls.begun);
	}
	g_mutex_unlock(&calls.lock);
	tables_clear(&start->tables);
	free(start);
}

/* NULL: they are in order. */
static const char *check(const struct vms_agent_calls *options, size_t size)
{
	const uint32_t offsets[] = { options->task_pid, options->task_tgid, options->task_mm,
				     options->task_comm };
	if (size != sizeof(*options))
		return "the message has another size";
	if (options->by > VMS_AGENT_BY_TASK || options->clock > VMS_AGENT_CLOCK_INSTRUCTIONS)
		return "its kind of streams or clock is not known";
	if (options->ring_size < MIN_RING || options->ring_size > MAX_RING ||
	    (options->ring_size & (options->ring_size - 1)))
		return "a ring has from 64 KiB to 64 MiB, and a power of two";
	if (options->n_pids > G_N_ELEMENTS(options->pids))
		return "it names too many processes";
	for (size_t i = 0; i < G_N_ELEMENTS(offsets); i++)
		if (offsets[i] > MAX_OFFSET)
			return "an offset lies outside of any task_struct";
	return NULL;
}

/* The lock is held. False: the reply says why. */
static bool make_trace(const struct vms_agent_calls *options, struct tables *tables,
		       struct reply *reply)
{
	errno = 0;
	calls.trace = trace_new(options, tables->functions, tables->n_functions);
	tables->functions = NULL;
	if (!calls.trace) {
		reply_error(reply, VMS_ERROR_IO, "cannot trace calls: QEMU cannot make a trace: %s",
			    g_strerror(errno));
		return false;
	}
	reply_ok(reply);
	reply->fds[0] = calls.trace->memfd;
	reply->fds[1] = calls.trace->woken;
	reply->n_fds = 2;
	return true;
}

/* The lock is held. NULL: the reply says why. */
static struct start *prepare(unsigned client, const struct vms_agent_calls *options, size_t size,
			     struct reply *reply)
{
	struct tables *tables = &calls.tables[client];
	const char *wrong = check(options, size);
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
	if (calls.trace && calls.client != client) {
		reply_error(reply, VMS_ERROR_BUSY,
			    "cannot trace calls: process %d traces them already",
			    (int)server_client_pid(calls.client));
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
		/* What the streams, the memory and the times are of stays. */
		start->options.by = calls.trace->options.by;
		start->options.clock = calls.trace->options.clock;
		start->options.ring_size = calls.trace->options.ring_size;
		reply_ok(reply);
	} else if (!make_trace(options, tables, reply)) {
		free(start);
		return NULL;
	}
	start->tables = *tables;
	*tables = (struct tables) { 0 };
	calls.client = client;
	calls.starts = g_slist_append(calls.starts, start);
	return start;
}

static bool is_any_vcpu_held(void)
{
	bool held = false;
	for (unsigned i = 0; !held && i < VMS_AGENT_MAX_CLIENTS; i++)
		held = hold_any(i);
	return held;
}

/*
 * Waits until the trace has begun, so that a client that resumes the machine then misses no call.
 * A vCPU that is held begins it when it is released, before it executes anything.
 */
static void wait_until_begun(const struct start *start)
{
	gint64 end = g_get_monotonic_time() + BEGIN_US;
	if (is_any_vcpu_held())
		return;
	g_mutex_lock(&calls.lock);
	while (g_slist_find(calls.starts, start) &&
	       g_cond_wait_until(&calls.begun, &calls.lock, end))
		;
	g_mutex_unlock(&calls.lock);
}

/* A vCPU that waits for it goes on with what the client has just told. */
static void answer_look(unsigned client)
{
	g_mutex_lock(&calls.lock);
	if (calls.trace && calls.client == client)
		look_answer(calls.trace);
	g_mutex_unlock(&calls.lock);
}

static void start(unsigned client, const struct vms_agent_message *message, size_t size,
		  struct reply *reply)
{
	g_mutex_lock(&calls.lock);
	struct start *start = prepare(client, (const void *)message, size, reply);
	g_mutex_unlock(&calls.lock);
	if (!start)
		return;
	plugin_retranslate(begin, start);
	answer_look(client);
	if (!call_needs_code())
		wait_until_begun(start);
}

/* ---- ending ---------------------------------------------------------------------- */

/* The client's trace, which is the caller's alone from here on; NULL: it has none. */
static struct trace *take(unsigned client, bool abandon)
{
	struct trace *trace = NULL;
	g_mutex_lock(&calls.lock);
	if (calls.trace && calls.client == client) {
		trace = calls.trace;
		if (abandon)
			trace_abandon(trace);
		trace_take_away();
		calls.trace = NULL;
		g_slist_free(g_steal_pointer(&calls.starts));
	}
	g_mutex_unlock(&calls.lock);
	return trace;
}

static void stop(unsigned client, struct reply *reply)
{
	struct trace *trace = take(client, false);
	if (!trace) {
		reply_error(reply, VMS_ERROR_INVALID_STATE, "this client traces no calls");
		return;
	}
	trace_finish(trace);
	trace_free(trace);
	plugin_retranslate(NULL, NULL);
	reply_ok(reply);
}

void calls_client_gone(unsigned client)
{
	struct trace *trace = take(client, true);
	tables_clear(&calls.tables[client]);
	if (!trace)
		return;
	trace_free(trace);
	plugin_retranslate(NULL, NULL);
}

void calls_exit(void)
{
	struct trace *trace = take(calls.client, false);
	if (!trace)
		return;
	trace_finish(trace);
	trace_free(trace);
}

/* ---- requests -------------------------------------------------------------------- */

void calls_request(unsigned client, const struct vms_agent_message *message, size_t size, int fd,
		   struct reply *reply)
{
	switch (message->kind) {
	case VMS_AGENT_CALLS_START: start(client, message, size, reply); break;
	case VMS_AGENT_CALLS_STOP: stop(client, reply); break;
	default: take_table(&calls.tables[client], message, size, fd, reply);
	}
}

/* ---- QEMU ---------------------------------------------------------------------------- */

bool calls_init(void)
{
	return trace_init();
}

bool calls_need_code(void)
{
	g_mutex_lock(&calls.lock);
	bool any = calls.trace;
	g_mutex_unlock(&calls.lock);
	return any;
}

void calls_vcpu_init(struct vcpu *vcpu)
{
	struct tracer *tracer = tracer_enter(vcpu->index);
	if (!tracer)
		return;
	if (!trace_reserve(tracer->trace, vcpu->index)) {
		fprintf(stderr, "vmscope agent: calls of vCPU %u are not traced: %s\n", vcpu->index,
			g_strerror(errno));
		flow_free(tracer->flow);
		tracer->flow = NULL;
	}
	tracer_leave(vcpu->index);
}

/* Its index may be used again. */
void calls_vcpu_exit(struct vcpu *vcpu)
{
	struct tracer *tracer = tracer_enter(vcpu->index);
	if (!tracer)
		return;
	tracer_restart(tracer, vcpu->index);
	tracer_leave(vcpu->index);
}
