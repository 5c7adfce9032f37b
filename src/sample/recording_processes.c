/* SPDX-License-Identifier: MIT */
/*
 * The processes of a recording: which files each one had mapped, and when. A sample is named by the
 * mappings of its time. So a process has an address space of its own for each period of time in
 * which no other file came to the same address.
 */
#include "base/keyed_hash.h"
#include "base/search.h"
#include "sample/recording-private.h"
#include "symbol/symbolizer-private.h"

#define MAPPINGS_LIMIT	  (1u << 16) /* of a process: Linux's default limit of areas */
#define GENERATIONS_LIMIT 64

/* What they cost, with their entries in tables, and a process's space in the symbolizer. */
#define PROCESS_BYTES	 128
#define GENERATION_BYTES 320
#define STEPS_OF_EVENT	 40
#define STEPS_OF_NODE	 5

/* The mappings of a process for a period of time. */
struct generation {
	uint64_t from_ns;
	char comm[VMS_COMM_SIZE];
	const char *container; /* as of an event */
	struct vms_mappings *mappings;
	uint32_t space;
};

struct process {
	uint32_t pid;
	GArray *generations; /* struct generation, by time */
	bool has_samples, has_user;
};

static void clear_generation(void *data)
{
	vms_mappings_free(((struct generation *)data)->mappings);
}

static void free_process(void *data)
{
	g_array_unref(((struct process *)data)->generations);
	g_free(data);
}

void vms_recorded_processes_init(struct vms_recorded_system *system)
{
	system->processes = g_hash_table_new(vms_hash_direct, NULL);
	system->process_list = g_ptr_array_new_with_free_func(free_process);
}

/* Returns NULL if there is no budget for another process. */
static struct process *get_process(struct vms_recording *recording,
				   struct vms_recorded_system *system, uint32_t pid)
{
	struct process *process = g_hash_table_lookup(system->processes, GUINT_TO_POINTER(pid));
	if (process)
		return process;
	if (!vms_budget_take(recording->for_processes, VMS_BUDGET_BYTES, PROCESS_BYTES))
		return NULL;
	process = g_new0(struct process, 1);
	process->pid = pid;
	process->generations = g_array_new(FALSE, TRUE, sizeof(struct generation));
	g_array_set_clear_func(process->generations, clear_generation);
	g_hash_table_insert(system->processes, GUINT_TO_POINTER(pid), process);
	g_ptr_array_add(system->process_list, process);
	return process;
}

static struct generation *last_generation(const struct process *process)
{
	return process->generations->len ? &g_array_index(process->generations, struct generation,
							  process->generations->len - 1)
					 : NULL;
}

/*
 * Begins a generation with the mappings of `of`, or none if that is NULL. Returns NULL if there is
 * no budget for it.
 */
static struct generation *begin_generation(struct vms_recording *recording, struct process *process,
					   uint64_t from_ns, const struct generation *of,
					   const char *comm)
{
	const struct generation *last = last_generation(process);
	if (!vms_budget_take(recording->for_processes, VMS_BUDGET_BYTES, GENERATION_BYTES))
		return NULL;
	struct generation made = { .from_ns = from_ns,
				   .mappings = of ? vms_mappings_copy(of->mappings)
						  : vms_mappings_new(),
				   .container = of     ? of->container
						: last ? last->container
						       : NULL };
	g_strlcpy(made.comm, comm[0] || !of ? comm : of->comm, sizeof(made.comm));
	g_array_append_val(process->generations, made);
	return last_generation(process);
}

