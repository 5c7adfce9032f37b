/* SPDX-License-Identifier: MIT */
/*
 * Answers requests for probes. The server's thread makes a set. The set is armed when QEMU has
 * stopped all vCPUs and dropped all translated code, so all its places begin at the same moment. A
 * set ends at once: code that is still instrumented does not find it, and QEMU drops that code
 * later.
 */
#include "agent/probes/probes.h"

#include "agent/gate.h"
#include "agent/hold/hold.h"
#include "agent/probes/instrument.h"
#include "agent/probes/return_marks.h"
#include "agent/probes/visit.h"
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include <errno.h>
#include <stdio.h>

#define BEGIN_US G_TIME_SPAN_SECOND

static struct {
	GMutex lock;
	struct probe_set *sets[VMS_AGENT_MAX_PROBES];
	unsigned n;
	GCond renewed;
} probes;

/* ---- the plan -------------------------------------------------------------------------- */

/* Replaces the plan by one of all sets that have not ended. No vCPU is in guest code. */
static void renew_plan(__attribute__((unused)) void *data)
{
	struct probe_set *sets[VMS_AGENT_MAX_PROBES];
	unsigned n = 0;
	g_mutex_lock(&probes.lock);
	for (unsigned i = 0; i < probes.n; i++)
		if (!probes.sets[i]->ended)
			sets[n++] = probes.sets[i];
	struct plan *plan = n ? plan_new(sets, n) : NULL;
	if (plan || n == 0) {
		plan_free(atomic_exchange(&visit_plan, plan));
		if (!plan || !plan->has_calls)
			returns_forget();
		for (unsigned i = 0; i < n; i++)
			sets[i]->armed = true;
	} else {
		fprintf(stderr, "vmscope agent: cannot arm new probes: no memory in QEMU\n");
	}
	g_cond_broadcast(&probes.renewed);
	g_mutex_unlock(&probes.lock);
}

/* A set has reached its limit: its places are removed. */
static void on_set_ended(void)
{
	retranslate_code(renew_plan, NULL);
}

/* ---- beginning ------------------------------------------------------------------------- */

static struct probe_set *find_set(unsigned client, uint32_t id)
{
	for (unsigned i = 0; i < probes.n; i++)
		if (probes.sets[i]->client == client && probes.sets[i]->options.id == id)
			return probes.sets[i];
	return NULL;
}

/* False with an error in the reply. The lock is held. */
static bool check_start(const struct request *request, struct reply *reply)
{
	const struct vms_agent_probes *options = (const void *)request->message;
	if (vcpus_mixed_up())
		reply_error(reply, VMS_ERROR_UNSUPPORTED,
			    "cannot arm probes: this QEMU runs several vCPUs in one thread and "
			    "mixes them up: start it with -accel tcg,thread=multi, or with -smp 1");
	else if (!gates_prepare())
		reply_error(reply, VMS_ERROR_IO, "cannot arm probes: %s", g_strerror(errno));
	else if (probes.n == VMS_AGENT_MAX_PROBES)
		reply_error(reply, VMS_ERROR_BUSY,
			    "cannot arm probes: this machine already has %u sets of probes, the "
			    "first of process %d; end one of them",
			    probes.n, (int)probes.sets[0]->pid);
	else if (request->size >= sizeof(*options) && find_set(request->client, options->id))
		reply_error(reply, VMS_ERROR_INVALID_STATE,
			    "cannot arm probes: this client already has a set with this id");
	else
		return true;
	return false;
}

static bool reserve_memory_of_set(struct probe_set *set, struct reply *reply)
{
	bool ok = true;
	for (unsigned i = 0; ok && i < set->n; i++)
		ok = !vcpu_is_there(i) || probe_set_reserve(set, i);
	if (!ok)
		reply_error(reply, VMS_ERROR_IO,
			    "cannot arm probes: QEMU cannot allocate memory: %s",
			    g_strerror(errno));
	return ok;
}

/* NULL with an error in the reply. The lock is held. */
static struct probe_set *add_set(const struct request *request, struct reply *reply)
{
	struct probe_set *set =
		check_start(request, reply) ? probe_set_new(request, vcpus_max(), reply) : NULL;
	if (set && !reserve_memory_of_set(set, reply)) {
		probe_set_free(set);
		set = NULL;
	}
	if (set)
		probes.sets[probes.n++] = set;
	return set;
}

