/* SPDX-License-Identifier: MIT */
#include "agent/hold/hold.h"

#include "agent/qemu/internals.h"
#include "agent/qemu/kick.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MICROSECOND 1000
#define MILLISECOND (1000 * MICROSECOND)

/* How long a vCPU spins for its release before it sleeps: a wakeup takes as long as a sample. */
#define SPIN_NS (300 * MICROSECOND)
/* How long a brief hold lasts. A client that runs without delay needs a third of this. */
#define BRIEF_NS (30 * MICROSECOND)
/* How long a vCPU sleeps before it checks whether its client still exists. */
#define SLICE_NS (100 * MILLISECOND)
/*
 * How long a vCPU that continues after a halt waits for its release. It holds QEMU's big lock, so
 * this must be short.
 */
#define RESUME_NS MILLISECOND

/* The memory of a client. Threads use it only between view_enter and view_leave. */
static struct view {
	_Atomic(struct vms_agent_shared *) shared; /* NULL: no client */
	atomic_uint users;
	size_t size;
} views[VMS_AGENT_MAX_CLIENTS];

/* Returns the client's memory. NULL if there is no client: then view_leave must not be called. */
static struct vms_agent_shared *view_enter(struct view *view)
{
	atomic_fetch_add(&view->users, 1);
	struct vms_agent_shared *shared = atomic_load(&view->shared);
	if (!shared)
		atomic_fetch_sub(&view->users, 1);
	return shared;
}

static void view_leave(struct view *view)
{
	atomic_fetch_sub(&view->users, 1);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec timeout = { .tv_nsec = (long)MIN(ns, SLICE_NS) };
	syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- granting and waiting ---------------------------------------------- */

/* Ends the hold, if there is one. */
static void break_hold(struct vms_agent_vcpu *slot)
{
	if (!atomic_load(&slot->wanted))
		return;
	atomic_fetch_add(&slot->broken, 1);
	atomic_store(&slot->wanted, 0);
	futex_wake(&slot->wanted);
	futex_wake(&slot->held);
}

/* The thread that grants a hold: the vCPU's own, or any thread if the vCPU is halted. */
enum granted_by { BY_VCPU, FOR_HALTED };

/*
 * Copies the memory that the client wants to prefetch. Only a vCPU that was kicked by QEMU's queue
 * can do that, because it holds QEMU's big lock.
 */
static void copy_prefetch(struct vms_agent_vcpu *slot, enum granted_by by)
{
	bool may_read = by == BY_VCPU && !kick_needs_code();
	uint32_t n = MIN(*(volatile uint32_t *)&slot->n_prefetch, VMS_AGENT_MAX_PREFETCH);
	for (uint32_t i = 0; i < n; i++)
		slot->is_prefetched[i] =
			may_read && internals_read_ram(slot->prefetch_hva[i], slot->prefetched[i],
						       VMS_AGENT_PREFETCH_SIZE);
}

/* Publishes the vCPU's registers to a client that has requested the vCPU, and marks it as held. */
static void grant_hold(struct vms_agent_vcpu *slot, const struct vcpu *vcpu, enum granted_by by)
{
	uint32_t wanted = atomic_load(&slot->wanted) & ~VMS_AGENT_PIN;
	if (!wanted || wanted == atomic_load(&slot->held))
		return;
	memcpy(slot->regs, vcpu->regs, vcpu_arch()->n_regs * sizeof(vcpu->regs[0]));
	memcpy(slot->has_regs, vcpu->has_regs, sizeof(slot->has_regs));
	copy_prefetch(slot, by);
	atomic_store(&slot->held, wanted);
	futex_wake(&slot->held);
}

/* Waits while the view's client wants this very hold, until `deadline` at most. */
static void wait_for_release(struct view *view, struct vms_agent_vcpu *slot, uint32_t wanted,
			     uint64_t deadline)
{
	static unsigned n_cpus;
	if (!n_cpus)
		n_cpus = g_get_num_processors();
	uint64_t now = vms_clock_now_ns();
	/* If the host has no spare CPU, the client needs this one. */
	uint64_t spin_end = n_cpus > vcpus_max() ? now + SPIN_NS : now;
	while (now < deadline && atomic_load(&view->shared) &&
	       atomic_load(&slot->wanted) == wanted) {
		if (now >= spin_end && wanted & VMS_AGENT_PIN)
			futex_wait(&slot->wanted, wanted, deadline - now);
		else if (now >= spin_end)
			sched_yield(); /* a brief hold ends before a sleeper would wake up */
		now = vms_clock_now_ns();
	}
}

/* Grants the vCPU to all clients that have requested it. The vCPU executes nothing during this. */
static void grant_to_all_clients(const struct vcpu *vcpu, enum granted_by by)
{
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = view_enter(&views[i]);
		if (!shared)
			continue;
		grant_hold(&shared->vcpu[vcpu->index], vcpu, by);
		view_leave(&views[i]);
	}
}

