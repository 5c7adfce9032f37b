/* SPDX-License-Identifier: MIT */
/*
 * The life of the watchdog's process (guard.h), and what the holder does for it. The name of the
 * process does not begin like the program's, so that `pkill vmscope` does not kill both.
 */
#include "machine/qemu/watchdog.h"

#include "base/clock.h"
#include "machine/qemu/guard_gdb.h"
#include "machine/qemu/guard_peer.h"
#include "machine/qemu/guard_points.h"
#include "machine/qemu/guard_qmp.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

#define PROCESS_NAME "vms-guard"
/* Poll interval for the holder. The machine is released if two polls in a row find it stopped. */
#define POLL_MS 200
/* How long to wait, past a hold's limit, for the holder to end the hold itself. */
#define GRACE_NS UINT64_C(2000000000)
/* Poll interval of the holder while the watchdog uses the connection. */
#define BUSY_US 1000
/* How long vms_watchdog_free waits for a watchdog that still has something to do. */
#define FAREWELL_MS 2000

struct vms_watchdog {
	struct vms_guard guard;
	int record_fd;
	char *record_path;
	pid_t pid;  /* of the watchdog */
	int keeper; /* the other end of guard.holder_end: when it is closed, the watchdog ends */
	int holder; /* pidfd of this process */
	char stat_path[32]; /* of this process, in /proc */
};

/* ---- in the watchdog: watching ------------------------------------------ */

/*
 * True if the holder is stopped, by a signal or a debugger (proc_pid_stat(5)). So is a holder that
 * was killed while one of its threads waits for a disk: it does not end before that thread does,
 * and does nothing any more.
 */
