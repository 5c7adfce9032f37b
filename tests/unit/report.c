/* SPDX-License-Identifier: MIT */
/* The states of a sample report, and what becomes of each way that sampling can fail. */
#include "base/clock.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "profile_trees.h"
#include <string.h>
#include <vmscope/sample.h>

#define KERNEL	     UINT64_C(0xffff800000001000)
#define FAST_US	     100
#define LONG_NS	     (UINT64_C(1000) * 1000000000)
#define SHORT_NS     UINT64_C(20000000)
#define N_VCPUS	     2
#define FAR_TOO_MANY 1000000

/* What the machine does, and what was seen of the run. Counts are kept by the engine's lock. */
struct fixture {
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_sample_report *report;
	uint64_t interval_us; /* the report's */
	uint64_t duration_ns; /* of the last run; 0: until it was stopped */
	GMutex lock;
	GCond changed;

	enum vms_error hold_error, release_error, regs_error; /* 0: none; else minus 1 */
	unsigned bad_vcpu;				      /* whose registers cannot be read */
	unsigned good_first; /* so many holds succeed before any fails */
	unsigned bad_every;  /* fails but every so often; 0: always */
	int paused;	     /* atomic */
	enum vms_machine_end ended;
	uint64_t resets;
	unsigned ended_after; /* holds: then it has ended, or was reset */
	gulong hold_us;	      /* how long a hold takes */
	bool hangs;	      /* a hold takes as long as anybody waits */
	_Atomic unsigned holds, releases,
		held; /* vCPUs that are held one by one: by many threads */

	GArray *percents; /* int: what progress was told */
	unsigned cancel_after;
	bool ready_at_100;
};

/* An error code that may also be none. */
#define ERROR_CODE(code) ((enum vms_error)((code) + 1))

/* Is the call with that number, from 1, to fail? */
static bool fails(struct fixture *fixture, unsigned number, enum vms_error code, GError **error)
{
	if (code == 0 || number <= fixture->good_first)
		return false;
	if (fixture->bad_every && number % fixture->bad_every != 0)
		return false;
	g_set_error(error, VMS_ERROR, (int)code - 1, "made to fail");
	return true;
}

static bool on_hold(void *data, GError **error)
{
	struct fixture *fixture = data;
	unsigned number = ++fixture->holds;
	if (fixture->hold_us)
		g_usleep(fixture->hold_us);
	if (fixture->hangs) {
		while (!fake_machine_is_given_up(fixture->machine))
			g_usleep(FAST_US);
		g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT, "no answer");
		return false;
	}
	if (fails(fixture, number, fixture->hold_error, error))
		return false;
	fixture->held++;
	return true;
}

static bool on_release(void *data, GError **error)
{
	struct fixture *fixture = data;
	g_assert_cmpuint(fixture->held, >, 0);
	fixture->held--;
	return !fails(fixture, ++fixture->releases, fixture->release_error, error);
}

static bool on_regs(void *data, unsigned vcpu, GError **error)
{
	struct fixture *fixture = data;
	g_assert_cmpuint(fixture->held, >, 0);
	return vcpu != fixture->bad_vcpu ||
	       !fails(fixture, fixture->holds, fixture->regs_error, error);
}

static bool on_is_paused(void *data)
{
	struct fixture *fixture = data;
	return g_atomic_int_get(&fixture->paused);
}

static char *on_pause_reason(void *data G_GNUC_UNUSED)
{
	return g_strdup("it is on strike");
}

static enum vms_machine_end on_ended(void *data)
{
	struct fixture *fixture = data;
	return fixture->holds >= fixture->ended_after ? fixture->ended : VMS_MACHINE_GOES_ON;
}

static uint64_t on_resets(void *data)
{
	struct fixture *fixture = data;
	return fixture->holds >= fixture->ended_after ? fixture->resets : 0;
}

