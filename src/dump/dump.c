/* SPDX-License-Identifier: MIT */
/*
 * Writes a core file, in these steps: Estimate how much there is to copy. Hold the guest, take its
 * state, read its memory, and let it run again. Write what the disk has not taken yet, and complete
 * the file.
 *
 * The dump's own thread holds the guest. It waits neither for the caller nor for the disk, because
 * other threads do that. A dump that fails or is stopped has ended for the caller as soon as the
 * guest runs again. Its thread then waits for the other threads.
 *
 * Compressing takes longer than copying. So a layout with compression is made from a copy: an ELF
 * file without a name, in the same folder. It is read like any core file while the guest runs.
 */
#include "base/clock.h"
#include "base/options.h"
#include "base/priority.h"
#include "base/text.h"
#include "dump/copy.h"
#include "dump/estimate.h"
#include "dump/notes.h"
#include "dump/state.h"
#include <string.h>
#include <unistd.h>
#include <vmscope/log.h>

/* By how much the machine's hold limit exceeds the limit of the dump. */
#define SPARE_NS  UINT64_C(2000000000)
#define PAIRS_MAX 8
#define MIB	  (1 << 20)
#define SECOND_NS (UINT64_C(1000) * 1000 * 1000)
#define TICK_NS	  (SECOND_NS / 10)
/* How long a failed or stopped dump waits for its threads. Then it has ended for the caller. */
#define END_NS SECOND_NS
/* How long vms_dump_free waits for the dump's thread. */
#define FREE_NS (2 * SECOND_NS)

struct vms_dump {
	gatomicrefcount refs; /* the caller's and the thread's */
	GThread *thread;
	char *path;
	struct vms_dump_options options;
	/* References; dropped when the dump has ended. */
	struct vms_machine *machine;
	struct vms_guest *guest;

	/* Only the dump's thread uses these; while it waits for the disk thread, only that one. */
	struct vms_dump_state state;
	struct vms_dump_result result;
	struct vms_outfile *file;
	struct vms_outfile *spool;  /* gets the memory before it is compressed; or NULL */
	struct vms_machine *copied; /* the spool as a machine, or NULL */
	struct vms_dump_sink *sink;
	struct vms_dump_outcome outcome;
	bool is_paused; /* the machine is a core file, or was paused before: a hold costs nothing */
	bool is_held;	/* we hold the machine */
	uint64_t begin_ns, hold_end_ns;
	GThread *disk_thread;				     /* or NULL */
	bool (*step)(struct vms_dump *dump, GError **error); /* what the disk thread does */

	gint cancelled; /* atomic: the same as `stopped` */

	GMutex lock; /* guards all below; never held for long */
	GCond changed;
	struct vms_dump_copy *copy; /* only the dump's thread changes it */
	enum vms_dump_phase phase;
	uint64_t phase_ns, phase_done, total;
	bool stopped;	 /* the caller has stopped the dump */
	bool is_final;	 /* the file gets its name now, so the dump can no longer be stopped */
	bool step_ended; /* the disk thread has done its step, or failed */
	GError *step_error;
	bool ended; /* the machine is released, and `error` or `result` is set */
	GError *error;
	bool threads_ended; /* all threads have ended */
};

static const char *get_machine_name(const struct vms_dump *dump)
{
	return vms_machine_info(dump->machine)->name;
}

/* Returns how many pairs of threads copy: one for each processor. */
static unsigned count_pairs(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return (unsigned)CLAMP(cpus, 1, PAIRS_MAX);
}

/* ---- progress --------------------------------------------------------- */

/* Returns how many bytes of memory this phase has dealt with. The lock is held. */
static uint64_t count_done(const struct vms_dump *dump)
{
	if (!dump->copy)
		return 0;
	return dump->phase == VMS_DUMP_COPYING ? vms_dump_copy_read(dump->copy)
					       : vms_dump_copy_written(dump->copy);
}

