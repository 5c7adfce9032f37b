/* SPDX-License-Identifier: MIT */
/*
 * The states of a sample report. A run has its own thread, which starts the sampling threads,
 * reports the progress and watches the time. A run may be ended by its time, a call, the machine or
 * an error. All of them call end_run(), which tells the sampling threads to stop. The run's thread
 * does the rest.
 */
#include "base/clock.h"
#include "guest/follower.h"
#include "sample/profile-private.h"
#include "sample/run.h"
#include "sample/run_facts.h"
#include <inttypes.h>
#include <vmscope/log.h>

#define PROGRESS_US	   100000
#define MODULES_REFRESH_NS UINT64_C(1000000000)

struct vms_sample_report {
	gatomicrefcount refs;
	struct vms_machine *machine;
	uint64_t interval_ns;
	bool leaf_first;
	bool detect; /* detect the guest at each start */

	GMutex lock; /* guards all below */
	GCond changed;
	unsigned depth;
	struct vms_guest *guest;
	bool starting; /* a thread is in vms_sample_report_start */
	enum vms_sample_state state;
	enum vms_sample_end end;
	GError *error;
	uint64_t begin_ns, elapsed_ns, duration_ns; /* duration 0 has no limit */
	vms_sample_progress progress;
	void *progress_data;
	struct vms_run *run; /* the last one, or NULL */
	GThread *thread;     /* of the last run, not joined yet, or NULL */
	bool in_thread; /* the thread is still busy, if only with the last call of `progress` */
};

struct vms_sample_report *vms_sample_report_new(struct vms_machine *machine,
						struct vms_guest *guest, uint64_t interval_us,
						unsigned flags, GError **error)
{
	if (interval_us < VMS_SAMPLE_INTERVAL_MIN_US || interval_us > VMS_SAMPLE_INTERVAL_MAX_US) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "a sampling interval of %" PRIu64
			    " us is out of range: choose %d us (100000 Hz) to %d us (0.1 Hz)",
			    interval_us, VMS_SAMPLE_INTERVAL_MIN_US, VMS_SAMPLE_INTERVAL_MAX_US);
		return NULL;
	}
	if (flags & ~(unsigned)VMS_SAMPLE_LEAF_FIRST) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "unknown flags 0x%x for a sample report", flags);
		return NULL;
	}
	struct vms_sample_report *report = g_new0(struct vms_sample_report, 1);
	g_atomic_ref_count_init(&report->refs);
	g_mutex_init(&report->lock);
	g_cond_init(&report->changed);
	report->machine = vms_machine_ref(machine);
	report->guest = guest ? vms_guest_ref(guest) : NULL;
	report->detect = !guest;
	report->interval_ns = interval_us * 1000;
	report->leaf_first = flags & VMS_SAMPLE_LEAF_FIRST;
	report->depth = VMS_STACK_DEFAULT;
	return report;
}

struct vms_sample_report *vms_sample_report_ref(struct vms_sample_report *report)
{
	g_atomic_ref_count_inc(&report->refs);
	return report;
}

void vms_sample_report_unref(struct vms_sample_report *report)
{
	if (!report || !g_atomic_ref_count_dec(&report->refs))
		return;
	vms_sample_report_stop(report, NULL);
	if (report->thread)
		g_thread_join(report->thread);
	vms_run_unref(report->run);
	vms_guest_unref(report->guest);
	vms_machine_unref(report->machine);
	g_clear_error(&report->error);
	g_cond_clear(&report->changed);
	g_mutex_clear(&report->lock);
	g_free(report);
}

/* ---- a run ------------------------------------------------------------ */

/* Ends a run unless it has ended already. Takes the error. Called with the lock held. */
static void end_run(struct vms_sample_report *report, enum vms_sample_end end, GError *error)
{
	if (report->state != VMS_SAMPLE_RUNNING) {
		g_clear_error(&error);
		return;
	}
	report->state = VMS_SAMPLE_STOPPING;
	report->end = end;
	report->error = error;
	report->elapsed_ns = vms_run_stop(report->run) - report->begin_ns;
	g_cond_broadcast(&report->changed);
}

