/* SPDX-License-Identifier: MIT */
/*
 * How a core file comes about: the guest is held, its state is taken, its memory is copied, it runs
 * again, the file is completed. Other threads work while the calling one tells of the progress.
 *
 * Compressing takes longer than copying. So a layout with compression is made of a copy: an ELF
 * file without a name, in the same folder, that is read as any core file when the guest runs.
 */
#include "base/clock.h"
#include "dump/copy.h"
#include "dump/state.h"
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX 8
#define MIB	    (1 << 20)
#define TICK_NS	    (UINT64_C(100) * 1000 * 1000)

struct dump {
	struct vms_machine *machine;
	const char *path;
	const struct vms_dump_options *options;
	struct vms_dump_result *result;
	struct vms_dump_state state;
	struct vms_outfile *file;
	struct vms_outfile *spool; /* what memory is copied to before it is compressed, or NULL */
	struct vms_dump_sink *sink;
	struct vms_dump_copy *copy;
	struct vms_dump_outcome outcome;
	enum vms_dump_phase phase;
	uint64_t begin_ns, phase_ns;
	gint cancelled; /* atomic */
};

static void dump_clear(struct dump *dump)
{
	vms_dump_copy_free(dump->copy);
	vms_dump_sink_free(dump->sink);
	if (dump->state.source != dump->machine)
		g_clear_pointer(&dump->state.source, vms_machine_unref);
	vms_outfile_close(dump->spool);
	vms_outfile_close(dump->file);
	vms_dump_state_clear(&dump->state);
	g_clear_pointer(&dump->outcome.unreadable, g_array_unref);
}

static const char *name_of(const struct dump *dump)
{
	return vms_machine_info(dump->machine)->name;
}

static unsigned count_workers(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return (unsigned)CLAMP(cpus, 1, WORKERS_MAX);
}

/* Is the machine still the one that was held? */
static bool check_machine(const struct dump *dump, GError **error)
{
	switch (vms_machine_ended(dump->machine)) {
	case VMS_MACHINE_GONE:
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "cannot dump %s: it has gone meanwhile", name_of(dump));
		return false;
	case VMS_MACHINE_RESET:
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot dump %s: it was reset meanwhile, so what is known of its guest "
			    "is void; try again",
			    name_of(dump));
		return false;
	case VMS_MACHINE_GOES_ON:
	default: return true;
	}
}

static void begin_phase(struct dump *dump, enum vms_dump_phase phase)
{
	dump->phase = phase;
	dump->phase_ns = vms_clock_now_ns();
}

/* Tells the caller how far it is; false when it wants no more. */
static bool tell(struct dump *dump, GError **error)
{
	uint64_t elapsed_ns = MAX(vms_clock_now_ns() - dump->phase_ns, 1);
	uint64_t done = vms_dump_copy_done(dump->copy);
	struct vms_dump_progress progress = {
		.phase = dump->phase,
		.done = done,
		.total = dump->state.bytes,
		.elapsed_ns = elapsed_ns,
		.bytes_per_second = (uint64_t)((double)done * 1e9 / (double)elapsed_ns),
	};
	if (!dump->options->progress || dump->options->progress(&progress, dump->options->data))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_CANCELLED, "the dump of %s was cancelled",
		    name_of(dump));
	return false;
}

/* Does the machine stand still, and is it still there? */
static bool check_held(const struct dump *dump, GError **error)
{
	struct vms_regs regs;
	return check_machine(dump, error) && vms_machine_regs(dump->machine, 0, &regs, error);
}

/* ---- copying ---------------------------------------------------------- */

/* Waits until everything is copied, something fails or the caller wants no more. */
static bool wait_for_copy(struct dump *dump, GError **error)
{
	while (!vms_dump_copy_wait(dump->copy, vms_clock_now_ns() + TICK_NS)) {
		if ((dump->phase == VMS_DUMP_COPYING && !check_held(dump, error)) ||
		    !tell(dump, error)) {
			vms_dump_copy_cancel(dump->copy);
			return false;
		}
	}
	return true;
}

