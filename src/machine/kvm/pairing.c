/* SPDX-License-Identifier: MIT */
#include "machine/kvm/pairing.h"

#include "base/clock.h"
#include "machine/kvm/obstacle.h"
#include <vmscope/error.h>

#define MILLISECOND UINT64_C(1000000)
/* How long to look for the threads: a vCPU may be in its monitor's code again and again. */
#define LOOK_NS	 (1000 * MILLISECOND)
#define PAUSE_US 2000
/* How long to try to stop one thread that executes. */
#define TRY_NS (5 * MILLISECOND)
/* Threads that do not look like those of vCPUs are stopped only if this many rounds found too few.
 */
#define LIKELY_ROUNDS 3

static struct vms_kvm_vcpu *vcpu_at(GArray *vcpus, guint i)
{
	return &g_array_index(vcpus, struct vms_kvm_vcpu, i);
}

static bool are_all_known(GArray *vcpus)
{
	for (guint i = 0; i < vcpus->len; i++)
		if (!vcpu_at(vcpus, i)->thread)
			return false;
	return true;
}

static bool is_known(GArray *vcpus, pid_t thread)
{
	for (guint i = 0; i < vcpus->len; i++)
		if (vcpu_at(vcpus, i)->thread == thread)
			return true;
	return false;
}

/*
 * Stops one thread, if it executes, and sees what it runs. False with an error if that fails.
 * *refused becomes a thread that another vmscope has now.
 */
static bool look_at_thread(struct vms_kvm_holder *holder, unsigned index, pid_t pid, pid_t thread,
			   GArray *vcpus, pid_t *refused, GError **error)
{
	struct vms_kvm_slot *slot = vms_kvm_holder_slot(holder, index);
	atomic_store(&slot->tid, thread);
	bool done = vms_kvm_holder_hold(holder, index, false, vms_clock_now_ns() + TRY_NS, error);
	vms_kvm_holder_release(holder, index);
	if (!done)
		return false;
	if (slot->outcome == VMS_KVM_REFUSED) {
		*refused = thread;
		return vms_kvm_check_tracer(pid, thread, error);
	}
	struct vms_kvm_vcpu *vcpu =
		slot->outcome == VMS_KVM_HELD ? vms_kvm_find_by_fd(vcpus, slot->seen_fd) : NULL;
	if (vcpu)
		vcpu->thread = thread;
	return true;
}

/* Threads that may run a vCPU. */
static GArray *list_candidates(pid_t pid, struct vms_machine *machine, bool all)
{
	GArray *threads;
	if (machine) {
		threads = g_array_new(FALSE, FALSE, sizeof(pid_t));
		for (unsigned i = 0; i < vms_machine_vcpus(machine); i++) {
			pid_t thread = vms_machine_vcpu_thread(machine, i);
			g_array_append_val(threads, thread);
		}
		return threads;
	}
	threads = vms_kvm_list_threads(pid);
	for (guint i = threads->len; i > 0 && !all; i--) {
		int number;
		if (!vms_kvm_is_vcpu_thread(pid, g_array_index(threads, pid_t, i - 1), &number))
			g_array_remove_index(threads, i - 1);
	}
	return threads;
}

static bool look_at_threads(struct vms_kvm_holder *holder, unsigned index, pid_t pid,
			    const GArray *threads, GArray *vcpus, pid_t *refused, GError **error)
{
	for (guint i = 0; i < threads->len; i++) {
		pid_t thread = g_array_index(threads, pid_t, i);
		if (thread && !is_known(vcpus, thread) &&
		    !look_at_thread(holder, index, pid, thread, vcpus, refused, error))
			return false;
	}
	return true;
}

/* For vCPUs that are paused. Each hold checks that the thread runs this vCPU, if it runs any. */
static void take_names(pid_t pid, GArray *vcpus)
{
	g_autoptr(GArray) threads = vms_kvm_list_threads(pid);
	for (guint i = 0; i < threads->len; i++) {
		pid_t thread = g_array_index(threads, pid_t, i);
		int number;
		if (is_known(vcpus, thread) || !vms_kvm_is_vcpu_thread(pid, thread, &number))
			continue;
		for (guint j = 0; j < vcpus->len && number >= 0; j++)
			if (vcpu_at(vcpus, j)->number == (unsigned)number &&
			    !vcpu_at(vcpus, j)->thread)
				vcpu_at(vcpus, j)->thread = thread;
	}
}

static bool is_any_known(GArray *vcpus)
{
	for (guint i = 0; i < vcpus->len; i++)
		if (vcpu_at(vcpus, i)->thread)
			return true;
	return false;
}

bool vms_kvm_pair_threads(struct vms_kvm_holder *holder, unsigned index, pid_t pid,
			  struct vms_machine *machine, GArray *vcpus, GError **error)
{
	/* If QEMU tells the threads, their order tells the rest. */
	uint64_t end_ns = vms_clock_now_ns() + (machine ? LOOK_NS / 10 : LOOK_NS);
	pid_t refused = 0;
	for (unsigned round = 0; vms_clock_now_ns() < end_ns; round++) {
		vms_kvm_find_waiting_threads(pid, vcpus);
		if (are_all_known(vcpus))
			return true;
		g_autoptr(GArray) threads = list_candidates(pid, machine, round >= LIKELY_ROUNDS);
		refused = 0;
		if (!look_at_threads(holder, index, pid, threads, vcpus, &refused, error))
			return false;
		if (are_all_known(vcpus))
			return true;
		g_usleep(PAUSE_US);
	}
	take_names(pid, vcpus);
	if (refused && !are_all_known(vcpus))
		return vms_kvm_set_trace_error(pid, refused, error);
	if (machine || is_any_known(vcpus))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "no thread of process %d runs a vCPU: the machine may be paused, or not have "
		    "started",
		    (int)pid);
	return false;
}