static void begin_phase(struct vms_dump *dump, enum vms_dump_phase phase)
{
	g_mutex_lock(&dump->lock);
	dump->phase = phase;
	dump->phase_ns = vms_clock_now_ns();
	dump->phase_done = count_done(dump);
	dump->total = dump->state.bytes;
	g_mutex_unlock(&dump->lock);
}

static void set_copy(struct vms_dump *dump, struct vms_dump_copy *copy)
{
	g_mutex_lock(&dump->lock);
	struct vms_dump_copy *old = dump->copy;
	dump->copy = copy;
	g_mutex_unlock(&dump->lock);
	vms_dump_copy_free(old);
}

void vms_dump_progress(struct vms_dump *dump, struct vms_dump_progress *ret)
{
	g_mutex_lock(&dump->lock);
	uint64_t elapsed_ns = MAX(vms_clock_now_ns() - dump->phase_ns, 1);
	uint64_t done = count_done(dump);
	*ret = (struct vms_dump_progress) {
		.phase = dump->phase,
		.done = done,
		.total = dump->total,
		.elapsed_ns = elapsed_ns,
		.bytes_per_second = (uint64_t)((double)(done - MIN(done, dump->phase_done)) * 1e9 /
					       (double)elapsed_ns),
	};
	g_mutex_unlock(&dump->lock);
}

/* True, with an error, if the caller has stopped the dump. */
static bool is_stopped(struct vms_dump *dump, GError **error)
{
	g_mutex_lock(&dump->lock);
	bool stopped = dump->stopped && !dump->is_final;
	g_mutex_unlock(&dump->lock);
	if (stopped)
		g_set_error(error, VMS_ERROR, VMS_ERROR_CANCELLED, "the dump of %s was cancelled",
			    get_machine_name(dump));
	return stopped;
}

/* ---- the disk thread -------------------------------------------------- */

static gpointer run_disk_step(gpointer data)
{
	struct vms_dump *dump = data;
	GError *error = NULL;
	vms_thread_set_usual();
	bool done = dump->step(dump, &error);
	g_mutex_lock(&dump->lock);
	dump->step_ended = true;
	dump->step_error = done ? NULL : error;
	g_cond_broadcast(&dump->changed);
	g_mutex_unlock(&dump->lock);
	return NULL;
}

/*
 * Runs a step, which may wait for the disk, in the disk thread. Waits until it is done or the dump
 * is stopped. False if the step failed or the dump was stopped.
 */
static bool run_on_disk_thread(struct vms_dump *dump,
			       bool (*step)(struct vms_dump *dump, GError **error), GError **error)
{
	dump->step = step;
	dump->step_ended = false;
	dump->disk_thread = g_thread_try_new("vms-dump", run_disk_step, dump, error);
	if (!dump->disk_thread)
		return false;
	g_mutex_lock(&dump->lock);
	while (!dump->step_ended && (!dump->stopped || dump->is_final))
		g_cond_wait(&dump->changed, &dump->lock);
	bool ended = dump->step_ended;
	g_mutex_unlock(&dump->lock);
	if (!ended)
		return !is_stopped(dump, error);
	g_thread_join(g_steal_pointer(&dump->disk_thread));
	if (!dump->step_error)
		return true;
	g_propagate_error(error, g_steal_pointer(&dump->step_error));
	return false;
}

static bool needs_spool(const struct vms_dump *dump)
{
	return dump->options.format == VMS_CORE_KDUMP && !dump->options.compress_held &&
	       !vms_machine_info(dump->machine)->is_core;
}

/*
 * Opens the file, and beside it the spool, which is never visible under a name for long. A file
 * that will have the size of the memory gets this size now. If it is too large, the dump fails
 * before the guest is held.
 */
static bool open_files(struct vms_dump *dump, GError **error)
{
	bool overwrite = dump->options.overwrite;
	dump->file = vms_outfile_open_random(dump->path, overwrite, error);
	if (!dump->file)
		return false;
	if (needs_spool(dump)) {
		dump->spool = vms_outfile_open_random(dump->path, true, error);
		return dump->spool && vms_outfile_set_size(dump->spool, dump->state.bytes, error);
	}
	return dump->options.format == VMS_CORE_KDUMP ||
	       vms_outfile_set_size(dump->file, dump->state.bytes, error);
}