/* Copies the memory of the state's source. */
static bool copy_into(struct dump *dump, struct vms_outfile *file, vms_dump_open_sink *open,
		      GError **error)
{
	unsigned workers = count_workers();
	dump->sink = open(&dump->state, file, workers, error);
	if (!dump->sink)
		return false;
	dump->copy = vms_dump_copy_start(&dump->state, dump->sink, workers);
	return wait_for_copy(dump, error);
}

static vms_dump_open_sink *layout_of(const struct dump *dump)
{
	bool compressed = dump->options->format == VMS_CORE_KDUMP;
	return compressed && !dump->spool ? vms_dump_open_kdump : vms_dump_open_elf;
}

static bool copy_held(struct dump *dump, struct vms_guest *guest, GError **error)
{
	if (!check_machine(dump, error) || !vms_dump_state_take(&dump->state, guest, error))
		return false;
	dump->result->vcpus = dump->state.vcpus->len;
	return copy_into(dump, dump->spool ? dump->spool : dump->file, layout_of(dump), error);
}

/*
 * The guest runs again before anything else is done, the threads' end included: on an error they
 * may take their time.
 */
static bool hold_and_copy(struct dump *dump, struct vms_guest *guest, GError **error)
{
	g_autoptr(GError) torn = NULL;
	bool stands =
		vms_machine_info(dump->machine)->is_core || vms_machine_is_paused(dump->machine);
	dump->begin_ns = vms_clock_now_ns();
	begin_phase(dump, VMS_DUMP_COPYING);
	if (!vms_machine_hold(dump->machine, VMS_ALL_VCPUS, error))
		return false;
	bool copied = copy_held(dump, guest, error);
	bool released = vms_machine_release(dump->machine, VMS_ALL_VCPUS, &torn);
	if (!stands)
		dump->outcome.held_ns = vms_clock_now_ns() - dump->begin_ns;
	if (copied)
		copied = vms_dump_copy_join(dump->copy, error);
	if (copied && !released) {
		g_propagate_error(error, g_steal_pointer(&torn));
		copied = false;
	}
	return copied && check_machine(dump, error);
}

/* ---- afterwards ------------------------------------------------------- */

/* Joins what the copy could not read and what the dump of a core file could not before. */
static void collect_unreadable(struct dump *dump)
{
	const struct vms_core *core = vms_machine_core(dump->machine);
	struct vms_dump_result *result = dump->result;
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
	dump->outcome.unreadable = g_array_ref(joined);
	result->unreadable_at = joined;
}

/* Makes the file of what was copied into the spool; the guest runs. */
static bool compress_spool(struct dump *dump, GError **error)
{
	g_autofree char *path = vms_outfile_link(dump->spool);
	if (!dump->sink->finish(dump->sink, &dump->outcome, error))
		return false;
	g_clear_pointer(&dump->copy, vms_dump_copy_free);
	g_clear_pointer(&dump->sink, vms_dump_sink_free);
	dump->state.source = vms_machine_open_core(path, error);
	begin_phase(dump, VMS_DUMP_COMPRESSING);
	return dump->state.source && copy_into(dump, dump->file, vms_dump_open_kdump, error) &&
	       vms_dump_copy_join(dump->copy, error);
}

struct completion {
	struct dump *dump;
	GMutex lock;
	GCond ended;
	bool has_ended, complete;
	GError *error;
};

static void *complete(void *data)
{
	struct completion *completion = data;
	struct dump *dump = completion->dump;
	bool done = dump->sink->finish(dump->sink, &dump->outcome, &completion->error) &&
		    vms_outfile_sync(dump->file, &dump->cancelled, &completion->error);
	g_mutex_lock(&completion->lock);
	completion->complete = done;
	completion->has_ended = true;
	g_cond_signal(&completion->ended);
	g_mutex_unlock(&completion->lock);
	return NULL;
}

