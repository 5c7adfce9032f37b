/* SPDX-License-Identifier: MIT */
/*
 * The watchdog takes no lock and allocates nothing (machine/host/side_process.h): it uses system
 * calls and fixed text only. It does not parse JSON either: it finds QEMU's answers by the ids of
 * the commands.
 */
#include "machine/qemu/watchdog.h"

#include "base/clock.h"
#include "machine/host/side_process.h"
#include "machine/qemu/hold_record.h"
#include "machine/qemu/run_state.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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
/* How long vms_watchdog_free waits for a watchdog that still has something to do. */
#define FAREWELL_MS 2000

struct vms_watchdog {
	struct vms_record *record;
	int record_fd;
	char *record_path;
	pid_t pid;			  /* of the watchdog */
	int keeper, kept;		  /* a pipe: when `keeper` is closed, the watchdog ends */
	int holder;			  /* pidfd of this process */
	struct vms_host_identity process; /* the QEMU's; its pidfd is borrowed */
	int qmp, gdb;			  /* borrowed; -1: not used */
	char stat_path[32];		  /* of this process, in /proc */
	char quoted_label[96];		  /* "\"LABEL\"" */
	char close_fd[160], remove_stub[320]; /* QMP commands */
	struct sockaddr_storage address;      /* of the QMP socket */
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

/* True if the guest has stopped itself meanwhile. Then it stays stopped: see vms_event_stops. */
static bool has_guest_stopped(void)
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
	if (!may_be_held(watchdog) || has_guest_stopped()) {
		*done = true;
		return true;
	}
	switch (vms_run_state_release_way(state)) {
	case VMS_RELEASE_NOTHING: *done = true; return true;
	case VMS_RELEASE_CONT: return send_all(fd, qmp_cont);
	case VMS_RELEASE_STOP_CONT: *done = true; return send_all(fd, qmp_stop_cont);
	case VMS_RELEASE_LATER:
	default: poll(NULL, 0, RETRY_MS); return true;
	}
}

/* Removes the stub and releases the machine. False if QEMU cannot be reached by `fd`. */
static bool clean_up_on(const struct vms_watchdog *watchdog, int fd, const char *begin)
{
	bool done = false;
	enum vms_run_state state;
	if (!send_all(fd, begin) || !send_all(fd, watchdog->close_fd) ||
	    (atomic_load(&watchdog->record->hold.stub) && !send_all(fd, watchdog->remove_stub)))
		return false;
	for (unsigned tries = 0; !done; tries++) {
		if (!undo_stop(watchdog, fd, false, &done))
			return false;
		/* QEMU refused it: for example, a dump by the owner has to end first. */
		if (tries > 0 && !done)
			poll(NULL, 0, RETRY_MS);
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

/* Releases the machine for a holder that is stopped, and may go on to use the connection. */
static void release_by_qmp(const struct vms_watchdog *watchdog)
{
	bool done = false;
	received.size = 0;
	if (!send_all(watchdog->qmp, qmp_resync))
		return;
	for (unsigned i = 0; i < 3 && !done; i++) {
		if (!undo_stop(watchdog, watchdog->qmp, true, &done))
			return;
	}
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
		enum vms_release_way way = vms_run_state_release_way(parse_monitor_state());
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

static bool is_past_limit(const struct vms_hold *hold)
{
	uint64_t limit_ns = atomic_load(&hold->limit_ns);
	return vms_clock_now_ns() > atomic_load(&hold->begin_ns) + limit_ns + GRACE_NS;
}

/* How many requests a bare stub's client had counted when the machine was released for it. */
static uint64_t released_requests;

/* Takes the hold from a holder that does not move, and releases the machine. */
static void release_for_holder(const struct vms_watchdog *watchdog, uint64_t word)
{
	struct vms_hold *hold = &watchdog->record->hold;
	atomic_store(&watchdog->record->is_watchdog_busy, true);
	bool taken = atomic_compare_exchange_strong(&hold->word, &word,
						    vms_hold_in_phase(word, VMS_HOLD_TAKEN));
	released_requests = atomic_load(&hold->requests);
	if (taken && watchdog->qmp >= 0)
		release_by_qmp(watchdog);
	else if (taken)
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
	bool stopped = phase != VMS_HOLD_NONE && vms_process_stands_still(watchdog->stat_path);
	bool stuck = stopped && suspect == word;
	if (phase == VMS_HOLD_HELD
		    ? stuck || is_past_limit(hold)
		    : phase == VMS_HOLD_LOOKING && stuck && has_stopped_unread(watchdog))
		release_for_holder(watchdog, word);
	else if (stuck && vms_hold_may_be_ours(phase))
		release_again(watchdog, word);
	return stopped ? atomic_load(&hold->word) : 0;
}

static void live(void *data)
{
	const struct vms_watchdog *watchdog = data;
	uint64_t suspect = 0;
	struct pollfd ends[] = {
		{ .fd = watchdog->kept, .events = POLLIN },
		{ .fd = watchdog->holder, .events = POLLIN },
	};
	while (poll(ends, G_N_ELEMENTS(ends), POLL_MS) <= 0)
		suspect = check_holder(watchdog, suspect);
	const struct vms_hold *hold = &watchdog->record->hold;
	enum vms_hold_phase phase = vms_hold_phase(atomic_load(&hold->word));
	received.size = 0;
	if (watchdog->qmp >= 0 && (phase != VMS_HOLD_NONE || atomic_load(&hold->stub)))
		clean_up_qmp(watchdog);
	else if (watchdog->gdb >= 0 && phase != VMS_HOLD_NONE)
		clean_up_gdb(watchdog);
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
	const int keep[] = { watchdog->kept, watchdog->holder, MAX(watchdog->qmp, watchdog->gdb),
			     watchdog->record_fd,
			     watchdog->process.pid ? watchdog->process.pidfd : -1 };
	const struct vms_side_work work = { PROCESS_NAME, live, watchdog, keep,
					    G_N_ELEMENTS(keep) };
	watchdog->pid = vms_side_process_start(&work);
	return watchdog->pid > 0 || set_start_error(-watchdog->pid, error);
}

static struct vms_watchdog *new_watchdog(const struct vms_stream *stream, const char *label,
					 const struct vms_host_identity *process, GError **error)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot make a pipe to the watchdog: %s", g_strerror(errno));
		return NULL;
	}
	struct vms_watchdog *watchdog = g_new0(struct vms_watchdog, 1);
	watchdog->kept = ends[0];
	watchdog->keeper = ends[1];
	watchdog->qmp = watchdog->gdb = -1;
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

void vms_watchdog_free(struct vms_watchdog *watchdog, bool is_late)
{
	if (!watchdog)
		return;
	close(watchdog->keeper);
	bool ended = watchdog->pid <= 0 ||
		     vms_side_process_reap(watchdog->pid, is_late ? 0 : FAREWELL_MS);
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

bool vms_watchdog_check(struct vms_watchdog *watchdog, GError **error)
{
	return vms_side_process_is_alive(watchdog->pid) || start_watchdog(watchdog, error);
}

void vms_watchdog_wait(struct vms_watchdog *watchdog)
{
	while (atomic_load(&watchdog->record->is_watchdog_busy) &&
	       vms_side_process_is_alive(watchdog->pid))
		g_usleep(BUSY_US);
	atomic_store(&watchdog->record->is_watchdog_busy, false);
}
