/* SPDX-License-Identifier: MIT */
/*
 * The sampler engine for threads of a guest. A run samples all vCPUs. The engine keeps the samples
 * of the targets' threads. Its own thread follows births and ends of processes, reads the files
 * that they map, and refreshes the guest. Another one samples threads that are off
 * the CPU, if they are asked for.
 */
#include "base/clock.h"
#include "capture/fxt_writer.h"
#include "guest/follower.h"
#include "guest/processes.h"
#include "sample/guest_targets.h"
#include "sample/guest_waits.h"
#include "sample/instruction_turns.h"
#include "sample/run.h"
#include "sample/seen_code.h"
#include "sample/vcpu_records.h"
#include <vmscope/log.h>

/* The interval between lists of tasks. Lists take at most a tenth of the time. */
#define TASKS_NS      (UINT64_C(100) * 1000 * 1000)
#define TASKS_SHARE   10
#define FILES_NS      (UINT64_C(200) * 1000 * 1000)
#define REFRESH_NS    (UINT64_C(1000) * 1000 * 1000)
#define ANCESTORS_MAX 16

/* The ancestors of the process of a sample, if the process was new. */
struct birth {
	uint32_t pid; /* 0: no process */
	size_t n;
	uint32_t ancestors[ANCESTORS_MAX];
};

struct guest_engine {
	struct vms_sampler *sampler;
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_sampler_config config;
	struct vms_run *run;	 /* NULL before the start */
	struct vms_turns *turns; /* NULL: samples are taken by time */
	struct birth *births;	 /* by vCPU; only used by the thread that samples it */
	GThread *thread;
	GThread *waits_thread; /* NULL: only running threads are sampled */
	uint64_t waits_missed; /* atomic: samples of threads that wait, which were not taken */
	uint64_t stop_ns;      /* set before `waits_stop` */
	int waits_stop;	       /* atomic: such threads are not looked at any more */
	GMutex lock;	       /* guards all below */
	GCond stopped;
	bool stops;
	struct vms_guest_targets *targets;
	GArray *wanted; /* struct vms_task: threads of targets, since they were last taken; NULL */
	struct vms_seen_code *seen;
	struct vms_symbolizer *seen_by; /* the symbolizer of `seen` */
	uint32_t n_files;		/* files of the symbolizers before `seen_by` */
};

/* ---- samples ----------------------------------------------------------------------- */

static void read_ancestors(const struct vms_sample_record *sample, struct vms_memory *memory,
			   void *data)
{
	struct guest_engine *engine = data;
	struct birth *birth = &engine->births[sample->vcpu];
	bool is_new = false;
	/* A held vCPU waits for nobody: the next sample of a process that is new has it, too. */
	if (g_mutex_trylock(&engine->lock)) {
		is_new = vms_guest_targets_is_new(engine->targets, sample->pid);
		g_mutex_unlock(&engine->lock);
	}
	birth->pid = is_new ? sample->pid : 0;
	if (is_new)
		birth->n = vms_guest_ancestors(engine->guest, memory, vms_memory_regs(memory),
					       birth->ancestors, ANCESTORS_MAX);
}

/*
 * Returns the code that was seen with the guest's current symbolizer. A guest that is recognised
 * later has another symbolizer, with other numbers. Then the names of the old one are recorded
 * first.
 */
static struct vms_seen_code *get_seen(struct guest_engine *engine)
{
	struct vms_symbolizer *symbolizer = vms_guest_symbolizer(engine->guest);
	if (engine->seen && engine->seen_by == symbolizer)
		return engine->seen;
	if (engine->seen)
		engine->n_files = vms_seen_code_finish(engine->seen);
	vms_seen_code_free(engine->seen);
	engine->seen = vms_seen_code_new(engine->sampler, symbolizer, engine->n_files);
	engine->seen_by = symbolizer;
	return engine->seen;
}

static bool is_wanted(struct guest_engine *engine, const struct vms_sample_record *sample)
{
	const bool in_kernel = sample->stack.n_kernel > 0 || sample->idle;
	return !(engine->config.user_only && in_kernel) &&
	       vms_guest_targets_has(engine->targets, sample->pid, sample->tid);
}

