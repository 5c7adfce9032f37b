/* SPDX-License-Identifier: MIT */
#include "hold.h"

#include "call.h"
#include "internals.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MICROSECOND 1000
#define MILLISECOND (1000 * MICROSECOND)

/* A vCPU spins so long for a release before it sleeps: to wake it up takes as long as a sample. */
#define SPIN_NS (300 * MICROSECOND)
/* A glance of a client that is where it should be takes a third of this. */
#define GLANCE_NS (30 * MICROSECOND)
/* It looks so often whether its client is still there. */
#define SLICE_NS (100 * MILLISECOND)
/* QEMU's big lock is held by what goes on from a halt: it waits no longer for a release there. */
#define RESUME_NS MILLISECOND

/* What a client maps. Threads of vCPUs use it between enter() and leave() only. */
static struct view {
	_Atomic(struct vms_agent_shared *) shared; /* NULL: no client */
	atomic_uint users;
	size_t size;
} views[VMS_AGENT_MAX_CLIENTS];

static struct vms_agent_shared *enter(struct view *view)
{
	atomic_fetch_add(&view->users, 1);
	struct vms_agent_shared *shared = atomic_load(&view->shared);
	if (!shared)
		atomic_fetch_sub(&view->users, 1);
	return shared;
}

static void leave(struct view *view)
{
	atomic_fetch_sub(&view->users, 1);
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * MILLISECOND + (uint64_t)now.tv_nsec;
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

/* Does the vCPU come by itself, and with QEMU's lock? Then it may bring memory along. */
enum visit { COMES, IS_AWAY };

static void bring(struct vms_agent_vcpu *slot, enum visit visit)
{
	bool may_read = visit == COMES && !call_needs_code();
	uint32_t n = MIN(*(volatile uint32_t *)&slot->n_parts, VMS_AGENT_MAX_PARTS);
	for (uint32_t i = 0; i < n; i++)
		slot->brought[i] = may_read && internals_read_ram(slot->part[i], slot->content[i],
								  VMS_AGENT_PART);
}

/* Tells a client that wants the vCPU that it has it. */
static void grant(struct vms_agent_vcpu *slot, const struct vcpu *vcpu, enum visit visit)
{
	uint32_t wanted = atomic_load(&slot->wanted) & ~VMS_AGENT_STAY;
	if (!wanted || wanted == atomic_load(&slot->held))
		return;
	memcpy(slot->regs, vcpu->regs, vcpu_arch()->n_regs * sizeof(vcpu->regs[0]));
	memcpy(slot->has_regs, vcpu->has_regs, sizeof(slot->has_regs));
	bring(slot, visit);
	atomic_store(&slot->held, wanted);
	futex_wake(&slot->held);
}

/* Waits while the client of the view wants just this hold, at most until `deadline`. */
static void wait_for_release(struct view *view, struct vms_agent_vcpu *slot, uint32_t wanted,
			     uint64_t deadline)
{
	static unsigned n_cpus;
	if (!n_cpus)
		n_cpus = g_get_num_processors();
	uint64_t now = now_ns();
	/* Where no CPU is to spare, the client needs this one. */
	uint64_t spin_end = n_cpus > vcpus_max() ? now + SPIN_NS : now;
	while (now < deadline && atomic_load(&view->shared) &&
	       atomic_load(&slot->wanted) == wanted) {
		if (now >= spin_end && wanted & VMS_AGENT_STAY)
			futex_wait(&slot->wanted, wanted, deadline - now);
		else if (now >= spin_end)
			sched_yield(); /* a glance is over before who sleeps is woken up */
		now = now_ns();
	}
}

/* Grants the vCPU, which executes nothing, to all that want it. */
static void grant_all(const struct vcpu *vcpu, enum visit visit)
{
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = enter(&views[i]);
		if (!shared)
			continue;
		grant(&shared->vcpu[vcpu->index], vcpu, visit);
		leave(&views[i]);
	}
}

static uint64_t patience_ns(uint32_t wanted)
{
	return wanted & VMS_AGENT_STAY ? SLICE_NS : GLANCE_NS;
}

/* The end of a glance, unless its client has just changed its mind. */
static void go_on(struct vms_agent_vcpu *slot, uint32_t wanted)
{
	if (!(wanted & VMS_AGENT_STAY))
		atomic_compare_exchange_strong(&slot->wanted, &wanted, 0);
}

/* Is it held, or to be held? Then waits for the end of one client's hold. */
static bool wait_once(struct vcpu *vcpu)
{
	bool waited = false;
	for (unsigned i = 0; !waited && i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = enter(&views[i]);
		if (!shared)
			continue;
		struct vms_agent_vcpu *slot = &shared->vcpu[vcpu->index];
		uint32_t wanted = atomic_load(&slot->wanted);
		waited = wanted;
		if (waited) {
			grant_all(vcpu, COMES);
			call_begin_wait();
			wait_for_release(&views[i], slot, wanted, now_ns() + patience_ns(wanted));
			call_end_wait();
			go_on(slot, wanted);
		}
		leave(&views[i]);
	}
	return waited;
}

static bool is_wanted(const struct vcpu *vcpu)
{
	bool wanted = false;
	for (unsigned i = 0; !wanted && i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = enter(&views[i]);
		if (!shared)
			continue;
		wanted = atomic_load(&shared->vcpu[vcpu->index].wanted);
		leave(&views[i]);
	}
	return wanted;
}

