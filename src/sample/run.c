/* SPDX-License-Identifier: MIT */
#include "sample/run.h"
#include "base/clock.h"
#include "base/priority.h"
#include "capture/capture.h"
#include "guest/follower.h"
#include "machine/engine.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vmscope/log.h>

/* Nodes of all trees of a run together. */
#define NODE_LIMIT (UINT32_C(16) << 20)
/* Wrong answers, one after the other without a single sample, that end a run. */
#define FAILURES_LIMIT 5
/* How long a machine may give no answer before that ends a run: storage stalls, hosts swap. */
#define SILENCE_LIMIT_NS UINT64_C(30000000000)
/* How long a sample that is being taken when a run ends is waited for. */
#define GRACE_NS UINT64_C(1000000000)
/* Reading modules anew, while they come and go, may take one part in so many of the time. */
#define REFRESH_SHARE 4

/* What came of a vCPU's tick; else an enum vms_sample_failure. */
#define TAKEN (-1)

struct vms_sampler {
	struct vms_run *run;
	int vcpu;	   /* what is held: one, or VMS_ALL_VCPUS */
	unsigned first, n; /* vCPUs that it samples */
	int timer_fd;
	struct vms_memory *memory;
	struct vms_sample_record *records; /* n of them */
	int *outcomes;			   /* n of them, of this tick */
	unsigned failures;		   /* since the last sample */
	uint64_t answered_ns;		   /* when the machine gave a sample last, or the begin */
	GThread *thread;
};

/* ---- a tick ----------------------------------------------------------- */

static void set_outcomes(struct vms_sampler *sampler, int outcome)
{
	for (unsigned i = 0; i < sampler->n; i++)
		sampler->outcomes[i] = outcome;
}

/* Keeps the first of several errors. */
static void keep_error(GError **kept, GError *error)
{
	if (*kept)
		g_error_free(error);
	else
		*kept = error;
}

/* Keeps what the first failure of each kind says; NULL says nothing. */
static void note_reason(struct vms_run *run, enum vms_sample_failure failure, const char *reason)
{
	g_mutex_lock(&run->lock);
	if (!run->reasons[failure])
		run->reasons[failure] = g_strdup(reason);
	g_mutex_unlock(&run->lock);
}

/* Why a machine is paused, it is asked once: asking takes time. */
static void note_pause(struct vms_run *run)
{
	g_autofree char *known = vms_run_reason(run, VMS_SAMPLE_FAIL_PAUSED);
	g_autofree char *reason = known ? NULL : vms_machine_pause_reason(run->options.machine);

	note_reason(run, VMS_SAMPLE_FAIL_PAUSED, reason);
}

/* Samples the held vCPUs. The first failure is the error's. */
static void capture(struct vms_sampler *sampler, GError **error)
{
	const struct vms_run_options *options = &sampler->run->options;

	for (unsigned i = 0; i < sampler->n; i++) {
		GError *failure = NULL;
		sampler->outcomes[i] = TAKEN;
		if (vms_capture_vcpu(options->machine, options->guest, sampler->memory,
				     sampler->first + i, options->depth, &sampler->records[i],
				     &failure))
			continue;
		sampler->outcomes[i] = VMS_SAMPLE_FAIL_REGS;
		keep_error(error, failure);
	}
}

/* What was read while the watchdog let the guest run is worth nothing. Takes the failure. */
static void drop_torn(struct vms_sampler *sampler, GError *failure)
{
	for (unsigned i = 0; i < sampler->n; i++)
		if (sampler->outcomes[i] == TAKEN)
			sampler->outcomes[i] = VMS_SAMPLE_FAIL_TORN;
	note_reason(sampler->run, VMS_SAMPLE_FAIL_TORN, failure->message);
	g_error_free(failure);
}

/* A sample that the engine refused. Takes the failure; it goes on to *error unless it passes. */
static void refuse_sample(struct vms_sampler *sampler, GError *failure, GError **error)
{
	bool passes = g_error_matches(failure, VMS_ERROR, VMS_ERROR_NOT_NOW);
	enum vms_sample_failure reason = passes ? VMS_SAMPLE_FAIL_NOT_NOW : VMS_SAMPLE_FAIL_HOLD;

	set_outcomes(sampler, (int)reason);
	note_reason(sampler->run, reason, failure->message);
	if (passes)
		g_error_free(failure);
	else
		keep_error(error, failure);
}

