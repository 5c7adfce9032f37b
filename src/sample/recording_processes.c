/* SPDX-License-Identifier: MIT */
/*
 * The processes of a recording: which files each one had mapped, and when. A sample is named by the
 * mappings of its time. So a process has an address space of its own for each period of time in
 * which no other file came to the same address.
 */
#include "base/keyed_hash.h"
#include "sample/recording-private.h"
#include "symbol/mappings.h"

#define MAPPINGS_LIMIT                                                                             \
	(1u << 13) /* of a process; a damaged file may have them in the slowest order */
#define MAPPINGS_ALL	  (1u << 22) /* of all processes; a birth copies those of the parent */
#define GENERATIONS_LIMIT 64

/* The mappings of a process for a period of time. */
struct generation {
	uint64_t from_ns;
	char comm[VMS_COMM_SIZE];
	const char *container; /* as of an event */
	GArray *mappings;
	uint32_t space;
};

struct process {
	GArray *generations; /* struct generation, by time */
	bool has_samples, has_user;
};

static void clear_generation(void *data)
{
	g_array_unref(((struct generation *)data)->mappings);
}

static void free_process(void *data)
{
	g_array_unref(((struct process *)data)->generations);
	g_free(data);
}

GHashTable *vms_recorded_processes_new(void)
{
	return g_hash_table_new_full(vms_hash_direct, NULL, NULL, free_process);
}

static struct process *get_process(struct vms_recorded_system *system, uint32_t pid)
{
	struct process *process = g_hash_table_lookup(system->processes, GUINT_TO_POINTER(pid));
	if (process)
		return process;
	process = g_new0(struct process, 1);
	process->generations = g_array_new(FALSE, TRUE, sizeof(struct generation));
	g_array_set_clear_func(process->generations, clear_generation);
	g_hash_table_insert(system->processes, GUINT_TO_POINTER(pid), process);
	return process;
}

static struct generation *last_generation(const struct process *process)
{
	return process && process->generations->len
		       ? &g_array_index(process->generations, struct generation,
					process->generations->len - 1)
		       : NULL;
}

/* Begins a generation with a copy of the mappings of `of`, or none if that is NULL. */
static struct generation *begin_generation(struct vms_recording *recording, struct process *process,
					   uint64_t from_ns, const struct generation *of,
					   const char *comm)
{
	const struct generation *last = last_generation(process);
	struct generation made = { .from_ns = from_ns,
				   .mappings = vms_mappings_new(),
				   .container = of     ? of->container
						: last ? last->container
						       : NULL };
	g_strlcpy(made.comm, comm[0] || !of ? comm : of->comm, sizeof(made.comm));
	const guint n = of ? of->mappings->len : 0;
	if (n && n <= MAPPINGS_ALL - recording->n_mappings) {
		g_array_append_vals(made.mappings, of->mappings->data, n);
		recording->n_mappings += n;
	}
	g_array_append_val(process->generations, made);
	return last_generation(process);
}

static void apply_mapping(struct vms_recording *recording, struct vms_recorded_system *system,
			  const struct vms_recorded_event *event)
{
	struct process *process = get_process(system, event->pid);
	struct generation *generation = last_generation(process);
	const struct vms_recorded_file *file = vms_recorded_file_get(system, event->file);
	const struct vms_mapping mapping = { .start = event->start,
					     .end = event->end,
					     .file = event->file,
					     .offset = event->offset,
					     .name = file->path,
					     .build_id = file->build_id };
	const struct vms_mapping *before =
		generation ? vms_mappings_find(generation->mappings, event->start) : NULL;
	if (!generation)
		generation = begin_generation(recording, process, event->time_ns, NULL, "");
	else if (before && before->file != event->file &&
		 process->generations->len < GENERATIONS_LIMIT)
		generation = begin_generation(recording, process, event->time_ns, generation, "");
	if (recording->n_mappings == MAPPINGS_ALL)
		return;
	vms_mappings_put(generation->mappings, &mapping, MAPPINGS_LIMIT);
	recording->n_mappings++;
}