/* How long a hold lasts before the vCPU checks again, or ends it if it is brief. */
static uint64_t get_hold_duration_ns(uint32_t wanted)
{
	return wanted & VMS_AGENT_PIN ? SLICE_NS : BRIEF_NS;
}

/* Ends a brief hold, unless its client has just pinned the vCPU. */
static void end_brief_hold(struct vms_agent_vcpu *slot, uint32_t wanted)
{
	if (!(wanted & VMS_AGENT_PIN))
		atomic_compare_exchange_strong(&slot->wanted, &wanted, 0);
}

/* Waits for the end of one client's hold. False if no client has requested the vCPU. */
static bool wait_for_one_release(struct vcpu *vcpu)
{
	bool waited = false;
	for (unsigned i = 0; !waited && i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = view_enter(&views[i]);
		if (!shared)
			continue;
		struct vms_agent_vcpu *slot = &shared->vcpu[vcpu->index];
		uint32_t wanted = atomic_load(&slot->wanted);
		waited = wanted;
		if (waited) {
			grant_to_all_clients(vcpu, BY_VCPU);
			kick_begin_wait();
			wait_for_release(&views[i], slot, wanted,
					 vms_clock_now_ns() + get_hold_duration_ns(wanted));
			kick_end_wait();
			end_brief_hold(slot, wanted);
		}
		view_leave(&views[i]);
	}
	return waited;
}

static bool is_vcpu_wanted(const struct vcpu *vcpu)
{
	bool wanted = false;
	for (unsigned i = 0; !wanted && i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = view_enter(&views[i]);
		if (!shared)
			continue;
		wanted = atomic_load(&shared->vcpu[vcpu->index].wanted);
		view_leave(&views[i]);
	}
	return wanted;
}

/* Sets the vCPU's state here and for all clients. The vCPU's lock is held. */
static void set_vcpu_state(struct vcpu *vcpu, enum vms_agent_vcpu_state state)
{
	vcpu->state = state;
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = view_enter(&views[i]);
		if (!shared)
			continue;
		shared->vcpu[vcpu->index].thread = vcpu->thread;
		atomic_store(&shared->vcpu[vcpu->index].state, state);
		view_leave(&views[i]);
	}
}

static void set_vcpu_running(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	set_vcpu_state(vcpu, VMS_AGENT_RUNNING);
	g_mutex_unlock(&vcpu->lock);
}

/* Waits while any client holds the vCPU. */
static bool hold_vcpu_kicked(struct vcpu *vcpu)
{
	if (vcpu->state != VMS_AGENT_RUNNING)
		set_vcpu_running(vcpu);
	if (is_vcpu_wanted(vcpu)) {
		vcpu_read_all(vcpu, vcpu->has_regs, vcpu->regs);
		while (wait_for_one_release(vcpu))
			;
	}
	return false; /* all holds have ended, so no second call is needed */
}

/* ---- callbacks of vCPUs ------------------------------------------------------ */

static void hold_vcpu_halts(struct vcpu *vcpu, uint64_t next)
{
	g_mutex_lock(&vcpu->lock);
	vcpu_read_all(vcpu, vcpu->has_regs, vcpu->regs);
	if (next)
		vcpu->regs[vcpu_arch()->pc] = next;
	set_vcpu_state(vcpu, VMS_AGENT_HALTED);
	grant_to_all_clients(vcpu, FOR_HALTED);
	g_mutex_unlock(&vcpu->lock);
}

void hold_stand_still(struct vcpu *vcpu, uint64_t pc)
{
	hold_vcpu_halts(vcpu, pc);
}

/*
 * If QEMU starts paused and runs all vCPUs in one thread, no callback reports that this vCPU waits.
 * So it counts as halted until it answers its first kick.
 */
static void hold_vcpu_begins(struct vcpu *vcpu)
{
	hold_vcpu_halts(vcpu, 0);
	kick_vcpu(vcpu->index);
}

/*
 * Waits for the end of a hold that was granted while the vCPU was halted. False if the hold still
 * lasts at the deadline.
 */
static bool end_hold_of_halted(struct vcpu *vcpu, struct view *view, uint64_t deadline)
{
	struct vms_agent_shared *shared = view_enter(view);
	if (!shared)
		return true;
	struct vms_agent_vcpu *slot = &shared->vcpu[vcpu->index];
	uint32_t wanted = atomic_load(&slot->wanted);
	if (wanted && (wanted & ~VMS_AGENT_PIN) == atomic_load(&slot->held)) {
		if (wanted & VMS_AGENT_PIN)
			wait_for_release(view, slot, wanted, deadline);
		end_brief_hold(slot, wanted);
	}
	/* The client may just have pinned the vCPU: then the same hold goes on. */
	bool ended = !wanted || ((atomic_load(&slot->wanted) ^ wanted) & ~VMS_AGENT_PIN) != 0;
	view_leave(view);
	return ended;
}

/*
 * A hold that lasts longer goes on where the vCPU answers its kick: at once if QEMU's queue is
 * used, or where code checks the flag next. The entry of an interrupt checks the flag first.
 */