static bool is_holder_stopped(const struct vms_watchdog *watchdog)
{
	char stat[128];
	int fd = open(watchdog->stat_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	stat[n] = 0;
	const char *name_end = strrchr(stat, ')');
	return name_end && name_end[1] == ' ' && memchr("TtZX", name_end[2], 4);
}

static bool is_past_limit(const struct vms_hold *hold)
{
	uint64_t limit_ns = atomic_load(&hold->limit_ns);
	return vms_clock_now_ns() > atomic_load(&hold->begin_ns) + limit_ns + GRACE_NS;
}

/*
 * True if the holder has not looked for long whether its breakpoints have to go, so that nobody
 * would notice a machine that they stop.
 */
static bool is_blind(const struct vms_hold *hold)
{
	return vms_clock_now_ns() > atomic_load(&hold->seen_ns) + GRACE_NS;
}

/* Marks the hold in which a check found the holder stopped, which may have no number yet. */
#define SUSPECT (UINT64_C(1) << 63)

/* How many requests a bare stub's client had counted when the machine was released for it. */
static uint64_t released_requests;

/*
 * Takes the hold from a holder that does not move, and releases the machine. Where there are
 * breakpoints, but no hold, there is nothing to take: the machine may stand still by others.
 */
static void release_for_holder(const struct vms_watchdog *watchdog, uint64_t word)
{
	struct vms_hold *hold = &watchdog->guard.record->hold;
	atomic_store(&watchdog->guard.record->is_watchdog_busy, true);
	const bool has_hold =
		!atomic_load(&hold->has_breakpoints) || vms_hold_may_be_ours(vms_hold_phase(word));
	bool taken = !has_hold ||
		     atomic_compare_exchange_strong(&hold->word, &word,
						    vms_hold_in_phase(word, VMS_HOLD_TAKEN));
	released_requests = atomic_load(&hold->requests);
	if (taken && watchdog->guard.qmp >= 0)
		vms_guard_clear_and_release(&watchdog->guard);
	else if (taken)
		vms_guard_release_for_client(&watchdog->guard);
	atomic_store(&watchdog->guard.record->is_watchdog_busy, false);
}

/*
 * Releases the machine again for a holder that is still stopped. The first release may have failed,
 * or the holder may have sent one more request after it, which stopped the machine again.
 */
static void release_again(const struct vms_watchdog *watchdog, uint64_t word)
{
	if (watchdog->guard.qmp >= 0)
		vms_guard_release_by_qmp(&watchdog->guard);
	else if (atomic_load(&watchdog->guard.record->hold.requests) != released_requests)
		release_for_holder(watchdog, word);
}

/*
 * Checks the holder once. `suspect` is the hold in which the last check found it stopped, or 0.
 * Returns the same for this check.
 */
static uint64_t check_holder(const struct vms_watchdog *watchdog, uint64_t suspect)
{
	struct vms_hold *hold = &watchdog->guard.record->hold;
	uint64_t word = atomic_load(&hold->word);
	enum vms_hold_phase phase = vms_hold_phase(word);
	bool has_breakpoints = vms_guard_may_have_points(hold);
	bool stopped = (phase != VMS_HOLD_NONE || has_breakpoints) && is_holder_stopped(watchdog);
	bool stuck = stopped && suspect == (word | SUSPECT);
	if (has_breakpoints && phase != VMS_HOLD_HELD ? stuck || is_blind(hold)
	    : phase == VMS_HOLD_HELD		      ? stuck || is_past_limit(hold)
						      : phase == VMS_HOLD_LOOKING && stuck &&
					       vms_guard_has_stopped_unread(&watchdog->guard))
		release_for_holder(watchdog, word);
	else if (stuck && vms_hold_may_be_ours(phase))
		release_again(watchdog, word);
	return stopped ? atomic_load(&hold->word) | SUSPECT : 0;
}

/* Closes all file descriptors that the watchdog does not need. */
static void close_other_files(const struct vms_watchdog *watchdog)
{
	int last = STDIN_FILENO - 1;
	int keep[] = { watchdog->guard.holder_end,
		       watchdog->holder,
		       MAX(watchdog->guard.qmp, watchdog->guard.gdb),
		       watchdog->record_fd,
		       watchdog->guard.stub,
		       watchdog->guard.process.pid ? watchdog->guard.process.pidfd : -1 };
	for (size_t round = 0; round < G_N_ELEMENTS(keep); round++) {
		int next = INT_MAX;
		for (size_t i = 0; i < G_N_ELEMENTS(keep); i++) {
			if (keep[i] > last && keep[i] < next)
				next = keep[i];
		}
		if (next == INT_MAX)
			break;
		if (next > last + 1)
			syscall(SYS_close_range, (unsigned)last + 1, (unsigned)next - 1, 0);
		last = next;
	}
	syscall(SYS_close_range, (unsigned)last + 1, ~0U, 0);
}

/* Leaves the tool's control group: systemd may kill that as a whole. */
static void leave_control_group(void)
{
	int fd = open("/sys/fs/cgroup/cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t moved = write(fd, "0", 1);
	(void)moved; /* if it is not allowed, the watchdog stays in the group */
	close(fd);
}

/*
 * The life of the watchdog. It closes `ready` as soon as signals that are meant for the holder do
 * not reach it any more.
 */
G_NORETURN static void run_watchdog(const struct vms_watchdog *watchdog, int ready)
{
	setsid();
	prctl(PR_SET_NAME, PROCESS_NAME);
	leave_control_group();
	close(ready);
	close_other_files(watchdog);
	uint64_t suspect = 0;
	struct pollfd ends[] = {
		{ .fd = watchdog->guard.holder_end, .events = POLLIN },
		{ .fd = watchdog->holder, .events = POLLIN },
	};
	for (;;) {
		const int n = poll(ends, G_N_ELEMENTS(ends), POLL_MS);
		/* The connection that was shared comes before the end. */
		if (n > 0 && (!vms_guard_receive_stub(&watchdog->guard) || ends[1].revents))
			break;
		if (n <= 0)
			suspect = check_holder(watchdog, suspect);
	}
	errno = 0;
	while (vms_guard_receive_stub(&watchdog->guard) && errno != EAGAIN)
		;
	const struct vms_hold *hold = &watchdog->guard.record->hold;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&hold->word));
	vms_peer_forget();
	if (watchdog->guard.qmp >= 0 && (phase != VMS_HOLD_NONE || atomic_load(&hold->stub) ||
					 atomic_load(&hold->has_breakpoints)))
		vms_guard_clean_up_qmp(&watchdog->guard);
	else if (watchdog->guard.gdb >= 0 && phase != VMS_HOLD_NONE)
		vms_guard_clean_up_gdb(&watchdog->guard);
	if (watchdog->record_path)
		unlink(watchdog->record_path);
	_exit(0);
}

