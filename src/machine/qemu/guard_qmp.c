/* SPDX-License-Identifier: MIT */
#include "machine/qemu/guard_qmp.h"

#include "base/stream.h"
#include "machine/qemu/guard_peer.h"
#include "machine/qemu/guard_points.h"
#include "machine/qemu/run_state.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* After a release, how long a machine runs before it would be stopped by what was left in it. */
#define SETTLE_MS   50
#define STEP_ROUNDS 3

static const char qmp_resync[] = "\xff\n"; /* resets QMP's lexer, whatever was sent before */
static const char qmp_enter[] = "{\"execute\":\"qmp_capabilities\"}\n";
static const char qmp_cont[] = "{\"execute\":\"cont\"}\n";
static const char qmp_stop_cont[] = "{\"execute\":\"stop\"}\n{\"execute\":\"cont\"}\n";
static const char qmp_chardevs[] = "{\"execute\":\"query-chardev\",\"id\":\"guard-list\"}\n";
static const char qmp_chardevs_id[] = "\"guard-list\"";

/* The value of the last "status" that was received before `end`. */
static enum vms_run_state find_last_status(const char *end)
{
	static const char key[] = "\"status\": \"";
	const char *value = vms_peer_find_last(key, end);
	if (value)
		value += strlen(key);
	const char *quote = value ? memchr(value, '"', (size_t)(end - value)) : NULL;
	return quote ? vms_run_state_parse(value, (size_t)(quote - value)) : VMS_RUN_UNKNOWN;
}

/* Asks for the run state, until QEMU answers or ends. It may be stalled for hours. */
static enum vms_peer_answer ask_state(const struct vms_guard *guard, int fd, bool peek, int wait_ms,
				      enum vms_run_state *ret)
{
	static unsigned number;
	char command[96], mark[48];
	enum vms_peer_answer answer;
	/* Another watchdog's would not do: QEMU may send what a client that was killed asked for.
	 */
	snprintf(mark, sizeof(mark), "\"guard-%d-%u\"", (int)getpid(), ++number);
	snprintf(command, sizeof(command), "{\"execute\":\"query-status\",\"id\":%s}\n", mark);
	if (!vms_peer_send(fd, command))
		return VMS_PEER_CLOSED;
	do {
		answer = vms_peer_wait(fd, mark, peek, VMS_GUARD_ANSWER_MS);
		wait_ms -= VMS_GUARD_ANSWER_MS;
	} while (answer == VMS_PEER_SILENT && !vms_guard_has_qemu_gone(guard) && wait_ms > 0);
	if (answer == VMS_PEER_ANSWERED)
		*ret = find_last_status(vms_peer_find(mark));
	return answer;
}

/*
 * What QEMU has told since the machine was released last. The texts are dropped when the connection
 * to its stub is looked at.
 */
static struct {
	bool stop, resume, guest_stop;
	int64_t resume_us; /* when it was last resumed, by the host's clock; 0: never */
} told;

/* True if the guest has stopped itself meanwhile. Then it stays stopped: see vms_event_stops. */
static bool find_guest_stop(void)
{
	static const char *const actions[] = { "\"action\": \"pause\"", "\"action\": \"stop\"" };
	static const char *const events[] = { "GUEST_PANICKED", "WATCHDOG", "BLOCK_IO_ERROR" };
	bool acted = vms_peer_find(actions[0]) || vms_peer_find(actions[1]);
	for (size_t i = 0; i < G_N_ELEMENTS(events); i++) {
		char mark[48];
		snprintf(mark, sizeof(mark), "\"event\": \"%s\"", events[i]);
		if (acted && vms_peer_find(mark))
			return true;
	}
	return vms_peer_find("\"event\": \"SHUTDOWN\"") != NULL;
}

/* The number behind the last `key` before `end`; 0: there is none. */
static int64_t find_last_number(const char *key, const char *end)
{
	const char *at = vms_peer_find_last(key, end);
	int64_t number = 0;
	if (!at)
		return 0;
	for (at += strlen(key); at < end && g_ascii_isdigit(*at) && number < INT64_MAX / 100; at++)
		number = number * 10 + (*at - '0');
	return number;
}

/*
 * When the machine was last resumed, as far as was received, in us by the host's clock; 0: never.
 * {"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RESUME"}
 */
static int64_t find_last_resume_us(void)
{
	const char *event = vms_peer_find_last("\"event\": \"RESUME\"", vms_peer_end());
	return event ? find_last_number("\"seconds\": ", event) * 1000000 +
			       find_last_number("\"microseconds\": ", event)
		     : 0;
}

static void note_events(void)
{
	told.stop |= vms_peer_find("\"event\": \"STOP\"") != NULL;
	told.resume |= vms_peer_find("\"event\": \"RESUME\"") != NULL;
	told.guest_stop |= find_guest_stop();
	told.resume_us = MAX(told.resume_us, find_last_resume_us());
}

