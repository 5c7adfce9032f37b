/* SPDX-License-Identifier: MIT */
#include "sample/guest_waits.h"
#include "base/clock.h"
#include "capture/capture.h"
#include "guest/processes.h"
#include <string.h>

/* Samples of a thread that are given at once, after nobody has looked for so long. */
#define SKIPPED_LIMIT 10000u

/* A stack that could not be walked to its end is read again so soon: tables of programs may be
 * known by then. */
#define RETRY_NS (UINT64_C(100) * 1000 * 1000)

/* A thread, and the sample of it that was taken last. */
struct waiting {
	struct vms_task task;
	uint64_t switches;		  /* when the sample was taken */
	struct vms_sample_record *sample; /* NULL: there is none */
	uint64_t taken_ns;		  /* when its stack was read */
	uint64_t seen_ns;		  /* when it was looked at last, or first listed */
};

struct vms_guest_waits {
	struct vms_run *run;
	GArray *threads; /* struct waiting, by pid and tid */
	struct vms_memory *memory, *late_memory;
	struct vms_sample_record *record; /* the one that is being taken */
	struct vms_user_copy *copy;
};

static void clear_waiting(void *data)
{
	g_free(((struct waiting *)data)->sample);
}

static GArray *make_threads(void)
{
	GArray *threads = g_array_new(FALSE, TRUE, sizeof(struct waiting));
	g_array_set_clear_func(threads, clear_waiting);
	return threads;
}

struct vms_guest_waits *vms_guest_waits_new(struct vms_run *run)
{
	static const struct vms_regs no_regs;
	struct vms_guest_waits *waits = g_new0(struct vms_guest_waits, 1);
	waits->run = vms_run_ref(run);
	waits->threads = make_threads();
	waits->memory = vms_memory_new(run->options.machine, &no_regs);
	waits->late_memory = vms_memory_new(run->options.machine, &no_regs);
	vms_memory_set_urgent(waits->memory);
	vms_memory_set_urgent(waits->late_memory);
	waits->record = g_new0(struct vms_sample_record, 1);
	waits->copy = g_new0(struct vms_user_copy, 1);
	return waits;
}

void vms_guest_waits_free(struct vms_guest_waits *waits)
{
	if (!waits)
		return;
	g_array_unref(waits->threads);
	vms_memory_free(waits->memory);
	vms_memory_free(waits->late_memory);
	g_free(waits->record);
	g_free(waits->copy);
	vms_run_unref(waits->run);
	g_free(waits);
}

/* ---- which threads ------------------------------------------------------------------ */