static void end_run_from_sampler(enum vms_sample_end end, GError *error, void *data)
{
	struct vms_sample_report *report = data;

	g_mutex_lock(&report->lock);
	end_run(report, end, error);
	g_mutex_unlock(&report->lock);
}

/* Returns 0 to 99, or VMS_SAMPLE_PROGRESS_UNKNOWN. */
static int get_percent(uint64_t elapsed_ns, uint64_t duration_ns)
{
	if (duration_ns == 0)
		return VMS_SAMPLE_PROGRESS_UNKNOWN;
	return elapsed_ns < duration_ns ? (int)(99.999 * (double)elapsed_ns / (double)duration_ns)
					: 99;
}

/*
 * Reports the progress, refreshes the guest, ends the run if its time is over, and waits until the
 * next of these is due. Called with the lock held, which it releases during all of this.
 */
static void watch_run(struct vms_sample_report *report, uint64_t *modules_ns)
{
	uint64_t elapsed_ns = vms_clock_now_ns() - report->begin_ns;
	int done = get_percent(elapsed_ns, report->duration_ns);

	g_mutex_unlock(&report->lock);
	bool go_on = !report->progress || report->progress(done, report->progress_data);
	if (elapsed_ns - *modules_ns >= MODULES_REFRESH_NS) {
		*modules_ns = elapsed_ns;
		vms_run_refresh_guest(report->run);
		vms_run_read_files(report->run);
	} else if (vms_run_lacks_files(report->run)) {
		vms_run_read_files(report->run);
	}
	g_mutex_lock(&report->lock);

	if (!go_on)
		end_run(report, VMS_SAMPLE_CANCELLED, NULL);
	elapsed_ns = vms_clock_now_ns() - report->begin_ns;
	uint64_t left_us = PROGRESS_US;
	if (report->duration_ns && elapsed_ns >= report->duration_ns)
		end_run(report, VMS_SAMPLE_COMPLETE, NULL);
	else if (report->duration_ns)
		left_us = MIN(left_us, (report->duration_ns - elapsed_ns) / 1000 + 1);
	if (report->state == VMS_SAMPLE_RUNNING)
		g_cond_wait_until(&report->changed, &report->lock,
				  g_get_monotonic_time() + (gint64)left_us);
}

static gpointer follow_run(gpointer data)
{
	struct vms_sample_report *report = data;
	uint64_t modules_ns = 0;
	GError *error = NULL;

	if (!vms_run_begin(report->run, report->begin_ns, report->duration_ns, &error))
		end_run_from_sampler(VMS_SAMPLE_FAILED, error, report);
	g_mutex_lock(&report->lock);
	while (report->state == VMS_SAMPLE_RUNNING)
		watch_run(report, &modules_ns);
	g_mutex_unlock(&report->lock);

	vms_run_join(report->run);
	vms_run_refresh_guest(report->run);
	vms_run_read_files(report->run);
	vms_run_finish_late(report->run);

	g_mutex_lock(&report->lock);
	report->state = VMS_SAMPLE_READY;
	g_mutex_unlock(&report->lock);
	if (report->progress)
		report->progress(100, report->progress_data);
	g_mutex_lock(&report->lock);
	report->in_thread = false;
	g_cond_broadcast(&report->changed);
	g_mutex_unlock(&report->lock);
	return NULL;
}

/* ---- starting --------------------------------------------------------- */

/* Returns the guest of the next run, as a new reference. */
static struct vms_guest *find_guest(struct vms_sample_report *report, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (report->detect || vms_guest_is_stale(report->guest)) {
		struct vms_guest *guest = report->detect
						  ? vms_guest_detect(report->machine, error)
						  : vms_guest_detect_anew(report->guest, error);
		if (!guest)
			g_prefix_error(error, "cannot start to sample: ");
		return guest;
	}
	vms_guest_refresh(report->guest, &failure);
	if (failure)
		vms_log(VMS_LOG_INFO, "the facts about the guest may be outdated: %s",
			failure->message);
	return vms_guest_ref(report->guest);
}

