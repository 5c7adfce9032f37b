/* SPDX-License-Identifier: MIT */
/* What the holder does. See base/side_process.h for what its code may do. */
#include "machine/kvm/holder-private.h"

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/priority.h"
#include "base/proc_text.h"
#include "base/side_process.h"
#include "machine/kvm/thread_call.h"
#include "machine/kvm/vcpu_read.h"
#include "machine/kvm/vcpu_regs.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/kvm.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MICROSECOND UINT64_C(1000)
#define MILLISECOND (1000 * MICROSECOND)
/*
 * How long a vCPU may run at least between two holds, and when to look again at one that has not
 * got a processor since. One that is interrupted again before it has entered the guest makes no
 * progress.
 */
#define GAP_NS	  (200 * MICROSECOND)
#define QUEUED_NS (500 * MICROSECOND)
/* When to look again at a thread that is in its monitor's code. */
#define AWAY_NS (100 * MICROSECOND)
/* How long before it counts as held for as long as it stays there. */
#define PATIENCE_NS (20 * MILLISECOND)
/* How long another process may have the thread seized: another vmscope has it for a hold. */
#define SEIZE_NS (100 * MILLISECOND)
/* How long the kernel may take to seize a thread: see try_to_seize. */
#define SEIZE_LIMIT_US 200000
#define PROCESSOR      39 /* of proc_pid_stat(5): on which a thread was last */
/* Poll interval for the tool while a vCPU is held. It is stopped if two polls find it so. */
#define TOOL_POLL_NS (200 * MILLISECOND)
/* How often to look at a vCPU that has waited in its monitor since before anything was stored. */
#define UNSEEN_TRIES 20
#define UNSEEN_NS    (5 * MILLISECOND)
/* How often to try to find a vCPU in the guest itself: not in SMM, not in a nested guest. */
#define GUEST_TRIES 20
/* How often a vCPU may leave KVM_RUN without its registers: it may have been just returning. */
#define STORE_TRIES 3

/* Of struct kvm_run's `flags`. */
#define RUN_IN_SMM    1 /* KVM_RUN_X86_SMM */
#define RUN_IN_NESTED 4 /* KVM_RUN_X86_GUEST_MODE, Linux 6.11 */

/* The kernel's code for "restart by restart_syscall(2)" (linux/errno.h). Only a tracer sees it. */
#define ERESTART_RESTARTBLOCK 516

#define STORED_SETS ((uint64_t)(KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS))

/* ---- in the holder: the monitor's memory ------------------------------------------- */

/*
 * By the file that was opened at the begin: it stays that of the monitor's own memory. So nothing
 * is left there if this user may not trace the process any more, and nothing is written to another
 * program that the process executes.
 */
static bool read_remote(const struct vms_kvm_holder *holder, uint64_t hva, uint64_t *ret)
{
	return pread(holder->memory, ret, sizeof(*ret), (off_t)hva) == (ssize_t)sizeof(*ret);
}

static bool write_remote(const struct vms_kvm_holder *holder, uint64_t hva, uint64_t value)
{
	return pwrite(holder->memory, &value, sizeof(value), (off_t)hva) == (ssize_t)sizeof(value);
}

static uint64_t valid_regs_at(const struct vms_kvm_slot *slot)
{
	return slot->run_hva + offsetof(struct kvm_run, kvm_valid_regs);
}

static uint64_t sentinel_at(const struct vms_kvm_slot *slot)
{
	return slot->run_hva + offsetof(struct kvm_run, s.regs.sregs.apic_base);
}

/*
 * Has the kernel store the registers at each exit from now on. The mark is written only before the
 * first one: an exit that is on its way out of the kernel has stored its registers already.
 */