typedef bool (*hold_function)(struct vms_machine *machine, int vcpu, GError **error);

/*
 * Fills the records and the outcomes. False if the brief hold was too short: then nothing is known.
 */
static bool hold_and_capture(struct vms_sampler *sampler, hold_function hold, GError **error)
{
	struct vms_machine *machine = sampler->run->options.machine;
	GError *failure = NULL, *unread = NULL;

	if (!hold(machine, sampler->vcpu, &failure)) {
		refuse_sample(sampler, failure, error);
		return true;
	}
	bool paused = vms_machine_is_paused(machine);
	if (paused)
		set_outcomes(sampler, VMS_SAMPLE_FAIL_PAUSED);
	else
		capture(sampler, &unread);
	bool released = vms_machine_release(machine, sampler->vcpu, &failure);
	if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_GONE_ON)) {
		g_error_free(failure);
		g_clear_error(&unread);
		return false;
	}
	if (paused)
		note_pause(sampler->run);
	if (unread) {
		note_reason(sampler->run, VMS_SAMPLE_FAIL_REGS, unread->message);
		keep_error(error, unread);
	}
	if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_INVALID_STATE))
		drop_torn(sampler, failure);
	else if (!released)
		keep_error(error, failure);
	return true;
}

/* Most samples need no more than a brief hold. */
static void look(struct vms_sampler *sampler, GError **error)
{
	if (!hold_and_capture(sampler, vms_machine_hold_briefly, error) &&
	    !hold_and_capture(sampler, vms_machine_hold, error))
		set_outcomes(sampler, VMS_SAMPLE_FAIL_TORN);
}

static bool has_unnamed_code(struct vms_guest *guest, const struct vms_stack *stack)
{
	struct vms_location location;

	for (unsigned i = 0; i < stack->n_kernel; i++)
		if (!vms_guest_locate(guest, NULL, stack->frame[i].pc - stack->frame[i].is_return,
				      &location))
			return true;
	return false;
}

/* Counts what came of a tick, and adds what was captured to the trees: how many samples it was. */
static unsigned count_tick(struct vms_sampler *sampler, uint64_t held_ns)
{
	struct vms_run *run = sampler->run;
	unsigned taken = 0;

	for (unsigned i = 0; i < sampler->n; i++) {
		struct vms_sample_record *record = &sampler->records[i];
		struct vms_samples *samples = &run->vcpus[sampler->first + i];
		if (sampler->outcomes[i] != TAKEN) {
			vms_samples_fail(samples, (enum vms_sample_failure)sampler->outcomes[i]);
			continue;
		}
		taken++;
		vms_capture_note_code(run->options.guest, &record->stack);
		if (vms_samples_add(samples, record, run->options.leaf_first, held_ns) &&
		    has_unnamed_code(run->options.guest, &record->stack))
			g_atomic_int_set(&run->unnamed, 1);
	}
	return taken;
}

/* Ends the run when the engine's errors say that nothing will come of it. Takes the error. */
static void judge(struct vms_sampler *sampler, GError *error)
{
	const struct vms_run_options *options = &sampler->run->options;
	bool is_silent = g_error_matches(error, VMS_ERROR, VMS_ERROR_TIMEOUT) &&
			 vms_clock_now_ns() - sampler->answered_ns > SILENCE_LIMIT_NS;
	bool is_wrong = g_error_matches(error, VMS_ERROR, VMS_ERROR_PROTOCOL) &&
			++sampler->failures >= FAILURES_LIMIT;

	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_CLOSED))
		options->ended(VMS_SAMPLE_GONE, error, options->data);
	else if (g_error_matches(error, VMS_ERROR, VMS_ERROR_WATCHED) ||
		 g_error_matches(error, VMS_ERROR, VMS_ERROR_BUSY) || is_silent || is_wrong)
		options->ended(VMS_SAMPLE_FAILED, error, options->data);
	else
		g_error_free(error);
}

