/* SPDX-License-Identifier: MIT */
/*
 * Runs a call trace from its begin to its end, with two threads. One thread empties the rings into
 * the directory. It does nothing else that takes time, so that no vCPU waits for it. The other
 * thread watches the guest, which may boot, load modules, or end. This may take long.
 */
#include <vmscope/calls.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/process.h"
#include "calls/drain.h"
#include "calls/guest_clock.h"
#include "calls/names.h"
#include "calls/trace.h"
#include "guest/follower.h"
#include "machine/engine.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vmscope/log.h>

#define TICK_MS 100
#define TICK_NS (TICK_MS * UINT64_C(1000000))
/* How often the mappings of processes are read, and how often the agent gets new functions. */
#define INTERVAL_NS UINT64_C(1000000000)
/* How long to wait for the last answer of a QEMU that is stopped. */
#define GRACE_NS UINT64_C(1000000000)
/* How long to wait for the last records of a QEMU that has closed its monitor. */
#define MAX_EXIT_NS (5 * INTERVAL_NS)

struct vms_calls {
	struct vms_guest *guest;
	struct vms_machine *machine;
	struct vms_calls_options options; /* we own what it points to */
	struct vms_calls_trace trace;
	struct vms_guest_follower follower;
	bool agent_is_behind; /* the newest functions were not sent to the agent yet */
	uint64_t sent_ns;     /* when functions were last sent to the agent */

	GMutex lock; /* guards all below */
	struct vms_calls_directory *directory;
	struct vms_calls_names *names;
	struct vms_calls_drain *drain;
	GError *failure; /* why the thread that empties the rings has ended; or NULL */
	uint64_t updated_ns, refreshed_ns;

	struct vms_calls_stats stats; /* the last ones; final once the directory is closed */
	GCond changed;
	bool has_ended;
	enum vms_calls_end end; /* set when it has ended */
	GError *error;		/* set when it has ended: why it failed, or NULL */

	int stop_fd;	 /* an eventfd: the thread that empties the rings must end */
	int look_fd;	 /* an eventfd: the agent has asked for a look, or the trace must end */
	gint is_stopped; /* atomic: vms_calls_stop was called */
	GThread *emptying, *watching;
};

/* ---- blocks of the rings ---------------------------------------------- */

static uint64_t get_paused_ns(void *data, uint64_t time_ns)
{
	return vms_machine_paused_ns(((struct vms_calls *)data)->machine, time_ns);
}

/* Converts a time of the host to the clock that the options ask for. */
static uint64_t convert_time(struct vms_calls *session, uint64_t time_ns)
{
	if (session->options.clock != VMS_CALLS_CLOCK_GUEST)
		return time_ns;
	return time_ns - MIN(time_ns, get_paused_ns(session, time_ns));
}

static void on_stream(uint64_t id, const struct vms_calls_stream *stream, void *data)
{
	struct vms_calls *session = data;
	const struct vms_calls_thread thread = {
		.time_ns = convert_time(session, stream->time_ns),
		.pid = stream->pid,
		.name = stream->name,
	};
	vms_calls_directory_name_stream(session->directory, id, &thread);
}

static void on_space(uint64_t id, const struct vms_calls_space *space, void *data)
{
	struct vms_calls *session = data;
	session->follower.runs_programs = true;
	vms_calls_names_enter_space(session->names, id, space);
}

static void on_process(const struct vms_calls_space *space, bool gone, void *data)
{
	struct vms_calls *session = data;
	vms_calls_names_end_space(session->names, space, gone);
}

static bool is_late(uint64_t mm, void *data)
{
	const struct vms_calls *session = data;
	return session->drain && vms_calls_drain_is_late(session->drain, mm);
}

static bool on_records(uint64_t id, const void *records, size_t size, void *data, GError **error)
{
	struct vms_calls *session = data;
	unsigned char timed[64 * 1024];
	bool guest = session->options.clock == VMS_CALLS_CLOCK_GUEST;
	for (size_t done = 0, n; done < size; done += n) {
		const void *part = (const unsigned char *)records + done;
		n = guest ? MIN(size - done, sizeof(timed)) : size;
		if (guest)
			vms_calls_convert_times(part, n, get_paused_ns, session, timed);
		if (!vms_calls_directory_append(session->directory, id, guest ? timed : part, n,
						error))
			return false;
	}
	return true;
}