/* ---- in the holder ----------------------------------------------------- */

static bool set_start_error(int cause, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
		    "cannot start the watchdog process, without which the machine is not held: %s",
		    g_strerror(cause));
	return false;
}

/*
 * Forks the watchdog. The fork runs no handlers of the C library, and its end raises no SIGCHLD.
 * Signals are blocked before the fork, and stay blocked in the watchdog.
 */
static bool start_watchdog(struct vms_watchdog *watchdog, GError **error)
{
	sigset_t all, before;
	int ready[2];
	char byte;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return set_start_error(errno, error);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	watchdog->pid = (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
	if (watchdog->pid == 0)
		run_watchdog(watchdog, ready[1]);
	int cause = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ready[1]);
	while (watchdog->pid > 0 && read(ready[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(ready[0]);
	return watchdog->pid > 0 || set_start_error(cause, error);
}

static struct vms_watchdog *new_watchdog(const struct vms_stream *stream, const char *label,
					 const struct vms_host_identity *process, GError **error)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot make a socket pair for the watchdog: %s", g_strerror(errno));
		return NULL;
	}
	struct vms_watchdog *watchdog = g_new0(struct vms_watchdog, 1);
	watchdog->guard.holder_end = ends[0];
	watchdog->keeper = ends[1];
	watchdog->guard.qmp = watchdog->guard.gdb = watchdog->guard.stub = -1;
	watchdog->holder = (int)syscall(SYS_pidfd_open, getpid(), 0); /* -1: no pidfds */
	watchdog->guard.process = *process;
	watchdog->guard.address = stream->address;
	watchdog->guard.address_size = stream->address_size;
	watchdog->record_path = label ? vms_record_path(label) : NULL;
	snprintf(watchdog->stat_path, sizeof(watchdog->stat_path), "/proc/%d/stat", (int)getpid());
	watchdog->guard.record = vms_record_new(label, process, &watchdog->record_fd, error);
	if (!watchdog->guard.record)
		vms_watchdog_free(g_steal_pointer(&watchdog), false);
	return watchdog;
}

/* Starts the watchdog. Frees `watchdog` if that fails. */
static struct vms_watchdog *start_or_free(struct vms_watchdog *watchdog, GError **error)
{
	if (!start_watchdog(watchdog, error))
		vms_watchdog_free(g_steal_pointer(&watchdog), false);
	return watchdog;
}

struct vms_watchdog *vms_watchdog_new_qmp(const struct vms_stream *qmp,
					  const struct vms_host_identity *process,
					  const char *label, GError **error)
{
	struct vms_watchdog *watchdog = new_watchdog(qmp, label, process, error);
	if (!watchdog)
		return NULL;
	watchdog->guard.qmp = qmp->fd;
	snprintf(watchdog->guard.quoted_label, sizeof(watchdog->guard.quoted_label), "\"%s\"",
		 label);
	snprintf(watchdog->guard.close_fd, sizeof(watchdog->guard.close_fd),
		 "{\"execute\":\"closefd\",\"arguments\":{\"fdname\":\"%s\"}}\n", label);
	snprintf(watchdog->guard.pass_fd, sizeof(watchdog->guard.pass_fd),
		 "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"%s\"}}\n", label);
	snprintf(watchdog->guard.add_stub, sizeof(watchdog->guard.add_stub),
		 "{\"execute\":\"chardev-add\",\"arguments\":{\"id\":\"%s\",\"backend\":"
		 "{\"type\":\"socket\",\"data\":{\"addr\":{\"type\":\"fd\",\"data\":"
		 "{\"str\":\"%s\"}},\"server\":false}}}}\n"
		 "{\"execute\":\"human-monitor-command\","
		 "\"arguments\":{\"command-line\":\"gdbserver chardev:%s\"}}\n",
		 label, label, label);
	snprintf(watchdog->guard.remove_stub, sizeof(watchdog->guard.remove_stub),
		 "{\"execute\":\"human-monitor-command\","
		 "\"arguments\":{\"command-line\":\"gdbserver none\"}}\n"
		 "{\"execute\":\"chardev-remove\",\"arguments\":{\"id\":\"%s\"}}\n",
		 label);
	return start_or_free(watchdog, error);
}

struct vms_watchdog *vms_watchdog_new_gdb(const struct vms_stream *gdb, GError **error)
{
	static const struct vms_host_identity nobody;
	struct vms_watchdog *watchdog = new_watchdog(gdb, NULL, &nobody, error);
	if (!watchdog)
		return NULL;
	watchdog->guard.gdb = gdb->fd;
	return start_or_free(watchdog, error);
}

/* Waits for the watchdog's end, `timeout_ms` at most. False if it still has something to do. */
static bool reap_watchdog(pid_t pid, int timeout_ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	if (fd >= 0) {
		poll(&poller, 1, timeout_ms);
		close(fd);
	}
	return waitpid(pid, NULL, __WCLONE | WNOHANG) != 0;
}

void vms_watchdog_free(struct vms_watchdog *watchdog, bool is_late)
{
	if (!watchdog)
		return;
	close(watchdog->keeper);
	bool ended = watchdog->pid <= 0 || reap_watchdog(watchdog->pid, is_late ? 0 : FAREWELL_MS);
	if (ended && watchdog->record_path)
		unlink(watchdog->record_path);
	close(watchdog->guard.holder_end);
	if (watchdog->holder >= 0)
		close(watchdog->holder);
	if (watchdog->record_fd >= 0)
		close(watchdog->record_fd);
	vms_record_free(watchdog->guard.record);
	g_free(watchdog->record_path);
	g_free(watchdog);
}

void vms_watchdog_set_monitor(struct vms_watchdog *watchdog)
{
	atomic_store(&watchdog->guard.record->has_monitor, true);
}

struct vms_hold *vms_watchdog_hold(struct vms_watchdog *watchdog)
{
	return &watchdog->guard.record->hold;
}

void vms_watchdog_begin_stop(struct vms_watchdog *watchdog, uint64_t limit_ns)
{
	vms_hold_begin(vms_watchdog_hold(watchdog), VMS_HOLD_HELD, vms_clock_now_ns(), limit_ns);
}

static bool is_watchdog_alive(const struct vms_watchdog *watchdog)
{
	return watchdog->pid > 0 && waitpid(watchdog->pid, NULL, __WCLONE | WNOHANG) == 0;
}

bool vms_watchdog_share_stub(struct vms_watchdog *watchdog, int fd, GError **error)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	if (sendmsg(watchdog->keeper, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot give the watchdog the connection to QEMU's gdb stub: %s",
			    g_strerror(errno));
		return false;
	}
	watchdog->guard.stub = fd;
	return true;
}

bool vms_watchdog_check(struct vms_watchdog *watchdog, GError **error)
{
	return is_watchdog_alive(watchdog) || start_watchdog(watchdog, error);
}

void vms_watchdog_wait(struct vms_watchdog *watchdog)
{
	while (atomic_load(&watchdog->guard.record->is_watchdog_busy) &&
	       is_watchdog_alive(watchdog))
		g_usleep(BUSY_US);
	atomic_store(&watchdog->guard.record->is_watchdog_busy, false);
}