static bool want_registers(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
			   struct vms_kvm_watch *watch)
{
	uint64_t valid;
	if (!read_remote(holder, valid_regs_at(slot), &valid))
		return false;
	if ((valid & STORED_SETS) == STORED_SETS) {
		watch->is_stored |= !atomic_load(&slot->is_altered); /* somebody else wants them */
		return true;
	}
	watch->is_stored = false;
	if (!atomic_load(&slot->is_altered))
		slot->valid_regs = valid;
	atomic_store(&slot->is_altered, true);
	return write_remote(holder, sentinel_at(slot), VMS_KVM_NOT_STORED) &&
	       write_remote(holder, valid_regs_at(slot), valid | STORED_SETS);
}

static void put_back(const struct vms_kvm_holder *holder)
{
	for (unsigned i = 0; i < holder->shared->n; i++) {
		struct vms_kvm_slot *slot = &holder->shared->slots[i];
		if (atomic_exchange(&slot->is_altered, false) &&
		    vms_host_identity_is_alive(holder->process))
			write_remote(holder, valid_regs_at(slot), slot->valid_regs);
	}
}

/* ---- in the holder: one hold --------------------------------------------------------- */

static void answer(struct vms_kvm_slot *slot, struct vms_kvm_watch *watch,
		   enum vms_kvm_outcome outcome)
{
	slot->outcome = outcome;
	atomic_store(&slot->answered, watch->number);
	syscall(SYS_futex, &slot->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* How often a thread has got a processor; 0 where the kernel does not count. */
static uint64_t read_turns(const struct vms_kvm_watch *watch)
{
	char text[72]; /* three numbers */
	ssize_t n = watch->schedule < 0 ? 0 : pread(watch->schedule, text, sizeof(text) - 1, 0);
	text[MAX(n, 0)] = 0;
	return vms_proc_parse_turns(text);
}

/* True if the thread has not executed anything since `seen_turns` was read. */
static bool has_not_run(const struct vms_kvm_watch *watch)
{
	const uint64_t turns = read_turns(watch);
	return turns && turns == watch->seen_turns;
}

/* Lets the thread go. Between its stop and this, it was held. */
static void let_go(struct vms_kvm_watch *watch)
{
	ptrace(PTRACE_DETACH, watch->tid, NULL, (void *)(intptr_t)watch->signal);
	watch->phase = IDLE;
	watch->signal = 0;
	watch->not_before_ns = vms_clock_now_ns() + GAP_NS;
}

/* Ends a hold that was answered, or is about to be. */
static void end_hold(struct vms_kvm_slot *slot, struct vms_kvm_watch *watch)
{
	if (watch->phase == WATCHED) {
		if (!has_not_run(watch))
			atomic_fetch_add(&slot->broken, 1);
		watch->phase = IDLE;
	} else {
		let_go(watch);
		slot->held_ns = vms_clock_now_ns() - watch->begin_ns;
	}
	atomic_store(&slot->released, watch->number);
	syscall(SYS_futex, &slot->released, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void give_up(struct vms_kvm_slot *slot, struct vms_kvm_watch *watch,
		    enum vms_kvm_outcome outcome)
{
	if (watch->phase != IDLE)
		let_go(watch);
	answer(slot, watch, outcome);
}

/* Lets the thread go, and tries again later, unless the time is over. */
static void try_again(struct vms_kvm_slot *slot, struct vms_kvm_watch *watch,
		      enum vms_kvm_outcome outcome, uint64_t after_ns)
{
	if (vms_clock_now_ns() > slot->give_up_ns) {
		give_up(slot, watch, outcome);
		return;
	}
	if (watch->phase != IDLE)
		let_go(watch);
	watch->not_before_ns = MAX(watch->not_before_ns, vms_clock_now_ns() + after_ns);
}

/* True if this process traces a thread. */
static bool has_seized(const struct vms_kvm_holder *holder)
{
	for (unsigned i = 0; i < holder->shared->n; i++)
		if (holder->watches[i].phase == STOPPING || holder->watches[i].phase == HELD)
			return true;
	return false;
}

static void forget_thread(struct vms_kvm_watch *watch)
{
	if (watch->tid) {
		close(watch->call);
		close(watch->schedule);
	}
	watch->tid = 0;
}

static int open_of_thread(const struct vms_kvm_holder *holder, pid_t tid, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)holder->process->pid, (int)tid,
		 name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads a file of a thread, as far as there is room; "" if that fails. */
static void read_of_thread(const struct vms_kvm_holder *holder, pid_t tid, const char *name,
			   char *text, size_t size)
{
	int fd = open_of_thread(holder, tid, name);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[MAX(n, 0)] = 0;
}

/*
 * True if the thread has a seccomp filter, or this cannot be known: its groups, which come first in
 * the file, may be many.
 */
static bool may_have_filter(const struct vms_kvm_holder *holder, pid_t tid)
{
	char text[4096];
	read_of_thread(holder, tid, "status", text, sizeof(text));
	return !strstr(text, "\nSeccomp:\t0");
}

static bool lacks_files(void)
{
	return errno == EMFILE || errno == ENFILE;
}

/* Why files or the memory of a thread could not be opened or read, by errno. */
static enum vms_kvm_outcome explain_failure(void)
{
	if (lacks_files())
		return VMS_KVM_NO_FILES;
	/* The process has another user since, or does not let itself be traced (prctl(2)). */
	return errno == EPERM || errno == EACCES ? VMS_KVM_REFUSED : VMS_KVM_THREAD_GONE;
}

/* False, with errno, if the thread's files cannot be opened. */
static bool open_thread(const struct vms_kvm_holder *holder, struct vms_kvm_watch *watch, pid_t tid)
{
	if (watch->tid == tid)
		return true;
	forget_thread(watch);
	watch->call = open_of_thread(holder, tid, "syscall");
	if (watch->call < 0)
		return false;
	watch->schedule = open_of_thread(holder, tid, "schedstat");
	if (watch->schedule < 0 && lacks_files()) {
		close(watch->call);
		return false;
	}
	watch->seen_turns = 0;
	watch->poll = (struct vms_kvm_poll) { 0 };
	watch->tid = tid;
	watch->refused_ns = 0;
	return watch->tid;
}

/* False, with errno, if the thread has ended, or this process may not look at it any more. */
static bool read_call(const struct vms_kvm_watch *watch, enum vms_thread_call *ret)
{
	char text[256];
	int fd;
	ssize_t n = pread(watch->call, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return false;
	text[n] = 0;
	*ret = vms_thread_call_parse(text, &fd);
	return true;
}

static void set_alarm(suseconds_t after_us)
{
	const struct itimerval timer = { .it_value.tv_usec = after_us };
	setitimer(ITIMER_REAL, &timer, NULL);
}

/*
 * PTRACE_SEIZE waits while the process executes another program, and that waits for the end of its
 * threads: for ever, if this process has seized one of them. A signal ends this process then.
 */
static bool try_to_seize(const struct vms_kvm_holder *holder, pid_t tid)
{
	const bool may_wait = has_seized(holder);
	if (may_wait)
		set_alarm(SEIZE_LIMIT_US);
	const bool done = ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0;
	const int cause = errno;
	if (may_wait)
		set_alarm(0);
	errno = cause;
	return done;
}

/* Seizes the thread and has it stop. */
static void seize(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
		  struct vms_kvm_watch *watch)
{
	if (!try_to_seize(holder, watch->tid)) {
		uint64_t now_ns = vms_clock_now_ns();
		watch->refused_ns = watch->refused_ns ? watch->refused_ns : now_ns;
		if (errno == ESRCH)
			give_up(slot, watch, VMS_KVM_THREAD_GONE);
		else if (now_ns - watch->refused_ns > SEIZE_NS)
			give_up(slot, watch, VMS_KVM_REFUSED);
		else
			try_again(slot, watch, VMS_KVM_REFUSED, AWAY_NS);
		return;
	}
	watch->refused_ns = 0;
	vms_kvm_poll_begin(&watch->poll);
	watch->phase = STOPPING;
	watch->begin_ns = vms_clock_now_ns();
	ptrace(PTRACE_INTERRUPT, watch->tid, NULL, NULL);
}

static bool runs_this_vcpu(const struct vms_kvm_slot *slot)
{
	for (unsigned i = 0; i < slot->n_fds; i++)
		if (slot->fds[i] == slot->seen_fd)
			return true;
	return false;
}

/*
 * The thread has stopped while it slept with a time limit: it went there after it was looked at. It
 * would go on by restart_syscall(2), and a filter that does not know that call kills the process.
 * So the call ends with EINTR, as it does when a signal is handled.
 */
static void avoid_restart(const struct vms_kvm_holder *holder, const struct vms_kvm_watch *watch,
			  struct user_regs_struct *regs)
{
	if ((int64_t)regs->rax != -ERESTART_RESTARTBLOCK || !may_have_filter(holder, watch->tid))
		return;
	regs->rax = (unsigned long long)-EINTR;
	ptrace(PTRACE_SETREGS, watch->tid, NULL, regs);
}

/* The vCPU is held, and its registers and memory were read: the tool has it now. */
static void take_hold(struct vms_kvm_slot *slot, struct vms_kvm_watch *watch)
{
	bool pinned = atomic_load(&slot->wanted) & VMS_KVM_PIN;
	watch->phase = HELD;
	if (!pinned)
		end_hold(slot, watch);
	answer(slot, watch, VMS_KVM_HELD);
}

/*
 * False if another vmscope that ends has just put back what it had changed: the registers in the
 * page may be those of an exit before the last one.
 */
static bool stores_registers(const struct kvm_run *page)
{
	return (page->kvm_valid_regs & STORED_SETS) == STORED_SETS;
}

/*
 * True if what was read of the page are the registers of the last exit. CR0 of a vCPU is never 0.
 */
static bool has_registers(const struct vms_kvm_slot *slot, const struct kvm_run *page)
{
	return stores_registers(page) && slot->sregs.apic_base != VMS_KVM_NOT_STORED &&
	       slot->sregs.cr0;
}

/*
 * The thread has stopped in KVM_RUN, or in its monitor's code, where that may be. Its state was
 * read.
 */
static void judge_state(struct vms_kvm_slot *slot, struct vms_kvm_watch *watch,
			const struct kvm_run *page)
{
	bool known = watch->is_stored = has_registers(slot, page);
	if (!known && slot->in_monitor)
		try_again(slot, watch, VMS_KVM_AWAY, AWAY_NS); /* since before bits were set */
	else if (!known && (!stores_registers(page) || ++watch->tries < STORE_TRIES))
		try_again(slot, watch, VMS_KVM_NO_REGS, AWAY_NS);
	else if (!known)
		give_up(slot, watch, VMS_KVM_NO_REGS);
	else if (!(page->flags & (RUN_IN_SMM | RUN_IN_NESTED)))
		take_hold(slot, watch);
	else if (++watch->tries < GUEST_TRIES)
		try_again(slot, watch, VMS_KVM_OTHER_GUEST, AWAY_NS);
	else
		give_up(slot, watch, VMS_KVM_OTHER_GUEST);
}

/*
 * The thread has stopped. In its monitor's code it may have a lock that the whole monitor waits
 * for: there it is held only as briefly as it takes to read.
 *
 * Its state is read first. Meanwhile the kernel takes the thread off its processor, for which
 * PTRACE_GETREGS would have to wait.
 */
static void look_at_thread(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
			   struct vms_kvm_watch *watch)
{
	struct user_regs_struct regs;
	struct kvm_run page;
	const bool is_read = slot->run_hva && vms_kvm_read_state(holder->process->pid, slot, &page);
	if (slot->run_hva && !is_read) {
		give_up(slot, watch, explain_failure());
		return;
	}
	if (ptrace(PTRACE_GETREGS, watch->tid, NULL, &regs) < 0) {
		give_up(slot, watch, VMS_KVM_THREAD_GONE);
		return;
	}
	watch->seen_turns = read_turns(watch); /* it is off its processor now */
	/* A worker of the kernel's has the registers of who made it, without a stack. */
	bool runs = regs.rsp && regs.orig_rax == SYS_ioctl && regs.rsi == VMS_KVM_RUN;
	bool waits = vms_thread_waits_without_limit(regs.orig_rax, regs.rsi, regs.r10);
	avoid_restart(holder, watch, &regs);
	slot->in_monitor = !runs;
	slot->seen_fd = runs ? (int)regs.rdi : -1;
	if (!slot->run_hva)
		give_up(slot, watch, runs ? VMS_KVM_HELD : VMS_KVM_AWAY);
	else if (runs && !runs_this_vcpu(slot))
		give_up(slot, watch, VMS_KVM_OTHER_THREAD);
	else if (runs || waits || !(atomic_load(&slot->wanted) & VMS_KVM_PIN))
		judge_state(slot, watch, &page);
	else
		try_again(slot, watch, VMS_KVM_AWAY, AWAY_NS);
}

/*
 * Reads a vCPU without a stop, whose thread does not execute: it sleeps in its monitor's code, or
 * waits for a processor since it was let go. The registers of its last exit are in the page. False
 * if it may have run meanwhile, or the registers are not known.
 */
static bool peek(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
		 struct vms_kvm_watch *watch)
{
	enum vms_thread_call call;
	struct kvm_run page;
	if (!watch->is_stored)
		return false;
	const uint64_t turns = read_turns(watch);
	if (!turns || !read_call(watch, &call) || call == VMS_THREAD_IN_GUEST ||
	    (call == VMS_THREAD_RUNS && turns != watch->seen_turns) ||
	    !vms_kvm_read_state(holder->process->pid, slot, &page))
		return false;
	watch->is_stored = has_registers(slot, &page);
	if (!watch->is_stored || page.flags & (RUN_IN_SMM | RUN_IN_NESTED) ||
	    read_turns(watch) != turns)
		return false;
	watch->seen_turns = turns;
	slot->in_monitor = call != VMS_THREAD_RUNS;
	return true;
}

/* True if a hold was answered by what could be read without a stop. */
static bool hold_by_peeking(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
			    struct vms_kvm_watch *watch, enum vms_thread_call call)
{
	const bool pinned = atomic_load(&slot->wanted) & VMS_KVM_PIN;
	/* It may come back into the guest soon, where it can be held for long. */
	if (pinned &&
	    (call != VMS_THREAD_AWAY || vms_clock_now_ns() - watch->wanted_ns < PATIENCE_NS))
		return false;
	if (!peek(holder, slot, watch))
		return false;
	slot->held_ns = 0;
	watch->begin_ns = vms_clock_now_ns();
	slot->is_asleep = pinned;
	if (pinned)
		watch->phase = WATCHED;
	else
		atomic_store(&slot->released, watch->number);
	answer(slot, watch, VMS_KVM_HELD);
	return true;
}

static void begin_hold(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
		       struct vms_kvm_watch *watch)
{
	enum vms_thread_call call;
	slot->is_asleep = false;
	if (!open_thread(holder, watch, atomic_load(&slot->tid)) || !read_call(watch, &call))
		give_up(slot, watch, explain_failure());
	else if (slot->run_hva && !watch->is_stored && !want_registers(holder, slot, watch))
		give_up(slot, watch, VMS_KVM_THREAD_GONE);
	else if (hold_by_peeking(holder, slot, watch, call))
		return;
	else if (call == VMS_THREAD_AWAY)
		try_again(slot, watch, VMS_KVM_AWAY, AWAY_NS);
	else if (call == VMS_THREAD_WAITS && !watch->is_stored && ++watch->tries > UNSEEN_TRIES)
		give_up(slot, watch, VMS_KVM_UNSEEN);
	else if (call == VMS_THREAD_WAITS && !watch->is_stored)
		try_again(slot, watch, VMS_KVM_UNSEEN, UNSEEN_NS);
	else if (call == VMS_THREAD_RUNS && has_not_run(watch))
		try_again(slot, watch, VMS_KVM_QUEUED, QUEUED_NS);
	else
		seize(holder, slot, watch);
}

static uint32_t wanted_number(const struct vms_kvm_slot *slot)
{
	return atomic_load(&slot->wanted) & ~VMS_KVM_PIN;
}

static void note_status(const struct vms_kvm_holder *holder, struct vms_kvm_slot *slot,
			struct vms_kvm_watch *watch, int status)
{
	if (!WIFSTOPPED(status)) {
		bool was_held = watch->phase == HELD;
		watch->phase = IDLE;
		forget_thread(watch);
		if (was_held)
			atomic_fetch_add(&slot->broken, 1);
		else
			answer(slot, watch, VMS_KVM_THREAD_GONE);
		return;
	}
	if (watch->phase != STOPPING)
		return;
	/* A signal was about to be delivered: it is, when the thread is let go. */
	if (status >> 16 == 0)
		watch->signal = WSTOPSIG(status);
	if (wanted_number(slot) != watch->number)
		let_go(watch);
	else
		look_at_thread(holder, slot, watch);
}

/* Takes the news of all threads that have stopped or ended. */
static void take_news(struct vms_kvm_holder *holder)
{
	int status;
	pid_t tid;
	while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		for (unsigned i = 0; i < holder->shared->n; i++) {
			struct vms_kvm_watch *watch = &holder->watches[i];
			if (watch->tid == tid && watch->phase != IDLE)
				note_status(holder, &holder->shared->slots[i], watch, status);
		}
	}
}

/* ---- in the holder: its life ---------------------------------------------------------- */

/* True if two polls in a row have found the tool stopped. */
static bool stands_tool_still(struct vms_kvm_holder *holder, uint64_t now_ns)
{
	if (now_ns < holder->tool_check_ns)
		return false;
	bool stands = vms_process_stands_still(holder->stat_path);
	bool twice = stands && holder->tool_stood_still;
	holder->tool_stood_still = stands;
	holder->tool_check_ns = now_ns + TOOL_POLL_NS;
	return twice;
}

/* Does what is due for a slot. Returns when to look again, if nothing happens before. */
static uint64_t advance_slot(struct vms_kvm_holder *holder, unsigned i, bool break_holds)
{
	struct vms_kvm_slot *slot = &holder->shared->slots[i];
	struct vms_kvm_watch *watch = &holder->watches[i];
	uint64_t now_ns = vms_clock_now_ns();
	uint32_t number = wanted_number(slot);
	if (watch->phase == HELD || watch->phase == WATCHED) {
		bool over = break_holds || now_ns > watch->begin_ns + slot->limit_ns;
		if (over && number == watch->number)
			atomic_fetch_add(&slot->broken, 1);
		if (over || number != watch->number)
			end_hold(slot, watch);
		return MIN(holder->tool_check_ns, watch->begin_ns + slot->limit_ns);
	}
	if (watch->phase == STOPPING || number == 0 || number == atomic_load(&slot->answered))
		return UINT64_MAX;
	if (now_ns < watch->not_before_ns)
		return watch->not_before_ns;
	if (number != watch->number) {
		watch->tries = 0;
		watch->wanted_ns = now_ns;
	}
	watch->number = number;
	begin_hold(holder, slot, watch);
	return watch->phase == IDLE ? watch->not_before_ns : UINT64_MAX;
}

/* True if the thread was on this processor last. */
static bool is_near(const struct vms_kvm_holder *holder, const struct vms_kvm_watch *watch)
{
	char text[1024];
	read_of_thread(holder, watch->tid, "stat", text, sizeof(text));
	const char *processor = vms_proc_find_field(text, PROCESSOR);
	return processor && atoi(processor) == sched_getcpu();
}

/* True if its stop is worth to poll for: it comes sooner than a sleeper wakes up. */
static bool stops_soon(const struct vms_kvm_holder *holder, struct vms_kvm_watch *watch)
{
	if (watch->phase != STOPPING)
		return false;
	const uint64_t waited_ns = vms_clock_now_ns() - watch->begin_ns;
	if (vms_kvm_poll_wants_look(&watch->poll, waited_ns))
		vms_kvm_poll_note(&watch->poll, is_near(holder, watch));
	return vms_kvm_poll_goes_on(&watch->poll, waited_ns);
}

/* True if a thread was just asked to stop, and that is polled for. */
static bool expects_stop(const struct vms_kvm_holder *holder)
{
	for (unsigned i = 0; i < holder->shared->n; i++)
		if (stops_soon(holder, &holder->watches[i]))
			return true;
	return false;
}

/* Waits for something to happen, until `next_ns` at most. False: the holder is to end. */
static bool wait_for_news(const struct vms_kvm_holder *holder, uint64_t next_ns)
{
	struct pollfd events[] = {
		{ .fd = holder->wake, .events = POLLIN },
		{ .fd = holder->stopped, .events = POLLIN },
		{ .fd = holder->kept, .events = POLLIN },
		{ .fd = holder->tool, .events = POLLIN },
		{ .fd = holder->process->pidfd, .events = POLLIN },
	};
	struct signalfd_siginfo signals[16];
	uint64_t count, now_ns = vms_clock_now_ns();
	if (expects_stop(holder))
		return true;
	uint64_t left_ns = next_ns > now_ns ? next_ns - now_ns : 0;
	struct timespec timeout = { (time_t)(left_ns / (1000 * MILLISECOND)),
				    (long)(left_ns % (1000 * MILLISECOND)) };
	ppoll(events, G_N_ELEMENTS(events), next_ns == UINT64_MAX ? NULL : &timeout, NULL);
	if (events[0].revents && read(holder->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return false;
	while (events[1].revents && read(holder->stopped, signals, sizeof(signals)) > 0)
		;
	return !events[2].revents && !events[3].revents && !events[4].revents;
}

static void release_all(struct vms_kvm_holder *holder)
{
	for (unsigned i = 0; i < holder->shared->n; i++) {
		if (holder->watches[i].phase != HELD && holder->watches[i].phase != WATCHED)
			continue;
		atomic_fetch_add(&holder->shared->slots[i].broken, 1);
		end_hold(&holder->shared->slots[i], &holder->watches[i]);
	}
	/* A thread that is to stop, and has not, goes on by itself when this process ends. */
}

/*
 * SIGCHLD is told by a descriptor, and SIGALRM ends this process. How the tool handles them must
 * not keep them from that.
 */
static void open_signals(struct vms_kvm_holder *holder)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	sigset_t child, alarm;
	sigaction(SIGCHLD, &usual, NULL);
	sigaction(SIGALRM, &usual, NULL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	holder->stopped = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
}

void vms_kvm_holder_live(void *data)
{
	struct vms_kvm_holder *holder = data;
	uint64_t next_ns = 0;
	/* A vCPU that has stopped waits for this thread alone, which needs little time for it. */
	if (!vms_thread_set_real_time(gettid()))
		vms_thread_set_urgent();
	vms_raise_file_limit(); /* two files for each vCPU's thread */
	open_signals(holder);
	do {
		uint64_t now_ns = vms_clock_now_ns();
		bool break_holds = stands_tool_still(holder, now_ns);
		take_news(holder);
		next_ns = UINT64_MAX;
		for (unsigned i = 0; i < holder->shared->n; i++)
			next_ns = MIN(next_ns, advance_slot(holder, i, break_holds));
	} while (wait_for_news(holder, next_ns));
	release_all(holder);
	put_back(holder);
}
