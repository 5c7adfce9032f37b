/* SPDX-License-Identifier: MIT */
/* The holder as the tool uses it. What it does by itself is in holder_life.c. */
#include "machine/kvm/holder-private.h"

#include "base/clock.h"
#include "base/side_process.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/error.h>

#define PROCESS_NAME "vms-holder"
#define MILLISECOND  UINT64_C(1000000)
/* How long vms_kvm_holder_free waits for the holder. */
#define FAREWELL_MS 2000
/* How long to wait for the holder after the time that it has, and how often to check that it lives.
 */
#define ANSWER_NS (1000 * MILLISECOND)
#define SLICE_NS  (50 * MILLISECOND)
/* How long to poll for an answer before sleeping. The vCPU stands still until it is seen. */
#define SPIN_NS (MILLISECOND / 10)

static bool set_start_error(const char *what, int cause, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
		    "cannot start the process that holds vCPUs: %s: %s", what, g_strerror(cause));
	return false;
}

static bool start_holder(struct vms_kvm_holder *holder, GError **error)
{
	g_autofree int *keep = g_new(int, holder->n_files + 5);
	for (size_t i = 0; i < holder->n_files; i++)
		keep[i] = holder->files[i];
	int *own = keep + holder->n_files;
	own[0] = holder->wake;
	own[1] = holder->kept;
	own[2] = holder->tool;
	own[3] = holder->process->pidfd;
	own[4] = holder->memory;
	const struct vms_side_work work = { PROCESS_NAME, vms_kvm_holder_live, holder, keep,
					    holder->n_files + 5 };
	holder->pid = vms_side_process_start(&work);
	return holder->pid > 0 || set_start_error("fork", -holder->pid, error);
}

static bool share_memory(struct vms_kvm_holder *holder, unsigned n, GError **error)
{
	holder->shared_size = sizeof(struct vms_kvm_shared) + n * sizeof(struct vms_kvm_slot);
	void *shared = mmap(NULL, holder->shared_size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return set_start_error("memory", errno, error);
	holder->shared = shared;
	holder->shared->n = n;
	return true;
}

static bool open_descriptors(struct vms_kvm_holder *holder, GError **error)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return set_start_error("pipe", errno, error);
	holder->kept = ends[0];
	holder->keeper = ends[1];
	holder->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	holder->tool = (int)syscall(SYS_pidfd_open, getpid(), 0); /* -1: no pidfds */
	return holder->wake >= 0 || set_start_error("eventfd", errno, error);
}

struct vms_kvm_holder *vms_kvm_holder_new(const struct vms_host_identity *process, int memory,
					  unsigned n, const int *files, size_t n_files,
					  GError **error)
{
	struct vms_kvm_holder *holder = g_new0(struct vms_kvm_holder, 1);
	holder->process = process;
	holder->memory = memory;
	holder->wake = holder->keeper = holder->kept = holder->tool = holder->stopped = -1;
	holder->files = g_memdup2(files, n_files * sizeof(int));
	holder->n_files = n_files;
	holder->watches = g_new0(struct vms_kvm_watch, n);
	holder->numbers = g_new0(uint32_t, n);
	holder->may_spin = g_get_num_processors() >= 2 * n;
	g_mutex_init(&holder->lock);
	snprintf(holder->stat_path, sizeof(holder->stat_path), "/proc/%d/stat", (int)getpid());
	if (!share_memory(holder, n, error) || !open_descriptors(holder, error) ||
	    !start_holder(holder, error))
		g_clear_pointer(&holder, vms_kvm_holder_free);
	return holder;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void vms_kvm_holder_free(struct vms_kvm_holder *holder)
{
	if (!holder)
		return;
	close_if_open(holder->keeper);
	if (holder->pid > 0 && !vms_side_process_reap(holder->pid, FAREWELL_MS)) {
		/* It does not move. The kernel lets go what it holds. */
		kill(holder->pid, SIGKILL);
		vms_side_process_reap(holder->pid, FAREWELL_MS);
	}
	close_if_open(holder->kept);
	close_if_open(holder->wake);
	close_if_open(holder->tool);
	if (holder->shared)
		munmap(holder->shared, holder->shared_size);
	g_mutex_clear(&holder->lock);
	g_free(holder->watches);
	g_free(holder->numbers);
	g_free(holder->files);
	g_free(holder);
}

struct vms_kvm_slot *vms_kvm_holder_slot(struct vms_kvm_holder *holder, unsigned index)
{
	return &holder->shared->slots[index];
}

/* Has the holder look at what is wanted now. */
static void wake_holder(struct vms_kvm_holder *holder)
{
	const uint64_t one = 1;
	ssize_t written = write(holder->wake, &one, sizeof(one));
	(void)written; /* it fails if the holder is to be woken anyway */
}

/* Counts a hold as broken that was in force when the holder ended. */
static void break_hold(struct vms_kvm_slot *slot)
{
	uint32_t number = atomic_load(&slot->answered);
	if (atomic_load(&slot->wanted) != (number | VMS_KVM_PIN))
		return;
	atomic_fetch_add(&slot->broken, 1);
	atomic_store(&slot->released, number);
}

/*
 * Starts the holder again if it was killed; the kernel has released its holds then. One that is
 * stopped is killed.
 */
static bool check_holder(struct vms_kvm_holder *holder, GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&holder->lock);
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)holder->pid);
	if (vms_side_process_is_alive(holder->pid)) {
		if (!vms_process_stands_still(path))
			return true;
		kill(holder->pid, SIGKILL);
		vms_side_process_reap(holder->pid, FAREWELL_MS);
	}
	for (unsigned i = 0; i < holder->shared->n; i++)
		break_hold(&holder->shared->slots[i]);
	return start_holder(holder, error);
}