/* Completes the file on the disk, in a thread, for the disk may take its time. */
static bool complete_file(struct dump *dump, GError **error)
{
	struct completion completion = { .dump = dump };
	g_autoptr(GError) cancelled = NULL;
	g_mutex_init(&completion.lock);
	g_cond_init(&completion.ended);
	begin_phase(dump, VMS_DUMP_SYNCING);
	GThread *thread = g_thread_try_new("vms-dump", complete, &completion, error);
	if (!thread)
		return false;
	g_mutex_lock(&completion.lock);
	while (!completion.has_ended) {
		gint64 until = (gint64)((vms_clock_now_ns() + TICK_NS) / 1000);
		if (g_cond_wait_until(&completion.ended, &completion.lock, until) || cancelled)
			continue;
		g_mutex_unlock(&completion.lock);
		if (!tell(dump, &cancelled))
			g_atomic_int_set(&dump->cancelled, 1);
		g_mutex_lock(&completion.lock);
	}
	g_mutex_unlock(&completion.lock);
	g_thread_join(thread);
	g_mutex_clear(&completion.lock);
	g_cond_clear(&completion.ended);
	if (cancelled) {
		g_clear_error(&completion.error);
		g_propagate_error(error, g_steal_pointer(&cancelled));
		return false;
	}
	if (!completion.complete)
		g_propagate_error(error, completion.error);
	return completion.complete;
}

static bool is_full(const struct vms_outfile *file)
{
	return file && vms_outfile_is_full(file);
}

/* Adds to the message of a write that failed what would have been needed. */
static void explain_full(const struct dump *dump, GError **error)
{
	const struct vms_outfile *full = is_full(dump->spool) ? dump->spool : dump->file;
	if (!is_full(full))
		return;
	uint64_t zeros = dump->copy ? vms_dump_copy_zeros(dump->copy) : 0;
	bool is_spool = full == dump->spool;
	GError *explained = g_error_new(
		VMS_ERROR, (gint)(*error)->code,
		"%s; %s needs up to %.1f MiB, of which %.1f were written: make room, %s",
		(*error)->message, is_spool ? "the copy that is to be compressed" : "it",
		(double)(dump->state.bytes - zeros) / MIB, (double)vms_outfile_written(full) / MIB,
		is_spool ? "write it elsewhere, or compress while the guest is held"
			 : "or write it elsewhere");
	g_error_free(*error);
	*error = explained;
}

static bool needs_spool(const struct dump *dump)
{
	return dump->options->format == VMS_CORE_KDUMP && !dump->options->compress_held &&
	       !vms_machine_info(dump->machine)->is_core;
}

/* A file beside the one to be written; it never gets a name that stays. */
static bool open_spool(struct dump *dump, GError **error)
{
	dump->spool = vms_outfile_open_random(dump->path, true, error);
	return dump->spool != NULL;
}

static bool write_core(struct dump *dump, struct vms_guest *guest, GError **error)
{
	struct vms_dump_result *result = dump->result;
	if (!vms_dump_state_init(&dump->state, dump->machine, dump->options, error))
		return false;
	result->memory = dump->state.bytes;
	dump->file = vms_outfile_open_random(dump->path, dump->options->overwrite, error);
	if (!dump->file || (needs_spool(dump) && !open_spool(dump, error)) ||
	    !hold_and_copy(dump, guest, error))
		return false;
	collect_unreadable(dump);
	if ((dump->spool && !compress_spool(dump, error)) || !complete_file(dump, error))
		return false;
	result->file_size = vms_outfile_size(dump->file);
	if (!vms_outfile_commit(dump->file, error))
		return false;
	result->zeros = vms_dump_copy_zeros(dump->copy);
	result->written = vms_outfile_written(dump->file);
	result->held_ns = dump->outcome.held_ns;
	result->elapsed_ns = vms_clock_now_ns() - dump->begin_ns;
	return true;
}

bool vms_dump(struct vms_machine *machine, struct vms_guest *guest, const char *path,
	      const struct vms_dump_options *options, struct vms_dump_result *ret, GError **error)
{
	struct dump dump = {
		.machine = machine,
		.path = path,
		.options = options,
		.result = ret,
	};
	GError *failure = NULL;
	*ret = (struct vms_dump_result) { 0 };
	bool written = write_core(&dump, guest, &failure);
	if (!written) {
		explain_full(&dump, &failure);
		g_propagate_error(error, failure);
		vms_dump_result_clear(ret);
	}
	dump_clear(&dump);
	return written;
}

void vms_dump_result_clear(struct vms_dump_result *result)
{
	g_clear_pointer(&result->unreadable_at, g_array_unref);
}