static void set_up(struct fixture *fixture, gconstpointer each)
{
	struct fake_hooks hooks = { on_hold,
				    on_release,
				    on_regs,
				    on_is_paused,
				    on_ended,
				    .data = fixture,
				    .pause_reason = on_pause_reason,
				    .resets = on_resets };

	g_mutex_init(&fixture->lock);
	g_cond_init(&fixture->changed);
	fixture->percents = g_array_new(FALSE, FALSE, sizeof(int));
	fixture->machine = fake_machine_new(&vms_arch_x86_64, N_VCPUS);
	fake_machine_set_hooks(fixture->machine, &hooks);
	if (each)
		fake_machine_set_holds_each(fixture->machine);
	fixture->guest = fake_guest_new(fixture->machine, VMS_GUEST_LINUX);
	fixture->report = vms_sample_report_new(fixture->machine, fixture->guest, FAST_US, 0, NULL);
	fixture->interval_us = FAST_US;
	fixture->cancel_after = FAR_TOO_MANY;
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_sample_report_unref(fixture->report);
	g_assert_cmpuint(fixture->held, ==, 0);
	vms_guest_unref(fixture->guest);
	vms_machine_unref(fixture->machine);
	g_array_unref(fixture->percents);
	g_mutex_clear(&fixture->lock);
	g_cond_clear(&fixture->changed);
}

static bool on_progress(int percent, void *data)
{
	struct fixture *fixture = data;
	g_mutex_lock(&fixture->lock);
	g_array_append_val(fixture->percents, percent);
	bool go_on = fixture->percents->len <= fixture->cancel_after;
	if (percent == 100)
		fixture->ready_at_100 =
			vms_sample_report_state(fixture->report) == VMS_SAMPLE_READY;
	g_cond_broadcast(&fixture->changed);
	g_mutex_unlock(&fixture->lock);
	return go_on;
}

static void start(struct fixture *fixture, uint64_t duration_ns)
{
	fixture->duration_ns = duration_ns;
	g_autoptr(GError) error = NULL;
	g_array_set_size(fixture->percents, 0);
	g_assert_true(vms_sample_report_start(fixture->report, duration_ns, on_progress, fixture,
					      &error));
	g_assert_no_error(error);
}

static void run(struct fixture *fixture, uint64_t duration_ns)
{
	start(fixture, duration_ns);
	vms_sample_report_wait(fixture->report, UINT64_MAX);
}

static struct vms_sample_stats stats_of(struct fixture *fixture, unsigned vcpu)
{
	struct vms_sample_stats stats;
	g_assert_true(vms_sample_report_stats(fixture->report, vcpu, &stats));
	return stats;
}

static uint64_t failures_of(const struct vms_sample_stats *stats)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		n += stats->failed[i];
	return n;
}

/* Each tick of the time that the run took is a sample, a failure, or was missed. */
static void assert_ticks(struct fixture *fixture)
{
	uint64_t elapsed_ns = vms_sample_report_elapsed_ns(fixture->report);
	uint64_t interval_ns = fixture->interval_us * 1000;
	/* A tick at the end of a run's duration is none of the run's. */
	bool is_over = fixture->duration_ns && elapsed_ns >= fixture->duration_ns;
	uint64_t ticks = is_over ? (fixture->duration_ns + interval_ns - 1) / interval_ns
				 : 1 + elapsed_ns / interval_ns;
	for (unsigned i = 0; i < N_VCPUS; i++) {
		struct vms_sample_stats stats = stats_of(fixture, i);
		g_assert_cmpuint(stats.samples + stats.missed + failures_of(&stats), ==, ticks);
	}
}

/*
 * However a run ended: it is ready, 100 was told once, at the end, nothing is held, and its ticks
 * are accounted for.
 */
static void assert_ended(struct fixture *fixture, enum vms_sample_end end)
{
	g_assert_cmpint(vms_sample_report_state(fixture->report), ==, VMS_SAMPLE_READY);
	g_assert_cmpint(vms_sample_report_end(fixture->report), ==, end);
	g_assert_cmpuint(fixture->held, ==, 0);
	g_assert_true(fixture->ready_at_100);
	assert_ticks(fixture);
	g_assert_cmpuint(fixture->percents->len, >=, 1);
	for (guint i = 0; i < fixture->percents->len; i++) {
		int percent = g_array_index(fixture->percents, int, i);
		if (i + 1 == fixture->percents->len)
			g_assert_cmpint(percent, ==, 100);
		else
			g_assert_cmpint(percent, <, 100);
	}
}