/* Returns `text`, or `otherwise` if it is NULL. */
static const char *choose_text(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

static void log_guest(struct vms_guest *guest)
{
	const struct vms_guest_info *info = vms_guest_info(guest);

	if (vms_guest_kind(guest) == VMS_GUEST_NONE)
		vms_log(VMS_LOG_INFO, "no operating system detected: %s",
			choose_text(vms_guest_why(guest), "none that is known"));
	else
		vms_log(VMS_LOG_INFO, "guest: %s %s %s", info->name,
			choose_text(info->release, "of unknown release"),
			choose_text(info->version, ""));
}

static struct vms_run *make_run(struct vms_sample_report *report, GError **error)
{
	g_autoptr(vms_guest) guest = find_guest(report, error);

	if (!guest)
		return NULL;
	log_guest(guest);
	struct vms_run_options options = {
		.machine = report->machine,
		.guest = guest,
		.interval_ns = report->interval_ns,
		.depth = report->depth,
		.leaf_first = report->leaf_first,
		.ended = end_run_from_sampler,
		.data = report,
	};
	return vms_run_new(&options, error);
}

/* Makes `run` the current one and starts its thread. Called with the lock held. */
static bool start_run(struct vms_sample_report *report, struct vms_run *run, uint64_t duration_ns,
		      vms_sample_progress progress, void *data, GError **error)
{
	vms_run_unref(report->run);
	report->run = vms_run_ref(run);
	vms_guest_unref(report->guest);
	report->guest = vms_guest_ref(run->options.guest);
	g_clear_error(&report->error);
	report->end = VMS_SAMPLE_NOT_RUN;
	report->begin_ns = vms_clock_now_ns();
	report->elapsed_ns = 0;
	report->duration_ns = duration_ns;
	report->progress = progress;
	report->progress_data = data;
	report->thread = g_thread_try_new("vms-sample", follow_run, report, error);
	if (!report->thread)
		return false;
	report->state = VMS_SAMPLE_RUNNING;
	report->in_thread = true;
	return true;
}

/* Claims the start, so that no other thread starts a run. Joins the last run's thread. */
static bool claim_start(struct vms_sample_report *report, GError **error)
{
	GThread *thread = NULL;

	g_mutex_lock(&report->lock);
	bool can = report->state == VMS_SAMPLE_READY && !report->starting &&
		   report->thread != g_thread_self();
	if (can) {
		report->starting = true;
		thread = g_steal_pointer(&report->thread);
	} else {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot start to sample: this report is being sampled already; "
			    "stop it and wait for it first");
	}
	g_mutex_unlock(&report->lock);
	if (thread)
		g_thread_join(thread);
	return can;
}

bool vms_sample_report_start(struct vms_sample_report *report, uint64_t duration_ns,
			     vms_sample_progress progress, void *data, GError **error)
{
	if (!claim_start(report, error))
		return false;
	g_autoptr(vms_run) run = make_run(report, error);
	g_mutex_lock(&report->lock);
	bool started = run && start_run(report, run, duration_ns, progress, data, error);
	report->starting = false;
	g_mutex_unlock(&report->lock);
	return started;
}

/* ---- stopping, waiting ------------------------------------------------ */

bool vms_sample_report_stop(struct vms_sample_report *report, GError **error)
{
	g_mutex_lock(&report->lock);
	bool can = report->state == VMS_SAMPLE_RUNNING;
	if (can)
		end_run(report, VMS_SAMPLE_STOPPED, NULL);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot stop sampling: this report is not being sampled");
	g_mutex_unlock(&report->lock);
	return can;
}

bool vms_sample_report_wait(struct vms_sample_report *report, uint64_t until_ns)
{
	bool in_time = true;

	g_mutex_lock(&report->lock);
	while (report->in_thread && report->thread != g_thread_self() && in_time)
		in_time = g_cond_wait_until(&report->changed, &report->lock,
					    (gint64)(until_ns / 1000));
	bool is_done = !report->in_thread || report->thread == g_thread_self();
	g_mutex_unlock(&report->lock);
	return is_done;
}