/* Is the machine still the one that the run began with? */
static bool goes_on(struct vms_sampler *sampler)
{
	const struct vms_run_options *options = &sampler->run->options;

	bool gone = vms_machine_ended(options->machine) == VMS_MACHINE_GONE;
	bool reset = !gone && vms_guest_is_stale(options->guest);
	if (gone || reset)
		options->ended(gone ? VMS_SAMPLE_GONE : VMS_SAMPLE_RESET, NULL, options->data);
	return !gone && !reset;
}

/* Under lock, for writing. */
static void refresh_guest(struct vms_run *run, GError **error)
{
	struct vms_guest *guest = run->options.guest;
	bool is_recognised = vms_guest_kind(guest) != VMS_GUEST_NONE;
	uint64_t begin_ns = vms_clock_now_ns();

	if (vms_guest_refresh(guest, error) == VMS_GUEST_NEW_KERNEL)
		vms_log(VMS_LOG_INFO, "the guest has booted: %s %s", vms_guest_info(guest)->name,
			vms_guest_info(guest)->release);
	if (!is_recognised)
		return;
	run->refreshed_ns = vms_clock_now_ns();
	run->refresh_took_ns = run->refreshed_ns - begin_ns;
	vms_log(VMS_LOG_DEBUG, "reading anew what code is loaded: %.1f ms",
		(double)run->refresh_took_ns / 1e6);
}

/*
 * Did the records meet modules that have just come or gone? Then reads what there is now, which
 * takes too long for a vCPU to be held: it has to be sampled again. Goes without if another thread
 * is sampling right now. Under lock, which is released meanwhile.
 */
static bool follow_code(struct vms_sampler *sampler)
{
	struct vms_run *run = sampler->run;
	bool all_taken = true, changed = false, read = false;

	for (unsigned i = 0; i < sampler->n; i++) {
		bool taken = sampler->outcomes[i] == TAKEN;
		all_taken &= taken;
		changed |= taken && sampler->records[i].code_changed;
	}
	if (!all_taken || !changed ||
	    vms_clock_now_ns() - run->refreshed_ns < REFRESH_SHARE * run->refresh_took_ns)
		return false;
	g_rw_lock_reader_unlock(&run->guest_lock);
	if (g_rw_lock_writer_trylock(&run->guest_lock)) {
		refresh_guest(run, NULL);
		read = true;
		g_rw_lock_writer_unlock(&run->guest_lock);
	}
	g_rw_lock_reader_lock(&run->guest_lock);
	return read;
}

static void tick(struct vms_sampler *sampler)
{
	struct vms_run *run = sampler->run;
	GError *error = NULL;

	if (!goes_on(sampler))
		return;
	g_rw_lock_reader_lock(&run->guest_lock);
	/* From before the hold to after the release: the guest never stood still for longer. */
	uint64_t begin_ns = vms_clock_now_ns();
	look(sampler, &error);
	if (!error && follow_code(sampler)) {
		begin_ns = vms_clock_now_ns();
		look(sampler, &error);
	}
	begin_ns = MAX(begin_ns, vms_machine_held_from_ns(run->options.machine));
	uint64_t released_ns = vms_clock_now_ns();
	if (count_tick(sampler, released_ns - begin_ns) > 0) {
		sampler->failures = 0;
		sampler->answered_ns = released_ns;
	}
	g_rw_lock_reader_unlock(&run->guest_lock);
	if (error)
		judge(sampler, error);
}

/* ---- a thread --------------------------------------------------------- */

static bool set_timer(int fd, uint64_t first_ns, uint64_t interval_ns)
{
	struct itimerspec spec = {
		.it_value = { (time_t)(first_ns / 1000000000), (long)(first_ns % 1000000000) },
		.it_interval = { (time_t)(interval_ns / 1000000000),
				 (long)(interval_ns % 1000000000) },
	};
	return timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0;
}

/* Forgets that the timer has expired: what ticked meanwhile is missed, not caught up with. */
static void clear_timer(const struct vms_sampler *sampler)
{
	uint64_t n;
	G_GNUC_UNUSED ssize_t size = read(sampler->timer_fd, &n, sizeof(n));
}

