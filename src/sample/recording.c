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
#include <unistd.h>

static void free_file(void *data)
{
	struct vms_recorded_file *file = data;
	g_free(file->path);
	g_free(file->build_id);
	vms_symbol_table_unref(file->symbols);
	vms_recorded_code_free(file->code);
	vms_binary_unref(file->binary);
	g_free(file);
}

static void init_system(struct vms_recorded_system *system)
{
	system->processes = vms_recorded_processes_new();
	system->files = g_hash_table_new_full(vms_hash_int64, g_int64_equal, NULL, free_file);
	system->moments = g_array_new(FALSE, FALSE, sizeof(struct vms_recorded_moment));
	system->process_events = g_array_new(FALSE, FALSE, sizeof(struct vms_recorded_event));
}

static void clear_system(struct vms_recorded_system *system)
{
	g_hash_table_unref(system->processes);
	g_hash_table_unref(system->files);
	g_array_unref(system->moments);
	g_array_unref(system->process_events);
	vms_symbol_table_unref(system->kernel);
	char *const texts[] = { system->name, system->release, system->version, system->machine,
				system->host };
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
		g_free(texts[i]);
}

void vms_recording_free(struct vms_recording *recording)
{
	if (!recording)
		return;
	g_free(recording->text);
	g_clear_pointer(&recording->symbolizer, vms_symbolizer_unref);
	clear_system(&recording->host);
	clear_system(&recording->guest);
	g_hash_table_unref(recording->guest_spaces);
	g_hash_table_unref(recording->stacks);
	g_clear_pointer(&recording->joined, g_hash_table_unref);
	g_array_unref(recording->damages);
	g_free(recording->machine_name);
	g_free(recording->description);
	g_free(recording->unwinder);
	g_free(recording->failure);
	for (size_t i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		g_free(recording->reasons[i]);
	g_array_unref(recording->vcpus);
	vms_machine_threads_clear(&recording->threads);
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
	stats->samples = shown->moments->len;
	for (guint i = 0; i < shown->moments->len; i++) {
		const struct vms_recorded_moment *moment =
			&g_array_index(shown->moments, struct vms_recorded_moment, i);
		stats->waiting += vms_recorded_stack_waits(moment->stack) != 0;
		recording->first_ns = MIN(recording->first_ns, moment->time_ns);
		recording->last_ns = MAX(recording->last_ns, moment->time_ns);
	}
	vms_recorded_processes_count(shown, stats);
}

/* ---- results ----------------------------------------------------------------------- */

/* Checks the first bytes, because a file that is not a recording may be large. */
static bool check_magic(const char *path, GError **error)
{
	uint8_t head[8];
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const ssize_t size = fd < 0 ? 0 : read(fd, head, sizeof(head));
	const int number = errno;
	if (fd >= 0)
		close(fd);
	if (fd < 0 || size < 0) {
		g_set_error(error, VMS_ERROR, number == ENOENT ? VMS_ERROR_NOT_FOUND : VMS_ERROR_IO,
			    "cannot read recording %s: %s", path, g_strerror(number));
		return false;
	}
	if (vms_fxt_is_file((struct vms_bytes) { head, (size_t)size }))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "%s is not a recording: it lacks the magic number of the Fuchsia Trace Format",
		    path);
	return false;
}

/*
 * Reads the whole file. It is not mapped, because a mapped file that is truncated ends the program.
 */
static bool load_bytes(struct vms_recording *recording, const char *path, GError **error)
{
	g_autoptr(GError) failure = NULL;
	gsize size;
	if (g_file_test(path, G_FILE_TEST_EXISTS) && !g_file_test(path, G_FILE_TEST_IS_REGULAR)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot read recording %s: it is not a regular file", path);
		return false;
	}
	if (!check_magic(path, error))
		return false;
	if (!g_file_get_contents(path, &recording->text, &size, &failure)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot read recording %s: %s", path,
			    failure->message);
		return false;
	}
	recording->bytes = (struct vms_bytes) { (const uint8_t *)recording->text, size };
	return true;
}

struct vms_recording *vms_recording_load(const char *path, GError **error)
{
	g_autoptr(vms_recording) recording = g_new0(struct vms_recording, 1);
	init_system(&recording->host);
	init_system(&recording->guest);
	recording->guest_spaces = g_hash_table_new(vms_hash_direct, NULL);
	recording->system_of[0] = recording->current = &recording->host;
	recording->system_of[1] = &recording->guest;
	recording->provider = VMS_RECORDS_HOST;
	vms_machine_threads_init(&recording->threads);
	recording->stacks = vms_recorded_stacks_new();
	recording->damages = g_array_new(FALSE, FALSE, sizeof(struct vms_recording_damage));
	recording->vcpus = g_array_new(FALSE, TRUE, sizeof(struct vms_sample_stats));
	recording->symbolizer = vms_symbolizer_new();
	recording->first_ns = UINT64_MAX;
	if (!load_bytes(recording, path, error))
		return NULL;
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
	return g_steal_pointer(&recording);
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