/* Completes the spool, and opens it as a machine. */
static bool open_spool(struct vms_dump *dump, GError **error)
{
	g_autofree char *path = vms_outfile_link(dump->spool);
	if (!dump->sink->finish(dump->sink, &dump->outcome, error))
		return false;
	dump->copied = vms_machine_open_core(path, error);
	return dump->copied != NULL;
}

/* From now on the dump cannot be stopped. False if the caller has already stopped it. */
static bool make_final(struct vms_dump *dump, GError **error)
{
	g_mutex_lock(&dump->lock);
	dump->is_final = !dump->stopped;
	g_mutex_unlock(&dump->lock);
	return !is_stopped(dump, error);
}

static bool complete_file(struct vms_dump *dump, GError **error)
{
	if (!dump->sink->finish(dump->sink, &dump->outcome, error) ||
	    !vms_outfile_sync(dump->file, &dump->cancelled, error) || !make_final(dump, error))
		return false;
	dump->result.file_size = vms_outfile_size(dump->file);
	return vms_outfile_commit(dump->file, error);
}

/* ---- before the hold -------------------------------------------------- */

static uint64_t get_hold_limit(const struct vms_dump *dump)
{
	uint64_t limit_ns = dump->options.hold_limit_ns;
	return limit_ns ? limit_ns : VMS_DUMP_HOLD_LIMIT_NS;
}

/*
 * Returns how many bytes may wait for the disk. A machine that is paused loses nothing while the
 * copy waits for the disk, so it needs no buffer.
 */
static uint64_t choose_buffer_size(const struct vms_dump *dump)
{
	if (dump->is_paused)
		return 0;
	return dump->options.buffer ? dump->options.buffer : vms_dump_spare_memory();
}

/* Logs how long the hold will last. False if that is longer than its limit. */
static bool announce_hold(struct vms_dump *dump, uint64_t buffer, GError **error)
{
	struct vms_dump_estimate estimate;
	vms_dump_estimate(&dump->state, count_pairs(), &estimate);
	g_autofree char *limit = vms_text_time(get_hold_limit(dump));
	g_autofree char *hold = vms_text_time((uint64_t)MIN(estimate.hold_ns, 1e18));
	g_autofree char *bytes = vms_text_bytes(estimate.bytes);
	g_autofree char *room = vms_text_bytes(buffer);
	if (estimate.hold_ns > (double)get_hold_limit(dump)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
			    "cannot dump %s: to copy %s would hold it for %s or more, longer "
			    "than the limit of %s; a higher hold limit allows it",
			    get_machine_name(dump), bytes, hold, limit);
		return false;
	}
	vms_log(VMS_LOG_INFO, "%s is about to be held for %s or more, to copy %s; %s at most",
		get_machine_name(dump), hold, bytes, limit);
	if (estimate.bytes > buffer)
		vms_log(VMS_LOG_INFO,
			"only %s can be copied ahead of the disk; the rest is copied at the speed "
			"of the disk while the guest is held",
			room);
	return true;
}

/* ---- copying ---------------------------------------------------------- */

/* False, with an error, if the machine has ended or was reset since it was held. */
static bool check_machine(const struct vms_dump *dump, GError **error)
{
	if (vms_machine_ended(dump->machine) == VMS_MACHINE_GONE) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "cannot dump %s: the machine is gone", get_machine_name(dump));
		return false;
	}
	if (vms_guest_is_stale(dump->guest)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot dump %s: it was reset since its guest was recognised; "
			    "recognise the guest again and retry",
			    get_machine_name(dump));
		return false;
	}
	return true;
}

/*
 * False, with an error, if the hold has reached its limit, the machine has gone or was reset, or it
 * is not held any more.
 */