/*
 * True if a machine in this state stands still by a breakpoint of the holder's, as far as both
 * know. A reset of a machine that was stopped, with neither looked at, may be one of a hit: it is
 * taken for that.
 */
static bool is_hit(const struct vms_guard *guard, enum vms_run_state state)
{
	const struct vms_hold *hold = &guard->record->hold;
	note_events();
	if (!atomic_load(&hold->has_breakpoints) || (atomic_load(&hold->halts) && !told.resume))
		return false;
	return state == VMS_RUN_DEBUG ||
	       (vms_run_state_may_follow_hit(state) &&
		(atomic_load(&hold->is_at_hit) || (told.stop && !atomic_load(&hold->is_left))));
}

/*
 * True if the machine may stand still by a stop of the holder's. If it was resumed after the
 * holder's last request, and that was answered, others have stopped it since.
 */
static bool may_be_held(const struct vms_guard *guard)
{
	const struct vms_hold *hold = &guard->record->hold;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&hold->word));
	const int64_t resume_us = MAX(told.resume_us, atomic_load(&hold->resumed_us));
	const bool is_over = guard->process.pid && !atomic_load(&hold->is_asked) &&
			     resume_us > atomic_load(&hold->asked_us);
	return !is_over &&
	       (vms_hold_may_be_ours(phase) || (phase == VMS_HOLD_LOOKING && resume_us));
}

/*
 * Tries once to undo the holder's stop. Sets *done if nothing is left to do. False if QEMU cannot
 * be reached by `fd`.
 */
static bool undo_stop(const struct vms_guard *guard, int fd, bool peek, bool *done)
{
	enum vms_run_state state;
	*done = false;
	if (ask_state(guard, fd, peek, peek ? VMS_GUARD_ANSWER_MS : G_MAXINT, &state) !=
	    VMS_PEER_ANSWERED)
		return false;
	const bool stands_at_hit = is_hit(guard, state);
	if (told.guest_stop ||
	    (!stands_at_hit && !vms_guard_has_stopped() && !may_be_held(guard))) {
		*done = true;
		return true;
	}
	switch (vms_run_state_release_way(state, stands_at_hit)) {
	case VMS_RELEASE_NOTHING: *done = true; return true;
	case VMS_RELEASE_CONT: return vms_peer_send(fd, qmp_cont);
	case VMS_RELEASE_STOP_CONT: *done = true; return vms_peer_send(fd, qmp_stop_cont);
	case VMS_RELEASE_LATER:
	default: poll(NULL, 0, VMS_GUARD_RETRY_MS); return true;
	}
}

/* Undoes the holder's stop, for as long as that takes. False if QEMU cannot be reached by `fd`. */
static bool undo_stop_at_last(const struct vms_guard *guard, int fd)
{
	bool done = false;
	for (unsigned tries = 0; !done; tries++) {
		if (!undo_stop(guard, fd, false, &done))
			return false;
		/* QEMU refused it: for example, a dump by the owner has to end first. */
		if (tries > 0 && !done)
			poll(NULL, 0, VMS_GUARD_RETRY_MS);
	}
	return true;
}

/*
 * Removes breakpoints and single steps by a stub of the watchdog's own, where the holder's was
 * gone. False if QEMU cannot be reached by `fd`.
 */