/* ---- requests -------------------------------------------------------------------------- */

static void request_hold(struct vms_kvm_holder *holder, unsigned index, bool pinned,
			 uint64_t give_up_ns)
{
	struct vms_kvm_slot *slot = &holder->shared->slots[index];
	uint32_t number = (holder->numbers[index] + 1) % VMS_KVM_PIN;
	number += number == 0;
	holder->numbers[index] = number;
	slot->give_up_ns = give_up_ns;
	atomic_store(&slot->wanted, number | (pinned ? VMS_KVM_PIN : 0));
	wake_holder(holder);
}

/* A vCPU that is held briefly does not wait for this: it is faster to sleep then. */
static void spin_until_answered(const struct vms_kvm_slot *slot, uint32_t number)
{
	uint64_t end_ns = vms_clock_now_ns() + SPIN_NS;
	while (atomic_load(&slot->answered) != number && vms_clock_now_ns() < end_ns)
		sched_yield();
}

/* Waits for SLICE_NS at most while the word has this value. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	const struct timespec timeout = { .tv_nsec = SLICE_NS };
	syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static bool set_silent_error(enum vms_error code, const char *why, GError **error)
{
	g_set_error_literal(error, VMS_ERROR, code, why);
	return false;
}

bool vms_kvm_holder_hold(struct vms_kvm_holder *holder, unsigned index, bool pinned,
			 uint64_t give_up_ns, GError **error)
{
	struct vms_kvm_slot *slot = &holder->shared->slots[index];
	request_hold(holder, index, pinned, give_up_ns);
	const uint32_t number = holder->numbers[index];
	uint32_t answered;
	if (pinned && holder->may_spin)
		spin_until_answered(slot, number);
	while ((answered = atomic_load(&slot->answered)) != number) {
		futex_wait(&slot->answered, answered);
		if (atomic_load(&slot->answered) != answered)
			continue;
		if (!vms_host_identity_is_alive(holder->process))
			return set_silent_error(VMS_ERROR_CLOSED, "its process has ended", error);
		if (vms_clock_now_ns() > give_up_ns + ANSWER_NS)
			return set_silent_error(VMS_ERROR_TIMEOUT,
						"its thread does not stop: the host is overloaded, "
						"or it waits for a disk",
						error);
		if (!check_holder(holder, error))
			return false;
		wake_holder(holder);
	}
	return true;
}

/*
 * Waits until the holder has let go. If it was killed, the kernel has; if it was stopped, this
 * kills it.
 */
static void wait_until_released(struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
				uint32_t number)
{
	const uint64_t end_ns = vms_clock_now_ns() + SPIN_NS;
	const pid_t pid = holder->pid;
	uint32_t released;
	while ((released = atomic_load(&slot->released)) != number && holder->pid == pid) {
		if (vms_clock_now_ns() < end_ns) {
			sched_yield();
			continue;
		}
		futex_wait(&slot->released, released);
		if (atomic_load(&slot->released) == released && !check_holder(holder, NULL))
			return;
	}
}

void vms_kvm_holder_release(struct vms_kvm_holder *holder, unsigned index)
{
	struct vms_kvm_slot *slot = &holder->shared->slots[index];
	const uint32_t number = holder->numbers[index];
	const bool answered = atomic_load(&slot->answered) == number;
	const bool held = answered && slot->outcome == VMS_KVM_HELD &&
			  atomic_load(&slot->wanted) == (number | VMS_KVM_PIN);
	/* Without a holder, this finds out that there is no hold any more. */
	if (held && !vms_side_process_is_alive(holder->pid))
		check_holder(holder, NULL);
	atomic_store(&slot->wanted, 0);
	if (held || !answered)
		wake_holder(holder);
	if (held)
		wait_until_released(holder, slot, number);
}

uint64_t vms_kvm_holder_last_hold_ns(const struct vms_kvm_holder *holder, unsigned index)
{
	return holder->shared->slots[index].held_ns;
}
