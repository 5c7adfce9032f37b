/* SPDX-License-Identifier: MIT */
#include "sample/run.h"
#include "base/clock.h"
#include "machine/engine.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vmscope/log.h>

/* Nodes of all trees of a run together. */
#define NODE_LIMIT (UINT32_C(16) << 20)
/* Failures of the engine, one after the other without a single sample, that end a run. */
#define FAILURES_LIMIT 5
#define SAMPLER_NICE   (-10)
/* Of the time, the part that reading modules anew may take while they come and go. */
#define REFRESH_SHARE 4

struct vms_sampler {
	struct vms_run *run;
	int vcpu;	   /* what is held: one, or VMS_ALL_VCPUS */
	unsigned first, n; /* vCPUs that it samples */
	int timer_fd;
	struct vms_memory *memory;
	struct vms_sample_record *records; /* n of them */
	bool *taken;			   /* is the record a sample? */
	unsigned failures;		   /* since the last sample */
	GThread *thread;
};

/* ---- a tick ----------------------------------------------------------- */

static void fail_all(struct vms_sampler *sampler, enum vms_sample_failure reason)
{
	for (unsigned i = 0; i < sampler->n; i++)
		vms_samples_fail(&sampler->run->vcpus[sampler->first + i], reason);
}

/* Keeps the first of several errors. */
static void keep_error(GError **kept, GError *error)
{
	if (*kept)
		g_error_free(error);
	else
		*kept = error;
}

/* Samples the held vCPUs. */
static void capture(struct vms_sampler *sampler, GError **error)
{
	const struct vms_run_options *options = &sampler->run->options;

	for (unsigned i = 0; i < sampler->n; i++) {
		unsigned vcpu = sampler->first + i;
		GError *failure = NULL;
		sampler->taken[i] =
			vms_capture_vcpu(options->machine, options->guest, sampler->memory, vcpu,
					 options->depth, &sampler->records[i], &failure);
		if (!sampler->taken[i]) {
			vms_samples_fail(&sampler->run->vcpus[vcpu], VMS_SAMPLE_FAIL_REGS);
			keep_error(error, failure);
		}
	}
}

/* What was read while the watchdog let the guest run is worth nothing. */
static void drop_torn(struct vms_sampler *sampler)
{
	for (unsigned i = 0; i < sampler->n; i++) {
		if (sampler->taken[i])
			vms_samples_fail(&sampler->run->vcpus[sampler->first + i],
					 VMS_SAMPLE_FAIL_TORN);
		sampler->taken[i] = false;
	}
}

static void forget(struct vms_sampler *sampler)
{
	for (unsigned i = 0; i < sampler->n; i++)
		sampler->taken[i] = false;
}

/* Counts a sample that the engine refused. Takes the failure; it goes on to *error unless it
 * passes. */
static void refuse_sample(struct vms_sampler *sampler, GError *failure, GError **error)
{
	bool passes = g_error_matches(failure, VMS_ERROR, VMS_ERROR_NOT_NOW);
	fail_all(sampler, passes ? VMS_SAMPLE_FAIL_NOT_NOW : VMS_SAMPLE_FAIL_HOLD);
	if (passes)
		g_error_free(failure);
	else
		keep_error(error, failure);
}

typedef bool (*hold_function)(struct vms_machine *machine, int vcpu, GError **error);

/*
 * Fills the records; false when the vCPUs could not be held. An error may be set all the same.
 * *gone_on: it was a glance that was too short.
 */
static bool hold_and_capture(struct vms_sampler *sampler, hold_function hold, bool *gone_on,
			     GError **error)
{
	struct vms_machine *machine = sampler->run->options.machine;
	GError *failure = NULL;

	*gone_on = false;
	if (!hold(machine, sampler->vcpu, &failure)) {
		refuse_sample(sampler, failure, error);
		return false;
	}
	if (vms_machine_is_paused(machine)) {
		fail_all(sampler, VMS_SAMPLE_FAIL_PAUSED);
		forget(sampler);
	} else {
		capture(sampler, error);
	}
	if (vms_machine_release(machine, sampler->vcpu, &failure))
		return true;
	*gone_on = g_error_matches(failure, VMS_ERROR, VMS_ERROR_GONE_ON);
	if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_INVALID_STATE))
		drop_torn(sampler);
	else if (!*gone_on) {
		keep_error(error, failure);
		return true;
	}
	g_error_free(failure);
	return true;
}

/* Most samples need no more than a glance. */
static bool look(struct vms_sampler *sampler, GError **error)
{
	bool gone_on, held = hold_and_capture(sampler, vms_machine_glance, &gone_on, error);

	if (held && gone_on)
		held = hold_and_capture(sampler, vms_machine_hold, &gone_on, error);
	return held;
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

/* Adds what was captured to the trees: how many samples it was. */
static unsigned keep(struct vms_sampler *sampler, uint64_t held_ns)
{
	struct vms_run *run = sampler->run;
	unsigned kept = 0;

	for (unsigned i = 0; i < sampler->n; i++) {
		const struct vms_sample_record *record = &sampler->records[i];
		if (!sampler->taken[i])
			continue;
		kept++;
		if (vms_samples_add(&run->vcpus[sampler->first + i], run->options.guest, record,
				    run->options.leaf_first, held_ns) &&
		    has_unnamed_code(run->options.guest, &record->stack))
			g_atomic_int_set(&run->unnamed, 1);
	}
	return kept;
}

/* Ends the run when the engine's errors say that nothing will come of it. Takes the error. */
static void judge(struct vms_sampler *sampler, GError *error)
{
	const struct vms_run_options *options = &sampler->run->options;

	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_CLOSED))
		options->ended(VMS_SAMPLE_GONE, error, options->data);
	else if (g_error_matches(error, VMS_ERROR, VMS_ERROR_WATCHED))
		options->ended(VMS_SAMPLE_FAILED, error, options->data);
	else if ((g_error_matches(error, VMS_ERROR, VMS_ERROR_TIMEOUT) ||
		  g_error_matches(error, VMS_ERROR, VMS_ERROR_PROTOCOL)) &&
		 ++sampler->failures >= FAILURES_LIMIT)
		options->ended(VMS_SAMPLE_FAILED, error, options->data);
	else
		g_error_free(error);
}

