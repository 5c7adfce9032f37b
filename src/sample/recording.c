/* SPDX-License-Identifier: MIT */
/*
 * Loads recordings. The first pass over the file (recording_records.c) finds the processes, their
 * mappings with their times, and the names. The second pass (recording_stacks.c) counts stacks.
 */
#include "base/keyed_hash.h"
#include "capture/fxt_reader.h"
#include "sample/recording-private.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Output that a recording may cause for each of its bytes: an address has eight, a name hundreds.
 */
#define PRINTED_PER_BYTE 64

static void free_file(void *data)
{
	struct vms_recorded_file *file = data;
	vms_symbol_table_unref(file->symbols);
	vms_recorded_code_free(file->code);
	vms_binary_unref(file->binary);
	g_free(file);
}

static void init_system(struct vms_recorded_system *system)
{
	vms_recorded_processes_init(system);
	system->files = g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, free_file);
	system->moments = g_array_new(FALSE, FALSE, sizeof(struct vms_recorded_moment));
	system->process_events = g_array_new(FALSE, FALSE, sizeof(struct vms_recorded_event));
}

static void clear_system(struct vms_recorded_system *system)
{
	g_hash_table_unref(system->processes);
	g_ptr_array_unref(system->process_list);
	g_hash_table_unref(system->files);
	g_array_unref(system->moments);
	g_array_unref(system->process_events);
	vms_symbol_table_unref(system->kernel);
}

void vms_recording_free(struct vms_recording *recording)
{
	if (!recording)
		return;
	g_free(recording->file);
	g_hash_table_unref(recording->texts);
	g_clear_pointer(&recording->symbolizer, vms_symbolizer_unref);
	clear_system(&recording->host);
	clear_system(&recording->guest);
	g_hash_table_unref(recording->guest_spaces);
	vms_recorded_stacks_free(recording->stacks);
	vms_recorded_stacks_free(recording->joined);
	g_array_unref(recording->damages);
	g_array_unref(recording->vcpus);
	vms_machine_threads_clear(&recording->threads);
	vms_budget_unref(recording->for_texts);
	vms_budget_unref(recording->for_processes);
	vms_budget_unref(recording->for_symbols);
	vms_budget_unref(recording->budget);
	g_free(recording->losses);
	g_free(recording);
}

/* Fills the statistics, by the system whose samples are shown. */
static void fill_stats(struct vms_recording *recording)
{
	const struct vms_recorded_system *shown = recording->shown;
	struct vms_recording_stats *stats = &recording->stats;
	stats->is_complete = shown->is_complete;
	stats->session = shown->stats;
	stats->begin_real_ns = shown->begin_real_ns;
	stats->period_ns = shown->period_ns;
	vms_recorded_processes_count(shown, stats);
}

/* Counts the samples that are shown: joined, if there is a budget for that. */
static void count_samples(struct vms_recording *recording)
{
	const struct vms_recorded_system *shown = recording->shown;
	struct vms_recording_stats *stats = &recording->stats;
	stats->samples = shown->moments->len;
	for (guint i = 0; i < shown->moments->len; i++) {
		const struct vms_recorded_moment *moment =
			&g_array_index(shown->moments, struct vms_recorded_moment, i);
		stats->waiting += vms_recorded_stack_waits(moment->stack) != 0;
		recording->first_ns = MIN(recording->first_ns, moment->time_ns);
		recording->last_ns = MAX(recording->last_ns, moment->time_ns);
	}
}

/* ---- the file ---------------------------------------------------------------------- */

struct vms_budget *vms_recording_budget_new(uint64_t file_bytes)
{
	const uint64_t ns_per_mib = VMS_BUDGET_RECORDING_NS_PER_GIB >> 10;
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns = VMS_BUDGET_USUAL_NS + (file_bytes >> 20) * ns_per_mib,
		.bytes = VMS_BUDGET_USUAL_BYTES + file_bytes * VMS_BUDGET_RECORDING_BYTES_PER_BYTE,
		.printed = VMS_BUDGET_USUAL_PRINTED + file_bytes * PRINTED_PER_BYTE,
	};
	return vms_budget_new(&options, NULL);
}

static bool set_read_error(const char *name, const char *reason, int number, GError **error)
{
	const enum vms_error code = number == ENOENT   ? VMS_ERROR_NOT_FOUND
				    : number == EACCES ? VMS_ERROR_PERMISSION
						       : VMS_ERROR_IO;
	g_set_error(error, VMS_ERROR, code, "cannot read recording %s: %s", name, reason);
	return false;
}

/* Reads the beginning of a file. Returns how much there is, or -1. */
static ssize_t read_file(int fd, uint8_t *to, size_t size)
{
	size_t n = 0;
	while (n < size) {
		const ssize_t part = pread(fd, to + n, size - n, (off_t)n);
		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			return part < 0 ? part : (ssize_t)n;
		n += (size_t)part;
	}
	return (ssize_t)n;
}

/*
 * Reads the whole file. It is not mapped, because a mapped file that is truncated ends the program.
 * The first bytes are checked before, because a file that is not a recording may be large.
 */