/* ---- the thread that empties the rings -------------------------------- */

static bool empty_rings(struct vms_calls *session, GError **error)
{
	uint64_t now_ns = vms_clock_now_ns();
	if (!vms_calls_drain_run(session->drain, error))
		return false;
	vms_calls_names_retry(session->names);
	/* With the clock of instructions nothing may depend on the host's time. */
	if (session->options.clock != VMS_CALLS_CLOCK_INSTRUCTIONS &&
	    now_ns - session->refreshed_ns >= INTERVAL_NS) {
		session->refreshed_ns = now_ns;
		vms_calls_names_refresh(session->names);
	}
	if (now_ns - session->updated_ns < TICK_NS)
		return true;
	session->updated_ns = now_ns;
	return vms_calls_directory_update(session->directory, error);
}

/* Takes the agent's bytes from the socket, without waiting. False if the agent closed it. */
static bool take_wakeups(int fd)
{
	char bytes[4096];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static gpointer empty_rings_until_stopped(gpointer data)
{
	struct vms_calls *session = data;
	struct pollfd fds[] = { { .fd = session->trace.woken, .events = POLLIN },
				{ .fd = session->stop_fd, .events = POLLIN } };
	bool working = true;
	while (working && !fds[1].revents) {
		if (poll(fds, G_N_ELEMENTS(fds), TICK_MS) < 0 && errno != EINTR)
			break;
		if (fds[0].revents && !take_wakeups(fds[0].fd))
			fds[0].fd = -1; /* poll still returns every TICK_MS */
		if (vms_calls_trace_wants_look(&session->trace))
			eventfd_write(session->look_fd, 1);
		g_mutex_lock(&session->lock);
		working = !session->failure && empty_rings(session, &session->failure);
		g_mutex_unlock(&session->lock);
	}
	return NULL;
}

/* ---- watching the guest ----------------------------------------------- */

/* Empties the rings into the directory. The lock is held. */
static void take_records(struct vms_calls *session)
{
	if (!session->failure)
		vms_calls_drain_run(session->drain, &session->failure);
}

/*
 * Updates the names of the guest's code. Takes the pending records first, under the old names: a
 * module may have been replaced by another one at the same addresses.
 */
static void update_code(struct vms_calls *session)
{
	g_mutex_lock(&session->lock);
	take_records(session);
	vms_calls_names_update_kernel(session->names);
	g_mutex_unlock(&session->lock);
	session->agent_is_behind = true;
}

/*
 * True if the functions must be sent to the agent now. QEMU then translates all code again, so with
 * a clock of time this is not done often.
 */
static bool must_send_functions(const struct vms_calls *session)
{
	return session->agent_is_behind &&
	       (session->options.clock == VMS_CALLS_CLOCK_INSTRUCTIONS ||
		vms_clock_now_ns() - session->sent_ns >= INTERVAL_NS);
}

static bool send_functions(struct vms_calls *session, GError **error)
{
	session->agent_is_behind = false;
	session->sent_ns = vms_clock_now_ns();
	return vms_calls_trace_update(&session->trace, session->guest, &session->options, error);
}

/* True if a signal has stopped QEMU. Then it answers nothing. */
static bool is_qemu_stopped(const struct vms_calls *session)
{
	return vms_process_is_stopped(vms_machine_info(session->machine)->pid);
}

/*
 * Looks at the guest, which may have booted or been reset, and updates functions and names. With
 * the clock of instructions it looks only when the agent asks.
 */
static bool follow_guest(struct vms_calls *session, GError **error)
{
	bool is_asked = vms_calls_trace_begin_look(&session->trace);
	bool by_time = session->options.clock != VMS_CALLS_CLOCK_INSTRUCTIONS;
	if (is_asked)
		vms_log(VMS_LOG_DEBUG, "the agent asks for a look at the guest");
	if (vms_guest_follower_was_reset(&session->follower))
		vms_log(VMS_LOG_WARNING,
			"the guest was reset: functions keep their old names until its kernel is "
			"recognised again");
	unsigned signs = (is_asked ? VMS_GUEST_ASKS : 0) | (by_time ? VMS_GUEST_GOES_ON : 0);
	if (vms_guest_follow(&session->follower, signs))
		update_code(session);
	bool done = !must_send_functions(session) || send_functions(session, error);
	if (is_asked)
		vms_calls_trace_answer_look(&session->trace);
	return done;
}

/* The lock is held, and the directory is open. */
static void update_stats(struct vms_calls *session)
{
	const struct vms_calls_written written = vms_calls_directory_written(session->directory);
	session->stats = (struct vms_calls_stats) {
		.records = written.records,
		.bytes = written.bytes,
		.streams = written.streams,
		.lost = session->drain ? vms_calls_drain_lost(session->drain) : session->stats.lost,
	};
}

void vms_calls_progress(struct vms_calls *session, struct vms_calls_stats *ret)
{
	g_mutex_lock(&session->lock);
	if (session->directory)
		update_stats(session);
	*ret = session->stats;
	g_mutex_unlock(&session->lock);
}

static bool has_failed(struct vms_calls *session)
{
	g_mutex_lock(&session->lock);
	bool failed = session->failure != NULL;
	g_mutex_unlock(&session->lock);
	return failed;
}

/*
 * Waits until the agent's connection is closed, and returns true then. Returns false after the
 * time, or as soon as the agent has asked for a look.
 */
static bool wait_for_agent_exit(struct vms_calls *session, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = session->trace.link->stream.fd, .events = POLLIN },
				{ .fd = session->look_fd, .events = POLLIN } };
	eventfd_t asked;
	if (poll(fds, G_N_ELEMENTS(fds), timeout_ms) <= 0)
		return false;
	if (fds[1].revents)
		eventfd_read(session->look_fd, &asked);
	return fds[0].revents & (POLLHUP | POLLERR);
}