/* Every vCPU's tree sums up to its samples. */
static void assert_sums(struct fixture *fixture)
{
	g_autoptr(vms_profile) profile = vms_sample_report_profile(fixture->report, 0, NULL);
	g_assert_cmpuint(count_trees(profile), ==, N_VCPUS);
	for (unsigned i = 0; i < N_VCPUS; i++) {
		const struct vms_profile_tree *tree = get_tree(profile, i);
		uint64_t self = 0;
		for (uint32_t j = 0; j < tree->n_nodes; j++)
			self += tree->nodes[j].self;
		g_assert_cmpuint(self, ==, stats_of(fixture, i).samples);
		g_assert_cmpuint(tree->samples, ==, self);
	}
}

static unsigned count_holds(struct fixture *fixture)
{
	return fixture->holds;
}

/* Sleeps until there were `n` holds. */
static void wait_for_holds(struct fixture *fixture, unsigned n)
{
	while (count_holds(fixture) < n)
		g_usleep(100);
}

/* ---- tests ------------------------------------------------------------ */

static void test_arguments(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const uint64_t intervals[] = { 0,	  9,	      10000001,
					      UINT32_MAX, UINT64_MAX, UINT64_MAX / 1000 + 10 };
	for (size_t i = 0; i < G_N_ELEMENTS(intervals); i++) {
		g_autoptr(GError) error = NULL;
		g_assert_null(
			vms_sample_report_new(fixture->machine, NULL, intervals[i], 0, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
		g_assert_nonnull(strstr(error->message, "10000000 us"));
	}
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_sample_report_new(fixture->machine, NULL, 10, 2, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);

	static const unsigned depths[] = { 0, VMS_STACK_LIMIT + 1, UINT32_MAX };
	for (size_t i = 0; i < G_N_ELEMENTS(depths); i++) {
		g_autoptr(GError) bad = NULL;
		g_assert_false(vms_sample_report_set_depth(fixture->report, depths[i], &bad));
		g_assert_error(bad, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	}
	g_assert_true(vms_sample_report_set_depth(fixture->report, 1, NULL));
	g_assert_true(vms_sample_report_set_depth(fixture->report, VMS_STACK_LIMIT, NULL));
}

/* Before anything was sampled there is nothing to show, and nothing to stop or wait for. */
static void test_not_run(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) profile_error = NULL;
	g_autoptr(GError) stop_error = NULL;
	struct vms_sample_stats stats;

	g_assert_cmpint(vms_sample_report_state(fixture->report), ==, VMS_SAMPLE_READY);
	g_assert_cmpint(vms_sample_report_end(fixture->report), ==, VMS_SAMPLE_NOT_RUN);
	g_assert_null(vms_sample_report_profile(fixture->report, 0, &profile_error));
	g_assert_error(profile_error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_false(vms_sample_report_stop(fixture->report, &stop_error));
	g_assert_error(stop_error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_false(vms_sample_report_stats(fixture->report, 0, &stats));
	g_assert_cmpuint(vms_sample_report_elapsed_ns(fixture->report), ==, 0);
	g_assert_true(
		vms_sample_report_wait(fixture->report, 0)); /* there is nothing to wait for */
}

/* A run by time: it takes at least that long, and the trees hold every sample. */
static void test_complete(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const struct fake_sample samples[] = {
		{ .frames = { { KERNEL }, { KERNEL + 1, true } } },
		{ .idle = true },
		{ .frames = { { KERNEL + 2 } }, .end = VMS_WALK_BAD_FRAME },
	};
	fake_guest_set_samples(fixture->guest, 0, samples, G_N_ELEMENTS(samples));
	run(fixture, SHORT_NS);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	assert_sums(fixture);
	g_assert_cmpuint(vms_sample_report_elapsed_ns(fixture->report), >=, SHORT_NS);
	g_assert_null(vms_sample_report_error(fixture->report));

	struct vms_sample_stats stats = stats_of(fixture, 0);
	g_assert_cmpuint(failures_of(&stats), ==, 0);
	/* The script was gone through from the beginning. */
	g_assert_cmpuint(stats.idle, ==, (stats.samples + 1) / 3);
	g_assert_cmpuint(stats.kernel_walks_by_end[VMS_WALK_ROOT], ==, (stats.samples + 2) / 3);
	g_assert_cmpuint(stats.kernel_walks_by_end[VMS_WALK_BAD_FRAME], ==, stats.samples / 3);
	g_assert_cmpuint(stats.kernel_walks, ==, stats.samples - stats.idle);
	g_assert_cmpuint(stats.hold_ns_median, <=, stats.hold_ns_p99);
	g_assert_cmpuint(stats.hold_ns_p99, <=, stats.hold_ns_max);
	stats = stats_of(fixture, 1);
	g_assert_cmpuint(stats.idle, ==, stats.samples);
}

/* The shortest run there is has its one sample; the longest interval does not keep it waiting. */
static void test_shortest(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const uint64_t intervals[] = { VMS_SAMPLE_INTERVAL_MIN_US,
					      VMS_SAMPLE_INTERVAL_MAX_US };
	for (size_t i = 0; i < G_N_ELEMENTS(intervals); i++) {
		vms_sample_report_unref(fixture->report);
		fixture->report = vms_sample_report_new(fixture->machine, fixture->guest,
							intervals[i], 0, NULL);
		fixture->interval_us = intervals[i];
		run(fixture, 1);
		assert_ended(fixture, VMS_SAMPLE_COMPLETE);
		assert_sums(fixture);
		g_assert_cmpuint(stats_of(fixture, 0).samples, >=, 1);
	}
}

/* The longest there is can be stopped, and has got nowhere. */
static void test_longest(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	start(fixture, UINT64_MAX);
	wait_for_holds(fixture, 3);
	g_assert_false(
		vms_sample_report_wait(fixture->report, vms_clock_now_ns())); /* it goes on */
	g_assert_true(vms_sample_report_stop(fixture->report, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	for (guint i = 0; i + 1 < fixture->percents->len; i++)
		g_assert_cmpint(g_array_index(fixture->percents, int, i), ==, 0);
}

static void test_endless(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	start(fixture, 0);
	wait_for_holds(fixture, 5);
	g_assert_cmpint(vms_sample_report_state(fixture->report), ==, VMS_SAMPLE_RUNNING);
	g_assert_true(vms_sample_report_stop(fixture->report, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	assert_sums(fixture);
	for (guint i = 0; i + 1 < fixture->percents->len; i++)
		g_assert_cmpint(g_array_index(fixture->percents, int, i), ==,
				VMS_SAMPLE_PROGRESS_UNKNOWN);
}

/* An endless run can be cancelled by its progress, a timed one too. */
static void test_cancel(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const uint64_t durations[] = { 0, LONG_NS };
	for (size_t i = 0; i < G_N_ELEMENTS(durations); i++) {
		fixture->cancel_after = (unsigned)i;
		run(fixture, durations[i]);
		assert_ended(fixture, VMS_SAMPLE_CANCELLED);
		assert_sums(fixture);
		g_assert_cmpuint(fixture->percents->len, ==, i + 2);
	}
}

/* What is not allowed while sampling changes nothing. */
static void test_wrong_state(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) start_error = NULL;
	g_autoptr(GError) depth_error = NULL;
	g_autoptr(GError) profile_error = NULL;

	start(fixture, 0);
	wait_for_holds(fixture, 1);
	g_assert_false(vms_sample_report_start(fixture->report, 1, NULL, NULL, &start_error));
	g_assert_error(start_error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_false(vms_sample_report_set_depth(fixture->report, 5, &depth_error));
	g_assert_error(depth_error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_null(vms_sample_report_profile(fixture->report, 0, &profile_error));
	g_assert_error(profile_error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	wait_for_holds(fixture, count_holds(fixture) + 5); /* still endless */
	g_assert_cmpint(vms_sample_report_state(fixture->report), ==, VMS_SAMPLE_RUNNING);
	vms_sample_report_stop(fixture->report, NULL);
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
}

/* A second run begins from nothing. */
static void test_restart(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const struct fake_sample first = { .frames = { { KERNEL } } };
	static const struct fake_sample second = { .frames = { { KERNEL + 0x100 } } };

	for (int i = 0; i < 2; i++) {
		for (unsigned vcpu = 0; vcpu < N_VCPUS; vcpu++)
			fake_guest_set_samples(fixture->guest, vcpu, i ? &second : &first, 1);
		run(fixture, SHORT_NS);
		assert_ended(fixture, VMS_SAMPLE_COMPLETE);
		assert_sums(fixture);
		g_autoptr(vms_profile) profile =
			vms_sample_report_profile(fixture->report, 0, NULL);
		for (unsigned vcpu = 0; vcpu < N_VCPUS; vcpu++) {
			const struct vms_profile_tree *tree = get_tree(profile, vcpu);
			g_assert_cmpuint(tree->n_nodes, ==, 1);
			g_assert_cmphex(vms_profile_label(profile, tree->nodes[0].label)->va, ==,
					KERNEL + (i ? 0x100 : 0));
		}
	}
}

/* The last reference ends a run that nobody stopped. */
static void test_unref_running(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	start(fixture, 0);
	wait_for_holds(fixture, 2);
	vms_sample_report_unref(vms_sample_report_ref(fixture->report));
	g_assert_cmpint(vms_sample_report_state(fixture->report), ==, VMS_SAMPLE_RUNNING);
	vms_sample_report_unref(fixture->report);
	fixture->report = NULL;
	g_assert_cmpint(g_array_index(fixture->percents, int, fixture->percents->len - 1), ==, 100);
}

static void test_gone(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->ended = VMS_MACHINE_GONE;
	fixture->ended_after = 4;
	run(fixture, 0);
	assert_ended(fixture, VMS_SAMPLE_GONE);
	assert_sums(fixture);
}

/* A reset ends the run in which it happens, and no other: the next one finds the guest anew. */
static void test_reset(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->resets = 1;
	fixture->ended_after = 4;
	run(fixture, 0);
	assert_ended(fixture, VMS_SAMPLE_RESET);
	assert_sums(fixture);
	struct vms_guest *before = vms_sample_report_guest(fixture->report);
	g_assert_true(before == fixture->guest);
	for (int i = 0; i < 2; i++) {
		unsigned holds = fixture->holds;
		start(fixture, 0);
		wait_for_holds(fixture, holds + 5);
		vms_sample_report_stop(fixture->report, NULL);
		vms_sample_report_wait(fixture->report, UINT64_MAX);
		assert_ended(fixture, VMS_SAMPLE_STOPPED);
		assert_sums(fixture);
		g_assert_true(vms_sample_report_guest(fixture->report) != fixture->guest);
	}
}

/* A connection that breaks ends the run at once, and the error says so. */
static void test_closed(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->hold_error = ERROR_CODE(VMS_ERROR_CLOSED);
	fixture->good_first = 6;
	run(fixture, 0);
	assert_ended(fixture, VMS_SAMPLE_GONE);
	assert_sums(fixture);
	g_assert_error(vms_sample_report_error(fixture->report), VMS_ERROR, VMS_ERROR_CLOSED);
	fixture->hold_error = 0;
	run(fixture, 1);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	g_assert_null(vms_sample_report_error(fixture->report));
}

/* Nothing but wrong answers ends the run; some between samples do not. */
static void test_hold_fails(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;

	fixture->hold_error = ERROR_CODE(VMS_ERROR_PROTOCOL);
	run(fixture, 0);
	assert_ended(fixture, VMS_SAMPLE_FAILED);
	g_assert_error(vms_sample_report_error(fixture->report), VMS_ERROR, VMS_ERROR_PROTOCOL);
	g_assert_cmpuint(stats_of(fixture, 0).samples, ==, 0);
	g_assert_null(vms_sample_report_profile(fixture->report, 0, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);

	fixture->bad_every = 3;
	unsigned holds = count_holds(fixture);
	start(fixture, 0);
	wait_for_holds(fixture, holds + 4);
	g_assert_true(vms_sample_report_stop(fixture->report, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	assert_sums(fixture);
}

static void assert_reason(struct fixture *fixture, enum vms_sample_failure failure,
			  const char *reason)
{
	g_autofree char *told = vms_sample_report_reason(fixture->report, failure);
	g_assert_cmpstr(told, ==, reason);
}

/* The error of a run without samples. Free it. */
static GError *nothing_sampled(struct fixture *fixture)
{
	GError *error = NULL;
	g_assert_null(vms_sample_report_profile(fixture->report, 0, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	return error;
}

/* A machine that does not answer for a while is no reason to end; why, is told. */
static void test_silent(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->hold_error = ERROR_CODE(VMS_ERROR_TIMEOUT);
	run(fixture, SHORT_NS);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	assert_reason(fixture, VMS_SAMPLE_FAIL_HOLD, "made to fail");
	assert_reason(fixture, VMS_SAMPLE_FAIL_PAUSED, NULL);
	g_autoptr(GError) error = nothing_sampled(fixture);
	g_assert_nonnull(strstr(error->message, "(could not be held): made to fail"));

	fixture->hold_error = 0;
	run(fixture, 1);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	assert_sums(fixture);
	assert_reason(fixture, VMS_SAMPLE_FAIL_HOLD, NULL);
}

/* A brief hold that was too short is repeated: what it could not read is no failure. */
static void test_gone_on(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_sample_stats stats;
	fixture->regs_error = fixture->release_error = ERROR_CODE(VMS_ERROR_GONE_ON);
	fixture->bad_every = 2;
	start(fixture, 0);
	wait_for_holds(fixture, 6); /* some of them are repeated */
	g_assert_true(vms_sample_report_stop(fixture->report, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	assert_sums(fixture);
	for (unsigned i = 0; vms_sample_report_stats(fixture->report, i, &stats); i++)
		for (unsigned j = 0; j < VMS_SAMPLE_N_FAILURES; j++)
			g_assert_cmpuint(stats.failed[j], ==, 0);
	assert_reason(fixture, VMS_SAMPLE_FAIL_REGS, NULL);
}

/* One that does not answer when the run ends is given up. */
static void test_given_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const uint64_t durations[] = { 0, SHORT_NS };
	for (size_t i = 0; i < G_N_ELEMENTS(durations); i++) {
		fixture->hangs = true;
		start(fixture, durations[i]);
		wait_for_holds(fixture, 1);
		if (durations[i] == 0)
			vms_sample_report_stop(fixture->report, NULL);
		vms_sample_report_wait(fixture->report, UINT64_MAX);
		assert_ended(fixture, durations[i] ? VMS_SAMPLE_COMPLETE : VMS_SAMPLE_STOPPED);
		g_assert_cmpuint(stats_of(fixture, 0).samples, ==, 0);
		g_assert_cmpuint(stats_of(fixture, 0).failed[VMS_SAMPLE_FAIL_HOLD], ==, 1);
		/* Only until the run's end. */
		g_assert_cmpuint(fake_machine_give_up_ns(fixture->machine), ==, 0);
		fixture->holds = 0;
	}
}

/* One vCPU whose registers cannot be read does not take the others' samples away. */
static void test_regs_fail(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->regs_error = ERROR_CODE(VMS_ERROR_UNSUPPORTED);
	fixture->bad_vcpu = 1;
	run(fixture, SHORT_NS);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	assert_sums(fixture);
	struct vms_sample_stats good = stats_of(fixture, 0), bad = stats_of(fixture, 1);
	g_assert_cmpuint(good.samples, >, 0);
	g_assert_cmpuint(failures_of(&good), ==, 0);
	g_assert_cmpuint(bad.samples, ==, 0);
	g_assert_cmpuint(bad.failed[VMS_SAMPLE_FAIL_REGS], ==, failures_of(&bad));
	g_assert_cmpuint(failures_of(&bad), >, 0);
}

/* Samples that the watchdog has spoilt are dropped and counted. */
static void test_torn(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->release_error = ERROR_CODE(VMS_ERROR_INVALID_STATE);
	fixture->bad_every = 2;
	start(fixture, 0);
	wait_for_holds(fixture, 20);
	vms_sample_report_stop(fixture->report, NULL);
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	assert_sums(fixture);
	uint64_t samples = 0, torn = 0;
	for (unsigned i = 0; i < N_VCPUS; i++) {
		struct vms_sample_stats stats = stats_of(fixture, i);
		g_assert_cmpuint(stats.failed[VMS_SAMPLE_FAIL_TORN], ==, failures_of(&stats));
		samples += stats.samples;
		torn += failures_of(&stats);
	}
	unsigned vcpus_per_hold = vms_machine_holds_each(fixture->machine) ? 1 : N_VCPUS;
	g_assert_cmpuint(torn, ==, fixture->holds / 2 * vcpus_per_hold);
	g_assert_cmpuint(samples, ==, (fixture->holds - fixture->holds / 2) * vcpus_per_hold);
}

/* A machine that its user has paused is left alone, and sampled again when it runs. */
static void test_paused(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_atomic_int_set(&fixture->paused, 1);
	start(fixture, 0);
	while (stats_of(fixture, 0).failed[VMS_SAMPLE_FAIL_PAUSED] < 3)
		g_usleep(100);
	g_assert_cmpuint(stats_of(fixture, 0).samples, ==, 0);
	assert_reason(fixture, VMS_SAMPLE_FAIL_PAUSED, "it is on strike");
	g_atomic_int_set(&fixture->paused, 0);
	while (stats_of(fixture, 0).samples < 1)
		g_usleep(100);
	vms_sample_report_stop(fixture->report, NULL);
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	assert_sums(fixture);

	g_atomic_int_set(&fixture->paused, 1);
	run(fixture, SHORT_NS);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	g_autoptr(GError) error = nothing_sampled(fixture);
	g_assert_nonnull(strstr(error->message, "(machine was paused): it is on strike"));
}

/* Ticks that pass while a sample is being taken are missed, not piled up. */
static void test_missed(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->hold_us = FAST_US * 20;
	start(fixture, 0);
	wait_for_holds(fixture, 10);
	vms_sample_report_stop(fixture->report, NULL);
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	assert_ended(fixture, VMS_SAMPLE_STOPPED);
	for (unsigned i = 0; i < N_VCPUS; i++) {
		struct vms_sample_stats stats = stats_of(fixture, i);
		/* The hold outlasts twenty ticks: nineteen, to allow for where it began. The last
		 * one outlasts the run. */
		g_assert_cmpuint(stats.missed, >=, (stats.samples - 1) * 19);
		g_assert_cmpuint(stats.hold_ns_median, >=, FAST_US * 20 * 1000 * 9 / 10);
	}
}

/* Stacks cut at the depth that was asked for say so. */
static void test_depth(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const struct fake_sample deep = {
		.frames = { { KERNEL }, { KERNEL + 1, true }, { KERNEL + 2, true } }
	};
	fake_guest_set_samples(fixture->guest, 0, &deep, 1);
	g_assert_true(vms_sample_report_set_depth(fixture->report, 2, NULL));
	run(fixture, 1);
	g_autoptr(vms_profile) profile = vms_sample_report_profile(fixture->report, 0, NULL);
	const struct vms_profile_tree *tree = get_tree(profile, 0);
	g_assert_cmpuint(tree->n_nodes, ==, 3);
	g_assert_cmpstr(vms_profile_label(profile, tree->nodes[tree->first_root].label)->name, ==,
			"[truncated]");
}

/* Modules are read at the start, and again when code without a name was seen. */
static void test_modules(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const struct fake_sample sample = { .frames = { { KERNEL } } };

	fake_guest_add_symbol(fixture->guest, "known", NULL, KERNEL, 16);
	fake_guest_add_symbol(fixture->guest, "late", "late", KERNEL + 16, 16);
	fake_guest_set_samples(fixture->guest, 0, &sample, 1);
	run(fixture, 1);
	g_assert_cmpuint(fake_guest_refreshes(fixture->guest), ==, 1);

	static const struct fake_sample late = { .frames = { { KERNEL + 16 } } };
	fake_guest_hide_symbols(fixture->guest, 0);
	fake_guest_set_samples(fixture->guest, 0, &late, 1);
	run(fixture, 1);
	g_assert_cmpuint(fake_guest_refreshes(fixture->guest), ==, 3);
	g_autoptr(vms_profile) profile = vms_sample_report_profile(fixture->report, 0, NULL);
	const struct vms_profile_tree *tree = get_tree(profile, 0);
	g_assert_cmpstr(vms_profile_label(profile, tree->nodes[0].label)->name, ==, "late");
}

/* A sample that meets modules that have come or gone is taken again, when they have been read. */
static void test_code_changes(struct fixture *fixture, gconstpointer each)
{
	static const struct fake_sample samples[] = {
		{ .frames = { { KERNEL } }, .code_changed = true },
		{ .frames = { { KERNEL + 16 } } },
	};

	fake_guest_add_symbol(fixture->guest, "torn", NULL, KERNEL, 16);
	fake_guest_add_symbol(fixture->guest, "whole", NULL, KERNEL + 16, 16);
	fake_guest_set_samples(fixture->guest, 0, samples, G_N_ELEMENTS(samples));
	run(fixture, SHORT_NS);
	const struct vms_sample_stats stats = stats_of(fixture, 0);
	g_assert_cmpuint(stats.samples, >, 0);
	g_assert_cmpuint(failures_of(&stats), ==, 0);
	assert_sums(fixture);
	/* Once at the start. Not while another thread samples, if there is one. */
	if (each) {
		g_assert_cmpuint(fake_guest_refreshes(fixture->guest), <=, 1 + stats.samples);
		return;
	}
	g_assert_cmpuint(fake_guest_refreshes(fixture->guest), >, 1);
	g_autoptr(vms_profile) profile = vms_sample_report_profile(fixture->report, 0, NULL);
	/* The one that most samples have. */
	const struct vms_profile_tree *tree = get_tree(profile, 0);
	g_assert_cmpstr(vms_profile_label(profile, tree->nodes[tree->first_root].label)->name, ==,
			"whole");
	g_assert_cmpuint(tree->nodes[tree->first_root].total, >, stats.samples / 2);
}

/* Without a guest one is looked for; none is no error. */
static void test_detect(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_sample_report_unref(fixture->report);
	fixture->report = vms_sample_report_new(fixture->machine, NULL, FAST_US, 0, NULL);
	g_assert_null(vms_sample_report_guest(fixture->report));
	run(fixture, 1);
	assert_ended(fixture, VMS_SAMPLE_COMPLETE);
	assert_sums(fixture);
	g_assert_cmpint(vms_guest_kind(vms_sample_report_guest(fixture->report)), ==,
			VMS_GUEST_NONE);
}

/* Many runs, stopped at any moment, from another thread than the one that waits. */
static gpointer stopper(gpointer data)
{
	struct fixture *fixture = data;
	g_usleep((gulong)g_random_int_range(0, 2000));
	vms_sample_report_stop(fixture->report, NULL);
	return NULL;
}

static void test_stop_any_time(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	for (int i = 0; i < 100; i++) {
		start(fixture, 1000000);
		GThread *thread = g_thread_new("stopper", stopper, fixture);
		vms_sample_report_wait(fixture->report, UINT64_MAX);
		g_thread_join(thread);
		enum vms_sample_end end = vms_sample_report_end(fixture->report);
		assert_ended(fixture, end);
		g_assert_true(end == VMS_SAMPLE_STOPPED || end == VMS_SAMPLE_COMPLETE);
		assert_sums(fixture);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct fixture *fixture, gconstpointer data);
	} tests[] = {
		{ "arguments", test_arguments },
		{ "not-run", test_not_run },
		{ "complete", test_complete },
		{ "shortest", test_shortest },
		{ "longest", test_longest },
		{ "endless", test_endless },
		{ "cancel", test_cancel },
		{ "wrong-state", test_wrong_state },
		{ "restart", test_restart },
		{ "unref-running", test_unref_running },
		{ "gone", test_gone },
		{ "reset", test_reset },
		{ "closed", test_closed },
		{ "hold-fails", test_hold_fails },
		{ "silent", test_silent },
		{ "given-up", test_given_up },
		{ "regs-fail", test_regs_fail },
		{ "torn", test_torn },
		{ "paused", test_paused },
		{ "missed", test_missed },
		{ "depth", test_depth },
		{ "modules", test_modules },
		{ "detect", test_detect },
		{ "stop-any-time", test_stop_any_time },
		{ "code-changes", test_code_changes },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < 2 * G_N_ELEMENTS(tests); i++) {
		bool each = i % 2;
		g_autofree char *path = g_strdup_printf("/report/%s/%s", tests[i / 2].name,
							each ? "vcpu-by-vcpu" : "all-at-once");
		g_test_add(path, struct fixture, each ? tests : NULL, set_up, tests[i / 2].run,
			   tear_down);
	}
	/* Every second hold is too short: with threads these are not every vCPU's second ones. */
	g_test_add("/report/gone-on", struct fixture, NULL, set_up, test_gone_on, tear_down);
	return g_test_run();
}
