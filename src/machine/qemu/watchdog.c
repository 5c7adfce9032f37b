/* SPDX-License-Identifier: MIT */
/*
 * The watchdog is forked from a program that may have threads. So its code takes no lock and
 * allocates nothing: it uses system calls and fixed text only. It does not parse JSON either: it
 * finds QEMU's answers by the ids of the commands.
 *
 * Its name does not begin like the program's, so that `pkill vmscope` does not kill both.
 */
#include "machine/qemu/watchdog.h"

#include "base/clock.h"
#include "machine/qemu/hold_record.h"
#include "machine/qemu/run_state.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

#define PROCESS_NAME "vms-guard"
/* Poll interval for the holder. The machine is released if two polls in a row find it stopped. */
#define POLL_MS 200
/* How long to wait, past a hold's limit, for the holder to end the hold itself. */
#define GRACE_NS UINT64_C(2000000000)
/* How long to wait for an answer before checking whether QEMU is still alive. */
#define ANSWER_MS 1000
/* How long to wait before trying again what QEMU refused, or when it cannot be reached. */
#define RETRY_MS 250
/* Poll interval of the holder while the watchdog uses the connection. */
#define BUSY_US 1000
/* How many vCPUs a machine may have, and how long to wait for the end of a step. */
#define VCPUS_MAX   4096
#define STEP_MS	    20
#define STEP_ROUNDS 3
/* After a release, how long a machine runs before it would be stopped by what was left in it. */
#define SETTLE_MS 20
/* How long vms_watchdog_free waits for a watchdog that still has something to do. */
#define FAREWELL_MS 2000

struct vms_watchdog {
	struct vms_record *record;
	int record_fd;
	char *record_path;
	pid_t pid; /* of the watchdog */
	/* Sockets: when `keeper` is closed, the watchdog ends. It brings the stub's connection. */
	int keeper, kept;
	int holder;			  /* pidfd of this process */
	struct vms_host_identity process; /* the QEMU's; its pidfd is borrowed */
	int qmp, gdb;			  /* borrowed; -1: not used */
	int stub; /* the holder's connection to QEMU's stub, borrowed; -1: not shared yet */
	char stat_path[32];    /* of this process, in /proc */
	char quoted_label[96]; /* "\"LABEL\"" */
	char close_fd[160], pass_fd[160], remove_stub[320], add_stub[512]; /* QMP commands */
	struct sockaddr_storage address;				   /* of the QMP socket */
	socklen_t address_size;
};

/* ---- in the watchdog: texts -------------------------------------------- */

static const char qmp_resync[] = "\xff\n"; /* resets QMP's lexer, whatever was sent before */
static const char qmp_enter[] = "{\"execute\":\"qmp_capabilities\"}\n";
static const char qmp_cont[] = "{\"execute\":\"cont\"}\n";
static const char qmp_stop_cont[] = "{\"execute\":\"stop\"}\n{\"execute\":\"cont\"}\n";
static const char qmp_chardevs[] = "{\"execute\":\"query-chardev\",\"id\":\"guard-list\"}\n";
static const char qmp_chardevs_id[] = "\"guard-list\"";
static const char gdb_resync[] = "+#00"; /* acknowledges an answer, and ends half a packet */
/* The stub reports this stop, because the tool always leaves the last answer to be acknowledged. */
static const char gdb_interrupt[] = "+\003$qC#b4";
static const char gdb_told_stop[] = "$T02";
/*
 * Stops the machine. It begins with an interrupt: the stub ends a step by that alone. If an answer
 * is left to be acknowledged, only the second interrupt has an effect.
 */
static const char gdb_stop_any[] = "\003+\003#00$qC#b4";
static const char gdb_who[] = "$#00$qC#b4";
static const char gdb_continue[] = "$c#63";
static const char gdb_detach[] = "$D#44";
/*
 * Commands of QEMU's monitor. An empty request precedes each: it acknowledges the last packet, and
 * stops a machine that its owner has resumed, so that the stub handles the command itself.
 */
static const char gdb_status[] = "$#00$qRcmd,696e666f20737461747573#14";
static const char gdb_stop[] = "$#00$qRcmd,73746f70#fb";
static const char gdb_cont[] = "$#00$qRcmd,636f6e74#2e";
static const char gdb_status_text[] = "564d207374617475733a20"; /* "VM status: " */

/* What a peer has sent last. */
struct received {
	size_t size;
	char text[1 << 16];
};

/* Static, because the watchdog has little stack. It has one thread. */
static struct received received;

