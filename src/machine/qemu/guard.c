/* SPDX-License-Identifier: MIT */
/*
 * The process is forked from a program that may have threads, so what runs in
 * it takes no lock and allocates nothing: system calls and fixed text only.
 *
 * Its name does not begin like the program's, so that killing all that is called
 * vmscope does not kill both.
 */
#include "machine/qemu/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

#define PROCESS_NAME "vms-guard"
/* How often a holder is looked at. Two looks that find it stopped release the machine. */
#define LOOK_MS 200
/* A QEMU that is very busy may take long to listen, but it must hear. */
#define ANSWER_MS 30000
/* An orderly end does not wait longer for a guard that has something left to do. */
#define FAREWELL_MS   2000
#define CONNECT_TRIES 5

enum status { RUNS, HELD, RELEASED };
#define STATUS_BITS   2
#define STATUS(state) ((enum status)((state) & ((1U << STATUS_BITS) - 1)))

/* Shared by both processes. */
struct shared {
	_Atomic uint64_t state; /* number of the hold << STATUS_BITS | enum status */
	atomic_bool stub;	/* a stub was added, or is about to be */
};

struct vms_guard {
	struct shared *shared;
	pid_t pid;			 /* of the guard */
	int keeper, kept;		 /* a pipe: its end tells the guard to finish */
	int holder;			 /* pidfd of this process */
	int qmp, gdb;			 /* borrowed; -1 where not used */
	char stat_path[32];		 /* of this process, in /proc */
	char remove_stub[320];		 /* QMP commands */
	struct sockaddr_storage address; /* of the QMP socket */
	socklen_t address_size;
};

/* ---- in the guard ------------------------------------------------------ */

static const char qmp_resync[] = "\xff\n"; /* resets QMP's lexer, whatever came before */
static const char qmp_enter[] = "{\"execute\":\"qmp_capabilities\"}\n";
static const char qmp_cont[] = "{\"execute\":\"cont\"}\n";
static const char qmp_done[] = "{\"execute\":\"query-status\",\"id\":\"guard-done\"}\n";
static const char done_mark[] = "guard-done";
static const char gdb_resync[] = "+#00"; /* acknowledges an answer, ends half a packet */
static const char gdb_continue[] = "$c#63";
static const char gdb_detach[] = "$D#44";

static bool send_all(int fd, const char *text)
{
	size_t size = strlen(text);
	while (size) {
		ssize_t n = send(fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd poller = { .fd = fd, .events = POLLOUT };
		if (n > 0) {
			text += n;
			size -= (size_t)n;
		} else if (n == 0 || errno != EAGAIN || poll(&poller, 1, ANSWER_MS) <= 0) {
			return false;
		}
	}
	return true;
}

/* Reads until `mark` has come. False when the peer is silent or gone. */
static bool wait_for_mark(int fd, const char *mark, int wait_ms)
{
	size_t matched = 0;
	for (;;) {
		char buf[1024];
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		if (poll(&poller, 1, wait_ms) <= 0)
			return false;
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n <= 0)
			return false;
		for (ssize_t i = 0; i < n; i++) {
			/* No mark repeats its first character. */
			matched = buf[i] == mark[matched] ? matched + 1 : buf[i] == mark[0];
			if (!mark[matched])
				return true;
		}
	}
}

static bool clean_up_on(const struct vms_guard *guard, int fd, const char *begin, bool held)
{
	bool stub = atomic_load(&guard->shared->stub);
	return send_all(fd, begin) && (!stub || send_all(fd, guard->remove_stub)) &&
	       (!held || send_all(fd, qmp_cont)) && send_all(fd, qmp_done) &&
	       wait_for_mark(fd, done_mark, ANSWER_MS);
}

