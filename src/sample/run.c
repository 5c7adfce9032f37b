/* SPDX-License-Identifier: MIT */
#include "sample/run.h"
#include "base/clock.h"
#include "base/priority.h"
#include "capture/capture.h"
#include "guest/follower.h"
#include "machine/engine.h"
#include "sample/instruction_turns.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vmscope/log.h>

/* Nodes of all trees of a run together. */
#define NODE_LIMIT (UINT32_C(16) << 20)
/* Samples of all vCPUs whose time is kept. They take 192 MiB. */
#define TIME_LIMIT ((size_t)8 << 20)
/* A run ends after this number of invalid answers in a row. */
#define FAILURES_LIMIT 5
/*
 * A run ends after this time without an answer. It is long, because storage stalls and hosts swap.
 */
#define SILENCE_LIMIT_NS UINT64_C(30000000000)
/* How long to wait at a run's end for a sample that is being taken. */
#define GRACE_NS UINT64_C(1000000000)
/* Refreshes take at most 1 / REFRESH_SHARE of the time while modules come and go. */
#define REFRESH_SHARE 4

/* Readings of files at the end, for stacks that wait for an unwind table. */
#define LATE_READINGS 16

/* The outcome of a vCPU's tick is TAKEN or an enum vms_sample_failure. */
#define TAKEN (-1)

struct vms_sampler {
	struct vms_run *run;
	int vcpu;	   /* what it holds: one vCPU, or VMS_ALL_VCPUS */
	unsigned first, n; /* vCPUs that it samples */
	int timer_fd;
	struct vms_memory *memory;
	struct vms_memory *late_memory;	   /* for reads after the hold */
	struct vms_sample_record *records; /* n of them */
	struct vms_user_copy *copies;	   /* n of them: the copied stacks of the records */
	int *outcomes;			   /* n of them, of this tick */
	struct vms_late_stacks late;
	struct vms_sample_record *late_record; /* one of them, when its turn has come */
	unsigned failures;		       /* since the last sample */
	uint64_t answered_ns;		       /* time of the last sample, or of the run's begin */
	GThread *thread;
};

/* ---- a tick ----------------------------------------------------------- */

static void set_outcomes(struct vms_sampler *sampler, int outcome)
{
	for (unsigned i = 0; i < sampler->n; i++)
		sampler->outcomes[i] = outcome;
}

/* Keeps the first of several errors. Takes the error. */
static void keep_error(GError **kept, GError *error)
{
	if (*kept)
		g_error_free(error);
	else
		*kept = error;
}

/* Keeps the message of the first failure of each kind. `reason` may be NULL. */
static void note_reason(struct vms_run *run, enum vms_sample_failure failure, const char *reason)
{
	g_mutex_lock(&run->lock);
	if (!run->reasons[failure])
		run->reasons[failure] = g_strdup(reason);
	g_mutex_unlock(&run->lock);
}

/* Asks the machine why it is paused, but only once, because asking takes time. */
static void note_pause(struct vms_run *run)
{
	g_autofree char *known = vms_run_reason(run, VMS_SAMPLE_FAIL_PAUSED);
	g_autofree char *reason = known ? NULL : vms_machine_pause_reason(run->options.machine);

	note_reason(run, VMS_SAMPLE_FAIL_PAUSED, reason);
}

/* Captures the held vCPUs. Sets *error to the first failure. */
static void capture_held_vcpus(struct vms_sampler *sampler, GError **error)
{
	const struct vms_run_options *options = &sampler->run->options;

	for (unsigned i = 0; i < sampler->n; i++) {
		GError *failure = NULL;
		sampler->outcomes[i] = TAKEN;
		if (vms_capture_vcpu(options->machine, options->guest, sampler->memory,
				     sampler->first + i, options->depth, &sampler->records[i],
				     &sampler->copies[i], &failure)) {
			if (options->look)
				options->look(&sampler->records[i], sampler->memory, options->data);
			continue;
		}
		sampler->outcomes[i] = VMS_SAMPLE_FAIL_REGS;
		keep_error(error, failure);
	}
}

/* Drops the samples, which are torn because the watchdog let the guest run. Takes the failure. */
static void drop_torn_samples(struct vms_sampler *sampler, GError *failure)
{
	for (unsigned i = 0; i < sampler->n; i++)
		if (sampler->outcomes[i] == TAKEN)
			sampler->outcomes[i] = VMS_SAMPLE_FAIL_TORN;
	note_reason(sampler->run, VMS_SAMPLE_FAIL_TORN, failure->message);
	g_error_free(failure);
}

/*
 * Notes that the engine refused to hold. Takes the failure, and moves it to *error unless the
 * refusal is temporary.
 */
static void note_refused_hold(struct vms_sampler *sampler, GError *failure, GError **error)
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
 * Fills the records and the outcomes. False if a brief hold was too short, which makes them
 * invalid.
 */