static int compare_tasks(const struct vms_task *a, const struct vms_task *b)
{
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* True if a sample of one can be of the other: the same thread, in the same program. */
static bool is_same(const struct vms_task *a, const struct vms_task *b)
{
	return compare_tasks(a, b) == 0 && a->va == b->va && a->mm == b->mm &&
	       strcmp(a->process_comm, b->process_comm) == 0;
}

void vms_guest_waits_set_threads(struct vms_guest_waits *waits, const GArray *tasks)
{
	GArray *threads = make_threads(), *old = waits->threads;
	const uint64_t now_ns = vms_clock_now_ns();
	guint at = 0;
	for (guint i = 0; i < tasks->len; i++) {
		struct waiting waiting = { .task = g_array_index(tasks, struct vms_task, i),
					   .seen_ns = now_ns };
		while (at < old->len && compare_tasks(&g_array_index(old, struct waiting, at).task,
						      &waiting.task) < 0)
			at++;
		struct waiting *known =
			at < old->len ? &g_array_index(old, struct waiting, at) : NULL;
		if (known && is_same(&known->task, &waiting.task)) {
			waiting.switches = known->switches;
			waiting.taken_ns = known->taken_ns;
			waiting.seen_ns = known->seen_ns;
			waiting.sample = g_steal_pointer(&known->sample);
		}
		g_array_append_val(threads, waiting);
	}
	waits->threads = threads;
	g_array_unref(old);
}

/* ---- samples ------------------------------------------------------------------------ */

/* The first frame that does not only put a thread to sleep is what it waits in. */
static uint32_t find_wait_frame(const struct vms_guest *guest, const struct vms_stack *stack)
{
	uint32_t i = 0;
	while (i < stack->n_kernel &&
	       vms_guest_is_sleep_code(guest, stack->frame[i].pc - stack->frame[i].is_return))
		i++;
	/* Whoever was switched away from is in the scheduler, if it is known where that is. */
	return i > 0 && i < stack->n_kernel ? i : VMS_NO_WAIT_FRAME;
}

/* Copies the stack. False if the thread has run meanwhile, or begun another program. */
static bool copy_stack(struct vms_guest_waits *waits, const struct vms_task *task,
		       const struct vms_task_wait *before)
{
	const struct vms_run_options *options = &waits->run->options;
	struct vms_guest *guest = options->guest;
	struct vms_task_wait after;
	struct vms_regs regs;
	if (!vms_guest_task_regs(guest, task, &regs, NULL))
		return false;
	const struct vms_process *process = vms_guest_process(guest, task);
	vms_memory_set_regs(waits->memory, &regs);
	waits->copy->end = 0; /* that was of another thread */
	vms_capture_stack(guest, waits->memory, process, &regs, options->depth,
			  &waits->record->stack, waits->copy);
	waits->record->space = process ? process->index : VMS_NO_SPACE;
	return vms_guest_task_wait(guest, task->va, &after) && !after.is_on_cpu &&
	       after.switches == before->switches &&
	       vms_guest_task_has(guest, task->va, task->pid, task->mm);
}

static size_t sample_size(const struct vms_sample_record *sample)
{
	return G_STRUCT_OFFSET(struct vms_sample_record, stack.frame) +
	       sample->stack.n * sizeof(sample->stack.frame[0]);
}

static bool take_sample(struct vms_guest_waits *waits, struct waiting *waiting,
			const struct vms_task_wait *wait)
{
	const struct vms_run_options *options = &waits->run->options;
	struct vms_sample_record *record = waits->record;
	if (!copy_stack(waits, &waiting->task, wait))
		return false;
	vms_capture_finish(options->guest, waits->late_memory, options->depth, waits->copy,
			   &record->stack);
	vms_capture_note_code(options->guest, &record->stack);
	record->pid = waiting->task.pid;
	record->tid = waiting->task.tid;
	g_free(waiting->sample);
	waiting->sample = g_memdup2(record, sample_size(record));
	waiting->switches = wait->switches;
	waiting->taken_ns = vms_clock_now_ns();
	return true;
}

/* What is given of a tick, and to whom. */
struct giving {
	const struct vms_guest_wait_tick *tick;
	void (*give)(const struct vms_sample_record *sample, uint64_t begin_ns, void *data);
	void *data;
	struct vms_guest_wait_counts *counts;
};

/* A thread that has not run since its last sample has waited all the time. */
static void give_skipped(const struct giving *giving, struct vms_sample_record *sample,
			 uint64_t begin_ns)
{
	const struct vms_guest_wait_tick *tick = giving->tick;
	const uint64_t n = MIN(tick->skipped, SKIPPED_LIMIT);
	giving->counts->missed += tick->skipped - n;
	for (uint64_t i = n; i > 0; i--) {
		sample->time_ns = tick->time_ns - i * tick->period_ns;
		giving->give(sample, begin_ns, giving->data);
	}
}

static void sample_thread(struct vms_guest_waits *waits, struct waiting *waiting,
			  const struct giving *giving)
{
	struct vms_guest *guest = waits->run->options.guest;
	const uint64_t begin_ns = vms_clock_now_ns();
	struct vms_task_wait wait;
	waiting->seen_ns = begin_ns;
	if (!vms_guest_task_wait(guest, waiting->task.va, &wait) || wait.pid != waiting->task.pid ||
	    wait.tid != waiting->task.tid) {
		giving->counts->missed++;
		return;
	}
	if (wait.is_on_cpu || wait.state == 'Z' || wait.state == 'X')
		return;
	const bool is_kept = waiting->sample && waiting->switches == wait.switches;
	if (is_kept)
		give_skipped(giving, waiting->sample, begin_ns);
	else
		giving->counts->missed += giving->tick->skipped;
	const bool is_whole = is_kept && (waiting->sample->stack.end == VMS_WALK_ROOT ||
					  begin_ns - waiting->taken_ns < RETRY_NS);
	if (!is_whole && !take_sample(waits, waiting, &wait)) {
		giving->counts->missed++;
		return;
	}
	struct vms_sample_record *sample = waiting->sample;
	sample->time_ns = begin_ns;
	sample->vcpu = wait.cpu < waits->run->n_vcpus ? wait.cpu : 0;
	sample->waits = wait.state;
	sample->wait_frame =
		wait.state == 'R' ? VMS_NO_WAIT_FRAME : find_wait_frame(guest, &sample->stack);
	giving->give(sample, begin_ns, giving->data);
	giving->counts->taken++;
}

void vms_guest_waits_sample(struct vms_guest_waits *waits, const struct vms_guest_wait_tick *tick,
			    void (*give)(const struct vms_sample_record *sample, uint64_t begin_ns,
					 void *data),
			    void *data, struct vms_guest_wait_counts *counts)
{
	const struct giving giving = { tick, give, data, counts };
	*counts = (struct vms_guest_wait_counts) { 0 };
	vms_run_lock_guest(waits->run);
	for (guint i = 0; i < waits->threads->len; i++)
		if (!tick->stops || !g_atomic_int_get(tick->stops))
			sample_thread(waits, &g_array_index(waits->threads, struct waiting, i),
				      &giving);
	vms_run_unlock_guest(waits->run);
}

/* True if the thread still waits as it did when its sample was taken. */
static bool still_waits(struct vms_guest *guest, const struct waiting *waiting)
{
	struct vms_task_wait wait;
	return waiting->sample && vms_guest_task_wait(guest, waiting->task.va, &wait) &&
	       wait.pid == waiting->task.pid && wait.tid == waiting->task.tid && !wait.is_on_cpu &&
	       wait.state != 'Z' && wait.state != 'X' && wait.switches == waiting->switches;
}

void vms_guest_waits_finish(struct vms_guest_waits *waits, uint64_t end_ns, uint64_t period_ns,
			    void (*give)(const struct vms_sample_record *sample, uint64_t begin_ns,
					 void *data),
			    void *data, struct vms_guest_wait_counts *counts)
{
	*counts = (struct vms_guest_wait_counts) { 0 };
	vms_run_lock_guest(waits->run);
	for (guint i = 0; i < waits->threads->len; i++) {
		struct waiting *waiting = &g_array_index(waits->threads, struct waiting, i);
		const uint64_t passed =
			end_ns > waiting->seen_ns ? (end_ns - waiting->seen_ns) / period_ns : 0;
		const bool waited = passed > 0 && still_waits(waits->run->options.guest, waiting);
		const uint64_t n = waited ? MIN(passed, SKIPPED_LIMIT) : 0;
		for (uint64_t k = 1; k <= n; k++) {
			waiting->sample->time_ns = waiting->seen_ns + k * period_ns;
			give(waiting->sample, end_ns, data);
		}
		counts->taken += n;
		counts->missed += passed - n;
	}
	vms_run_unlock_guest(waits->run);
}