static int compare_events(const void *a, const void *b)
{
	const struct vms_recorded_event *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void map_generation(struct vms_recording *recording, struct vms_recorded_system *system,
			   uint32_t pid, struct generation *generation)
{
	const char *container = generation->container;
	struct vms_process process = { .pid = pid,
				       .container = container && container[0] ? container : NULL };
	g_strlcpy(process.comm, generation->comm, sizeof(process.comm));
	generation->space = vms_symbolizer_add_space(recording->symbolizer, &process)->index;
	if (system == &recording->guest)
		g_hash_table_add(recording->guest_spaces, GUINT_TO_POINTER(generation->space));
	for (guint i = 0; i < generation->mappings->len; i++) {
		struct vms_mapping mapping =
			g_array_index(generation->mappings, struct vms_mapping, i);
		struct vms_recorded_file *file = vms_recorded_file_get(system, mapping.file);
		if (file->symbols)
			mapping.symbols = vms_symbol_table_ref(file->symbols);
		if (file->binary)
			mapping.binary = vms_binary_ref(file->binary);
		vms_symbolizer_map(recording->symbolizer, generation->space, &mapping);
		vms_symbol_table_unref(mapping.symbols);
		vms_binary_unref(mapping.binary);
	}
}

static void apply_events(struct vms_recording *recording, struct vms_recorded_system *system)
{
	g_array_sort(system->process_events, compare_events); /* stable: it merges */
	for (guint i = 0; i < system->process_events->len; i++) {
		const struct vms_recorded_event *event =
			&g_array_index(system->process_events, struct vms_recorded_event, i);
		if (event->kind == VMS_RECORDED_MAPPING) {
			apply_mapping(recording, system, event);
			continue;
		}
		struct process *parent = event->parent ? get_process(system, event->parent) : NULL;
		struct generation *begun =
			begin_generation(recording, get_process(system, event->pid), event->time_ns,
					 last_generation(parent), event->comm);
		if (event->container)
			begun->container = event->container;
	}
}

static void finish_files(struct vms_recorded_system *system)
{
	GHashTableIter iter;
	gpointer value;
	g_hash_table_iter_init(&iter, system->files);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		struct vms_recorded_file *file = value;
		if (file->symbols)
			vms_symbol_table_finish(file->symbols, UINT64_MAX);
		if (file->code)
			file->binary = vms_recorded_code_make_binary(
				g_steal_pointer(&file->code), file->path ? file->path : "[file]");
	}
}

void vms_recording_map_processes(struct vms_recording *recording,
				 struct vms_recorded_system *system)
{
	GHashTableIter iter;
	gpointer key, value;
	apply_events(recording, system);
	finish_files(system);
	g_hash_table_iter_init(&iter, system->processes);
	while (g_hash_table_iter_next(&iter, &key, &value)) {
		struct process *process = value;
		for (guint i = 0; i < process->generations->len; i++)
			map_generation(recording, system, GPOINTER_TO_UINT(key),
				       &g_array_index(process->generations, struct generation, i));
	}
}

void vms_recording_map_kernels(struct vms_recording *recording)
{
	/* At any address, because a guest may be a kernel without programs. */
	struct vms_mapping mapping = { .end = UINT64_MAX };
	struct vms_symbol_table *host = vms_recorded_kernel(recording, &recording->host);
	struct vms_symbol_table *guest = vms_recorded_kernel(recording, &recording->guest);
	vms_symbol_table_finish(host, UINT64_MAX);
	vms_symbol_table_finish(guest, UINT64_MAX);
	if (recording->host.has_session && vms_symbol_table_count(guest) > 0) {
		mapping.kind = VMS_MAPPING_PROGRAM;
		mapping.symbols = guest;
		vms_symbolizer_load(recording->symbolizer, &mapping, 1);
		recording->guest_kernel = vms_symbolizer_note_code(
			recording->symbolizer, vms_symbol_table_get(guest, 0).va);
	}
	mapping.kind = VMS_MAPPING_KERNEL;
	mapping.symbols = recording->host.has_session ? host : guest;
	vms_symbol_table_ref(mapping.symbols);
	vms_symbolizer_map(recording->symbolizer, VMS_KERNEL_SPACE, &mapping);
	vms_symbol_table_unref(mapping.symbols);
}

/* ---- samples ----------------------------------------------------------------------- */

static struct generation *find_generation(struct process *process, uint64_t time_ns)
{
	GArray *generations = process->generations;
	for (guint i = generations->len; i-- > 0;) {
		struct generation *generation = &g_array_index(generations, struct generation, i);
		if (i == 0 || generation->from_ns <= time_ns)
			return generation;
	}
	return NULL;
}

uint32_t vms_recorded_process_note_sample(struct vms_recording *recording,
					  struct vms_recorded_system *system, uint32_t pid,
					  uint64_t time_ns, bool has_user)
{
	struct process *process = get_process(system, pid);
	struct generation *generation = find_generation(process, time_ns);
	process->has_samples = true;
	process->has_user |= has_user;
	/* A guest of which no processes are known has none at all. */
	if (!generation && pid == 0 && system == &recording->guest)
		return VMS_NO_SPACE;
	if (!generation) {
		generation = begin_generation(recording, process, 0, NULL, "");
		map_generation(recording, system, pid, generation);
	}
	return generation->space;
}

void vms_recorded_processes_count(const struct vms_recorded_system *system,
				  struct vms_recording_stats *stats)
{
	GHashTableIter iter;
	gpointer value;
	g_hash_table_iter_init(&iter, system->processes);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct process *process = value;
		const struct generation *last = last_generation(process);
		stats->processes += process->has_samples;
		stats->unmapped += process->has_user && last && last->mappings->len == 0;
	}
}