/* Is the machine still the one that the run began with? */
static bool goes_on(struct vms_sampler *sampler)
{
	const struct vms_run_options *options = &sampler->run->options;

	switch (vms_machine_ended(options->machine)) {
	case VMS_MACHINE_GONE: options->ended(VMS_SAMPLE_GONE, NULL, options->data); return false;
	case VMS_MACHINE_RESET: options->ended(VMS_SAMPLE_RESET, NULL, options->data); return false;
	case VMS_MACHINE_GOES_ON:
	default: return true;
	}
}

/* Reads the lists of code that is loaded into the kernel. Under lock, for writing. */
static void read_code(struct vms_run *run, GError **error)
{
	uint64_t begin_ns = vms_clock_now_ns();

	vms_guest_refresh_modules(run->options.guest, error);
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
		all_taken &= sampler->taken[i];
		changed |= sampler->taken[i] && sampler->records[i].code_changed;
	}
	if (!all_taken || !changed ||
	    vms_clock_now_ns() - run->refreshed_ns < REFRESH_SHARE * run->refresh_took_ns)
		return false;
	g_rw_lock_reader_unlock(&run->guest_lock);
	if (g_rw_lock_writer_trylock(&run->guest_lock)) {
		read_code(run, NULL);
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
	bool held = look(sampler, &error);
	if (held && !error && follow_code(sampler)) {
		begin_ns = vms_clock_now_ns();
		held = look(sampler, &error);
	}
	begin_ns = MAX(begin_ns, vms_machine_held_from_ns(run->options.machine));
	uint64_t held_ns = vms_clock_now_ns() - begin_ns;
	if (held && keep(sampler, held_ns) > 0)
		sampler->failures = 0;
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

/* Ticks since the last call. */
static uint64_t ticks(const struct vms_sampler *sampler)
{
	uint64_t n;
	return read(sampler->timer_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void miss(struct vms_sampler *sampler, uint64_t n)
{
	for (unsigned i = 0; n > 0 && i < sampler->n; i++)
		vms_samples_miss(&sampler->run->vcpus[sampler->first + i], n);
}

static gpointer sampler_thread(gpointer data)
{
	struct vms_sampler *sampler = data;
	uint64_t interval_ns = sampler->run->options.interval_ns;
	struct pollfd fds[] = { { .fd = sampler->timer_fd, .events = POLLIN },
				{ .fd = sampler->run->stop_fd, .events = POLLIN } };

	/* Where it is allowed: a guest that keeps all CPUs busy would make its own samples late. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), SAMPLER_NICE);
	set_timer(sampler->timer_fd, vms_clock_now_ns() + interval_ns, interval_ns);
	tick(sampler);
	for (;;) {
		/* What ticked meanwhile is missed, not caught up with. */
		miss(sampler, ticks(sampler));
		if (poll(fds, G_N_ELEMENTS(fds), -1) < 0)
			continue;
		if (fds[1].revents)
			return NULL;
		miss(sampler, ticks(sampler) - 1);
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
	sampler->taken = g_new0(bool, sampler->n);
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
	g_free(sampler->taken);
}

struct vms_run *vms_run_new(const struct vms_run_options *options, GError **error)
{
	g_autoptr(vms_run) run = g_atomic_rc_box_new0(struct vms_run);
	bool each = vms_machine_holds_each(options->machine);

	run->options = *options;
	vms_machine_ref(run->options.machine);
	vms_guest_ref(run->options.guest);
	g_rw_lock_init(&run->guest_lock);
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

bool vms_run_begin(struct vms_run *run, GError **error)
{
	for (unsigned i = 0; i < run->n_samplers; i++) {
		struct vms_sampler *sampler = &run->samplers[i];
		sampler->thread = g_thread_try_new("vms-sampler", sampler_thread, sampler, error);
		if (!sampler->thread)
			return false;
	}
	return true;
}

void vms_run_stop(struct vms_run *run)
{
	eventfd_write(run->stop_fd, 1);
}

void vms_run_join(struct vms_run *run)
{
	for (unsigned i = 0; i < run->n_samplers; i++)
		if (run->samplers[i].thread)
			g_thread_join(g_steal_pointer(&run->samplers[i].thread));
}

void vms_run_refresh_guest(struct vms_run *run)
{
	struct vms_guest *guest = run->options.guest;
	g_autoptr(GError) error = NULL;

	if (!g_atomic_int_get(&run->unnamed) || !g_rw_lock_writer_trylock(&run->guest_lock))
		return;
	g_atomic_int_set(&run->unnamed, 0);
	if (vms_guest_kind(guest) != VMS_GUEST_NONE)
		read_code(run, &error);
	else if (vms_guest_detect_again(guest, &error))
		vms_log(VMS_LOG_INFO, "the guest has booted: %s %s", vms_guest_info(guest)->name,
			vms_guest_info(guest)->release);
	if (error)
		vms_log(VMS_LOG_DEBUG, "code without a name, and: %s", error->message);
	g_rw_lock_writer_unlock(&run->guest_lock);
}