/* Returns false if there is no budget for it. */
static bool apply_mapping(struct vms_recording *recording, struct vms_recorded_system *system,
			  const struct vms_recorded_event *event)
{
	struct vms_budget *budget = recording->for_processes;
	struct process *process = get_process(recording, system, event->pid);
	const struct vms_recorded_file *file =
		vms_recorded_file_get(recording, system, event->file);
	if (!process || !file)
		return false;
	struct generation *generation = last_generation(process);
	const struct vms_mapping mapping = { .start = event->start,
					     .end = event->end,
					     .file = event->file,
					     .offset = event->offset,
					     .name = file->path,
					     .build_id = file->build_id,
					     .symbols = file->symbols,
					     .binary = file->binary };
	const struct vms_mapping *before =
		generation ? vms_mappings_find(generation->mappings, event->start) : NULL;
	if (!generation)
		generation = begin_generation(recording, process, event->time_ns, NULL, "");
	else if (before && before->file != event->file &&
		 process->generations->len < GENERATIONS_LIMIT)
		generation = begin_generation(recording, process, event->time_ns, generation, "");
	if (!generation)
		return false;
	const size_t n_made = vms_mappings_put(generation->mappings, &mapping, MAPPINGS_LIMIT);
	return vms_budget_step(budget, n_made * STEPS_OF_NODE) &&
	       vms_budget_take(budget, VMS_BUDGET_BYTES, n_made * VMS_MAPPING_NODE_BYTES);
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
	vms_symbolizer_set_mappings(recording->symbolizer, generation->space, generation->mappings);
}

/* Returns false if there is no budget for it. */
static bool apply_process(struct vms_recording *recording, struct vms_recorded_system *system,
			  const struct vms_recorded_event *event)
{
	const struct process *parent =
		event->parent ? get_process(recording, system, event->parent) : NULL;
	struct process *process = get_process(recording, system, event->pid);
	struct generation *begun =
		process ? begin_generation(recording, process, event->time_ns,
					   parent ? last_generation(parent) : NULL, event->comm)
			: NULL;
	if (begun && event->container)
		begun->container = event->container;
	return begun != NULL;
}

static void apply_events(struct vms_recording *recording, struct vms_recorded_system *system)
{
	g_array_sort(system->process_events, compare_events); /* stable: it merges */
	for (guint i = 0; i < system->process_events->len; i++) {
		const struct vms_recorded_event *event =
			&g_array_index(system->process_events, struct vms_recorded_event, i);
		if (!vms_budget_step(recording->for_processes, STEPS_OF_EVENT) ||
		    !(event->kind == VMS_RECORDED_MAPPING
			      ? apply_mapping(recording, system, event)
			      : apply_process(recording, system, event)))
			return;
	}
}

static void finish_files(struct vms_recording *recording, struct vms_recorded_system *system)
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
				g_steal_pointer(&file->code), file->path ? file->path : "[file]",
				recording->for_symbols);
	}
}

void vms_recording_map_processes(struct vms_recording *recording,
				 struct vms_recorded_system *system)
{
	finish_files(recording, system);
	apply_events(recording, system);
	for (guint p = 0; p < system->process_list->len; p++) {
		struct process *process = system->process_list->pdata[p];
		for (guint i = 0; i < process->generations->len; i++)
			map_generation(recording, system, process->pid,
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

/* Returns the last generation that begins at or before a time, or the first one. */
static struct generation *find_generation(struct process *process, uint64_t time_ns)
{
	GArray *generations = process->generations;
	const size_t n =
		VMS_SEARCH(generations->len, i,
			   g_array_index(generations, struct generation, i).from_ns <= time_ns);
	return generations->len ? &g_array_index(generations, struct generation, n ? n - 1 : 0)
				: NULL;
}

uint32_t vms_recorded_process_note_sample(struct vms_recording *recording,
					  struct vms_recorded_system *system, uint32_t pid,
					  uint64_t time_ns, bool has_user)
{
	struct process *process = get_process(recording, system, pid);
	struct generation *generation = process ? find_generation(process, time_ns) : NULL;
	if (!process)
		return VMS_NO_SPACE;
	process->has_samples = true;
	process->has_user |= has_user;
	/* A guest of which no processes are known has none at all. */
	if (!generation && pid == 0 && system == &recording->guest)
		return VMS_NO_SPACE;
	if (!generation) {
		generation = begin_generation(recording, process, 0, NULL, "");
		if (!generation)
			return VMS_NO_SPACE;
		map_generation(recording, system, pid, generation);
	}
	return generation->space;
}

void vms_recorded_processes_count(const struct vms_recorded_system *system,
				  struct vms_recording_stats *stats)
{
	for (guint i = 0; i < system->process_list->len; i++) {
		const struct process *process = g_ptr_array_index(system->process_list, i);
		const struct generation *last = last_generation(process);
		stats->processes += process->has_samples;
		stats->unmapped +=
			process->has_user && last && vms_mappings_count(last->mappings) == 0;
	}
}