static bool hold_and_capture(struct vms_sampler *sampler, hold_function hold, GError **error)
{
	struct vms_machine *machine = sampler->run->options.machine;
	GError *failure = NULL, *unread = NULL;

	if (!hold(machine, sampler->vcpu, &failure)) {
		note_refused_hold(sampler, failure, error);
		return true;
	}
	bool paused = vms_machine_is_paused(machine);
	g_atomic_int_set(&sampler->run->paused, paused);
	if (paused)
		set_outcomes(sampler, VMS_SAMPLE_FAIL_PAUSED);
	else
		capture_held_vcpus(sampler, &unread);
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
	if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_INVALID_STATE)) {
		drop_torn_samples(sampler, failure);
	} else if (!released) {
		/*
		 * The sample was taken. The ticks until the machine can be held again are missed.
		 */
		note_reason(sampler->run, VMS_SAMPLE_FAIL_HOLD, failure->message);
		keep_error(error, failure);
	}
	return true;
}

/* Samples under a brief hold, which is enough for most samples, or else under a full one. */
static void sample_vcpus(struct vms_sampler *sampler, GError **error)
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

/* Adds a sample to the tree, or passes it to `take`. True if it has new addresses. */
static bool add_sample(struct vms_run *run, const struct vms_sample_record *record,
		       const struct vms_hold_time *time)
{
	struct vms_samples *samples = &run->vcpus[record->vcpu];
	if (!run->options.take)
		return vms_samples_add(samples, record, run->options.leaf_first, time->held_ns);
	vms_samples_count(samples, record, time->held_ns);
	return run->options.take(record, time->begin_ns, run->options.data);
}

/* Adds a sample, and notes whether it has code that the guest must be refreshed for. */
static void keep_sample(struct vms_run *run, const struct vms_sample_record *record,
			const struct vms_hold_time *time)
{
	if (add_sample(run, record, time) && has_unnamed_code(run->options.guest, &record->stack))
		g_atomic_int_set(&run->unnamed, 1);
}

/*
 * Keeps samples whose unwind tables have come, in their order. With `must`, one is kept at least,
 * if there is one.
 */
static void keep_late(struct vms_sampler *sampler, bool must)
{
	struct vms_run *run = sampler->run;
	const struct vms_late_walk walk = { run->options.guest, sampler->late_memory,
					    run->options.depth, &run->readings };
	struct vms_hold_time time;
	for (; vms_late_stacks_take(&sampler->late, &walk, must, sampler->late_record, &time);
	     must = false)
		keep_sample(run, sampler->late_record, &time);
}

/* Walks the stack that was copied. Keeps the sample, now or when its unwind table has come. */
static void finish_sample(struct vms_sampler *sampler, unsigned i, const struct vms_hold_time *time)
{
	struct vms_run *run = sampler->run;
	struct vms_sample_record *record = &sampler->records[i];
	const unsigned n_walked = record->stack.n;
	vms_capture_finish(run->options.guest, sampler->late_memory, run->options.depth,
			   &sampler->copies[i], &record->stack);
	vms_capture_note_code(run->options.guest, &record->stack);
	while (vms_late_stacks_must_wait(&sampler->late, &record->stack)) {
		if (vms_late_stacks_add(&sampler->late, record, &sampler->copies[i], n_walked, time,
					&run->readings))
			return;
		if (g_queue_is_empty(&sampler->late.waiting))
			break;
		keep_late(sampler, true);
	}
	keep_sample(run, record, time);
}

/*
 * Counts the outcomes of a tick. Walks the stacks that were copied under the hold, and keeps the
 * samples. Returns how many were taken.
 */
static unsigned count_tick(struct vms_sampler *sampler, uint64_t begin_ns, uint64_t held_ns)
{
	struct vms_run *run = sampler->run;
	const struct vms_hold_time time = { begin_ns, held_ns };
	unsigned taken = 0;

	keep_late(sampler, false);
	for (unsigned i = 0; i < sampler->n; i++) {
		if (sampler->outcomes[i] != TAKEN) {
			vms_samples_fail(&run->vcpus[sampler->first + i],
					 (enum vms_sample_failure)sampler->outcomes[i]);
			continue;
		}
		taken++;
		finish_sample(sampler, i, &time);
	}
	return taken;
}

