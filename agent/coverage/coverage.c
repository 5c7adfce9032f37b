/* SPDX-License-Identifier: MIT */
/*
 * Requests for coverage. The server's thread makes it. It begins when QEMU has stopped all vCPUs
 * and forgotten all translated code. What is translated then marks what of it runs, without a call
 * of the agent's. So the memory of the marks stays until QEMU has forgotten that code, too.
 */
#include "agent/coverage/coverage.h"

#include "agent/coverage/instrument.h"
#include "agent/coverage/looks.h"
#include "agent/hold/hold.h"
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BEGIN_US G_TIME_SPAN_SECOND

static struct {
	GMutex lock;
	struct coverage *current; /* NULL: none */
	GCond begun;
} service;

/* ---- beginning ------------------------------------------------------------------------- */

/* Code is instrumented from now on. No vCPU is in guest code. */
static void begin(void *data)
{
	g_mutex_lock(&service.lock);
	if (service.current == data) {
		service.current->has_begun = true;
		g_cond_broadcast(&service.begun);
	}
	g_mutex_unlock(&service.lock);
}

static bool is_size(uint32_t max_blocks)
{
	return max_blocks > 0 && max_blocks <= VMS_AGENT_MAX_BLOCKS &&
	       max_blocks % VMS_AGENT_BLOCKS_PER_LINE == 0 &&
	       vms_agent_mark_offset(max_blocks, 0, vcpus_max(), 0) <= VMS_AGENT_MAX_MARKS;
}

/* False: the reply says why. The lock is held. */
static bool may_start(const struct request *request, struct reply *reply)
{
	const struct vms_agent_coverage *options = (const void *)request->message;
	if (request->size < sizeof(*options) || !is_size(options->max_blocks))
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot cover: the message is too short, or no number of blocks");
	else if (vcpus_mixed_up())
		reply_error(reply, VMS_ERROR_UNSUPPORTED,
			    "cannot cover: this QEMU runs several vCPUs in one thread and mixes "
			    "them up: start it with -accel tcg,thread=multi, or with -smp 1");
	else if (service.current && service.current->client != request->client)
		reply_error(reply, VMS_ERROR_BUSY, "cannot cover: process %d does already",
			    service.current->pid);
	else
		return true;
	return false;
}

static void free_coverage(void *data)
{
	struct coverage *coverage = data;
	blocks_free(&coverage->blocks);
	if (coverage->wake >= 0)
		close(coverage->wake);
	if (coverage->woken >= 0)
		close(coverage->woken);
	free(coverage);
}

static bool make_socket(struct coverage *coverage)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	coverage->wake = ends[0];
	coverage->woken = ends[1];
	return true;
}

static struct coverage *new_coverage(const struct vms_agent_coverage *options)
{
	struct coverage *coverage = calloc(1, sizeof(*coverage));
	if (!coverage)
		return NULL;
	coverage->wake = coverage->woken = -1;
	coverage->from = options->from;
	coverage->to = options->to;
	coverage->look = options->look;
	if (coverage_instrument_init() && make_socket(coverage) &&
	    blocks_make(&coverage->blocks, options->max_blocks, vcpus_max()))
		return coverage;
	free_coverage(coverage);
	return NULL;
}

static void set_state(struct coverage *coverage, enum vms_agent_coverage_state state)
{
	coverage->state = state;
	atomic_store(&coverage->blocks.shared->state, state);
}

/* NULL: the reply says why. The lock is held. */
static struct coverage *make_coverage(const struct request *request, struct reply *reply)
{
	const struct vms_agent_coverage *options = (const void *)request->message;
	struct coverage *coverage = new_coverage(options);
	if (!coverage) {
		reply_error(reply, VMS_ERROR_IO, "cannot cover: no memory in QEMU: %s",
			    g_strerror(errno));
		return NULL;
	}
	coverage->client = request->client;
	coverage->pid = (int)request->pid;
	set_state(coverage, options->from ? VMS_AGENT_COVERAGE_WAITS : VMS_AGENT_COVERAGE_RUNS);
	reply_ok(reply);
	reply->fds[0] = coverage->blocks.memfd;
	reply->fds[1] = coverage->woken;
	reply->n_fds = 2;
	service.current = coverage;
	return coverage;
}

/*
 * Waits until it has begun, so that a client that resumes the machine afterwards misses nothing.
 * While a vCPU is held this does not wait: that vCPU begins it when it is released, before it
 * executes anything.
 */
static void wait_until_begun(const struct coverage *coverage)
{
	const gint64 end = g_get_monotonic_time() + BEGIN_US;
	if (kick_needs_code() || hold_any_vcpu())
		return;
	g_mutex_lock(&service.lock);
	while (!coverage->has_begun && g_cond_wait_until(&service.begun, &service.lock, end))
		;
	g_mutex_unlock(&service.lock);
}