static int connect_again(const struct vms_guard *guard)
{
	int fd = socket(guard->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd poller = { .fd = fd, .events = POLLOUT };
	if (connect(fd, (const struct sockaddr *)&guard->address, guard->address_size) == 0 ||
	    (errno == EINPROGRESS && poll(&poller, 1, LOOK_MS) > 0))
		return fd;
	close(fd);
	return -1;
}

/* Removes the stub and resumes, on the holder's connection or, when that is broken, a new one. */
static void clean_up_qmp(const struct vms_guard *guard, bool held)
{
	bool done = clean_up_on(guard, guard->qmp, qmp_resync, held);
	close(guard->qmp);
	for (int i = 0; i < CONNECT_TRIES && !done; i++) {
		int fd = connect_again(guard);
		done = fd >= 0 && clean_up_on(guard, fd, qmp_enter, held);
		close(fd);
		if (!done)
			poll(NULL, 0, LOOK_MS);
	}
}

/* A stub that lost its client lets a running machine run, but a stopped one stay stopped. */
static void clean_up_gdb(const struct vms_guard *guard)
{
	if (send_all(guard->gdb, gdb_resync) && send_all(guard->gdb, gdb_detach))
		wait_for_mark(guard->gdb, "OK", LOOK_MS);
}

/* Is the holder stopped, by a signal or a debugger? (proc_pid_stat(5)) */
static bool is_stopped(const struct vms_guard *guard)
{
	char stat[128];
	int fd = open(guard->stat_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	stat[n] = 0;
	const char *name_end = strrchr(stat, ')');
	return name_end && name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't');
}

/* The answers are left to the holder, who may go on some time. */
static void release_from_stopped(const struct vms_guard *guard, uint64_t state)
{
	uint64_t released = (state & ~(uint64_t)HELD) | RELEASED;
	if (!atomic_compare_exchange_strong(&guard->shared->state, &state, released))
		return;
	if (guard->qmp >= 0) {
		if (send_all(guard->qmp, qmp_resync))
			send_all(guard->qmp, qmp_cont);
	} else if (send_all(guard->gdb, gdb_resync)) {
		send_all(guard->gdb, gdb_continue);
	}
}

/* Closes all file descriptors but those that are needed. */
static void keep_only(const struct vms_guard *guard)
{
	int last = STDIN_FILENO - 1;
	int keep[] = { guard->kept, guard->holder, MAX(guard->qmp, guard->gdb) };
	for (size_t round = 0; round < G_N_ELEMENTS(keep); round++) {
		int next = INT_MAX;
		for (size_t i = 0; i < G_N_ELEMENTS(keep); i++) {
			if (keep[i] > last && keep[i] < next)
				next = keep[i];
		}
		if (next > last + 1)
			syscall(SYS_close_range, (unsigned)last + 1, (unsigned)next - 1, 0);
		last = next;
	}
	syscall(SYS_close_range, (unsigned)last + 1, ~0U, 0);
}

G_NORETURN static void watch(const struct vms_guard *guard)
{
	setsid();
	prctl(PR_SET_NAME, PROCESS_NAME);
	keep_only(guard);
	uint64_t suspect = 0;
	struct pollfd ends[] = {
		{ .fd = guard->kept, .events = POLLIN },
		{ .fd = guard->holder, .events = POLLIN },
	};
	while (poll(ends, G_N_ELEMENTS(ends), LOOK_MS) <= 0) {
		uint64_t state = atomic_load(&guard->shared->state);
		if (STATUS(state) != HELD || !is_stopped(guard))
			suspect = 0;
		else if (suspect == state)
			release_from_stopped(guard, state);
		else
			suspect = state;
	}
	/* What was released from a holder that went on may have been stopped again by it. */
	bool held = STATUS(atomic_load(&guard->shared->state)) != RUNS;
	if (guard->qmp >= 0 && (held || atomic_load(&guard->shared->stub)))
		clean_up_qmp(guard, held);
	else if (guard->gdb >= 0 && held)
		clean_up_gdb(guard);
	_exit(0);
}

/* ---- in the holder ----------------------------------------------------- */

/*
 * A fork that runs no handlers of the C library's, and whose end raises no
 * SIGCHLD. Signals are blocked before it begins, and stay so in the guard.
 */
static bool start(struct vms_guard *guard, GError **error)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	guard->pid = (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
	if (guard->pid == 0)
		watch(guard);
	int cause = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (guard->pid > 0)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
		    "cannot start the process that guards the machine: %s", g_strerror(cause));
	return false;
}