/* Ends the run if the error means that it cannot go on. Takes the error. */
static void end_run_on_error(struct vms_sampler *sampler, GError *error)
{
	const struct vms_run_options *options = &sampler->run->options;
	/* Who debugs one vCPU's thread may let it go soon. A stub that another client has stays
	 * his. */
	bool is_busy = g_error_matches(error, VMS_ERROR, VMS_ERROR_BUSY);
	bool is_taken = is_busy && sampler->vcpu == VMS_ALL_VCPUS;
	bool is_silent = (is_busy || g_error_matches(error, VMS_ERROR, VMS_ERROR_TIMEOUT)) &&
			 vms_clock_now_ns() - sampler->answered_ns > SILENCE_LIMIT_NS;
	bool is_wrong = g_error_matches(error, VMS_ERROR, VMS_ERROR_PROTOCOL) &&
			++sampler->failures >= FAILURES_LIMIT;

	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_CLOSED))
		options->ended(VMS_SAMPLE_GONE, error, options->data);
	else if (g_error_matches(error, VMS_ERROR, VMS_ERROR_WATCHED) || is_taken || is_silent ||
		 is_wrong)
		options->ended(VMS_SAMPLE_FAILED, error, options->data);
	else
		g_error_free(error);
}

/* False if the machine has gone or was reset. Ends the run then. */
static bool check_machine(struct vms_sampler *sampler)
{
	const struct vms_run_options *options = &sampler->run->options;

	bool gone = vms_machine_ended(options->machine) == VMS_MACHINE_GONE;
	bool reset = !gone && vms_guest_is_stale(options->guest);
	if (gone || reset)
		options->ended(gone ? VMS_SAMPLE_GONE : VMS_SAMPLE_RESET, NULL, options->data);
	return !gone && !reset;
}

/* Called with guest_lock held for writing. */
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
	vms_log(VMS_LOG_DEBUG, "read again which code is loaded: %.1f ms",
		(double)run->refresh_took_ns / 1e6);
}

/*
 * Refreshes the guest if the records have code of modules that were just loaded or unloaded. True
 * if it did: the vCPUs must be sampled again, because a refresh takes too long to hold them. Does
 * nothing while another thread is sampling. Called with guest_lock held for reading, and releases
 * it meanwhile.
 */
static bool refresh_changed_code(struct vms_sampler *sampler)
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

static void take_tick(struct vms_sampler *sampler)
{
	struct vms_run *run = sampler->run;
	GError *error = NULL;

	if (!check_machine(sampler))
		return;
	g_rw_lock_reader_lock(&run->guest_lock);
	/* Measured from before the hold to after the release, so the true hold is never longer. */
	uint64_t begin_ns = vms_clock_now_ns();
	sample_vcpus(sampler, &error);
	if (!error && refresh_changed_code(sampler)) {
		begin_ns = vms_clock_now_ns();
		sample_vcpus(sampler, &error);
	}
	begin_ns = MAX(begin_ns, vms_machine_held_from_ns(run->options.machine));
	uint64_t released_ns = vms_clock_now_ns();
	uint64_t held_ns = released_ns - begin_ns;
	vms_machine_last_hold_ns(run->options.machine, sampler->vcpu, &held_ns);
	if (count_tick(sampler, begin_ns, held_ns) > 0) {
		sampler->failures = 0;
		sampler->answered_ns = released_ns;
	}
	g_rw_lock_reader_unlock(&run->guest_lock);
	if (error)
		end_run_on_error(sampler, error);
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

/* Clears the timer's expirations. Ticks of the meantime are missed and not made up for. */
static void clear_timer(const struct vms_sampler *sampler)
{
	uint64_t n;
	G_GNUC_UNUSED ssize_t size = read(sampler->timer_fd, &n, sizeof(n));
}

/* True at the end of the run's time and after it. A tick then does not belong to the run. */
static bool has_ended(struct vms_run *run)
{
	g_mutex_lock(&run->lock);
	bool ended = run->end_ns != 0 || vms_clock_now_ns() >= run->limit_ns;
	g_mutex_unlock(&run->lock);
	return ended;
}

/* Samples a vCPU at its turns. It stands still meanwhile, so each turn is a sample. */
static void sample_at_turns(struct vms_sampler *sampler)
{
	struct vms_turns *turns = sampler->run->options.turns;
	while (!has_ended(sampler->run)) {
		if (vms_turns_wait(turns, sampler->first)) {
			take_tick(sampler);
			vms_turns_end(turns, sampler->first);
		} else {
			check_machine(sampler);
		}
	}
}

static gpointer run_sampler(gpointer data)
{
	struct vms_sampler *sampler = data;
	struct vms_run *run = sampler->run;
	uint64_t interval_ns = run->options.interval_ns;
	struct pollfd fds[] = { { .fd = sampler->timer_fd, .events = POLLIN },
				{ .fd = run->stop_fd, .events = POLLIN } };

	vms_thread_set_urgent();
	sampler->answered_ns = run->begin_ns;
	if (run->options.turns) {
		sample_at_turns(sampler);
		return NULL;
	}
	set_timer(sampler->timer_fd, run->begin_ns + interval_ns, interval_ns);
	take_tick(sampler);
	for (;;) {
		clear_timer(sampler);
		if (poll(fds, G_N_ELEMENTS(fds), -1) < 0)
			continue;
		clear_timer(sampler);
		if (has_ended(run))
			return NULL;
		take_tick(sampler);
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
	sampler->late_memory = vms_memory_new(run->options.machine, &no_regs);
	vms_memory_set_urgent(sampler->memory);
	vms_memory_set_urgent(sampler->late_memory);
	sampler->records = g_new0(struct vms_sample_record, sampler->n);
	sampler->copies = g_new0(struct vms_user_copy, sampler->n);
	sampler->outcomes = g_new0(int, sampler->n);
	sampler->late_record = g_new(struct vms_sample_record, 1);
	vms_late_stacks_init(&sampler->late, &run->n_late);
	if (sampler->timer_fd < 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make a timer for sampling: %s",
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
	vms_memory_free(sampler->late_memory);
	g_free(sampler->records);
	g_free(sampler->copies);
	g_free(sampler->outcomes);
	g_free(sampler->late_record);
	vms_late_stacks_clear(&sampler->late);
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
		vms_samples_init(&run->vcpus[i], NODE_LIMIT / run->n_vcpus,
				 TIME_LIMIT / run->n_vcpus);
	run->n_samplers = each ? run->n_vcpus : 1;
	run->samplers = g_new0(struct vms_sampler, run->n_samplers);
	run->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (run->stop_fd < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot make an event for the end of sampling: %s", g_strerror(errno));
		return NULL;
	}
	for (unsigned i = 0; i < run->n_samplers; i++)
		if (!init_sampler(&run->samplers[i], run, each ? (int)i : VMS_ALL_VCPUS, error))
			return NULL;
	return g_steal_pointer(&run);
}

static void free_run(gpointer data)
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
		g_atomic_rc_box_release_full(run, free_run);
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
		sampler->thread = g_thread_try_new("vms-sampler", run_sampler, sampler, error);
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

/* ---- results ---------------------------------------------------------- */

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
	const uint64_t ticks =
		run->options.turns ? vms_turns_count(run->options.turns, vcpu) : count_ticks(run);
	ret->missed = ticks - ret->samples;
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
		vms_log(VMS_LOG_DEBUG,
			"some code has no name, and the guest cannot be read again: %s",
			error->message);
	/* Try again later: the machine may answer then. */
	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_TIMEOUT))
		g_atomic_int_set(&run->unnamed, 1);
	g_rw_lock_writer_unlock(&run->guest_lock);
}