/* Notes the name of a sample's process, which changes when the process executes a program. */
static void note_name(struct guest_engine *engine, const struct vms_sample_record *sample)
{
	const struct vms_process *process =
		sample->space == VMS_NO_SPACE
			? NULL
			: vms_symbolizer_process(vms_guest_symbolizer(engine->guest),
						 sample->space);
	if (process)
		vms_guest_targets_note_name(engine->targets, sample->pid, process->comm,
					    sample->time_ns);
}

static bool keep_target_sample(const struct vms_sample_record *sample, uint64_t begin_ns,
			       void *data)
{
	struct guest_engine *engine = data;
	const struct birth *birth = &engine->births[sample->vcpu];
	bool has_new = false;
	g_mutex_lock(&engine->lock);
	if (birth->pid && birth->pid == sample->pid)
		vms_guest_targets_note_birth(engine->targets, sample->pid, birth->ancestors,
					     birth->n, sample->time_ns);
	note_name(engine, sample);
	if (is_wanted(engine, sample)) {
		has_new = vms_seen_code_note(get_seen(engine), sample);
		vms_sampler_add_sample(engine->sampler, sample, begin_ns);
	}
	g_mutex_unlock(&engine->lock);
	return has_new;
}

static void note_run_end(enum vms_sample_end end, GError *error, void *data)
{
	struct guest_engine *engine = data;
	vms_run_stop(engine->run);
	vms_sampler_record_end(engine->sampler, error ? error->message : vms_sample_end_text(end));
	g_clear_error(&error);
}

/* The control group of a task, for the targets. */
static char *read_cgroup(const struct vms_task *task, void *data)
{
	return vms_guest_task_cgroup(data, task);
}

/* ---- the thread -------------------------------------------------------------------- */

/* Lists the threads of targets for the thread that samples those that wait. */
static void list_wanted(struct guest_engine *engine, const GArray *tasks)
{
	g_clear_pointer(&engine->wanted, g_array_unref);
	engine->wanted = g_array_new(FALSE, FALSE, sizeof(struct vms_task));
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		if (vms_guest_targets_has(engine->targets, task->pid, task->tid))
			g_array_append_vals(engine->wanted, task, 1);
	}
}

static void follow_tasks(struct guest_engine *engine)
{
	const uint64_t from_ns = vms_clock_now_ns();
	g_autoptr(GArray) tasks = vms_run_read_tasks(engine->run, NULL);
	if (!tasks) /* the next list may succeed */
		return;
	g_mutex_lock(&engine->lock);
	vms_guest_targets_follow(engine->targets, tasks, from_ns);
	if (engine->config.wall)
		list_wanted(engine, tasks);
	const bool ended = vms_guest_targets_ended(engine->targets);
	g_mutex_unlock(&engine->lock);
	if (ended)
		vms_sampler_record_end(engine->sampler, NULL);
}

/* Waits until `until_ns`. False if the engine stops. */
static bool wait_until(struct guest_engine *engine, uint64_t until_ns)
{
	g_mutex_lock(&engine->lock);
	while (!engine->stops &&
	       g_cond_wait_until(&engine->stopped, &engine->lock, (gint64)(until_ns / 1000)))
		;
	const bool goes_on = !engine->stops;
	g_mutex_unlock(&engine->lock);
	return goes_on;
}

static bool has_changing_targets(struct guest_engine *engine)
{
	g_mutex_lock(&engine->lock);
	const bool change = engine->config.wall || vms_guest_targets_change(engine->targets);
	g_mutex_unlock(&engine->lock);
	return change;
}