/* With the vCPU's lock held. */
static void set_state(struct vcpu *vcpu, enum vms_agent_vcpu_state state)
{
	vcpu->state = state;
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = enter(&views[i]);
		if (!shared)
			continue;
		shared->vcpu[vcpu->index].thread = vcpu->thread;
		atomic_store(&shared->vcpu[vcpu->index].state, state);
		leave(&views[i]);
	}
}

static void set_running(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	set_state(vcpu, VMS_AGENT_RUNNING);
	g_mutex_unlock(&vcpu->lock);
}

void hold_vcpu_called(struct vcpu *vcpu)
{
	if (vcpu->state != VMS_AGENT_RUNNING)
		set_running(vcpu);
	if (!is_wanted(vcpu))
		return;
	vcpu_read_all(vcpu, vcpu->has_regs, vcpu->regs);
	while (wait_once(vcpu))
		;
}

/* ---- what vCPUs do ------------------------------------------------------ */

/* Its registers have been read. */
static void idle(struct vcpu *vcpu)
{
	set_state(vcpu, VMS_AGENT_HALTED);
	grant_all(vcpu, IS_AWAY);
}

void hold_vcpu_idle(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	vcpu_read_all(vcpu, vcpu->has_regs, vcpu->regs);
	idle(vcpu);
	g_mutex_unlock(&vcpu->lock);
}

void hold_vcpu_halts(struct vcpu *vcpu, uint64_t next)
{
	g_mutex_lock(&vcpu->lock);
	vcpu_read_all(vcpu, vcpu->has_regs, vcpu->regs);
	vcpu->regs[vcpu_arch()->pc] = next;
	idle(vcpu);
	g_mutex_unlock(&vcpu->lock);
}

/*
 * Where QEMU starts paused, and all vCPUs are one thread, no callback tells that this one waits. So
 * it counts as halted until it is called for the first time.
 */
void hold_vcpu_init(struct vcpu *vcpu)
{
	hold_vcpu_idle(vcpu);
	call_vcpu(vcpu->index);
}

/* Waits for the release of what was granted while the vCPU was halted. False: it is held still. */
static bool end_grant(struct vcpu *vcpu, struct view *view, uint64_t deadline)
{
	struct vms_agent_shared *shared = enter(view);
	if (!shared)
		return true;
	struct vms_agent_vcpu *slot = &shared->vcpu[vcpu->index];
	uint32_t wanted = atomic_load(&slot->wanted);
	if (wanted && (wanted & ~VMS_AGENT_STAY) == atomic_load(&slot->held)) {
		if (wanted & VMS_AGENT_STAY)
			wait_for_release(view, slot, wanted, deadline);
		go_on(slot, wanted);
	}
	/* The client may just have made its glance a hold: that is the same, and goes on. */
	bool ended = !wanted || ((atomic_load(&slot->wanted) ^ wanted) & ~VMS_AGENT_STAY) != 0;
	leave(view);
	return ended;
}

/*
 * What is held for long is held on where the vCPU comes to: at once, by QEMU's queue, or where code
 * next looks at the flag, as an interrupt's entry does before it executes anything.
 */
void hold_vcpu_resume(struct vcpu *vcpu)
{
	set_running(vcpu);
	uint64_t deadline = now_ns() + (call_needs_code() ? RESUME_NS : 0);
	bool ended = true;
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++)
		ended &= end_grant(vcpu, &views[i], deadline);
	if (!ended)
		call_vcpu(vcpu->index);
}

void hold_vcpu_exit(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	set_state(vcpu, VMS_AGENT_ABSENT);
	for (unsigned i = 0; i < VMS_AGENT_MAX_CLIENTS; i++) {
		struct vms_agent_shared *shared = enter(&views[i]);
		if (!shared)
			continue;
		break_hold(&shared->vcpu[vcpu->index]);
		leave(&views[i]);
	}
	g_mutex_unlock(&vcpu->lock);
}

/* ---- clients ------------------------------------------------------------ */

void hold_request(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	g_mutex_lock(&vcpu->lock);
	bool executes = vcpu->state == VMS_AGENT_RUNNING;
	if (vcpu->state == VMS_AGENT_HALTED)
		grant_all(vcpu, IS_AWAY);
	g_mutex_unlock(&vcpu->lock);
	if (executes)
		call_vcpu(index);
}

static int make_memory(size_t size, struct vms_agent_shared **shared)
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
	int fd = make_memory(view->size, &shared);
	if (fd < 0)
		return -1;
	for (unsigned i = 0; i < arch->n_regs; i++)
		g_strlcpy(shared->reg_names[i], arch->regs[i], VMS_AGENT_REG_NAME);
	atomic_store(&view->shared, shared);
	for (unsigned i = 0; i < vcpus_max(); i++) {
		struct vcpu *vcpu = vcpu_get(i);
		g_mutex_lock(&vcpu->lock);
		set_state(vcpu, vcpu->state);
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

void hold_close(unsigned client)
{
	struct view *view = &views[client];
	struct vms_agent_shared *shared = atomic_exchange(&view->shared, NULL);
	if (!shared)
		return;
	/* Who still has the memory may still write there: only that nobody waits is sure soon. */
	while (atomic_load(&view->users)) {
		for (unsigned i = 0; i < vcpus_max(); i++)
			break_hold(&shared->vcpu[i]);
		g_usleep(MICROSECOND / 10);
	}
	munmap(shared, view->size);
}
