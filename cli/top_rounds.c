/* SPDX-License-Identifier: MIT */
#include "top_rounds.h"
#include "base/clock.h"

#define NS_PER_S UINT64_C(1000000000)
#define LOOK_NS	 (NS_PER_S / 10) /* between two looks at whether to end */
#define LATE_NS	 (2 * NS_PER_S)	 /* a guest that answers later is left out of a round */

/* A guest that is sampled, or cannot be. */
struct watched {
	pid_t pid;
	char *name;
	struct vms_machine *machine;
	struct vms_sample_report *report; /* NULL: it cannot be sampled */
	char *obstacle;			  /* NULL: none */
	bool is_started;		  /* for this round */
	bool is_there;			  /* it was found this time */
};

struct top_rounds {
	struct session *session;
	struct top_rounds_options options;
	GPtrArray *watched; /* struct watched; the thread's */
	GThread *thread;
	GMutex lock; /* guards all that follows */
	GCond changed;
	struct top_round *last; /* that nobody has taken; NULL: none */
	bool is_finishing, has_ended;
};

static void free_watched(void *data)
{
	struct watched *watched = data;
	vms_sample_report_unref(watched->report);
	vms_machine_unref(watched->machine);
	g_free(watched->name);
	g_free(watched->obstacle);
	g_free(watched);
}

static void free_guest(void *data)
{
	struct top_guest *guest = data;
	vms_profile_free(guest->profile);
	g_free(guest->name);
	g_free(guest->obstacle);
	g_free(guest);
}

void top_round_free(struct top_round *round)
{
	if (!round)
		return;
	g_ptr_array_unref(round->guests);
	g_free(round);
}

static void set_obstacle(struct watched *watched, const char *text)
{
	g_free(watched->obstacle);
	watched->obstacle = g_strdup(text);
}

/* ---- which guests ---------------------------------------------------------------------- */

/* Begins to watch an open machine. `guest` is what runs in it. */
static bool watch_machine(struct top_rounds *rounds, struct watched *watched,
			  struct vms_machine *machine, struct vms_guest *guest, GError **error)
{
	watched->machine = vms_machine_ref(machine);
	watched->report =
		vms_sample_report_new(machine, guest, rounds->options.interval_us, 0, error);
	return watched->report;
}

static void open_watched(struct top_rounds *rounds, struct watched *watched,
			 const struct vms_found_machine *found)
{
	g_autoptr(GError) error = NULL;
	if (found->obstacle) {
		set_obstacle(watched, found->obstacle);
		return;
	}
	g_autoptr(vms_machine) machine = vms_machine_open_pid(found->pid, &error);
	if (machine)
		vms_machine_allow_stop(machine, rounds->session->allow_stop);
	g_autoptr(vms_guest) guest = machine ? vms_guest_detect(machine, &error) : NULL;
	if (!guest || !watch_machine(rounds, watched, machine, guest, &error))
		set_obstacle(watched, error->message);
}

static struct watched *find_watched(const struct top_rounds *rounds,
				    const struct vms_found_machine *found)
{
	for (guint i = 0; i < rounds->watched->len; i++) {
		struct watched *watched = g_ptr_array_index(rounds->watched, i);
		if (watched->pid == found->pid && g_strcmp0(watched->name, found->name) == 0)
			return watched;
	}
	return NULL;
}

static struct watched *add_watched(struct top_rounds *rounds, pid_t pid, const char *name)
{
	struct watched *watched = g_new0(struct watched, 1);
	watched->pid = pid;
	watched->name = g_strdup(name);
	g_ptr_array_add(rounds->watched, watched);
	return watched;
}