static bool has_machine_gone(struct vms_calls *session)
{
	return wait_for_agent_exit(session, TICK_MS) ||
	       vms_machine_ended(session->machine) == VMS_MACHINE_GONE;
}

/* Waits for the agent's end: a QEMU that quits closes its monitor before the last records. */
static void wait_for_last_records(struct vms_calls *session)
{
	const uint64_t begin_ns = vms_clock_now_ns();
	while (!wait_for_agent_exit(session, TICK_MS))
		if (vms_clock_now_ns() - begin_ns > MAX_EXIT_NS) {
			vms_log(VMS_LOG_WARNING,
				"the end of the trace may be missing: QEMU has "
				"closed its monitor, but its process has not ended");
			return;
		}
}

static bool is_full(struct vms_calls *session)
{
	struct vms_calls_stats stats;
	vms_calls_progress(session, &stats);
	return session->options.max_bytes && stats.bytes >= session->options.max_bytes;
}

/*
 * Waits for the end of the trace, or until the thread that empties the rings has failed. False,
 * with an error, if the guest cannot be watched.
 */
static bool wait_for_end(struct vms_calls *session, enum vms_calls_end *end, GError **error)
{
	const uint64_t begin_ns = vms_clock_now_ns(), duration_ns = session->options.duration_ns;
	while (!has_failed(session)) {
		if (has_machine_gone(session)) {
			*end = VMS_CALLS_GONE;
			return true;
		}
		*end = VMS_CALLS_STOPPED;
		if (g_atomic_int_get(&session->is_stopped))
			return true;
		*end = VMS_CALLS_FULL;
		if (is_full(session))
			return true;
		*end = VMS_CALLS_COMPLETE;
		if ((duration_ns && vms_clock_now_ns() - begin_ns >= duration_ns) ||
		    vms_calls_drain_stopped(session->drain))
			return true;
		g_autoptr(GError) why = NULL;
		if (is_qemu_stopped(session) || follow_guest(session, &why))
			continue;
		if (g_error_matches(why, VMS_ERROR, VMS_ERROR_CLOSED)) {
			*end = VMS_CALLS_GONE;
			return true;
		}
		g_propagate_error(error, g_steal_pointer(&why));
		return false;
	}
	return true;
}