static bool check_held(struct vms_dump *dump, GError **error)
{
	struct vms_regs regs;
	if (vms_clock_now_ns() < dump->hold_end_ns)
		return check_machine(dump, error) &&
		       vms_machine_regs(dump->machine, 0, &regs, error);
	g_autofree char *read = vms_text_bytes(vms_dump_copy_read(dump->copy));
	g_autofree char *written = vms_text_bytes(vms_dump_copy_written(dump->copy));
	g_autofree char *total = vms_text_bytes(dump->state.bytes);
	g_autofree char *limit = vms_text_time(get_hold_limit(dump));
	g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
		    "cannot dump %s: it was held up to the limit of %s; by then %s of %s were "
		    "copied and %s were written; a larger buffer, a faster disk or a higher hold "
		    "limit helps",
		    get_machine_name(dump), limit, read, total, written);
	return false;
}

/* Waits for the end of a stage of the copy. False if it failed or the dump was stopped. */
static bool wait_for_copy(struct vms_dump *dump, enum vms_dump_copy_stage stage, GError **error)
{
	bool ended;
	do {
		uint64_t until_ns = vms_clock_now_ns() + TICK_NS;
		if (dump->is_held)
			until_ns = MIN(until_ns, dump->hold_end_ns);
		ended = vms_dump_copy_wait(dump->copy, stage, until_ns);
		if (!ended &&
		    (is_stopped(dump, error) || (dump->is_held && !check_held(dump, error))))
			return false;
	} while (!ended);
	const GError *failure = vms_dump_copy_error(dump->copy);
	if (failure)
		g_propagate_error(error, g_error_copy(failure));
	return !failure;
}

/* Opens the sink for `file`, and starts to copy the memory of the state's source into it. */
static bool start_copy(struct vms_dump *dump, struct vms_outfile *file, vms_dump_open_sink *open,
		       uint64_t buffer, GError **error)
{
	unsigned pairs = count_pairs();
	dump->sink = open(&dump->state, file, 2 * pairs, error);
	if (!dump->sink)
		return false;
	struct vms_dump_copy *copy =
		vms_dump_copy_start(&dump->state, dump->sink, pairs, buffer, error);
	set_copy(dump, copy);
	return copy != NULL;
}

static vms_dump_open_sink *choose_layout(const struct vms_dump *dump)
{
	bool compressed = dump->options.format == VMS_CORE_KDUMP;
	return compressed && !dump->spool ? vms_dump_open_kdump : vms_dump_open_elf;
}

static bool copy_held(struct vms_dump *dump, uint64_t buffer, GError **error)
{
	if (!check_machine(dump, error) || !vms_machine_check_ranges(dump->machine, error) ||
	    !vms_dump_state_take(&dump->state, dump->guest, dump->hold_end_ns, error))
		return false;
	dump->result.vcpus = dump->state.vcpus->len;
	return start_copy(dump, dump->spool ? dump->spool : dump->file, choose_layout(dump), buffer,
			  error) &&
	       wait_for_copy(dump, VMS_DUMP_COPY_READ, error);
}

/* Holds the machine, copies its memory, and releases the machine. */
static bool hold_and_copy(struct vms_dump *dump, GError **error)
{
	g_autoptr(GError) failure = NULL;
	uint64_t buffer = choose_buffer_size(dump), limit_ns = get_hold_limit(dump);
	if (!dump->is_paused && !announce_hold(dump, buffer, error))
		return false;
	/* wait_for_copy keeps the limit. If it fails, the machine and the watchdog keep it. */
	vms_machine_set_hold_limit(dump->machine, MIN(limit_ns, UINT64_MAX / 4) + SPARE_NS);
	dump->begin_ns = vms_clock_now_ns();
	begin_phase(dump, VMS_DUMP_COPYING);
	if (!vms_machine_hold(dump->machine, VMS_ALL_VCPUS, error))
		return false;
	dump->is_held = true;
	dump->hold_end_ns = dump->is_paused || limit_ns > UINT64_MAX - dump->begin_ns
				    ? UINT64_MAX
				    : dump->begin_ns + limit_ns;
	bool copied = copy_held(dump, buffer, error);
	bool released = vms_machine_release(dump->machine, VMS_ALL_VCPUS, &failure);
	dump->is_held = false;
	if (!dump->is_paused)
		dump->outcome.held_ns = vms_clock_now_ns() - dump->begin_ns;
	if (copied && !released) {
		g_propagate_error(error, g_steal_pointer(&failure));
		copied = false;
	}
	return copied && check_machine(dump, error);
}

