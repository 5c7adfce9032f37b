/* SPDX-License-Identifier: MIT */
/*
 * Translated code counts its instructions. The one that completes a period calls the agent, and
 * the vCPU waits there. What it waits for is in the memory of the client, and is not trusted: a
 * vCPU waits for TURN_NS at most, and then for no more turns until the client has caught up.
 */
#include "agent/period/period.h"

#include "agent/hold/hold.h"
#include "agent/period/instrument.h"
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURN_NS	 (UINT64_C(10) * 1000 * 1000 * 1000)
#define SLICE_NS (100 * 1000 * 1000) /* between two checks whether the client is still there */
#define BEGIN_US G_TIME_SPAN_SECOND

struct period {
	uint64_t instructions;
	struct vms_agent_turns *turns;
	size_t size;
	uint32_t *due; /* by vCPU: our own copy of what the memory says */
	unsigned client;
	int pid; /* of that client; 0: unknown */
	int memfd;
	bool has_begun; /* code counts */
};

static struct {
	GMutex lock;
	GCond changed; /* a period has begun, or has one user less */
	struct period *current;
	unsigned n_users; /* vCPUs that use the memory of the period */
} service;

static void wake_waiters(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- turns ------------------------------------------------------------------------- */

static bool is_current(const struct period *period)
{
	g_mutex_lock(&service.lock);
	const bool is = service.current == period;
	g_mutex_unlock(&service.lock);
	return is;
}

static void wait_until_done(const struct period *period, struct vms_agent_turn *turn, uint32_t due)
{
	const struct timespec slice = { .tv_nsec = SLICE_NS };
	const uint64_t end_ns = vms_clock_now_ns() + TURN_NS;
	uint32_t done;
	while ((done = atomic_load(&turn->done)) != due && is_current(period) &&
	       vms_clock_now_ns() < end_ns)
		syscall(SYS_futex, &turn->done, FUTEX_WAIT, done, &slice, NULL, 0);
}

/* `pc` is the address of the instruction that the vCPU is about to execute. */
static void give_turn(struct period *period, struct vcpu *vcpu, uint64_t pc)
{
	struct vms_agent_turn *turn = &period->turns->vcpu[vcpu->index];
	if (atomic_load(&turn->done) != period->due[vcpu->index]) {
		atomic_fetch_add(&turn->missed, 1);
		return;
	}
	const uint32_t due = ++period->due[vcpu->index];
	hold_stand_still(vcpu, pc);
	atomic_store(&turn->due, due);
	wake_waiters(&turn->due);
	wait_until_done(period, turn, due);
	hold_go_on(vcpu);
}

static struct period *use_period(void)
{
	g_mutex_lock(&service.lock);
	struct period *period = service.current;
	service.n_users += period != NULL;
	g_mutex_unlock(&service.lock);
	return period;
}

static void leave_period(void)
{
	g_mutex_lock(&service.lock);
	service.n_users--;
	g_cond_broadcast(&service.changed);
	g_mutex_unlock(&service.lock);
}

/*
 * QEMU reuses a block if the same memory is executed at another virtual address, and in a block the
 * program counter is that of its begin, or of an instruction before this one.
 */
static void on_period(unsigned index, void *data)
{
	struct vcpu *vcpu = vcpu_get(index);
	struct period *period = use_period();
	period_count_anew(index);
	if (vcpu && period) {
		const uint64_t pc = vcpu_value(index, vcpu_arch()->pc);
		give_turn(period, vcpu, pc + (((uint64_t)(uintptr_t)data - pc) & 4095));
	}
	if (period)
		leave_period();
}

/* ---- beginning and ending ---------------------------------------------------------- */

static void free_period(struct period *period)
{
	if (period->turns)
		munmap(period->turns, period->size);
	if (period->memfd >= 0)
		close(period->memfd);
	free(period->due);
	free(period);
}

static struct period *new_period(uint64_t instructions)
{
	struct period *period = calloc(1, sizeof(*period));
	if (!period)
		return NULL;
	period->instructions = instructions;
	period->size = vcpus_max() * sizeof(struct vms_agent_turn);
	period->due = calloc(vcpus_max(), sizeof(*period->due));
	period->memfd = memfd_create("vmscope-period", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *turns = MAP_FAILED;
	if (period->due && period->memfd >= 0 &&
	    ftruncate(period->memfd, (off_t)period->size) == 0 &&
	    posix_fallocate(period->memfd, 0, (off_t)period->size) == 0 &&
	    fcntl(period->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		turns = mmap(NULL, period->size, PROT_READ | PROT_WRITE, MAP_SHARED, period->memfd,
			     0);
	if (turns != MAP_FAILED) {
		period->turns = turns;
		return period;
	}
	const int number = errno;
	free_period(period);
	errno = number;
	return NULL;
}

/* Called while no vCPU is in guest code, and no translated code exists. */
static void begin_period(void *data)
{
	for (unsigned i = 0; i < vcpus_max(); i++)
		if (vcpu_is_there(i))
			period_count_anew(i);
	g_mutex_lock(&service.lock);
	if (service.current == data) {
		service.current->has_begun = true;
		g_cond_broadcast(&service.changed);
	}
	g_mutex_unlock(&service.lock);
}

/* False with an error in the reply. The lock is held. */
static bool check_start(const struct request *request, struct reply *reply)
{
	const struct vms_agent_period *options = (const void *)request->message;
	if (request->size < sizeof(*options) || options->instructions < VMS_AGENT_MIN_PERIOD)
		reply_error(reply, VMS_ERROR_PROTOCOL,
			    "cannot count instructions: the request is too short, or its period");
	else if (vcpus_mixed_up())
		reply_error(reply, VMS_ERROR_UNSUPPORTED,
			    "cannot count instructions: this QEMU runs several vCPUs in one thread "
			    "and mixes them up: start it with -accel tcg,thread=multi, or with "
			    "-smp 1");
	else if (service.current)
		reply_error(reply, VMS_ERROR_BUSY,
			    "cannot count instructions: process %d already does so; end it first",
			    service.current->pid);
	else
		return true;
	return false;
}

static void start_period(const struct request *request, struct reply *reply)
{
	const struct vms_agent_period *options = (const void *)request->message;
	struct period *period = NULL;
	g_mutex_lock(&service.lock);
	if (check_start(request, reply)) {
		period = new_period(options->instructions);
		if (!period)
			reply_error(reply, VMS_ERROR_IO,
				    "cannot count instructions: QEMU cannot allocate memory: %s",
				    g_strerror(errno));
	}
	if (period) {
		period->client = request->client;
		period->pid = (int)request->pid;
		reply_ok(reply);
		reply->fds[0] = period->memfd;
		reply->n_fds = 1;
		service.current = period;
	}
	g_mutex_unlock(&service.lock);
	if (!period)
		return;
	retranslate_code(begin_period, period);
	/* A client that resumes the machine after this misses nothing. */
	const gint64 end = g_get_monotonic_time() + BEGIN_US;
	g_mutex_lock(&service.lock);
	while (!kick_needs_code() && !hold_any_vcpu() && !period->has_begun &&
	       g_cond_wait_until(&service.changed, &service.lock, end))
		;
	g_mutex_unlock(&service.lock);
}

/* False if the client has no period. */
static bool end_period(unsigned client)
{
	struct period *period = NULL;
	g_mutex_lock(&service.lock);
	if (service.current && service.current->client == client)
		period = g_steal_pointer(&service.current);
	for (unsigned i = 0; period && i < vcpus_max(); i++)
		wake_waiters(&period->turns->vcpu[i].done);
	while (period && service.n_users > 0)
		g_cond_wait(&service.changed, &service.lock);
	g_mutex_unlock(&service.lock);
	if (!period)
		return false;
	free_period(period);
	retranslate_code(NULL, NULL);
	return true;
}

/* ---- the service ------------------------------------------------------------------- */

static void period_client_gone(unsigned client)
{
	end_period(client);
}

static void period_answer(const struct request *request, struct reply *reply)
{
	if (request->message->kind == VMS_AGENT_PERIOD_START)
		start_period(request, reply);
	else if (end_period(request->client))
		reply_ok(reply);
	else
		reply_error(reply, VMS_ERROR_INVALID_STATE, "this client counts no instructions");
}

static bool period_needs_code(void)
{
	g_mutex_lock(&service.lock);
	const bool any = service.current;
	g_mutex_unlock(&service.lock);
	return any;
}

static void period_translate(struct qemu_plugin_tb *tb)
{
	g_mutex_lock(&service.lock);
	const uint64_t instructions =
		service.current && service.current->has_begun ? service.current->instructions : 0;
	g_mutex_unlock(&service.lock);
	if (instructions)
		period_instrument(tb, instructions, on_period);
}

const struct service period_service = {
	.first_kind = VMS_AGENT_PERIOD_START,
	.last_kind = VMS_AGENT_PERIOD_STOP,
	.init = period_instrument_init,
	.answer = period_answer,
	.client_gone = period_client_gone,
	.needs_code = period_needs_code,
	.translate = period_translate,
};