/* ---- begin and end ---------------------------------------------------- */

static GThread *start_thread(const char *name, GThreadFunc run, struct vms_calls *session,
			     GError **error)
{
	g_autoptr(GError) cause = NULL;
	GThread *thread = g_thread_try_new(name, run, session, &cause);
	if (!thread)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot trace calls: %s",
			    cause->message);
	return thread;
}

static bool begin_trace(struct vms_calls *session, GError **error)
{
	const struct vms_calls_receiver receiver = { on_stream, on_space, on_process, on_records,
						     session };
	if (!vms_calls_trace_open(&session->trace, session->machine, error))
		return false;
	session->directory = vms_calls_directory_open(session->options.directory, error);
	if (!session->directory)
		return false;
	vms_guest_follower_init(&session->follower, session->guest, &session->lock);
	/* This takes long, so it is done before vCPUs wait for answers. */
	session->names = vms_calls_names_new(session->directory, session->guest,
					     session->options.sysroot, is_late, session);
	if (!vms_calls_directory_update(session->directory, error) ||
	    !vms_calls_trace_start(&session->trace, session->guest, &session->options, error))
		return false;
	session->drain =
		vms_calls_drain_new(session->trace.memory, session->trace.size, &receiver, error);
	if (!session->drain)
		return false;
	session->emptying = start_thread("calls", empty_rings_until_stopped, session, error);
	return session->emptying;
}

/*
 * Stops the agent's trace. It takes the records that are there before, because from then on
 * processes end without waiting for us.
 */
static void stop_recording(struct vms_calls *session)
{
	g_autoptr(GError) error = NULL;
	g_mutex_lock(&session->lock);
	take_records(session);
	g_mutex_unlock(&session->lock);
	if (is_qemu_stopped(session))
		vms_machine_give_up_at(session->machine, vms_clock_now_ns() + GRACE_NS);
	if (!vms_calls_trace_stop(&session->trace, &error))
		vms_log(VMS_LOG_WARNING, "the end of the trace may be missing: %s", error->message);
}

/*
 * Stops the trace, and then the thread that empties the rings: it goes on until the agent has
 * written all.
 */
static void stop_trace(struct vms_calls *session, enum vms_calls_end end)
{
	const uint64_t one = 1;
	if (!has_failed(session) && end == VMS_CALLS_GONE)
		wait_for_last_records(session);
	else if (!has_failed(session))
		stop_recording(session);
	if (write(session->stop_fd, &one, sizeof(one)) < 0)
		vms_log(VMS_LOG_WARNING, "cannot stop the thread that empties the rings: %s",
			g_strerror(errno));
	g_thread_join(session->emptying);
}

/* Removes the directory, because the trace could not be started. */
static void discard_directory(struct vms_calls *session)
{
	g_clear_pointer(&session->names, vms_calls_names_free);
	vms_calls_directory_discard(g_steal_pointer(&session->directory));
}

/* Writes what is left, and keeps the first error. `failure` is an earlier one, or NULL. */
static void finish_trace(struct vms_calls *session, GError *failure)
{
	if (session->failure && !failure)
		failure = g_steal_pointer(&session->failure);
	g_clear_error(&session->failure);
	if (session->drain && !failure)
		vms_calls_drain_finish(session->drain, &failure);
	g_mutex_lock(&session->lock);
	if (session->directory)
		update_stats(session);
	g_clear_pointer(&session->drain, vms_calls_drain_free);
	g_mutex_unlock(&session->lock);
	if (session->names && !failure)
		vms_calls_names_refresh(session->names);
	g_clear_pointer(&session->names, vms_calls_names_free);
	g_mutex_lock(&session->lock);
	vms_calls_directory_close(g_steal_pointer(&session->directory), failure ? NULL : &failure);
	g_mutex_unlock(&session->lock);
	vms_calls_trace_close(&session->trace);
	session->error = failure;
}