/* A tick at the end of the run's time, or after it, is none of the run's. */
static bool has_ended(struct vms_run *run)
{
	g_mutex_lock(&run->lock);
	bool ended = run->end_ns != 0 || vms_clock_now_ns() >= run->limit_ns;
	g_mutex_unlock(&run->lock);
	return ended;
}

static gpointer sampler_thread(gpointer data)
{
	struct vms_sampler *sampler = data;
	struct vms_run *run = sampler->run;
	uint64_t interval_ns = run->options.interval_ns;
	struct pollfd fds[] = { { .fd = sampler->timer_fd, .events = POLLIN },
				{ .fd = run->stop_fd, .events = POLLIN } };

	vms_thread_set_urgent();
	sampler->answered_ns = run->begin_ns;
	set_timer(sampler->timer_fd, run->begin_ns + interval_ns, interval_ns);
	tick(sampler);
	for (;;) {
		clear_timer(sampler);
		if (poll(fds, G_N_ELEMENTS(fds), -1) < 0)
			continue;
		clear_timer(sampler);
		if (has_ended(run))
			return NULL;
		tick(sampler);
	}
}

/* ---- the run ---------------------------------------------------------- */

static bool init_sampler(struct vms_sampler *sampler, struct vms_run *run, int vcpu, GError **error)
{
	static const struct vms_regs no_regs;

	sampler->run = run;
	sampler->vcpu = vcpu;
	sampler->first = vcpu == VMS_ALL_VCPUS ? 0 : (unsigned)vcpu;
	sampler->n = vcpu == VMS_ALL_VCPUS ? run->n_vcpus : 1;
	sampler->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	sampler->memory = vms_memory_new(run->options.machine, &no_regs);
	vms_memory_set_vcpu(sampler->memory, vcpu);
	sampler->records = g_new0(struct vms_sample_record, sampler->n);
	sampler->outcomes = g_new0(int, sampler->n);
	if (sampler->timer_fd < 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make a timer to sample by: %s",
			    g_strerror(errno));
	return sampler->timer_fd >= 0;
}

static void clear_sampler(struct vms_sampler *sampler)
{
	if (!sampler->run)
		return;
	if (sampler->timer_fd >= 0)
		close(sampler->timer_fd);
	vms_memory_free(sampler->memory);
	g_free(sampler->records);
	g_free(sampler->outcomes);
}

struct vms_run *vms_run_new(const struct vms_run_options *options, GError **error)
{
	g_autoptr(vms_run) run = g_atomic_rc_box_new0(struct vms_run);
	bool each = vms_machine_holds_each(options->machine);

	run->options = *options;
	vms_machine_ref(run->options.machine);
	vms_guest_ref(run->options.guest);
	g_rw_lock_init(&run->guest_lock);
	g_mutex_init(&run->lock);
	run->limit_ns = UINT64_MAX;
	run->n_vcpus = vms_machine_vcpus(options->machine);
	run->vcpus = g_new0(struct vms_samples, run->n_vcpus);
	for (unsigned i = 0; i < run->n_vcpus; i++)
		vms_samples_init(&run->vcpus[i], NODE_LIMIT / run->n_vcpus);
	run->n_samplers = each ? run->n_vcpus : 1;
	run->samplers = g_new0(struct vms_sampler, run->n_samplers);
	run->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (run->stop_fd < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make an event to stop by: %s",
			    g_strerror(errno));
		return NULL;
	}
	for (unsigned i = 0; i < run->n_samplers; i++)
		if (!init_sampler(&run->samplers[i], run, each ? (int)i : VMS_ALL_VCPUS, error))
			return NULL;
	return g_steal_pointer(&run);
}

static void run_free(gpointer data)
{
	struct vms_run *run = data;

	for (unsigned i = 0; i < run->n_samplers; i++)
		clear_sampler(&run->samplers[i]);
	g_free(run->samplers);
	if (run->stop_fd >= 0)
		close(run->stop_fd);
	for (unsigned i = 0; i < run->n_vcpus; i++)
		vms_samples_clear(&run->vcpus[i]);
	g_free(run->vcpus);
	g_rw_lock_clear(&run->guest_lock);
	g_mutex_clear(&run->lock);
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		g_free(run->reasons[i]);
	vms_guest_unref(run->options.guest);
	vms_machine_unref(run->options.machine);
}