static void *follow_guest(void *data)
{
	struct guest_engine *engine = data;
	uint64_t tasks_ns = 0, files_ns = 0, refresh_ns = vms_clock_now_ns() + REFRESH_NS;
	while (wait_until(engine, vms_clock_now_ns() + TASKS_NS / 2)) {
		const uint64_t begin_ns = vms_clock_now_ns();
		if (begin_ns >= tasks_ns && has_changing_targets(engine)) {
			follow_tasks(engine);
			const uint64_t end_ns = vms_clock_now_ns();
			tasks_ns = end_ns + MAX(TASKS_NS, (end_ns - begin_ns) * TASKS_SHARE);
		}
		if (begin_ns >= files_ns || vms_run_lacks_files(engine->run)) {
			vms_run_read_files(engine->run);
			files_ns = begin_ns + FILES_NS;
		}
		if (begin_ns >= refresh_ns) {
			vms_run_refresh_guest(engine->run);
			refresh_ns = begin_ns + REFRESH_NS;
		}
	}
	return NULL;
}

/* ---- threads that wait -------------------------------------------------------------- */

static void take_waiting(const struct vms_sample_record *sample, uint64_t begin_ns, void *data)
{
	struct guest_engine *engine = data;
	g_mutex_lock(&engine->lock);
	vms_seen_code_note(get_seen(engine), sample);
	vms_sampler_add_sample(engine->sampler, sample, begin_ns);
	g_mutex_unlock(&engine->lock);
}

static void take_wanted(struct guest_engine *engine, struct vms_guest_waits *waits)
{
	g_mutex_lock(&engine->lock);
	g_autoptr(GArray) wanted = g_steal_pointer(&engine->wanted);
	g_mutex_unlock(&engine->lock);
	if (wanted)
		vms_guest_waits_set_threads(waits, wanted);
}

static void *sample_waits(void *data)
{
	struct guest_engine *engine = data;
	struct vms_guest_waits *waits = vms_guest_waits_new(engine->run);
	struct vms_guest_wait_tick tick = { .time_ns = vms_clock_now_ns(),
					    .period_ns = engine->config.period_ns,
					    .stops = &engine->waits_stop };
	struct vms_guest_wait_counts counts = { 0 };
	while (wait_until(engine, tick.time_ns)) {
		const uint64_t begin_ns = vms_clock_now_ns();
		const uint64_t late = (begin_ns - tick.time_ns) / tick.period_ns;
		tick.time_ns += late * tick.period_ns;
		tick.skipped += late;
		take_wanted(engine, waits);
		if (vms_run_is_paused(engine->run))
			counts.missed = counts.taken * (tick.skipped + 1);
		else
			vms_guest_waits_sample(waits, &tick, take_waiting, engine, &counts);
		__atomic_fetch_add(&engine->waits_missed, counts.missed, __ATOMIC_RELAXED);
		/* The host has other work, too: the time until the next tick is as long. */
		const uint64_t end_ns = vms_clock_now_ns();
		const uint64_t busy_ns = 2 * end_ns - begin_ns - tick.time_ns;
		tick.skipped = busy_ns / tick.period_ns;
		tick.time_ns += (tick.skipped + 1) * tick.period_ns;
	}
	if (!vms_run_is_paused(engine->run)) {
		vms_guest_waits_finish(waits, engine->stop_ns, tick.period_ns, take_waiting, engine,
				       &counts);
		__atomic_fetch_add(&engine->waits_missed, counts.missed, __ATOMIC_RELAXED);
	}
	vms_guest_waits_free(waits);
	return NULL;
}

/* False if the kernel's types do not tell whether a thread waits. */
static bool check_waits(struct guest_engine *engine, GError **error)
{
	g_autoptr(GError) loss = NULL;
	struct vms_task_wait wait;
	g_autoptr(GArray) tasks = vms_guest_tasks(engine->guest, &loss, error);
	if (!tasks)
		return false;
	for (guint i = 0; i < tasks->len; i++)
		if (vms_guest_task_wait(engine->guest, g_array_index(tasks, struct vms_task, i).va,
					&wait))
			return true;
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "the types of the guest's kernel do not tell which threads wait: "
			    "record without --wall");
	return false;
}

static bool start_waits(struct guest_engine *engine, GError **error)
{
	if (!engine->config.wall)
		return true;
	follow_tasks(engine);
	engine->waits_thread = g_thread_try_new("sample-waits", sample_waits, engine, error);
	return engine->waits_thread;
}

