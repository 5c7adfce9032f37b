/* SPDX-License-Identifier: MIT */
/* The life of the watchdog's process (guard.h), and what the holder does for it. */
#include "machine/qemu/watchdog.h"

#include "base/clock.h"
#include "base/side_process.h"
#include "machine/qemu/guard_gdb.h"
#include "machine/qemu/guard_peer.h"
#include "machine/qemu/guard_points.h"
#include "machine/qemu/guard_qmp.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
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

/* True if the machine has to be released for a holder that does not do it. `stuck`: it is stopped.
 */
static bool has_to_release(const struct vms_watchdog *watchdog, enum vms_hold_phase phase,
			   bool has_breakpoints, bool stuck)
{
	const struct vms_hold *hold = &watchdog->guard.record->hold;
	if (phase == VMS_HOLD_HELD)
		return stuck || is_past_limit(hold);
	if (has_breakpoints)
		return stuck || is_blind(hold);
	return phase == VMS_HOLD_LOOKING && stuck && vms_guard_has_stopped_unread(&watchdog->guard);
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
	bool stopped = (phase != VMS_HOLD_NONE || has_breakpoints) &&
		       vms_process_stands_still(watchdog->stat_path);
	bool stuck = stopped && suspect == (word | SUSPECT);
	if (has_to_release(watchdog, phase, has_breakpoints, stuck))
		release_for_holder(watchdog, word);
	else if (stuck && vms_hold_may_be_ours(phase))
		release_again(watchdog, word);
	return stopped ? atomic_load(&hold->word) | SUSPECT : 0;
}

static void live(void *data)
{
	const struct vms_watchdog *watchdog = data;
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
}

/* ---- in the holder ----------------------------------------------------- */

static bool set_start_error(int cause, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
		    "cannot start the watchdog process, without which the machine is not held: %s",
		    g_strerror(cause));
	return false;
}

static bool start_watchdog(struct vms_watchdog *watchdog, GError **error)
{
	const struct vms_guard *guard = &watchdog->guard;
	const int keep[] = { guard->holder_end,
			     watchdog->holder,
			     MAX(guard->qmp, guard->gdb),
			     watchdog->record_fd,
			     guard->stub,
			     guard->process.pid ? guard->process.pidfd : -1 };
	const struct vms_side_work work = { PROCESS_NAME, live, watchdog, keep,
					    G_N_ELEMENTS(keep) };
	watchdog->pid = vms_side_process_start(&work);
	return watchdog->pid > 0 || set_start_error(-watchdog->pid, error);
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

void vms_watchdog_free(struct vms_watchdog *watchdog, bool is_late)
{
	if (!watchdog)
		return;
	close(watchdog->keeper);
	bool ended = watchdog->pid <= 0 ||
		     vms_side_process_reap(watchdog->pid, is_late ? 0 : FAREWELL_MS);
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

bool vms_watchdog_share_stub(struct vms_watchdog *watchdog, int fd, GError **error)
{
	if (vms_send_with_fd(watchdog->keeper, "", 1, fd) < 0) {
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
	return vms_side_process_is_alive(watchdog->pid) || start_watchdog(watchdog, error);
}

void vms_watchdog_wait(struct vms_watchdog *watchdog)
{
	while (atomic_load(&watchdog->guard.record->is_watchdog_busy) &&
	       vms_side_process_is_alive(watchdog->pid))
		g_usleep(BUSY_US);
	atomic_store(&watchdog->guard.record->is_watchdog_busy, false);
}
