/* SPDX-License-Identifier: MIT */
/*
 * Answers requests for coverage. The server's thread makes a coverage. It begins when QEMU has
 * stopped all vCPUs and dropped all translated code. Code that is translated after that sets marks
 * when it runs, without calling the agent. So the memory of the marks is freed only when QEMU has
 * dropped that code too.
 */
#include "agent/coverage/coverage.h"

#include "agent/coverage/instrument.h"
#include "agent/hold/hold.h"
#include "agent/look.h"
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BEGIN_US G_TIME_SPAN_SECOND

static struct {
	GMutex lock;
	struct coverage *current; /* NULL: none */
	GCond begun;
	/* By vCPU: modules that are about to run, see agent/look.h. */
	struct look looks[VMS_AGENT_MAX_VCPUS];
} service;

/* ---- beginning ------------------------------------------------------------------------- */

/* From now on code is instrumented. Called while no vCPU is in guest code. */
static void begin_coverage(void *data)
{
	g_mutex_lock(&service.lock);
	if (service.current == data) {
		service.current->has_begun = true;
		g_cond_broadcast(&service.begun);
	}
	g_mutex_unlock(&service.lock);
}

static bool is_valid_block_count(uint32_t max_blocks)
{
	return max_blocks > 0 && max_blocks <= VMS_AGENT_MAX_BLOCKS &&
	       max_blocks % VMS_AGENT_BLOCKS_PER_LINE == 0 &&
	       vms_agent_mark_offset(max_blocks, 0, vcpus_max(), 0) <= VMS_AGENT_MAX_MARKS;
}

/* False with an error in the reply. The lock is held. */
static bool check_start(const struct request *request, struct reply *reply)
{
	const struct vms_agent_coverage *options = (const void *)request->message;
	if (request->size < sizeof(*options) || !is_valid_block_count(options->max_blocks))
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot measure coverage: the request is too short, or its number of "
			    "blocks is invalid");
	else if (vcpus_mixed_up())
		reply_error(reply, VMS_ERROR_UNSUPPORTED,
			    "cannot measure coverage: this QEMU runs several vCPUs in one thread "
			    "and mixes them up: start it with -accel tcg,thread=multi, or with "
			    "-smp 1");
	else if (service.current && service.current->client != request->client)
		reply_error(reply, VMS_ERROR_BUSY,
			    "cannot measure coverage: process %d already does so; end it first",
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

static void set_coverage_state(struct coverage *coverage, enum vms_agent_coverage_state state)
{
	coverage->state = state;
	atomic_store(&coverage->blocks.shared->state, state);
}

/* NULL with an error in the reply. The lock is held. */
static struct coverage *make_coverage(const struct request *request, struct reply *reply)
{
	const struct vms_agent_coverage *options = (const void *)request->message;
	struct coverage *coverage = new_coverage(options);
	if (!coverage) {
		reply_error(reply, VMS_ERROR_IO,
			    "cannot measure coverage: QEMU cannot allocate memory: %s",
			    g_strerror(errno));
		return NULL;
	}
	coverage->client = request->client;
	coverage->pid = (int)request->pid;
	set_coverage_state(coverage,
			   options->from ? VMS_AGENT_COVERAGE_WAITS : VMS_AGENT_COVERAGE_RUNS);
	reply_ok(reply);
	reply->fds[0] = coverage->blocks.memfd;
	reply->fds[1] = coverage->woken;
	reply->n_fds = 2;
	memset(service.looks, 0, sizeof(service.looks));
	service.current = coverage;
	return coverage;
}

/*
 * Waits until the coverage has begun, so that a client that resumes the machine after this misses
 * nothing. Does not wait while a vCPU is held: that vCPU begins the coverage when it is released,
 * before it executes anything.
 */
static void wait_until_coverage_begins(const struct coverage *coverage)
{
	const gint64 end = g_get_monotonic_time() + BEGIN_US;
	if (kick_needs_code() || hold_any_vcpu())
		return;
	g_mutex_lock(&service.lock);
	while (!coverage->has_begun && g_cond_wait_until(&service.begun, &service.lock, end))
		;
	g_mutex_unlock(&service.lock);
}

static void start_coverage(const struct request *request, struct reply *reply)
{
	const struct vms_agent_coverage *options = (const void *)request->message;
	struct coverage *coverage = NULL;
	g_mutex_lock(&service.lock);
	const bool ok = check_start(request, reply);
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
		retranslate_code(begin_coverage, coverage);
		wait_until_coverage_begins(coverage);
	}
}