static gpointer watch_guest(gpointer data)
{
	struct vms_calls *session = data;
	GError *failure = NULL;
	wait_for_end(session, &session->end, &failure);
	stop_trace(session, session->end);
	finish_trace(session, failure);
	g_mutex_lock(&session->lock);
	session->has_ended = true;
	g_cond_broadcast(&session->changed);
	g_mutex_unlock(&session->lock);
	return NULL;
}

/* ---- the job ---------------------------------------------------------- */

static const char *const *copy_words(const char *const *words)
{
	return (const char *const *)g_strdupv((char **)words);
}

static void free_words(const char *const *words)
{
	g_strfreev((char **)words);
}

static bool take_options(struct vms_calls_options *ret, const struct vms_calls_options *given,
			 GError **error)
{
	if (!vms_options_copy(given, ret, sizeof(*ret), "vms_calls_options", error))
		return false;
	if (!ret->directory) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot trace calls: no directory is given");
		return false;
	}
	ret->directory = g_strdup(ret->directory);
	ret->sysroot = g_strdup(ret->sysroot);
	ret->only = copy_words(ret->only);
	ret->without = copy_words(ret->without);
	ret->start_at = copy_words(ret->start_at);
	ret->stop_at = copy_words(ret->stop_at);
	ret->pids = g_memdup2(ret->pids, ret->n_pids * sizeof(*ret->pids));
	return true;
}

static void clear_options(struct vms_calls_options *options)
{
	g_free((char *)options->directory);
	g_free((char *)options->sysroot);
	free_words(options->only);
	free_words(options->without);
	free_words(options->start_at);
	free_words(options->stop_at);
	g_free((uint32_t *)options->pids);
}

static void free_session(struct vms_calls *session)
{
	close(session->stop_fd);
	close(session->look_fd);
	g_clear_error(&session->error);
	g_cond_clear(&session->changed);
	g_mutex_clear(&session->lock);
	clear_options(&session->options);
	vms_guest_unref(session->guest);
	g_free(session);
}

struct vms_calls *vms_calls_start(struct vms_guest *guest, const struct vms_calls_options *options,
				  GError **error)
{
	struct vms_calls_options own;
	GError *failure = NULL;
	if (!take_options(&own, options, error))
		return NULL;
	struct vms_calls *session = g_new(struct vms_calls, 1);
	*session = (struct vms_calls) {
		.guest = vms_guest_ref(guest),
		.machine = vms_guest_machine(guest),
		.options = own,
		.trace = { .woken = -1 },
		.stop_fd = eventfd(0, EFD_CLOEXEC),
		.look_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	g_mutex_init(&session->lock);
	g_cond_init(&session->changed);
	if (begin_trace(session, &failure)) {
		session->watching = start_thread("calls-watch", watch_guest, session, &failure);
		if (session->watching)
			return session;
		stop_trace(session, VMS_CALLS_STOPPED);
	}
	discard_directory(session);
	finish_trace(session, failure);
	g_propagate_error(error, g_steal_pointer(&session->error));
	free_session(session);
	return NULL;
}

void vms_calls_stop(struct vms_calls *session)
{
	g_atomic_int_set(&session->is_stopped, true);
	eventfd_write(session->look_fd, 1);
}

bool vms_calls_wait(struct vms_calls *session, uint64_t until_ns)
{
	bool in_time = true;
	g_mutex_lock(&session->lock);
	while (!session->has_ended && in_time)
		in_time = g_cond_wait_until(&session->changed, &session->lock,
					    (gint64)(until_ns / 1000));
	bool has_ended = session->has_ended;
	g_mutex_unlock(&session->lock);
	return has_ended;
}

bool vms_calls_finish(struct vms_calls *session, struct vms_calls_stats *stats,
		      enum vms_calls_end *end, GError **error)
{
	vms_calls_wait(session, UINT64_MAX);
	*stats = session->stats;
	*end = session->end;
	if (session->error)
		g_propagate_error(error, g_error_copy(session->error));
	return !session->error;
}

void vms_calls_free(struct vms_calls *session)
{
	if (!session)
		return;
	vms_calls_stop(session);
	g_thread_join(session->watching);
	free_session(session);
}