/* ---- after the hold --------------------------------------------------- */

/*
 * Collects the memory that the copy could not read. If the machine is a core file, memory that is
 * missing in that file is added.
 */
static void collect_unreadable(struct vms_dump *dump)
{
	const struct vms_core *core = vms_machine_core(dump->machine);
	struct vms_dump_result *result = &dump->result;
	GArray *ranges = vms_dump_copy_unreadable(dump->copy, &result->unreadable);
	GArray *joined = g_array_new(FALSE, FALSE, sizeof(struct vms_range));

	if (core && core->unreadable->len > 0)
		g_array_append_vals(ranges, core->unreadable->data, core->unreadable->len);
	g_array_sort(ranges, vms_range_compare);
	for (guint i = 0; i < ranges->len; i++) {
		struct vms_range *range = &g_array_index(ranges, struct vms_range, i);
		struct vms_range *last =
			joined->len ? &g_array_index(joined, struct vms_range, joined->len - 1)
				    : NULL;
		range->name = NULL;
		if (last && range->pa <= last->pa + last->size)
			last->size = MAX(last->size, range->pa + range->size - last->pa);
		else
			g_array_append_vals(joined, range, 1);
	}
	for (guint i = 0; i < joined->len; i++)
		result->unreadable += g_array_index(joined, struct vms_range, i).size;
	dump->outcome.unreadable = joined;
	result->unreadable_at = g_array_ref(joined);
}

/* True if the file has a made up value for this register of any vCPU. */
static bool is_made_up(const struct vms_dump_state *state, unsigned reg)
{
	for (guint i = 0; i < state->vcpus->len; i++) {
		if (vms_dump_is_made_up(state,
					&g_array_index(state->vcpus, struct vms_dump_vcpu, i), reg))
			return true;
	}
	return false;
}

static void collect_made_up(struct vms_dump *dump)
{
	const struct vms_arch *arch = dump->state.arch->arch;
	dump->result.made_up = g_ptr_array_new();
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (is_made_up(&dump->state, i))
			g_ptr_array_add(dump->result.made_up, (void *)arch->regs[i].name);
	}
}

/* Waits until the rest of the memory is written. The guest runs. */
static bool finish_copy(struct vms_dump *dump, GError **error)
{
	if (!wait_for_copy(dump, VMS_DUMP_COPY_WRITTEN, error))
		return false;
	vms_dump_copy_join(dump->copy);
	return true;
}

/* Makes the file from the spool. The guest runs. */
static bool compress_spool(struct vms_dump *dump, GError **error)
{
	if (!run_on_disk_thread(dump, open_spool, error))
		return false;
	set_copy(dump, NULL);
	g_clear_pointer(&dump->sink, vms_dump_sink_free);
	dump->state.source = dump->copied;
	begin_phase(dump, VMS_DUMP_COMPRESSING);
	return start_copy(dump, dump->file, vms_dump_open_kdump, 0, error) &&
	       finish_copy(dump, error);
}