/* ---- calls from instrumented code ------------------------------------------------------- */

static void on_from_address(__attribute__((unused)) unsigned vcpu,
			    __attribute__((unused)) void *data)
{
	g_mutex_lock(&service.lock);
	struct coverage *coverage = service.current;
	if (coverage && coverage->state == VMS_AGENT_COVERAGE_WAITS) {
		blocks_clear(&coverage->blocks);
		set_coverage_state(coverage, VMS_AGENT_COVERAGE_RUNS);
	}
	g_mutex_unlock(&service.lock);
}

static void on_to_address(__attribute__((unused)) unsigned vcpu, __attribute__((unused)) void *data)
{
	g_mutex_lock(&service.lock);
	struct coverage *coverage = service.current;
	if (coverage && coverage->state == VMS_AGENT_COVERAGE_RUNS) {
		blocks_settle(&coverage->blocks);
		set_coverage_state(coverage, VMS_AGENT_COVERAGE_ENDED);
	}
	g_mutex_unlock(&service.lock);
}

/*
 * A module's code is about to run for the first time. So the client never takes a block of it for
 * one of a module that was at the same address before.
 */
static void on_look_address(unsigned vcpu, __attribute__((unused)) void *data)
{
	g_mutex_lock(&service.lock);
	struct coverage *coverage = vcpu < VMS_AGENT_MAX_VCPUS ? service.current : NULL;
	struct vms_agent_covered *shared = coverage ? coverage->blocks.shared : NULL;
	if (shared && look_ask(&service.looks[vcpu], &shared->looks, &shared->looked)) {
		send(coverage->wake, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		kick_vcpu(vcpu);
	}
	g_mutex_unlock(&service.lock);
}

/* ---- ending ------------------------------------------------------------------------------- */

/* False if the client has no coverage. */
static bool end_coverage(unsigned client)
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

static void coverage_client_gone(unsigned client)
{
	end_coverage(client);
}

/* ---- the service -------------------------------------------------------------------------- */

static void coverage_answer(const struct request *request, struct reply *reply)
{
	if (request->message->kind == VMS_AGENT_COVERAGE_START)
		start_coverage(request, reply);
	else if (end_coverage(request->client))
		reply_ok(reply);
	else
		reply_error(reply, VMS_ERROR_INVALID_STATE, "this client measures no coverage");
}

static bool coverage_needs_code(void)
{
	g_mutex_lock(&service.lock);
	const bool any = service.current;
	g_mutex_unlock(&service.lock);
	return any;
}

/* `rank` is the privilege of the code; 0: a program, which is not covered. The lock is held. */
static void instrument_unless_program(struct coverage *coverage, struct qemu_plugin_tb *tb,
				      unsigned rank)
{
	static const struct coverage_callbacks callbacks = { on_from_address, on_to_address,
							     on_look_address };
	if (rank > 0)
		coverage_instrument(coverage, tb, &callbacks);
	else
		atomic_store_explicit(&coverage->blocks.shared->has_programs, 1,
				      memory_order_relaxed);
}

static void coverage_translate(struct qemu_plugin_tb *tb)
{
	struct vcpu *vcpu = vcpu_current();
	if (!vcpu)
		return;
	g_mutex_lock(&service.lock);
	struct coverage *coverage = service.current;
	if (coverage && coverage->has_begun && coverage->state != VMS_AGENT_COVERAGE_ENDED)
		instrument_unless_program(coverage, tb, vcpu_arch()->rank(vcpu));
	g_mutex_unlock(&service.lock);
}

static bool coverage_vcpu_kicked(struct vcpu *vcpu)
{
	g_mutex_lock(&service.lock);
	const bool is_awaited = service.current && vcpu->index < VMS_AGENT_MAX_VCPUS &&
				look_is_awaited(&service.looks[vcpu->index],
						&service.current->blocks.shared->looked);
	g_mutex_unlock(&service.lock);
	if (is_awaited)
		look_pause();
	return is_awaited;
}

const struct service coverage_service = {
	.first_kind = VMS_AGENT_COVERAGE_START,
	.last_kind = VMS_AGENT_COVERAGE_STOP,
	.answer = coverage_answer,
	.client_gone = coverage_client_gone,
	.needs_code = coverage_needs_code,
	.translate = coverage_translate,
	.vcpu_kicked = coverage_vcpu_kicked,
};