/* ---- the table --------------------------------------------------------------------- */

static unsigned count_cpus(const struct vms_sampler_config *config)
{
	return MAX(1, config->machine ? vms_machine_vcpus(config->machine) : 1);
}

/* Refreshes the guest, because the caller may have opened it a while ago. */
static void refresh_guest(struct vms_guest *guest)
{
	g_autoptr(GError) error = NULL;
	vms_guest_refresh(guest, &error);
	if (error)
		vms_log(VMS_LOG_INFO, "the facts about the guest may be outdated: %s",
			error->message);
}

static void *open_engine(struct vms_sampler *sampler, GError **error)
{
	const struct vms_sampler_config *config = vms_sampler_config(sampler);
	if (!config->machine || !config->guest) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
				    "the engine of a guest needs a machine and a guest");
		return NULL;
	}
	if (vms_machine_vcpus(config->machine) == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "%s reports no vCPUs",
			    vms_machine_info(config->machine)->name);
		return NULL;
	}
	refresh_guest(config->guest);
	struct guest_engine *engine = g_new0(struct guest_engine, 1);
	engine->sampler = sampler;
	engine->config = *config;
	engine->machine = config->machine;
	engine->guest = config->guest;
	engine->births = g_new0(struct birth, vms_machine_vcpus(config->machine));
	engine->targets = vms_guest_targets_new(read_cgroup, engine->guest);
	g_mutex_init(&engine->lock);
	g_cond_init(&engine->stopped);
	return engine;
}

static void close_engine(void *data)
{
	struct guest_engine *engine = data;
	vms_run_unref(engine->run);
	vms_turns_free(engine->turns);
	vms_seen_code_free(engine->seen);
	vms_guest_targets_free(engine->targets);
	g_clear_pointer(&engine->wanted, g_array_unref);
	g_free(engine->births);
	g_cond_clear(&engine->stopped);
	g_mutex_clear(&engine->lock);
	g_free(engine);
}

static void describe_guest(void *data, struct vms_sampler_place *ret)
{
	const struct guest_engine *engine = data;
	const struct vms_machine_info *machine = vms_machine_info(engine->machine);
	ret->machine = vms_machine_arch(engine->machine)->name;
	ret->description = machine->description;
	ret->guest = machine->name;
	if (vms_guest_kind(engine->guest) == VMS_GUEST_NONE)
		return;
	const struct vms_guest_info *info = vms_guest_info(engine->guest);
	ret->system = info->name;
	ret->release = info->release;
	ret->version = info->version;
	ret->host = info->hostname;
	ret->unwinder = info->unwinder;
}

static bool add_target(void *data, const struct vms_sampler_target *target, GError **error)
{
	struct guest_engine *engine = data;
	g_autoptr(GArray) tasks = NULL;
	if (vms_guest_targets_need_tasks(target->kind)) {
		g_autoptr(GError) loss = NULL;
		tasks = engine->run ? vms_run_read_tasks(engine->run, error)
				    : vms_guest_tasks(engine->guest, &loss, error);
		if (!tasks)
			return false;
	}
	g_mutex_lock(&engine->lock);
	const bool done = vms_guest_targets_add(engine->targets, target, tasks, error);
	g_mutex_unlock(&engine->lock);
	return done;
}

/*
 * Records which thread of the host executes which vCPU, for readers of a recording that has the
 * host's threads, too.
 */
static void record_vcpu_threads(struct guest_engine *engine)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	const pid_t pid = vms_machine_info(engine->machine)->pid;
	for (unsigned i = 0; pid && i < vms_machine_vcpus(engine->machine); i++) {
		const pid_t tid = vms_machine_vcpu_thread(engine->machine, i);
		struct vms_fxt_record event =
			vms_records_event("vcpu thread", vms_clock_now_ns(), 0);
		vms_records_add_number(&event, "number", i);
		vms_records_add_number(&event, "process", (uint64_t)pid);
		vms_records_add_number(&event, "thread", (uint64_t)tid);
		if (tid)
			vms_fxt_write(out, &event);
	}
	vms_sampler_add_records(engine->sampler, out);
}