static bool clear_by_new_stub(const struct vms_guard *guard, int fd)
{
	enum vms_run_state state;
	int ends[2];
	/* Only such a socket takes a descriptor along. */
	if (guard->address.ss_family != AF_UNIX)
		return true;
	if (ask_state(guard, fd, false, G_MAXINT, &state) != VMS_PEER_ANSWERED ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return false;
	const bool was_running = state == VMS_RUN_RUNNING;
	const bool is_ours = was_running || is_hit(guard, state);
	if (was_running)
		vms_guard_expect_stop(&guard->record->hold);
	const size_t size = strlen(guard->pass_fd);
	bool done = vms_send_with_fd(fd, guard->pass_fd, size, ends[1]) == (ssize_t)size &&
		    vms_peer_send(fd, guard->add_stub);
	close(ends[1]);
	done = done && vms_guard_clear_by(guard, ends[0], 30 * VMS_GUARD_ANSWER_MS);
	if (was_running)
		vms_guard_note_stop();
	vms_guard_settle_stop(&guard->record->hold);
	if (done && is_ours && atomic_load(&guard->record->hold.is_stepping))
		vms_guard_end_lost_steps(guard, ends[0]);
	close(ends[0]);
	vms_peer_forget();
	return vms_peer_send(fd, guard->remove_stub) && done;
}

/*
 * True if a machine that was released stands again, though there is no breakpoint: a vCPU is within
 * a single step for ever.
 */
static bool stands_again(const struct vms_guard *guard, int fd)
{
	enum vms_run_state state;
	poll(NULL, 0, SETTLE_MS);
	vms_peer_forget();
	return ask_state(guard, fd, false, G_MAXINT, &state) == VMS_PEER_ANSWERED &&
	       state == VMS_RUN_DEBUG && is_hit(guard, state);
}

/* Removes the stub and releases the machine. False if QEMU cannot be reached by `fd`. */
static bool clean_up_on(const struct vms_guard *guard, int fd, const char *begin)
{
	struct vms_hold *hold = &guard->record->hold;
	enum vms_run_state state;
	if (!vms_peer_send(fd, begin) || !vms_peer_send(fd, guard->close_fd) ||
	    (atomic_load(&hold->stub) && !vms_peer_send(fd, guard->remove_stub)))
		return false;
	if (vms_guard_may_have_points(hold) && !clear_by_new_stub(guard, fd))
		return false;
	if (!undo_stop_at_last(guard, fd))
		return false;
	for (unsigned i = 0; atomic_load(&hold->has_breakpoints) && i < STEP_ROUNDS; i++) {
		if (!stands_again(guard, fd))
			break;
		atomic_store(&hold->is_stepping, true);
		if (!clear_by_new_stub(guard, fd) || !undo_stop_at_last(guard, fd))
			return false;
	}
	/* An answer to this says that QEMU has handled all that was sent before. */
	return ask_state(guard, fd, false, G_MAXINT, &state) == VMS_PEER_ANSWERED;
}

/* True if this is the QEMU that the holder was connected to. Another one may have taken its place.
 */
static bool is_same_qemu(const struct vms_guard *guard, int fd)
{
	if (guard->process.pid && guard->address.ss_family == AF_UNIX &&
	    vms_host_identity_is_peer(&guard->process, fd))
		return true;
	vms_peer_forget();
	return vms_peer_send(fd, qmp_enter) && vms_peer_send(fd, qmp_chardevs) &&
	       vms_peer_wait(fd, qmp_chardevs_id, false, 30 * VMS_GUARD_ANSWER_MS) ==
		       VMS_PEER_ANSWERED &&
	       vms_peer_find(guard->quoted_label);
}

static int connect_again(const struct vms_guard *guard)
{
	int fd = socket(guard->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd poller = { .fd = fd, .events = POLLOUT };
	bool connected =
		connect(fd, (const struct sockaddr *)&guard->address, guard->address_size) == 0 ||
		(errno == EINPROGRESS && poll(&poller, 1, VMS_GUARD_ANSWER_MS) > 0);
	if (connected && is_same_qemu(guard, fd))
		return fd;
	close(fd);
	return -1;
}

/*
 * Removes the holder's breakpoints by its connection to the stub. That stops a machine which runs:
 * first it is asked whether it does. False if QEMU does not answer in time.
 */
static bool clear_by_holders_stub(const struct vms_guard *guard, bool peek)
{
	enum vms_run_state state = VMS_RUN_UNKNOWN;
	if (!atomic_load(&guard->record->hold.has_breakpoints))
		return true;
	vms_peer_forget();
	if (vms_peer_send(guard->qmp, qmp_resync) &&
	    ask_state(guard, guard->qmp, peek, peek ? VMS_GUARD_ANSWER_MS : G_MAXINT, &state) ==
		    VMS_PEER_SILENT)
		return false;
	note_events();
	vms_guard_clear_breakpoints(guard, state == VMS_RUN_RUNNING);
	return true;
}

void vms_guard_clean_up_qmp(const struct vms_guard *guard)
{
	atomic_store(&guard->record->hold.is_cleared, false);
	clear_by_holders_stub(guard, false);
	bool done = clean_up_on(guard, guard->qmp, qmp_resync);
	close(guard->qmp);
	while (!done && !vms_guard_has_qemu_gone(guard)) {
		int fd = connect_again(guard);
		vms_peer_forget();
		done = fd >= 0 && clean_up_on(guard, fd, qmp_enter);
		if (fd >= 0)
			close(fd);
		/* The process is not known, and nobody listens: QEMU seems to have ended. */
		if (!done && fd < 0 && !guard->process.pid)
			return;
		if (!done)
			poll(NULL, 0, VMS_GUARD_RETRY_MS);
	}
}

bool vms_guard_release_by_qmp(const struct vms_guard *guard)
{
	bool done = false;
	vms_peer_forget();
	if (!vms_peer_send(guard->qmp, qmp_resync))
		return false;
	for (unsigned i = 0; i < 3 && !done; i++) {
		if (!undo_stop(guard, guard->qmp, true, &done))
			return false;
	}
	return done;
}

void vms_guard_clear_and_release(const struct vms_guard *guard)
{
	/* What is not released stays owed, to this process or to a holder that goes on. */
	if (!clear_by_holders_stub(guard, true) || !vms_guard_release_by_qmp(guard))
		return;
	if (vms_guard_has_stopped())
		vms_hold_change(&guard->record->hold, VMS_HOLD_OWED, VMS_HOLD_NONE);
	vms_guard_forget_stop();
	memset(&told, 0, sizeof(told));
}