static bool write_core(struct vms_dump *dump, GError **error)
{
	struct vms_dump_result *result = &dump->result;
	if (!vms_machine_check_vcpus(dump->machine, error) ||
	    !vms_machine_update_ranges(dump->machine, error) ||
	    !vms_dump_state_init(&dump->state, dump->machine, &dump->options, error))
		return false;
	result->memory = dump->state.bytes;
	dump->is_paused =
		vms_machine_info(dump->machine)->is_core || vms_machine_is_paused(dump->machine);
	begin_phase(dump, VMS_DUMP_PREPARING);
	if (!run_on_disk_thread(dump, open_files, error) || !hold_and_copy(dump, error))
		return false;
	begin_phase(dump, VMS_DUMP_WRITING);
	if (!finish_copy(dump, error))
		return false;
	collect_unreadable(dump);
	collect_made_up(dump);
	if (dump->spool && !compress_spool(dump, error))
		return false;
	begin_phase(dump, VMS_DUMP_SYNCING);
	if (!run_on_disk_thread(dump, complete_file, error))
		return false;
	result->zeros = vms_dump_copy_zeros(dump->copy);
	result->written = vms_outfile_written(dump->file);
	result->held_ns = dump->outcome.held_ns;
	result->elapsed_ns = vms_clock_now_ns() - dump->begin_ns;
	return true;
}

static bool is_full(const struct vms_outfile *file)
{
	return file && vms_outfile_is_full(file);
}

/* Returns how many bytes the file takes at most. Before anything is read, this is all of memory. */
static uint64_t count_needed(const struct vms_dump *dump)
{
	return dump->copy ? vms_dump_copy_nonzero(dump->copy, vms_clock_now_ns() + SECOND_NS)
			  : dump->state.bytes;
}

/* If the disk was full, adds to the error's message how much room the file needs. */
static void explain_full(const struct vms_dump *dump, GError **error)
{
	if (!g_error_matches(*error, VMS_ERROR, VMS_ERROR_IO) ||
	    (!is_full(dump->spool) && !is_full(dump->file)))
		return;
	bool is_spool = is_full(dump->spool);
	const struct vms_outfile *full = is_spool ? dump->spool : dump->file;
	GError *explained = g_error_new(
		VMS_ERROR, (gint)(*error)->code,
		"%s; %s needs up to %.1f MiB, of which %.1f were written: make room, %s",
		(*error)->message, is_spool ? "the uncompressed copy" : "it",
		(double)count_needed(dump) / MIB, (double)vms_outfile_written(full) / MIB,
		is_spool ? "write it elsewhere, or compress while the guest is held"
			 : "or write it elsewhere");
	g_error_free(*error);
	*error = explained;
}

/* ---- the thread ------------------------------------------------------- */

/* Waits up to END_NS for the disk thread's step. False if the step has not ended by then. */
static bool wait_for_step(struct vms_dump *dump)
{
	gint64 until = (gint64)((vms_clock_now_ns() + END_NS) / 1000);
	if (!dump->disk_thread)
		return true;
	g_mutex_lock(&dump->lock);
	while (!dump->step_ended && g_cond_wait_until(&dump->changed, &dump->lock, until))
		;
	bool ended = dump->step_ended;
	g_mutex_unlock(&dump->lock);
	return ended;
}

/* Drops machine and guest, unless a thread still needs them: then end_threads does. */
static void drop_machine(struct vms_dump *dump)
{
	if (dump->copy)
		vms_dump_copy_leave(dump->copy, vms_clock_now_ns() + END_NS);
	if (wait_for_step(dump)) {
		g_clear_pointer(&dump->guest, vms_guest_unref);
		g_clear_pointer(&dump->machine, vms_machine_unref);
	}
}

/* Waits for all threads without a limit, and frees what they use. */
static void end_threads(struct vms_dump *dump)
{
	if (dump->disk_thread)
		g_thread_join(g_steal_pointer(&dump->disk_thread));
	set_copy(dump, NULL);
	g_clear_pointer(&dump->sink, vms_dump_sink_free);
	g_clear_pointer(&dump->copied, vms_machine_unref);
	g_clear_pointer(&dump->guest, vms_guest_unref);
	g_clear_pointer(&dump->machine, vms_machine_unref);
	vms_outfile_close(g_steal_pointer(&dump->spool));
	vms_outfile_close(g_steal_pointer(&dump->file));
	vms_dump_state_clear(&dump->state);
	g_clear_pointer(&dump->outcome.unreadable, g_array_unref);
}