/* Watches guests that have come, and forgets those that have gone. Another try for what failed. */
static bool find_guests(struct top_rounds *rounds, GError **error)
{
	g_autoptr(GArray) machines = vms_machine_discover(error);
	if (!machines)
		return false;
	for (guint i = 0; i < rounds->watched->len; i++)
		((struct watched *)g_ptr_array_index(rounds->watched, i))->is_there = false;
	for (guint i = 0; i < machines->len; i++) {
		const struct vms_found_machine *found =
			&g_array_index(machines, struct vms_found_machine, i);
		if (!g_pattern_match_simple(rounds->options.pattern, found->name))
			continue;
		struct watched *watched = find_watched(rounds, found);
		if (!watched)
			watched = add_watched(rounds, found->pid, found->name);
		watched->is_there = true;
		if (!watched->report)
			open_watched(rounds, watched, found);
	}
	for (guint i = rounds->watched->len; i-- > 0;)
		if (!((struct watched *)g_ptr_array_index(rounds->watched, i))->is_there)
			g_ptr_array_remove_index(rounds->watched, i);
	return true;
}

/* ---- a round ---------------------------------------------------------------------------- */

static bool is_finishing(struct top_rounds *rounds)
{
	g_mutex_lock(&rounds->lock);
	const bool finishing = rounds->is_finishing;
	g_mutex_unlock(&rounds->lock);
	return finishing;
}

static void start_round(struct top_rounds *rounds)
{
	for (guint i = 0; i < rounds->watched->len; i++) {
		struct watched *watched = g_ptr_array_index(rounds->watched, i);
		g_autoptr(GError) error = NULL;
		watched->is_started =
			watched->report &&
			vms_sample_report_state(watched->report) == VMS_SAMPLE_READY &&
			vms_sample_report_start(watched->report, rounds->options.duration_ns, NULL,
						NULL, &error);
		if (error)
			set_obstacle(watched, error->message);
	}
}

/* Waits until the samples of a guest are there, it is late, or the rounds are to end. */
static bool wait_for_guest(struct top_rounds *rounds, const struct watched *watched,
			   uint64_t until_ns)
{
	bool is_stopped = false;
	while (vms_clock_now_ns() < until_ns) {
		if (vms_sample_report_wait(watched->report, vms_clock_now_ns() + LOOK_NS))
			return true;
		if (!is_stopped && is_finishing(rounds))
			is_stopped = vms_sample_report_stop(watched->report, NULL);
	}
	return false;
}

static void add_stats(struct top_guest *guest, struct vms_sample_report *report)
{
	struct vms_sample_stats stats;
	for (; vms_sample_report_stats(report, guest->vcpus, &stats); guest->vcpus++) {
		guest->samples += stats.samples;
		guest->idle += stats.idle;
		guest->missed += stats.missed;
		for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
			guest->missed += stats.failed[i];
	}
}

/* Returns what was sampled of a guest, or why it was not. */
static struct top_guest *collect_guest(struct watched *watched, bool is_ready)
{
	g_autoptr(GError) error = NULL;
	struct top_guest *guest = g_new0(struct top_guest, 1);
	guest->name = g_strdup(watched->name);
	guest->pid = watched->pid;
	if (is_ready) {
		const enum vms_sample_end end = vms_sample_report_end(watched->report);
		set_obstacle(watched,
			     vms_sample_ended_early(end) ? vms_sample_end_text(end) : NULL);
		add_stats(guest, watched->report);
		guest->profile = vms_sample_report_profile(watched->report, 0, &error);
		if (!guest->profile && !watched->obstacle)
			set_obstacle(watched, error->message);
	} else if (watched->report && watched->is_started) {
		set_obstacle(watched, "it does not answer");
	}
	guest->obstacle = g_strdup(watched->obstacle);
	return guest;
}

static struct top_round *take_round(struct top_rounds *rounds)
{
	struct top_round *round = g_new0(struct top_round, 1);
	const uint64_t end_ns = vms_clock_now_ns() + rounds->options.duration_ns + LATE_NS;
	round->guests = g_ptr_array_new_with_free_func(free_guest);
	start_round(rounds);
	for (guint i = 0; i < rounds->watched->len; i++) {
		struct watched *watched = g_ptr_array_index(rounds->watched, i);
		const bool is_ready =
			watched->is_started && wait_for_guest(rounds, watched, end_ns);
		g_ptr_array_add(round->guests, collect_guest(watched, is_ready));
	}
	return round;
}