static bool send_all(int fd, const char *text)
{
	size_t size = strlen(text);
	while (size) {
		ssize_t n = send(fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd poller = { .fd = fd, .events = POLLOUT };
		if (n > 0) {
			text += n;
			size -= (size_t)n;
		} else if (n == 0 || errno != EAGAIN || poll(&poller, 1, 30 * ANSWER_MS) <= 0) {
			return false;
		}
	}
	return true;
}

/*
 * Receives what the peer has sent. With `peek`, it stays in the socket for the holder, which may go
 * on some time; then what was received before is received once more. False if the connection broke.
 */
static bool receive_text(int fd, bool peek)
{
	if (peek || received.size > sizeof(received.text) / 2) {
		size_t kept = peek ? 0 : sizeof(received.text) / 4;
		memmove(received.text, received.text + received.size - kept, kept);
		received.size = kept;
	}
	ssize_t n = recv(fd, received.text + received.size, sizeof(received.text) - received.size,
			 MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
	if (n > 0)
		received.size += (size_t)n;
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Where `text` is among what was received, or NULL. */
static const char *find_text(const char *text)
{
	return memmem(received.text, received.size, text, strlen(text));
}

/* The last place before `end` where `text` was received, or NULL. */
static const char *find_last_text(const char *text, const char *end)
{
	const char *at = received.text, *found = NULL;
	while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		found = at - strlen(text);
	}
	return found;
}

static unsigned count_text(const char *text)
{
	const char *at = received.text, *end = received.text + received.size;
	unsigned n = 0;
	while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		n++;
	}
	return n;
}

enum answer { ANSWERED, SILENT, CLOSED };

/* Waits until the peer has sent `mark`. */
static enum answer wait_for_mark(int fd, const char *mark, bool peek, int wait_ms)
{
	uint64_t end_ns = vms_clock_now_ns() + (uint64_t)wait_ms * 1000000;
	while (!find_text(mark)) {
		uint64_t now_ns = vms_clock_now_ns();
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		if (now_ns >= end_ns)
			return SILENT;
		/* What was peeked at stays in the socket, so poll would return at once. */
		int left_ms = (int)((end_ns - now_ns) / 1000000) + 1;
		if (poll(peek ? NULL : &poller, peek ? 0 : 1, peek ? 5 : left_ms) < 0)
			continue;
		if (!receive_text(fd, peek))
			return CLOSED;
	}
	return ANSWERED;
}

static bool has_qemu_gone(const struct vms_watchdog *watchdog)
{
	return watchdog->process.pid && !vms_host_identity_is_alive(&watchdog->process);
}

/* The value of the last "status" that was received before `end`. */
static enum vms_run_state find_last_status(const char *end)
{
	static const char key[] = "\"status\": \"";
	const char *value = find_last_text(key, end);
	if (value)
		value += strlen(key);
	const char *quote = value ? memchr(value, '"', (size_t)(end - value)) : NULL;
	return quote ? vms_run_state_parse(value, (size_t)(quote - value)) : VMS_RUN_UNKNOWN;
}

/* ---- in the watchdog: breakpoints ---------------------------------------- */

/* The watchdog's own copy of the connection to QEMU's stub, and whether it has stopped QEMU. */
static int stub_fd = -1;
static bool stopped_by_clearing;
/* The holder's `seen_ns` when its breakpoints were removed last: it has not moved since. */
static uint64_t cleared_seen_ns;

/* Receives the connection to the stub, which the holder shares. False: the holder has closed. */
static bool receive_stub(const struct vms_watchdog *watchdog)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(watchdog->kept, &message, MSG_DONTWAIT);
	const struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS) {
		if (stub_fd >= 0)
			close(stub_fd);
		memcpy(&stub_fd, CMSG_DATA(header), sizeof(stub_fd));
	}
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Sends a packet to the stub. */
static bool send_packet(int fd, const char *payload)
{
	char packet[64];
	uint8_t sum = 0;
	for (const char *c = payload; *c; c++)
		sum += (uint8_t)*c;
	snprintf(packet, sizeof(packet), "+$%s#%02x", payload, sum);
	return send_all(fd, packet);
}

/* Waits for the stub's answer to qC, which is the last of a row. */
static bool wait_for_current(const struct vms_watchdog *watchdog, int fd, int wait_ms)
{
	enum answer answer;
	do {
		answer = wait_for_mark(fd, "$QC", false, ANSWER_MS);
		wait_ms -= ANSWER_MS;
	} while (answer == SILENT && !has_qemu_gone(watchdog) && wait_ms > 0);
	return answer == ANSWERED;
}

/* Drops what the stub has sent. If that tells that our bytes have stopped the machine, notes it. */
static void drop_received(void)
{
	stopped_by_clearing |= find_text(gdb_told_stop) != NULL;
	received.size = 0;
}