static void dump_unref(struct vms_dump *dump)
{
	if (!g_atomic_ref_count_dec(&dump->refs))
		return;
	vms_dump_result_clear(&dump->result);
	g_clear_error(&dump->step_error);
	g_clear_error(&dump->error);
	g_cond_clear(&dump->changed);
	g_mutex_clear(&dump->lock);
	g_free(dump->path);
	g_free(dump);
}

static gpointer run_dump(gpointer data)
{
	struct vms_dump *dump = data;
	GError *error = NULL;
	if (!write_core(dump, &error))
		explain_full(dump, &error);
	drop_machine(dump);
	g_mutex_lock(&dump->lock);
	dump->error = error;
	dump->ended = true;
	g_cond_broadcast(&dump->changed);
	g_mutex_unlock(&dump->lock);
	end_threads(dump);
	g_mutex_lock(&dump->lock);
	dump->threads_ended = true;
	g_cond_broadcast(&dump->changed);
	g_mutex_unlock(&dump->lock);
	dump_unref(dump);
	return NULL;
}

/* ---- for the caller --------------------------------------------------- */

struct vms_dump *vms_dump_start(struct vms_machine *machine, struct vms_guest *guest,
				const char *path, const struct vms_dump_options *options,
				GError **error)
{
	struct vms_dump_options own;
	if (!vms_options_copy(options, &own, sizeof(own), "vms_dump_options", error))
		return NULL;
	struct vms_dump *dump = g_new0(struct vms_dump, 1);
	g_atomic_ref_count_init(&dump->refs);
	g_atomic_ref_count_inc(&dump->refs);
	g_mutex_init(&dump->lock);
	g_cond_init(&dump->changed);
	dump->machine = vms_machine_ref(machine);
	dump->guest = vms_guest_ref(guest);
	dump->path = g_strdup(path);
	dump->options = own;
	dump->phase_ns = vms_clock_now_ns();
	dump->thread = g_thread_try_new("vms-dump", run_dump, dump, error);
	if (dump->thread)
		return dump;
	end_threads(dump);
	dump_unref(dump);
	dump_unref(dump);
	return NULL;
}

void vms_dump_stop(struct vms_dump *dump)
{
	g_atomic_int_set(&dump->cancelled, 1);
	g_mutex_lock(&dump->lock);
	dump->stopped = true;
	g_cond_broadcast(&dump->changed);
	g_mutex_unlock(&dump->lock);
}

/* Waits for a flag that the dump's thread sets under the lock. */
static bool wait_for_flag(struct vms_dump *dump, const bool *happened, uint64_t until_ns)
{
	bool in_time = true;
	g_mutex_lock(&dump->lock);
	while (!*happened && in_time)
		in_time = g_cond_wait_until(&dump->changed, &dump->lock, (gint64)(until_ns / 1000));
	bool has_happened = *happened;
	g_mutex_unlock(&dump->lock);
	return has_happened;
}

bool vms_dump_wait(struct vms_dump *dump, uint64_t until_ns)
{
	return wait_for_flag(dump, &dump->ended, until_ns);
}

bool vms_dump_finish(struct vms_dump *dump, struct vms_dump_result *ret, GError **error)
{
	vms_dump_wait(dump, UINT64_MAX);
	*ret = (struct vms_dump_result) { 0 };
	if (dump->error) {
		g_propagate_error(error, g_error_copy(dump->error));
		return false;
	}
	*ret = dump->result;
	g_array_ref(ret->unreadable_at);
	g_ptr_array_ref(ret->made_up);
	return true;
}

void vms_dump_free(struct vms_dump *dump)
{
	if (!dump)
		return;
	vms_dump_stop(dump);
	if (wait_for_flag(dump, &dump->threads_ended, vms_clock_now_ns() + FREE_NS))
		g_thread_join(dump->thread);
	else
		g_thread_unref(dump->thread);
	dump_unref(dump);
}

void vms_dump_result_clear(struct vms_dump_result *result)
{
	g_clear_pointer(&result->unreadable_at, g_array_unref);
	g_clear_pointer(&result->made_up, g_ptr_array_unref);
}