static struct vms_guard *new_guard(const struct vms_stream *stream, GError **error)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make a pipe: %s",
			    g_strerror(errno));
		return NULL;
	}
	struct vms_guard *guard = g_new0(struct vms_guard, 1);
	guard->kept = ends[0];
	guard->keeper = ends[1];
	guard->qmp = guard->gdb = -1;
	guard->holder = (int)syscall(SYS_pidfd_open, getpid(), 0); /* -1 where unknown */
	guard->address = stream->address;
	guard->address_size = stream->address_size;
	snprintf(guard->stat_path, sizeof(guard->stat_path), "/proc/%d/stat", (int)getpid());
	guard->shared = mmap(NULL, sizeof(*guard->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guard->shared == MAP_FAILED) {
		guard->shared = NULL;
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot map memory: %s",
			    g_strerror(errno));
		vms_guard_free(g_steal_pointer(&guard));
	}
	return guard;
}

static struct vms_guard *started(struct vms_guard *guard, GError **error)
{
	if (!start(guard, error))
		vms_guard_free(g_steal_pointer(&guard));
	return guard;
}

struct vms_guard *vms_guard_new_qmp(const struct vms_stream *qmp, const char *chardev,
				    GError **error)
{
	struct vms_guard *guard = new_guard(qmp, error);
	if (!guard)
		return NULL;
	guard->qmp = qmp->fd;
	if (chardev)
		snprintf(guard->remove_stub, sizeof(guard->remove_stub),
			 "{\"execute\":\"human-monitor-command\","
			 "\"arguments\":{\"command-line\":\"gdbserver none\"}}\n"
			 "{\"execute\":\"chardev-remove\",\"arguments\":{\"id\":\"%s\"}}\n",
			 chardev);
	return started(guard, error);
}

struct vms_guard *vms_guard_new_gdb(const struct vms_stream *gdb, GError **error)
{
	struct vms_guard *guard = new_guard(gdb, error);
	if (!guard)
		return NULL;
	guard->gdb = gdb->fd;
	return started(guard, error);
}

/* Waits for the guard's end, not for ever. */
static void reap(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	if (fd >= 0) {
		poll(&poller, 1, FAREWELL_MS);
		close(fd);
	}
	waitpid(pid, NULL, __WCLONE | WNOHANG);
}

void vms_guard_free(struct vms_guard *guard)
{
	if (!guard)
		return;
	close(guard->keeper);
	if (guard->pid > 0)
		reap(guard->pid);
	close(guard->kept);
	if (guard->holder >= 0)
		close(guard->holder);
	if (guard->shared)
		munmap(guard->shared, sizeof(*guard->shared));
	g_free(guard);
}

void vms_guard_set_stub(struct vms_guard *guard, bool added)
{
	atomic_store(&guard->shared->stub, added);
}

bool vms_guard_hold(struct vms_guard *guard, GError **error)
{
	bool lives = guard->pid > 0 && waitpid(guard->pid, NULL, __WCLONE | WNOHANG) == 0;
	if (!lives && !start(guard, error))
		return false;
	uint64_t number = (atomic_load(&guard->shared->state) >> STATUS_BITS) + 1;
	atomic_store(&guard->shared->state, number << STATUS_BITS | HELD);
	return true;
}

bool vms_guard_release(struct vms_guard *guard)
{
	uint64_t state = atomic_load(&guard->shared->state);
	uint64_t runs = state >> STATUS_BITS << STATUS_BITS | RUNS;
	bool ours = STATUS(state) == HELD &&
		    atomic_compare_exchange_strong(&guard->shared->state, &state, runs);
	atomic_store(&guard->shared->state, runs);
	return ours;
}

bool vms_guard_has_released(const struct vms_guard *guard)
{
	return STATUS(atomic_load(&guard->shared->state)) == RELEASED;
}