static bool start_engine(void *data, GError **error)
{
	struct guest_engine *engine = data;
	g_clear_pointer(&engine->run, vms_run_unref); /* of a start that failed */
	g_clear_pointer(&engine->turns, vms_turns_free);
	if (engine->config.instructions) {
		engine->turns =
			vms_turns_start(engine->machine, engine->config.instructions, error);
		if (!engine->turns)
			return false;
	}
	const struct vms_run_options options = {
		.machine = engine->machine,
		.guest = engine->guest,
		.turns = engine->turns,
		.interval_ns = engine->config.period_ns,
		.depth = engine->config.depth,
		.take = keep_target_sample,
		.look = read_ancestors,
		.ended = note_run_end,
		.data = engine,
	};
	engine->stops = false;
	g_atomic_int_set(&engine->waits_stop, 0);
	record_vcpu_threads(engine);
	engine->run = vms_run_new(&options, error);
	if (!engine->run || (engine->config.wall && !check_waits(engine, error)) ||
	    !vms_run_begin(engine->run, vms_clock_now_ns(), 0, error) ||
	    !start_waits(engine, error))
		return false;
	engine->thread = g_thread_try_new("follow-guest", follow_guest, engine, error);
	return engine->thread;
}

/* Records how each vCPU was sampled, and why samples of it failed. */
static void record_vcpu_stats(struct guest_engine *engine)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	for (unsigned i = 0; i < engine->run->n_vcpus; i++) {
		struct vms_sample_stats stats;
		vms_run_stats(engine->run, i, &stats);
		vms_vcpu_records_put(out, vms_clock_now_ns(), i, &stats);
	}
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++) {
		g_autofree char *reason = vms_run_reason(engine->run, (enum vms_sample_failure)i);
		struct vms_fxt_record event = vms_records_event("failures", vms_clock_now_ns(), 0);
		vms_records_add_number(&event, "kind", i);
		vms_records_add_text(&event, "reason", reason);
		if (reason)
			vms_fxt_write(out, &event);
	}
	vms_sampler_add_records(engine->sampler, out);
}

static void stop_engine(void *data)
{
	struct guest_engine *engine = data;
	if (!engine->run)
		return;
	vms_run_stop(engine->run);
	engine->stop_ns = vms_clock_now_ns();
	g_atomic_int_set(&engine->waits_stop, 1);
	g_mutex_lock(&engine->lock);
	engine->stops = true;
	g_cond_broadcast(&engine->stopped);
	g_mutex_unlock(&engine->lock);
	if (engine->thread)
		g_thread_join(g_steal_pointer(&engine->thread));
	if (engine->waits_thread)
		g_thread_join(g_steal_pointer(&engine->waits_thread));
	vms_run_join(engine->run);
	vms_run_refresh_guest(engine->run);
	vms_run_read_files(engine->run);
	vms_run_finish_late(engine->run);
	if (engine->seen)
		vms_seen_code_finish(engine->seen);
	record_vcpu_stats(engine);
}

static void add_stats(void *data, struct vms_sampler_stats *stats)
{
	struct guest_engine *engine = data;
	stats->missed += __atomic_load_n(&engine->waits_missed, __ATOMIC_RELAXED);
	for (unsigned i = 0; engine->run && i < engine->run->n_vcpus; i++) {
		struct vms_sample_stats own;
		vms_run_stats(engine->run, i, &own);
		stats->missed += own.missed;
		for (unsigned j = 0; j < VMS_SAMPLE_N_FAILURES; j++)
			stats->missed += own.failed[j];
	}
}

static const struct vms_sampler_engine guest_engine = {
	.name = "guest",
	.system = VMS_RECORDS_GUEST,
	.count_cpus = count_cpus,
	.open = open_engine,
	.close = close_engine,
	.describe = describe_guest,
	.add = add_target,
	.start = start_engine,
	.stop = stop_engine,
	.add_stats = add_stats,
};

const struct vms_sampler_engine *vms_sampler_engine_guest(void)
{
	return &guest_engine;
}