struct vms_run *vms_run_ref(struct vms_run *run)
{
	return g_atomic_rc_box_acquire(run);
}

void vms_run_unref(struct vms_run *run)
{
	if (run)
		g_atomic_rc_box_release_full(run, run_free);
}

static void set_begin(struct vms_run *run, uint64_t begin_ns, uint64_t duration_ns)
{
	g_mutex_lock(&run->lock);
	run->begin_ns = begin_ns;
	if (duration_ns > 0 && duration_ns < UINT64_MAX - GRACE_NS - begin_ns) {
		run->limit_ns = begin_ns + duration_ns;
		if (run->end_ns == 0)
			vms_machine_give_up_at(run->options.machine, run->limit_ns + GRACE_NS);
	}
	g_mutex_unlock(&run->lock);
}

bool vms_run_begin(struct vms_run *run, uint64_t begin_ns, uint64_t duration_ns, GError **error)
{
	set_begin(run, begin_ns, duration_ns);
	for (unsigned i = 0; i < run->n_samplers; i++) {
		struct vms_sampler *sampler = &run->samplers[i];
		sampler->thread = g_thread_try_new("vms-sampler", sampler_thread, sampler, error);
		if (!sampler->thread)
			return false;
	}
	return true;
}

uint64_t vms_run_stop(struct vms_run *run)
{
	g_mutex_lock(&run->lock);
	if (run->end_ns == 0)
		run->end_ns = MIN(vms_clock_now_ns(), run->limit_ns);
	uint64_t end_ns = run->end_ns;
	vms_machine_give_up_at(run->options.machine, end_ns + GRACE_NS);
	g_mutex_unlock(&run->lock);
	eventfd_write(run->stop_fd, 1);
	return end_ns;
}

void vms_run_join(struct vms_run *run)
{
	for (unsigned i = 0; i < run->n_samplers; i++)
		if (run->samplers[i].thread)
			g_thread_join(g_steal_pointer(&run->samplers[i].thread));
	vms_machine_give_up_at(run->options.machine, 0);
}

/* ---- what was sampled ------------------------------------------------- */

static uint64_t count_ticks(struct vms_run *run)
{
	g_mutex_lock(&run->lock);
	uint64_t begin_ns = run->begin_ns, end_ns = run->end_ns, limit_ns = run->limit_ns;
	g_mutex_unlock(&run->lock);
	if (begin_ns == 0)
		return 0;
	if (end_ns == 0)
		end_ns = vms_clock_now_ns();
	return 1 + (MIN(end_ns, limit_ns - 1) - begin_ns) / run->options.interval_ns;
}

void vms_run_stats(struct vms_run *run, unsigned vcpu, struct vms_sample_stats *ret)
{
	vms_samples_stats(&run->vcpus[vcpu], ret);
	ret->missed = count_ticks(run) - ret->samples;
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		ret->missed -= ret->failed[i];
}

char *vms_run_reason(struct vms_run *run, enum vms_sample_failure failure)
{
	g_mutex_lock(&run->lock);
	char *reason = g_strdup(run->reasons[failure]);
	g_mutex_unlock(&run->lock);
	return reason;
}

void vms_run_refresh_guest(struct vms_run *run)
{
	g_autoptr(GError) error = NULL;

	if (!g_atomic_int_get(&run->unnamed) || !g_rw_lock_writer_trylock(&run->guest_lock))
		return;
	g_atomic_int_set(&run->unnamed, 0);
	refresh_guest(run, &error);
	if (error)
		vms_log(VMS_LOG_DEBUG, "code without a name, and: %s", error->message);
	/* A machine that did not answer may do so later. */
	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_TIMEOUT))
		g_atomic_int_set(&run->unnamed, 1);
	g_rw_lock_writer_unlock(&run->guest_lock);
}