/*
 * Removes the breakpoints of one vCPU: a debugger that begins asks `?`, and QEMU forgets them then.
 * Under TCG each vCPU has a list of its own.
 */
static bool clear_vcpu(const struct vms_watchdog *watchdog, int fd, unsigned thread)
{
	char select[32];
	snprintf(select, sizeof(select), "Hc%x", thread);
	drop_received();
	return send_packet(fd, select) && send_packet(fd, "?") && send_packet(fd, "qC") &&
	       wait_for_current(watchdog, fd, G_MAXINT);
}

static unsigned last_thread(const struct vms_watchdog *watchdog)
{
	return (unsigned)MIN(atomic_load(&watchdog->record->hold.last_thread), VCPUS_MAX);
}

/* See clear_by. */
static bool clear_all_vcpus(const struct vms_watchdog *watchdog, int fd, int wait_ms)
{
	vms_hold_note_request(&watchdog->record->hold, g_get_real_time());
	if (!send_all(fd, gdb_stop_any) || !wait_for_current(watchdog, fd, wait_ms))
		return false;
	vms_hold_note_answer(&watchdog->record->hold);
	for (unsigned thread = 1; thread <= last_thread(watchdog); thread++)
		if (!clear_vcpu(watchdog, fd, thread))
			return false;
	return true;
}

/*
 * Removes all breakpoints by a connection to the stub, which has this process alone as its client.
 * The machine stands still afterwards. False if QEMU or the connection has gone.
 */
static bool clear_by(const struct vms_watchdog *watchdog, int fd, int wait_ms)
{
	/* What the holder has left unread: a request of its own may have stopped the machine. */
	received.size = 0;
	do
		drop_received();
	while (receive_text(fd, false) && received.size);
	const bool done = clear_all_vcpus(watchdog, fd, wait_ms);
	drop_received();
	return done;
}

/*
 * Removes the holder's breakpoints by its own connection to the stub. A holder that goes on finds
 * that out of step, and closes it. False if they may be left.
 */
static bool clear_breakpoints(const struct vms_watchdog *watchdog)
{
	struct vms_hold *hold = &watchdog->record->hold;
	const int fd = stub_fd >= 0 ? stub_fd : watchdog->stub;
	if (!atomic_load(&hold->has_breakpoints))
		return true;
	cleared_seen_ns = atomic_load(&hold->seen_ns);
	const bool done = fd >= 0 && clear_by(watchdog, fd, G_MAXINT);
	/* The holder cannot know of that stop: what told of it has been read here. */
	if (stopped_by_clearing && !vms_hold_change(hold, VMS_HOLD_NONE, VMS_HOLD_OWED))
		vms_hold_change(hold, VMS_HOLD_LOOKING, VMS_HOLD_OWED);
	if (done)
		atomic_store(&hold->is_cleared, true);
	return done;
}

/* True if there may be breakpoints since the watchdog has removed those that there were. */
static bool may_have_breakpoints(const struct vms_hold *hold)
{
	return atomic_load(&hold->has_breakpoints) &&
	       !(atomic_load(&hold->is_cleared) && atomic_load(&hold->seen_ns) == cleared_seen_ns);
}

/*
 * Ends single steps that were begun over a connection which broke, by stepping every vCPU of the
 * stopped machine once (vms_gdb_end_lost_steps).
 */
static void end_lost_steps(const struct vms_watchdog *watchdog, int fd)
{
	for (unsigned thread = 1; thread <= last_thread(watchdog); thread++) {
		char select[32], step[32];
		snprintf(select, sizeof(select), "Hc%x", thread);
		snprintf(step, sizeof(step), "vCont;s:%x", thread);
		received.size = 0;
		if (!send_packet(fd, select) ||
		    wait_for_mark(fd, "#", false, ANSWER_MS) != ANSWERED || !find_text("$OK#9a") ||
		    !send_packet(fd, step))
			return;
		/* An instruction that waits for an interrupt gets none. */
		if (wait_for_mark(fd, "$T", false, STEP_MS) == SILENT &&
		    (!send_all(fd, "\003") ||
		     wait_for_mark(fd, "$T", false, ANSWER_MS) != ANSWERED))
			return;
	}
}

/* ---- in the watchdog: QMP ----------------------------------------------- */

/* Asks for the run state, until QEMU answers or ends. It may be stalled for hours. */
static enum answer ask_state(const struct vms_watchdog *watchdog, int fd, bool peek, int wait_ms,
			     enum vms_run_state *ret)
{
	static unsigned number;
	char command[96], mark[32];
	enum answer answer;
	snprintf(mark, sizeof(mark), "\"guard-%u\"", ++number);
	snprintf(command, sizeof(command), "{\"execute\":\"query-status\",\"id\":%s}\n", mark);
	if (!send_all(fd, command))
		return CLOSED;
	do {
		answer = wait_for_mark(fd, mark, peek, ANSWER_MS);
		wait_ms -= ANSWER_MS;
	} while (answer == SILENT && !has_qemu_gone(watchdog) && wait_ms > 0);
	if (answer == ANSWERED)
		*ret = find_last_status(find_text(mark));
	return answer;
}