bool vms_run_is_paused(const struct vms_run *run)
{
	return g_atomic_int_get(&run->paused);
}

void vms_run_lock_guest(struct vms_run *run)
{
	g_rw_lock_reader_lock(&run->guest_lock);
}

void vms_run_unlock_guest(struct vms_run *run)
{
	g_rw_lock_reader_unlock(&run->guest_lock);
}

GArray *vms_run_read_tasks(struct vms_run *run, GError **error)
{
	g_autoptr(GError) loss = NULL; /* a task that ends while it is read is no error */
	g_rw_lock_reader_lock(&run->guest_lock);
	GArray *tasks = vms_guest_tasks(run->options.guest, &loss, error);
	g_rw_lock_reader_unlock(&run->guest_lock);
	return tasks;
}

void vms_run_read_files(struct vms_run *run)
{
	/* As a reader: sampling threads continue, and no thread exchanges the guest. */
	g_rw_lock_reader_lock(&run->guest_lock);
	__atomic_add_fetch(&run->readings.begun, 1, __ATOMIC_ACQ_REL);
	vms_guest_read_files(run->options.guest);
	__atomic_add_fetch(&run->readings.done, 1, __ATOMIC_ACQ_REL);
	g_rw_lock_reader_unlock(&run->guest_lock);
}

/* Keeps what waits, or the first of it that does not have to wait. */
static void keep_rest(struct vms_run *run, bool must)
{
	g_rw_lock_reader_lock(&run->guest_lock);
	for (unsigned i = 0; i < run->n_samplers; i++)
		do
			keep_late(&run->samplers[i], must);
		while (must && !g_queue_is_empty(&run->samplers[i].late.waiting));
	g_rw_lock_reader_unlock(&run->guest_lock);
}

void vms_run_finish_late(struct vms_run *run)
{
	for (unsigned i = 0; i < LATE_READINGS && vms_run_lacks_files(run); i++) {
		keep_rest(run, false);
		vms_run_read_files(run);
	}
	if (!vms_run_lacks_files(run))
		return;
	keep_rest(run, true);
	vms_run_read_files(run);
}

bool vms_run_lacks_files(const struct vms_run *run)
{
	return __atomic_load_n(&run->n_late, __ATOMIC_RELAXED) > 0;
}