static bool load_bytes(struct vms_recording *recording, int fd, uint64_t size, const char *name,
		       GError **error)
{
	uint8_t head[8];
	ssize_t n = read_file(fd, head, sizeof(head));
	if (n < 0)
		return set_read_error(name, g_strerror(errno), errno, error);
	if (!vms_fxt_is_file((struct vms_bytes) { head, (size_t)n, NULL })) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "%s is not a recording: it lacks the magic number of the Fuchsia Trace "
			    "Format",
			    name);
		return false;
	}
	if (!vms_budget_take(recording->budget, VMS_BUDGET_BYTES, size)) {
		vms_budget_set_error(recording->budget, "cannot read the recording", error);
		return false;
	}
	recording->file = g_try_malloc(size);
	if (!recording->file)
		return set_read_error(name, g_strerror(ENOMEM), ENOMEM, error);
	n = read_file(fd, recording->file, size);
	if (n < 0)
		return set_read_error(name, g_strerror(errno), errno, error);
	recording->bytes = (struct vms_bytes) { recording->file, (size_t)n, recording->budget };
	return true;
}

/* ---- losses ------------------------------------------------------------------------ */

void vms_recording_note_losses(struct vms_recording *recording)
{
	g_autofree char *losses = vms_budget_describe_losses(recording->budget);
	if (!losses || g_strcmp0(losses, recording->losses) == 0)
		return;
	if (recording->losses)
		g_array_remove_index(recording->damages, 0);
	g_free(recording->losses);
	recording->losses = g_steal_pointer(&losses);
	const struct vms_recording_damage damage = { .reason = recording->losses,
						     .is_costly = true };
	g_array_prepend_val(recording->damages, damage);
}

/* ---- results ----------------------------------------------------------------------- */

static struct vms_recording *new_recording(struct vms_budget *budget)
{
	struct vms_recording *recording = g_new0(struct vms_recording, 1);
	recording->budget = budget;
	recording->for_texts = vms_budget_new_part(budget, "its texts");
	recording->for_processes = vms_budget_new_part(budget, "its processes and mappings");
	recording->for_symbols = vms_budget_new_part(budget, "its symbols and code");
	init_system(&recording->host);
	init_system(&recording->guest);
	recording->texts = g_hash_table_new(vms_hash_direct, NULL);
	recording->guest_spaces = g_hash_table_new(vms_hash_direct, NULL);
	recording->system_of[0] = recording->current = &recording->host;
	recording->system_of[1] = &recording->guest;
	recording->provider = VMS_RECORDS_HOST;
	vms_machine_threads_init(&recording->threads);
	recording->damages = g_array_new(FALSE, FALSE, sizeof(struct vms_recording_damage));
	recording->vcpus = g_array_new(FALSE, TRUE, sizeof(struct vms_sample_stats));
	recording->symbolizer = vms_symbolizer_new();
	recording->first_ns = UINT64_MAX;
	return recording;
}

static void interpret(struct vms_recording *recording)
{
	vms_recording_read_records(recording);
	vms_recording_map_processes(recording, &recording->host);
	vms_recording_map_processes(recording, &recording->guest);
	vms_recording_map_kernels(recording);
	vms_recording_count_stacks(recording);
	/* A damaged file may lack a session, and have its samples. */
	const bool has_host = recording->host.has_session || recording->host.moments->len > 0;
	const bool has_guest = recording->guest.has_session || recording->guest.moments->len > 0;
	recording->shown = has_host ? &recording->host : &recording->guest;
	fill_stats(recording);
	if (has_host && has_guest)
		vms_recording_join(recording);
	count_samples(recording);
	vms_recording_note_losses(recording);
}

struct vms_recording *vms_recording_load_fd(int fd, const char *name, struct vms_budget *budget,
					    GError **error)
{
	struct stat status;
	if (fstat(fd, &status) != 0) {
		set_read_error(name, g_strerror(errno), errno, error);
		return NULL;
	}
	if (!S_ISREG(status.st_mode)) {
		set_read_error(name, "it is not a regular file", 0, error);
		return NULL;
	}
	const uint64_t size = (uint64_t)status.st_size;
	g_autoptr(vms_recording) recording =
		new_recording(budget ? vms_budget_ref(budget) : vms_recording_budget_new(size));
	if (!load_bytes(recording, fd, size, name, error))
		return NULL;
	interpret(recording);
	if (vms_budget_is_cancelled(recording->budget)) {
		vms_budget_set_error(recording->budget, "cannot read the recording", error);
		return NULL;
	}
	return g_steal_pointer(&recording);
}

struct vms_recording *vms_recording_load(const char *path, GError **error)
{
	/* The path is opened once: another file may have its name a moment later. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		set_read_error(path, g_strerror(errno), errno, error);
		return NULL;
	}
	struct vms_recording *recording = vms_recording_load_fd(fd, path, NULL, error);
	close(fd);
	return recording;
}

struct vms_budget *vms_recording_budget(const struct vms_recording *recording)
{
	return recording->budget;
}

const struct vms_recording_damage *vms_recording_damages(const struct vms_recording *recording,
							 size_t *n)
{
	*n = recording->damages->len;
	return (const struct vms_recording_damage *)(void *)recording->damages->data;
}

void vms_recording_get_stats(const struct vms_recording *recording, struct vms_recording_stats *ret)
{
	*ret = recording->stats;
}

struct vms_symbolizer *vms_recording_symbolizer(const struct vms_recording *recording)
{
	return recording->symbolizer;
}

const struct vms_arch *vms_recording_arch(const struct vms_recording *recording, uint32_t space)
{
	const bool is_guest =
		recording->shown == &recording->guest ||
		g_hash_table_contains(recording->guest_spaces, GUINT_TO_POINTER(space));
	const char *name = is_guest ? recording->guest.machine : recording->host.machine;
	return name ? vms_arch_by_name(name) : NULL;
}