static void hold_vcpu_resumes(struct vcpu *vcpu)
{
	set_vcpu_running(vcpu);
	uint64_t deadline = vms_clock_now_ns() + (kick_needs_code() ? RESUME_NS : 0);
	bool ended = true;
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++)
		ended &= end_hold_of_halted(vcpu, &views[i], deadline);
	if (!ended)
		kick_vcpu(vcpu->index);
}

void hold_go_on(struct vcpu *vcpu)
{
	hold_vcpu_resumes(vcpu);
}

static void hold_vcpu_ends(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	set_vcpu_state(vcpu, VMS_AGENT_ABSENT);
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = view_enter(&views[i]);
		if (!shared)
			continue;
		break_hold(&shared->vcpu[vcpu->index]);
		view_leave(&views[i]);
	}
	g_mutex_unlock(&vcpu->lock);
}

/* ---- clients ------------------------------------------------------------ */

/* Kicks the vCPU, or grants the hold if the vCPU is halted. */
static void request_hold(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	g_mutex_lock(&vcpu->lock);
	bool executes = vcpu->state == VMS_AGENT_RUNNING;
	if (vcpu->state == VMS_AGENT_HALTED)
		grant_to_all_clients(vcpu, FOR_HALTED);
	g_mutex_unlock(&vcpu->lock);
	if (executes)
		kick_vcpu(index);
}

static void hold_answer(const struct request *request, struct reply *reply)
{
	const struct vms_agent_hold *hold = (const void *)request->message;
	if (request->size != sizeof(*hold) || hold->vcpu >= vcpus_max() ||
	    !atomic_load(&views[request->client].shared))
		reply_error(
			reply, VMS_ERROR_PROTOCOL,
			"cannot hold a vCPU: the request is malformed, or was sent before hello");
	else
		request_hold(hold->vcpu);
}

static int make_shared_memory(size_t size, struct vms_agent_shared **shared)
{
	int fd = memfd_create("vmscope-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	*shared = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0 &&
	    posix_fallocate(fd, 0, (off_t)size) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		*shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*shared != MAP_FAILED)
		return fd;
	int failure = errno;
	if (fd >= 0)
		close(fd);
	errno = failure;
	return -1;
}

int hold_open(unsigned client, uint64_t *size)
{
	struct view *view = &views[client];
	const struct arch *arch = vcpu_arch();
	struct vms_agent_shared *shared;
	view->size = sizeof(*shared) + vcpus_max() * sizeof(shared->vcpu[0]);
	int fd = make_shared_memory(view->size, &shared);
	if (fd < 0)
		return -1;
	for (unsigned i = 0; i < arch->n_regs; i++)
		g_strlcpy(shared->reg_names[i], arch->regs[i], VMS_AGENT_REG_NAME);
	atomic_store(&view->shared, shared);
	for (unsigned i = 0; i < vcpus_max(); i++) {
		struct vcpu *vcpu = vcpu_get(i);
		g_mutex_lock(&vcpu->lock);
		set_vcpu_state(vcpu, vcpu->state);
		g_mutex_unlock(&vcpu->lock);
	}
	*size = view->size;
	return fd;
}

void hold_break(unsigned client)
{
	struct vms_agent_shared *shared = atomic_load(&views[client].shared);
	for (unsigned i = 0; shared && i < vcpus_max(); i++)
		break_hold(&shared->vcpu[i]);
}

bool hold_any(unsigned client)
{
	struct vms_agent_shared *shared = atomic_load(&views[client].shared);
	bool any = false;
	for (unsigned i = 0; shared && !any && i < vcpus_max(); i++)
		any = atomic_load(&shared->vcpu[i].wanted);
	return any;
}

bool hold_any_vcpu(void)
{
	bool any = false;
	for (unsigned i = 0; !any && i < VMS_AGENT_MAX_CLIENTS; i++)
		any = hold_any(i);
	return any;
}

static void hold_client_gone(unsigned client)
{
	struct view *view = &views[client];
	struct vms_agent_shared *shared = atomic_exchange(&view->shared, NULL);
	if (!shared)
		return;
	/* The client may still write to the memory, so holds are ended until no thread uses it. */
	while (atomic_load(&view->users)) {
		for (unsigned i = 0; i < vcpus_max(); i++)
			break_hold(&shared->vcpu[i]);
		g_usleep(MICROSECOND / 10);
	}
	munmap(shared, view->size);
}

const struct service hold_service = {
	.first_kind = VMS_AGENT_HOLD,
	.last_kind = VMS_AGENT_HOLD,
	.answer = hold_answer,
	.client_gone = hold_client_gone,
	.vcpu_begins = hold_vcpu_begins,
	.vcpu_ends = hold_vcpu_ends,
	.vcpu_kicked = hold_vcpu_kicked,
	.vcpu_halts = hold_vcpu_halts,
	.vcpu_resumes = hold_vcpu_resumes,
};