/* What QEMU has told before the connection to its stub was looked at. */
static bool told_stop, told_resume, told_guest_stop;

/* True if the guest has stopped itself meanwhile. Then it stays stopped: see vms_event_stops. */
static bool find_guest_stop(void)
{
	static const char *const actions[] = { "\"action\": \"pause\"", "\"action\": \"stop\"" };
	static const char *const events[] = { "GUEST_PANICKED", "WATCHDOG", "BLOCK_IO_ERROR" };
	bool acted = find_text(actions[0]) || find_text(actions[1]);
	for (size_t i = 0; i < G_N_ELEMENTS(events); i++) {
		char mark[48];
		snprintf(mark, sizeof(mark), "\"event\": \"%s\"", events[i]);
		if (acted && find_text(mark))
			return true;
	}
	return find_text("\"event\": \"SHUTDOWN\"") != NULL;
}

static void note_events(void)
{
	told_stop |= find_text("\"event\": \"STOP\"") != NULL;
	told_resume |= find_text("\"event\": \"RESUME\"") != NULL;
	told_guest_stop |= find_guest_stop();
}

/*
 * True if a machine in this state stands still by a breakpoint of the holder's, as far as both
 * know. A reset of a machine that was stopped, with neither looked at, may be one of a hit: it is
 * taken for that.
 */
static bool is_hit(const struct vms_watchdog *watchdog, enum vms_run_state state)
{
	const struct vms_hold *hold = &watchdog->record->hold;
	note_events();
	if (!atomic_load(&hold->has_breakpoints) || (atomic_load(&hold->halts) && !told_resume))
		return false;
	return state == VMS_RUN_DEBUG ||
	       (vms_run_state_may_follow_hit(state) &&
		(atomic_load(&hold->is_at_hit) || (told_stop && !atomic_load(&hold->is_left))));
}

/* The number behind the last `key` before `end`; 0: there is none. */
static int64_t find_last_number(const char *key, const char *end)
{
	const char *at = find_last_text(key, end);
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
	const char *event = find_last_text("\"event\": \"RESUME\"", received.text + received.size);
	return event ? find_last_number("\"seconds\": ", event) * 1000000 +
			       find_last_number("\"microseconds\": ", event)
		     : 0;
}

/*
 * True if the machine may stand still by a stop of the holder's. If it was resumed after the
 * holder's last request, and that was answered, others have stopped it since.
 */
static bool may_be_held(const struct vms_watchdog *watchdog)
{
	const struct vms_hold *hold = &watchdog->record->hold;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&hold->word));
	const int64_t resume_us = MAX(find_last_resume_us(), atomic_load(&hold->resumed_us));
	const bool is_over = watchdog->process.pid && !atomic_load(&hold->is_asked) &&
			     resume_us > atomic_load(&hold->asked_us);
	return !is_over &&
	       (vms_hold_may_be_ours(phase) || (phase == VMS_HOLD_LOOKING && resume_us));
}

/*
 * Tries once to undo the holder's stop. Sets *done if nothing is left to do. False if QEMU cannot
 * be reached by `fd`.
 */
static bool undo_stop(const struct vms_watchdog *watchdog, int fd, bool peek, bool *done)
{
	enum vms_run_state state;
	*done = false;
	if (ask_state(watchdog, fd, peek, peek ? ANSWER_MS : G_MAXINT, &state) != ANSWERED)
		return false;
	const bool stands_at_hit = is_hit(watchdog, state);
	if (told_guest_stop || (!stands_at_hit && !stopped_by_clearing && !may_be_held(watchdog))) {
		*done = true;
		return true;
	}
	switch (vms_run_state_release_way(state, stands_at_hit)) {
	case VMS_RELEASE_NOTHING: *done = true; return true;
	case VMS_RELEASE_CONT: return send_all(fd, qmp_cont);
	case VMS_RELEASE_STOP_CONT: *done = true; return send_all(fd, qmp_stop_cont);
	case VMS_RELEASE_LATER:
	default: poll(NULL, 0, RETRY_MS); return true;
	}
}