/*
 * Waits until the set is armed, so that a client that resumes the machine after this misses no hit.
 * Does not wait while a vCPU is held: that vCPU arms the set when it is released, before it
 * executes anything.
 */
static void wait_until_armed(const struct probe_set *set)
{
	const gint64 end = g_get_monotonic_time() + BEGIN_US;
	if (kick_needs_code() || hold_any_vcpu())
		return;
	g_mutex_lock(&probes.lock);
	while (!set->armed && g_cond_wait_until(&probes.renewed, &probes.lock, end))
		;
	g_mutex_unlock(&probes.lock);
}

static void start_probes(const struct request *request, struct reply *reply)
{
	g_mutex_lock(&probes.lock);
	struct probe_set *set = add_set(request, reply);
	g_mutex_unlock(&probes.lock);
	if (!set)
		return;
	retranslate_code(renew_plan, NULL);
	wait_until_armed(set);
	reply_ok(reply);
	reply->fds[0] = set->rings.memfd;
	reply->fds[1] = set->rings.woken;
	reply->fds[2] = set->tallies.memfd;
	reply->n_fds = set->options.tallies ? 3 : 2;
}

/* ---- ending ---------------------------------------------------------------------------- */

static void remove_from_plan(const struct probe_set *set)
{
	struct plan *plan = atomic_load(&visit_plan);
	for (unsigned i = 0; plan && i < VMS_AGENT_MAX_PROBES; i++)
		if (atomic_load(&plan->sets[i]) == set)
			atomic_store(&plan->sets[i], NULL);
}

/* Removes a set from all vCPUs and frees it. `abandon`: no client reads its rings any more. */
static void end_set(struct probe_set *set, bool abandon)
{
	const bool has_code = !set->ended;
	g_mutex_lock(&probes.lock);
	unsigned at = 0;
	while (probes.sets[at] != set)
		at++;
	probes.sets[at] = probes.sets[--probes.n];
	remove_from_plan(set);
	g_mutex_unlock(&probes.lock);
	if (abandon)
		probe_set_abandon(set);
	visit_wait();
	probe_set_free(set);
	if (has_code)
		retranslate_code(renew_plan, NULL);
}

/* Only the server's thread adds and removes sets. */
static void stop_probes(const struct request *request, struct reply *reply)
{
	const struct vms_agent_probes_stop *message = (const void *)request->message;
	struct probe_set *set =
		request->size == sizeof(*message) ? find_set(request->client, message->id) : NULL;
	if (!set) {
		reply_error(reply, VMS_ERROR_INVALID_STATE,
			    "cannot end probes: this client has no set with this id");
		return;
	}
	end_set(set, false);
	reply_ok(reply);
}

static void probes_client_gone(unsigned client)
{
	for (unsigned i = probes.n; i-- > 0;)
		if (probes.sets[i]->client == client)
			end_set(probes.sets[i], true);
}

/* ---- the service ----------------------------------------------------------------------- */

static void probes_answer(const struct request *request, struct reply *reply)
{
	if (request->message->kind == VMS_AGENT_PROBES_START)
		start_probes(request, reply);
	else
		stop_probes(request, reply);
}

static bool probes_init(void)
{
	return visit_init(on_set_ended);
}

static bool probes_need_code(void)
{
	bool any = false;
	g_mutex_lock(&probes.lock);
	for (unsigned i = 0; i < probes.n; i++)
		any |= !probes.sets[i]->ended;
	g_mutex_unlock(&probes.lock);
	return any;
}

static void probes_vcpu_begins(struct vcpu *vcpu)
{
	visit_begin_vcpu(vcpu->index);
	g_mutex_lock(&probes.lock);
	for (unsigned i = 0; i < probes.n; i++)
		if (!probe_set_reserve(probes.sets[i], vcpu->index))
			fprintf(stderr, "vmscope agent: hits of vCPU %u are lost: %s\n",
				vcpu->index, g_strerror(errno));
	g_mutex_unlock(&probes.lock);
}

const struct service probes_service = {
	.first_kind = VMS_AGENT_PROBES_START,
	.last_kind = VMS_AGENT_PROBES_STOP,
	.init = probes_init,
	.answer = probes_answer,
	.client_gone = probes_client_gone,
	.needs_code = probes_need_code,
	.translate = probes_instrument,
	.vcpu_begins = probes_vcpu_begins,
};