bool vms_sample_report_set_depth(struct vms_sample_report *report, unsigned depth, GError **error)
{
	if (depth < 1 || depth > VMS_STACK_LIMIT) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "a depth of %u frames is out of range: choose 1 to %d", depth,
			    VMS_STACK_LIMIT);
		return false;
	}
	g_mutex_lock(&report->lock);
	bool can = report->state == VMS_SAMPLE_READY && !report->starting;
	if (can)
		report->depth = depth;
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot change the depth of stacks: this report is being sampled");
	g_mutex_unlock(&report->lock);
	return can;
}

/* ---- results ---------------------------------------------------------- */

enum vms_sample_state vms_sample_report_state(struct vms_sample_report *report)
{
	g_mutex_lock(&report->lock);
	enum vms_sample_state state = report->state;
	g_mutex_unlock(&report->lock);
	return state;
}

enum vms_sample_end vms_sample_report_end(struct vms_sample_report *report)
{
	g_mutex_lock(&report->lock);
	enum vms_sample_end end = report->end;
	g_mutex_unlock(&report->lock);
	return end;
}

const GError *vms_sample_report_error(struct vms_sample_report *report)
{
	g_mutex_lock(&report->lock);
	const GError *error = report->error;
	g_mutex_unlock(&report->lock);
	return error;
}

uint64_t vms_sample_report_elapsed_ns(struct vms_sample_report *report)
{
	g_mutex_lock(&report->lock);
	uint64_t elapsed_ns = report->state == VMS_SAMPLE_RUNNING
				      ? vms_clock_now_ns() - report->begin_ns
				      : report->elapsed_ns;
	g_mutex_unlock(&report->lock);
	return elapsed_ns;
}

/* Returns when the last run began, in ns of CLOCK_MONOTONIC; 0: there was none. */
static uint64_t get_begin_ns(struct vms_sample_report *report)
{
	g_mutex_lock(&report->lock);
	uint64_t begin_ns = report->begin_ns;
	g_mutex_unlock(&report->lock);
	return begin_ns;
}

struct vms_guest *vms_sample_report_guest(struct vms_sample_report *report)
{
	g_mutex_lock(&report->lock);
	struct vms_guest *guest = report->guest;
	g_mutex_unlock(&report->lock);
	return guest;
}

/* Returns the last run as a new reference, or NULL. Sets *state to the report's state then. */
static struct vms_run *get_last_run(struct vms_sample_report *report, enum vms_sample_state *state)
{
	g_mutex_lock(&report->lock);
	*state = report->state;
	struct vms_run *run = report->run ? vms_run_ref(report->run) : NULL;
	g_mutex_unlock(&report->lock);
	return run;
}

bool vms_sample_report_stats(struct vms_sample_report *report, unsigned vcpu,
			     struct vms_sample_stats *ret)
{
	enum vms_sample_state state;
	g_autoptr(vms_run) run = get_last_run(report, &state);

	if (!run || vcpu >= run->n_vcpus)
		return false;
	vms_run_stats(run, vcpu, ret);
	return true;
}

char *vms_sample_report_reason(struct vms_sample_report *report, enum vms_sample_failure failure)
{
	enum vms_sample_state state;
	g_autoptr(vms_run) run = get_last_run(report, &state);

	return run ? vms_run_reason(run, failure) : NULL;
}

struct vms_run_facts *vms_sample_report_facts(struct vms_sample_report *report)
{
	enum vms_sample_state state;
	g_autoptr(vms_run) run = get_last_run(report, &state);
	struct vms_run_facts *facts =
		vms_run_facts_new(report->machine, vms_sample_report_guest(report));
	const GError *error = vms_sample_report_error(report);