/* Undoes the holder's stop, for as long as that takes. False if QEMU cannot be reached by `fd`. */
static bool undo_stop_at_last(const struct vms_watchdog *watchdog, int fd)
{
	bool done = false;
	for (unsigned tries = 0; !done; tries++) {
		if (!undo_stop(watchdog, fd, false, &done))
			return false;
		/* QEMU refused it: for example, a dump by the owner has to end first. */
		if (tries > 0 && !done)
			poll(NULL, 0, RETRY_MS);
	}
	return true;
}

/* Sends text, and a descriptor with it. */
static bool send_with_descriptor(int fd, const char *text, int passed)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { (void *)text, strlen(text) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &passed, sizeof(passed));
	return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len;
}

/*
 * Removes breakpoints and single steps by a stub of the watchdog's own, where the holder's was
 * gone. False if QEMU cannot be reached by `fd`.
 */
static bool clear_by_new_stub(const struct vms_watchdog *watchdog, int fd)
{
	enum vms_run_state state;
	int ends[2];
	/* Only such a socket takes a descriptor along. */
	if (watchdog->address.ss_family != AF_UNIX)
		return true;
	if (ask_state(watchdog, fd, false, G_MAXINT, &state) != ANSWERED ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return false;
	const bool was_running = state == VMS_RUN_RUNNING;
	const bool is_ours = was_running || is_hit(watchdog, state);
	bool done = send_with_descriptor(fd, watchdog->pass_fd, ends[1]) &&
		    send_all(fd, watchdog->add_stub);
	close(ends[1]);
	done = done && clear_by(watchdog, ends[0], 30 * ANSWER_MS);
	stopped_by_clearing |= was_running;
	if (done && is_ours && atomic_load(&watchdog->record->hold.is_stepping))
		end_lost_steps(watchdog, ends[0]);
	close(ends[0]);
	received.size = 0;
	return send_all(fd, watchdog->remove_stub) && done;
}

/*
 * True if a machine that was released stands again, though there is no breakpoint: a vCPU is within
 * a single step for ever.
 */
static bool stands_again(const struct vms_watchdog *watchdog, int fd)
{
	enum vms_run_state state;
	poll(NULL, 0, SETTLE_MS);
	received.size = 0;
	return ask_state(watchdog, fd, false, G_MAXINT, &state) == ANSWERED &&
	       state == VMS_RUN_DEBUG && is_hit(watchdog, state);
}

/* Removes the stub and releases the machine. False if QEMU cannot be reached by `fd`. */
static bool clean_up_on(const struct vms_watchdog *watchdog, int fd, const char *begin)
{
	struct vms_hold *hold = &watchdog->record->hold;
	enum vms_run_state state;
	if (!send_all(fd, begin) || !send_all(fd, watchdog->close_fd) ||
	    (atomic_load(&hold->stub) && !send_all(fd, watchdog->remove_stub)))
		return false;
	if (may_have_breakpoints(hold) && !clear_by_new_stub(watchdog, fd))
		return false;
	if (!undo_stop_at_last(watchdog, fd))
		return false;
	for (unsigned i = 0; atomic_load(&hold->has_breakpoints) && i < STEP_ROUNDS; i++) {
		if (!stands_again(watchdog, fd))
			break;
		atomic_store(&hold->is_stepping, true);
		if (!clear_by_new_stub(watchdog, fd) || !undo_stop_at_last(watchdog, fd))
			return false;
	}
	/* An answer to this says that QEMU has handled all that was sent before. */
	return ask_state(watchdog, fd, false, G_MAXINT, &state) == ANSWERED;
}

/* True if this is the QEMU that the holder was connected to. Another one may have taken its place.
 */
static bool is_same_qemu(const struct vms_watchdog *watchdog, int fd)
{
	if (watchdog->process.pid && watchdog->address.ss_family == AF_UNIX &&
	    vms_host_identity_is_peer(&watchdog->process, fd))
		return true;
	received.size = 0;
	return send_all(fd, qmp_enter) && send_all(fd, qmp_chardevs) &&
	       wait_for_mark(fd, qmp_chardevs_id, false, 30 * ANSWER_MS) == ANSWERED &&
	       find_text(watchdog->quoted_label);
}

static int connect_again(const struct vms_watchdog *watchdog)
{
	int fd = socket(watchdog->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd poller = { .fd = fd, .events = POLLOUT };
	bool connected = connect(fd, (const struct sockaddr *)&watchdog->address,
				 watchdog->address_size) == 0 ||
			 (errno == EINPROGRESS && poll(&poller, 1, ANSWER_MS) > 0);
	if (connected && is_same_qemu(watchdog, fd))
		return fd;
	close(fd);
	return -1;
}

/* Cleans up by the holder's connection or, if that broke, by new ones, for as long as QEMU lives.
 */
static void clean_up_qmp(const struct vms_watchdog *watchdog)
{
	atomic_store(&watchdog->record->hold.is_cleared, false);
	clear_breakpoints(watchdog);
	bool done = clean_up_on(watchdog, watchdog->qmp, qmp_resync);
	close(watchdog->qmp);
	while (!done && !has_qemu_gone(watchdog)) {
		int fd = connect_again(watchdog);
		received.size = 0;
		done = fd >= 0 && clean_up_on(watchdog, fd, qmp_enter);
		if (fd >= 0)
			close(fd);
		/* The process is not known, and nobody listens: QEMU seems to have ended. */
		if (!done && fd < 0 && !watchdog->process.pid)
			return;
		if (!done)
			poll(NULL, 0, RETRY_MS);
	}
}

/*
 * Releases the machine for a holder that is stopped, and may go on to use the connection. False if
 * QEMU has not told that it is done.
 */
static bool release_by_qmp(const struct vms_watchdog *watchdog)
{
	bool done = false;
	received.size = 0;
	if (!send_all(watchdog->qmp, qmp_resync))
		return false;
	for (unsigned i = 0; i < 3 && !done; i++) {
		if (!undo_stop(watchdog, watchdog->qmp, true, &done))
			return false;
	}
	return done;
}

/* ---- in the watchdog: a gdb stub ---------------------------------------- */

/* Decodes the hexadecimal text that follows `mark`. Returns its size. */
static size_t decode_after(const char *mark, char *ret, size_t size)
{
	const char *hex = find_text(mark);
	size_t n = 0;
	if (!hex)
		return 0;
	hex += strlen(mark);
	const char *end = received.text + received.size;
	for (; n < size && end - hex >= 2 && g_ascii_isxdigit(hex[0]) && g_ascii_isxdigit(hex[1]);
	     hex += 2)
		ret[n++] = (char)(g_ascii_xdigit_value(hex[0]) * 16 + g_ascii_xdigit_value(hex[1]));
	return n;
}

/* The state in the monitor's answer: "running", "paused", or "paused (suspended)". */
static enum vms_run_state parse_monitor_state(void)
{
	char text[64];
	size_t size = decode_after(gdb_status_text, text, sizeof(text));
	char *line_end = memchr(text, '\r', size), *open = memchr(text, '(', size);
	if (!line_end)
		return VMS_RUN_UNKNOWN;
	if (open && open < line_end)
		return vms_run_state_parse(open + 1, (size_t)(line_end - open) - 2);
	return vms_run_state_parse(text, (size_t)(line_end - text));
}

/* Waits until the stub has sent `mark`. Its QEMU may be stalled for hours. False if it has gone. */
static bool wait_for_stub(const struct vms_watchdog *watchdog, const char *mark)
{
	enum answer answer;
	do
		answer = wait_for_mark(watchdog->gdb, mark, false, ANSWER_MS);
	while (answer == SILENT);
	return answer == ANSWERED;
}

/*
 * Skips all that the stub has sent before. An empty request acknowledges a packet that may be left.
 * The machine stands still afterwards.
 */
static bool resync_stub(const struct vms_watchdog *watchdog)
{
	received.size = 0;
	return send_all(watchdog->gdb, gdb_resync) && send_all(watchdog->gdb, gdb_who) &&
	       wait_for_stub(watchdog, "$QC");
}

/* Releases the machine by QEMU's monitor: the stub's own requests do not look at the state first.
 */
static void release_by_monitor(const struct vms_watchdog *watchdog)
{
	for (;;) {
		received.size = 0;
		if (!send_all(watchdog->gdb, gdb_status) || !wait_for_stub(watchdog, "$OK#9a"))
			return;
		enum vms_release_way way = vms_run_state_release_way(parse_monitor_state(), false);
		received.size = 0;
		if (way == VMS_RELEASE_STOP_CONT &&
		    (!send_all(watchdog->gdb, gdb_stop) || !wait_for_stub(watchdog, "$OK#9a")))
			return;
		received.size = 0;
		if (way == VMS_RELEASE_CONT || way == VMS_RELEASE_STOP_CONT) {
			send_all(watchdog->gdb, gdb_cont);
			wait_for_stub(watchdog, "$OK#9a");
		}
		if (way != VMS_RELEASE_LATER)
			return;
		poll(NULL, 0, RETRY_MS);
	}
}

/*
 * Releases the machine for a holder that is stopped, and may go on. The stub's answers are left to
 * the holder, which skips them (vms_gdb_resync). Nothing is sent later: any further byte would stop
 * the machine, and the holder would not know.
 */
static void release_for_gdb_client(const struct vms_watchdog *watchdog)
{
	bool has_monitor = atomic_load(&watchdog->record->has_monitor);
	if (send_all(watchdog->gdb, gdb_resync))
		send_all(watchdog->gdb, has_monitor ? gdb_cont : gdb_continue);
}

/* True if QEMU's monitor answers behind the stub. The holder may not have found out yet. */
static bool has_monitor(const struct vms_watchdog *watchdog)
{
	enum answer answer = SILENT;
	if (atomic_load(&watchdog->record->has_monitor))
		return true;
	received.size = 0;
	if (!send_all(watchdog->gdb, gdb_status))
		return false;
	/* Another stub answers by an error or, as to the empty request, by an empty packet. */
	while (answer == SILENT && !find_text("$E") && count_text("$#00") < 2)
		answer = wait_for_mark(watchdog->gdb, "$OK#9a", false, POLL_MS);
	return answer == ANSWERED && find_text(gdb_status_text);
}

/*
 * Releases a machine that stood still by somebody else's stop, if it stands still by ours now: its
 * owner has resumed it, and the tool's last request, or our interrupt, has stopped it.
 */
static void clean_up_looking(const struct vms_watchdog *watchdog)
{
	received.size = 0;
	if (send_all(watchdog->gdb, gdb_interrupt) && wait_for_stub(watchdog, "$QC") &&
	    find_text(gdb_told_stop))
		release_by_monitor(watchdog);
}

/* Releases the machine. A stub that loses its client does not: a stopped machine stays stopped. */
static void clean_up_gdb(const struct vms_watchdog *watchdog)
{
	if (vms_hold_phase(atomic_load(&watchdog->record->hold.word)) == VMS_HOLD_LOOKING) {
		clean_up_looking(watchdog);
		return;
	}
	if (!resync_stub(watchdog))
		return;
	if (has_monitor(watchdog))
		release_by_monitor(watchdog);
	else if (send_all(watchdog->gdb, gdb_detach))
		wait_for_stub(watchdog, "OK");
}

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
	struct vms_hold *hold = &watchdog->record->hold;
	atomic_store(&watchdog->record->is_watchdog_busy, true);
	const bool has_hold =
		!atomic_load(&hold->has_breakpoints) || vms_hold_may_be_ours(vms_hold_phase(word));
	bool taken = !has_hold ||
		     atomic_compare_exchange_strong(&hold->word, &word,
						    vms_hold_in_phase(word, VMS_HOLD_TAKEN));
	released_requests = atomic_load(&hold->requests);
	if (taken && watchdog->qmp >= 0) {
		clear_breakpoints(watchdog);
		/* What is not released stays owed, to this process or to a holder that goes on. */
		if (release_by_qmp(watchdog)) {
			if (stopped_by_clearing)
				vms_hold_change(hold, VMS_HOLD_OWED, VMS_HOLD_NONE);
			stopped_by_clearing = told_stop = told_resume = told_guest_stop = false;
		}
	} else if (taken)
		release_for_gdb_client(watchdog);
	atomic_store(&watchdog->record->is_watchdog_busy, false);
}

/*
 * Releases the machine again for a holder that is still stopped. The first release may have failed,
 * or the holder may have sent one more request after it, which stopped the machine again.
 */
static void release_again(const struct vms_watchdog *watchdog, uint64_t word)
{
	if (watchdog->qmp >= 0)
		release_by_qmp(watchdog);
	else if (atomic_load(&watchdog->record->hold.requests) != released_requests)
		release_for_holder(watchdog, word);
}

/*
 * True if a request of the holder, who looks at a machine that somebody else has stopped, has
 * stopped it, and the holder has not read that yet.
 */
static bool has_stopped_unread(const struct vms_watchdog *watchdog)
{
	received.size = 0;
	return watchdog->gdb >= 0 && receive_text(watchdog->gdb, true) && find_text(gdb_told_stop);
}

/*
 * Checks the holder once. `suspect` is the hold in which the last check found it stopped, or 0.
 * Returns the same for this check.
 */
static uint64_t check_holder(const struct vms_watchdog *watchdog, uint64_t suspect)
{
	struct vms_hold *hold = &watchdog->record->hold;
	uint64_t word = atomic_load(&hold->word);
	enum vms_hold_phase phase = vms_hold_phase(word);
	bool has_breakpoints = may_have_breakpoints(hold);
	bool stopped = (phase != VMS_HOLD_NONE || has_breakpoints) && is_holder_stopped(watchdog);
	bool stuck = stopped && suspect == (word | SUSPECT);
	if (has_breakpoints && phase != VMS_HOLD_HELD ? stuck || is_blind(hold)
	    : phase == VMS_HOLD_HELD
		    ? stuck || is_past_limit(hold)
		    : phase == VMS_HOLD_LOOKING && stuck && has_stopped_unread(watchdog))
		release_for_holder(watchdog, word);
	else if (stuck && vms_hold_may_be_ours(phase))
		release_again(watchdog, word);
	return stopped ? atomic_load(&hold->word) | SUSPECT : 0;
}

/* Closes all file descriptors that the watchdog does not need. */
static void close_other_files(const struct vms_watchdog *watchdog)
{
	int last = STDIN_FILENO - 1;
	int keep[] = { watchdog->kept,
		       watchdog->holder,
		       MAX(watchdog->qmp, watchdog->gdb),
		       watchdog->record_fd,
		       watchdog->stub,
		       watchdog->process.pid ? watchdog->process.pidfd : -1 };
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
		{ .fd = watchdog->kept, .events = POLLIN },
		{ .fd = watchdog->holder, .events = POLLIN },
	};
	for (;;) {
		const int n = poll(ends, G_N_ELEMENTS(ends), POLL_MS);
		/* The connection that was shared comes before the end. */
		if (n > 0 && (!receive_stub(watchdog) || ends[1].revents))
			break;
		if (n <= 0)
			suspect = check_holder(watchdog, suspect);
	}
	errno = 0;
	while (receive_stub(watchdog) && errno != EAGAIN)
		;
	const struct vms_hold *hold = &watchdog->record->hold;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&hold->word));
	received.size = 0;
	if (watchdog->qmp >= 0 && (phase != VMS_HOLD_NONE || atomic_load(&hold->stub) ||
				   atomic_load(&hold->has_breakpoints)))
		clean_up_qmp(watchdog);
	else if (watchdog->gdb >= 0 && phase != VMS_HOLD_NONE)
		clean_up_gdb(watchdog);
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
	watchdog->kept = ends[0];
	watchdog->keeper = ends[1];
	watchdog->qmp = watchdog->gdb = watchdog->stub = -1;
	watchdog->holder = (int)syscall(SYS_pidfd_open, getpid(), 0); /* -1: no pidfds */
	watchdog->process = *process;
	watchdog->address = stream->address;
	watchdog->address_size = stream->address_size;
	watchdog->record_path = label ? vms_record_path(label) : NULL;
	snprintf(watchdog->stat_path, sizeof(watchdog->stat_path), "/proc/%d/stat", (int)getpid());
	watchdog->record = vms_record_new(label, process, &watchdog->record_fd, error);
	if (!watchdog->record)
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
	watchdog->qmp = qmp->fd;
	snprintf(watchdog->quoted_label, sizeof(watchdog->quoted_label), "\"%s\"", label);
	snprintf(watchdog->close_fd, sizeof(watchdog->close_fd),
		 "{\"execute\":\"closefd\",\"arguments\":{\"fdname\":\"%s\"}}\n", label);
	snprintf(watchdog->pass_fd, sizeof(watchdog->pass_fd),
		 "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"%s\"}}\n", label);
	snprintf(watchdog->add_stub, sizeof(watchdog->add_stub),
		 "{\"execute\":\"chardev-add\",\"arguments\":{\"id\":\"%s\",\"backend\":"
		 "{\"type\":\"socket\",\"data\":{\"addr\":{\"type\":\"fd\",\"data\":"
		 "{\"str\":\"%s\"}},\"server\":false}}}}\n"
		 "{\"execute\":\"human-monitor-command\","
		 "\"arguments\":{\"command-line\":\"gdbserver chardev:%s\"}}\n",
		 label, label, label);
	snprintf(watchdog->remove_stub, sizeof(watchdog->remove_stub),
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
	watchdog->gdb = gdb->fd;
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
	close(watchdog->kept);
	if (watchdog->holder >= 0)
		close(watchdog->holder);
	if (watchdog->record_fd >= 0)
		close(watchdog->record_fd);
	vms_record_free(watchdog->record);
	g_free(watchdog->record_path);
	g_free(watchdog);
}

void vms_watchdog_set_monitor(struct vms_watchdog *watchdog)
{
	atomic_store(&watchdog->record->has_monitor, true);
}

struct vms_hold *vms_watchdog_hold(struct vms_watchdog *watchdog)
{
	return &watchdog->record->hold;
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
	watchdog->stub = fd;
	return true;
}

bool vms_watchdog_check(struct vms_watchdog *watchdog, GError **error)
{
	return is_watchdog_alive(watchdog) || start_watchdog(watchdog, error);
}

void vms_watchdog_wait(struct vms_watchdog *watchdog)
{
	while (atomic_load(&watchdog->record->is_watchdog_busy) && is_watchdog_alive(watchdog))
		g_usleep(BUSY_US);
	atomic_store(&watchdog->record->is_watchdog_busy, false);
}