static void start(const struct request *request, struct reply *reply)
{
	const struct vms_agent_coverage *options = (const void *)request->message;
	struct coverage *coverage = NULL;
	g_mutex_lock(&service.lock);
	const bool ok = may_start(request, reply);
	const bool is_update = ok && service.current;
	if (is_update)
		service.current->look = options->look;
	else if (ok)
		coverage = make_coverage(request, reply);
	g_mutex_unlock(&service.lock);
	if (is_update) {
		retranslate_code(NULL, NULL);
		reply_ok(reply);
	} else if (coverage) {
		retranslate_code(begin, coverage);
		wait_until_begun(coverage);
	}
}

/* ---- what code calls ------------------------------------------------------------------- */

static void on_from(__attribute__((unused)) unsigned vcpu, __attribute__((unused)) void *data)
{
	g_mutex_lock(&service.lock);
	struct coverage *coverage = service.current;
	if (coverage && coverage->state == VMS_AGENT_COVERAGE_WAITS) {
		blocks_clear(&coverage->blocks);
		set_state(coverage, VMS_AGENT_COVERAGE_RUNS);
	}
	g_mutex_unlock(&service.lock);
}

static void on_to(__attribute__((unused)) unsigned vcpu, __attribute__((unused)) void *data)
{
	g_mutex_lock(&service.lock);
	struct coverage *coverage = service.current;
	if (coverage && coverage->state == VMS_AGENT_COVERAGE_RUNS) {
		blocks_settle(&coverage->blocks);
		set_state(coverage, VMS_AGENT_COVERAGE_ENDED);
	}
	g_mutex_unlock(&service.lock);
}

static void on_look(unsigned vcpu, __attribute__((unused)) void *data)
{
	g_mutex_lock(&service.lock);
	if (service.current)
		looks_ask(service.current, vcpu);
	g_mutex_unlock(&service.lock);
}

/* ---- ending ------------------------------------------------------------------------------- */

/* False: the client has no coverage. */
static bool end(unsigned client)
{
	struct coverage *coverage = NULL;
	g_mutex_lock(&service.lock);
	if (service.current && service.current->client == client)
		coverage = g_steal_pointer(&service.current);
	g_mutex_unlock(&service.lock);
	if (coverage)
		retranslate_code(free_coverage, coverage);
	return coverage;
}

static void end_client(unsigned client)
{
	end(client);
}

/* ---- the service -------------------------------------------------------------------------- */

static void answer(const struct request *request, struct reply *reply)
{
	if (request->message->kind == VMS_AGENT_COVERAGE_START)
		start(request, reply);
	else if (end(request->client))
		reply_ok(reply);
	else
		reply_error(reply, VMS_ERROR_INVALID_STATE, "this client covers nothing");
}

static bool needs_code(void)
{
	g_mutex_lock(&service.lock);
	const bool any = service.current;
	g_mutex_unlock(&service.lock);
	return any;
}

/* `rank`: of what the vCPU executes; 0: a program. The lock is held. */
static void translate_for(struct coverage *coverage, struct qemu_plugin_tb *tb, unsigned rank)
{
	static const struct coverage_callbacks callbacks = { on_from, on_to, on_look };
	if (rank > 0)
		coverage_instrument(coverage, tb, &callbacks);
	else
		atomic_store_explicit(&coverage->blocks.shared->has_programs, 1,
				      memory_order_relaxed);
}

static void translate(struct qemu_plugin_tb *tb)
{
	struct vcpu *vcpu = vcpu_current();
	if (!vcpu)
		return;
	g_mutex_lock(&service.lock);
	struct coverage *coverage = service.current;
	if (coverage && coverage->has_begun && coverage->state != VMS_AGENT_COVERAGE_ENDED)
		translate_for(coverage, tb, vcpu_arch()->rank(vcpu));
	g_mutex_unlock(&service.lock);
}

static bool wait_for_look(struct vcpu *vcpu)
{
	g_mutex_lock(&service.lock);
	const bool is_awaited = service.current && looks_is_awaited(service.current, vcpu->index);
	g_mutex_unlock(&service.lock);
	if (is_awaited)
		looks_wait();
	return is_awaited;
}

const struct service coverage_service = {
	.first_kind = VMS_AGENT_COVERAGE_START,
	.last_kind = VMS_AGENT_COVERAGE_STOP,
	.answer = answer,
	.client_gone = end_client,
	.needs_code = needs_code,
	.translate = translate,
	.vcpu_kicked = wait_for_look,
};