/* Waits for the rest of a round in which nothing could be sampled. */
static void wait_idly(struct top_rounds *rounds, uint64_t until_ns)
{
	while (vms_clock_now_ns() < until_ns && !is_finishing(rounds)) {
		g_mutex_lock(&rounds->lock);
		if (!rounds->is_finishing)
			g_cond_wait_until(&rounds->changed, &rounds->lock,
					  g_get_monotonic_time() + LOOK_NS / 1000);
		g_mutex_unlock(&rounds->lock);
	}
}

/* True if there is one guest, and that has gone. */
static bool has_gone(const struct top_rounds *rounds)
{
	const struct watched *only =
		rounds->options.pattern ? NULL : g_ptr_array_index(rounds->watched, 0);
	return only && only->is_started && vms_sample_report_end(only->report) == VMS_SAMPLE_GONE;
}

static gpointer sample_rounds(gpointer data)
{
	struct top_rounds *rounds = data;
	bool ended = false;
	while (!ended) {
		const uint64_t begin_ns = vms_clock_now_ns();
		struct top_round *round = take_round(rounds);
		wait_idly(rounds, begin_ns + rounds->options.duration_ns);
		ended = is_finishing(rounds) || has_gone(rounds);
		g_mutex_lock(&rounds->lock);
		top_round_free(rounds->last);
		rounds->last = round;
		rounds->has_ended = ended;
		g_cond_broadcast(&rounds->changed);
		g_mutex_unlock(&rounds->lock);
		if (!ended && rounds->options.pattern)
			find_guests(rounds, NULL);
	}
	return NULL;
}

/* ---- for the main thread ------------------------------------------------------------------ */

static bool find_first_guests(struct top_rounds *rounds, GError **error)
{
	struct session *session = rounds->session;
	if (rounds->options.pattern)
		return find_guests(rounds, error);
	const struct vms_machine_info *info = vms_machine_info(session->machine);
	return watch_machine(rounds, add_watched(rounds, info->pid, info->name), session->machine,
			     session->guest, error);
}

struct top_rounds *top_rounds_start(struct session *session,
				    const struct top_rounds_options *options, GError **error)
{
	struct top_rounds *rounds = g_new0(struct top_rounds, 1);
	rounds->session = session;
	rounds->options = *options;
	rounds->watched = g_ptr_array_new_with_free_func(free_watched);
	g_mutex_init(&rounds->lock);
	g_cond_init(&rounds->changed);
	if (!find_first_guests(rounds, error)) {
		top_rounds_free(rounds);
		return NULL;
	}
	rounds->thread = g_thread_new("top", sample_rounds, rounds);
	return rounds;
}

struct top_round *top_rounds_take(struct top_rounds *rounds, uint64_t until_ns)
{
	g_mutex_lock(&rounds->lock);
	while (!rounds->last && !rounds->has_ended && vms_clock_now_ns() < until_ns)
		g_cond_wait_until(&rounds->changed, &rounds->lock,
				  MIN((gint64)(until_ns / 1000), g_get_monotonic_time() + 100000));
	struct top_round *round = g_steal_pointer(&rounds->last);
	g_mutex_unlock(&rounds->lock);
	return round;
}

bool top_rounds_ended(struct top_rounds *rounds)
{
	g_mutex_lock(&rounds->lock);
	const bool ended = rounds->has_ended && !rounds->last;
	g_mutex_unlock(&rounds->lock);
	return ended;
}

void top_rounds_finish(struct top_rounds *rounds)
{
	g_mutex_lock(&rounds->lock);
	rounds->is_finishing = true;
	g_cond_broadcast(&rounds->changed);
	g_mutex_unlock(&rounds->lock);
}

void top_rounds_free(struct top_rounds *rounds)
{
	if (!rounds)
		return;
	top_rounds_finish(rounds);
	if (rounds->thread)
		g_thread_join(rounds->thread);
	top_round_free(rounds->last);
	g_ptr_array_unref(rounds->watched);
	g_mutex_clear(&rounds->lock);
	g_cond_clear(&rounds->changed);
	g_free(rounds);
}