	facts->interval_ns = report->interval_ns;
	vms_run_facts_set_begin(facts, get_begin_ns(report));
	facts->elapsed_ns = vms_sample_report_elapsed_ns(report);
	facts->end = vms_sample_report_end(report);
	facts->error = error ? g_strdup(error->message) : NULL;
	facts->left_out = vms_budget_describe_losses(vms_machine_budget(report->machine));
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		facts->reasons[i] = vms_sample_report_reason(report, (enum vms_sample_failure)i);
	facts->n_vcpus = run ? run->n_vcpus : 0;
	facts->vcpus = g_new0(struct vms_sample_stats, facts->n_vcpus);
	for (unsigned i = 0; i < facts->n_vcpus; i++)
		vms_run_stats(run, i, &facts->vcpus[i]);
	vms_run_facts_set_title(facts);
	return facts;
}

/* Returns the samples of all vCPUs. Adds their failures to `failed`, by reason. */
static uint64_t count_samples(struct vms_run *run, uint64_t failed[VMS_SAMPLE_N_FAILURES])
{
	uint64_t samples = 0;

	for (unsigned i = 0; run && i < run->n_vcpus; i++) {
		struct vms_sample_stats stats;
		vms_run_stats(run, i, &stats);
		samples += stats.samples;
		for (unsigned reason = 0; reason < VMS_SAMPLE_N_FAILURES; reason++)
			failed[reason] += stats.failed[reason];
	}
	return samples;
}

/* Sets an error with all reasons why there are no samples. */
static void set_no_samples(struct vms_sample_report *report, const uint64_t *failed, GError **error)
{
	const GError *ended = vms_sample_report_error(report);
	g_autoptr(GString) text = g_string_new(NULL);

	if (ended)
		g_string_append_printf(text, ": %s", ended->message);
	else if (vms_sample_report_end(report) == VMS_SAMPLE_GONE ||
		 vms_sample_report_end(report) == VMS_SAMPLE_RESET)
		g_string_append_printf(text, ": %s",
				       vms_sample_end_text(vms_sample_report_end(report)));
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES && !ended; i++) {
		enum vms_sample_failure failure = (enum vms_sample_failure)i;
		g_autofree char *reason = vms_sample_report_reason(report, failure);
		if (failed[i] > 0)
			g_string_append_printf(text, "%s %" PRIu64 " sample%s failed (%s)%s%s",
					       text->len ? ";" : ":", failed[i],
					       failed[i] == 1 ? "" : "s",
					       vms_sample_failure_name(failure), reason ? ": " : "",
					       choose_text(reason, ""));
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE, "nothing was sampled%s",
		    text->len ? text->str : ": the run was too short");
}

/* Fails with the reasons if there are no samples. */
static bool check_samples(struct vms_sample_report *report, struct vms_run *run, GError **error)
{
	uint64_t failed[VMS_SAMPLE_N_FAILURES] = { 0 };

	if (count_samples(run, failed) > 0)
		return true;
	set_no_samples(report, failed, error);
	return false;
}

struct vms_profile *vms_sample_report_profile(struct vms_sample_report *report, unsigned flags,
					      GError **error)
{
	enum vms_sample_state state;
	g_autoptr(vms_run) run = get_last_run(report, &state);

	if (state != VMS_SAMPLE_READY) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "there is nothing to report yet: sampling is still going on");
		return NULL;
	}
	if (!check_samples(report, run, error))
		return NULL;
	g_autofree const struct vms_tree **trees = g_new(const struct vms_tree *, run->n_vcpus);
	g_autofree const struct vms_sample_times **times =
		g_new(const struct vms_sample_times *, run->n_vcpus);
	for (unsigned i = 0; i < run->n_vcpus; i++) {
		trees[i] = run->vcpus[i].tree;
		times[i] = &run->vcpus[i].times;
	}
	struct vms_profile_source source = {
		.symbolizer = vms_guest_symbolizer(run->options.guest),
		.trees = trees,
		.times = times,
		.n_trees = run->n_vcpus,
		.flags = flags,
		.leaf_first = report->leaf_first,
	};
	return vms_profile_new(&source);
}
