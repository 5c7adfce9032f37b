/* SPDX-License-Identifier: MIT */
/*
 * Reads recordings. The first pass over the file finds the mappings with their times, and the
 * names. It is needed because a sample may be in the file before an older mapping. The second pass
 * counts stacks.
 */
#include "base/bytes.h"
#include "capture/fxt_reader.h"
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"
#include "sample/profile-private.h"
#include "sample/recording-private.h"
#include "sample/run_facts.h"
#include "sample/samples.h"
#include "sample/vcpu_records.h"
#include "symbol/mappings.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <vmscope/machine.h>

#define MAPPINGS_LIMIT                                                                             \
	(1u << 13) /* of a process; a damaged file may have them in the slowest order */
#define MAPPINGS_ALL	  (1u << 22) /* of all processes; a birth copies those of the parent */
#define GENERATIONS_LIMIT 64
#define DAMAGES_LIMIT	  1000
#define CPUS_LIMIT	  4096

enum process_event_kind { EVENT_PROCESS, EVENT_MAPPING };

/* An event of a process: a birth, a program, or a mapping. */
struct process_event {
	uint64_t time_ns;
	enum process_event_kind kind;
	uint32_t pid, parent;
	char comm[VMS_COMM_SIZE];
	const char *container; /* "": none; NULL: that of before, or of the parent */
	uint64_t start, end, offset, file;
};

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
	system->processes = g_hash_table_new_full(NULL, NULL, NULL, free_process);
	system->files = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, free_file);
	system->moments = g_array_new(FALSE, FALSE, sizeof(struct vms_recorded_moment));
	system->process_events = g_array_new(FALSE, FALSE, sizeof(struct process_event));
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

/* ---- first pass -------------------------------------------------------------------- */

static void read_session(struct vms_recording *recording, const struct vms_fxt_record *event,
			 uint64_t time_ns)
{
	struct vms_recorded_system *system = recording->current;
	if (system->has_session)
		return;
	system->has_session = true;
	system->begin_ns = time_ns;
	system->begin_real_ns = vms_records_number(event, "real");
	system->period_ns = vms_records_number(event, "period");
	system->version = vms_records_text(event, "version");
	system->name = vms_records_text(event, "system");
	system->release = vms_records_text(event, "release");
	system->machine = vms_records_text(event, "machine");
	system->host = vms_records_text(event, "host");
	system->cpus = vms_records_number(event, "cpus");
	if (system == &recording->host)
		return;
	recording->machine_name = vms_records_text(event, "guest");
	recording->unwinder = vms_records_text(event, "unwinder");
	recording->description = vms_records_text(event, "description");
	recording->stats.period_instructions = vms_records_number(event, "instructions");
	g_array_set_size(recording->vcpus, (guint)MIN(system->cpus, CPUS_LIMIT));
}

static void read_end(struct vms_recording *recording, const struct vms_fxt_record *event)
{
	struct vms_sampler_stats *stats = &recording->current->stats;
	if (!recording->failure)
		recording->failure = vms_records_text(event, "failure");
	recording->current->is_complete = true;
	stats->collected = vms_records_number(event, "collected");
	stats->lost = vms_records_number(event, "lost");
	stats->missed = vms_records_number(event, "missed");
	stats->throttled = vms_records_number(event, "throttled");
	stats->mappings_lost = vms_records_number(event, "mappings lost");
	stats->sample_ns_mean = vms_records_number(event, "mean");
	stats->sample_ns_median = vms_records_number(event, "median");
	stats->sample_ns_min = vms_records_number(event, "min");
	stats->sample_ns_max = vms_records_number(event, "max");
	stats->elapsed_ns = vms_records_number(event, "elapsed");
	stats->user_only = vms_records_number(event, "user only");
}

static void read_failure(struct vms_recording *recording, const struct vms_fxt_record *event)
{
	const uint64_t kind = vms_records_number(event, "kind");
	if (kind < VMS_SAMPLE_N_FAILURES && !recording->reasons[kind])
		recording->reasons[kind] = vms_records_text(event, "reason");
}

static struct vms_recorded_file *get_file(struct vms_recorded_system *system, uint64_t number)
{
	struct vms_recorded_file *file = g_hash_table_lookup(system->files, &number);
	if (file)
		return file;
	file = g_new0(struct vms_recorded_file, 1);
	file->number = number;
	g_hash_table_insert(system->files, &file->number, file);
	return file;
}

static void read_file(struct vms_recorded_system *system, const struct vms_fxt_record *event)
{
	struct vms_recorded_file *file = get_file(system, vms_records_number(event, "number"));
	if (file->path || file->build_id)
		return;
	file->path = vms_records_text(event, "path");
	file->build_id = vms_records_text(event, "build id");
	file->stamp = vms_records_number(event, "stamp");
}

static void read_process_event(struct vms_recording *recording, const struct vms_fxt_record *record,
			       uint64_t time_ns, enum process_event_kind kind)
{
	struct process_event event = { .time_ns = time_ns,
				       .kind = kind,
				       .pid = (uint32_t)record->thread.pid,
				       .parent = (uint32_t)vms_records_number(record, "parent"),
				       .start = vms_records_number(record, "start"),
				       .end = vms_records_number(record, "end"),
				       .offset = vms_records_number(record, "offset"),
				       .file = vms_records_number(record, "file") };
	g_autofree char *comm = vms_records_text(record, "comm");
	g_strlcpy(event.comm, comm ? comm : "", sizeof(event.comm));
	g_autofree char *container = vms_records_text(record, "container");
	if (container)
		event.container = vms_symbolizer_intern(recording->symbolizer, container);
	if (kind == EVENT_PROCESS || event.end > event.start)
		g_array_append_val(recording->current->process_events, event);
}

/* Adds the symbols of an attachment, a line each. */
static void add_symbols(struct vms_symbol_table *table, char *lines)
{
	for (char *line = lines, *end; line && *line; line = end) {
		char *rest;
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		const uint64_t address = g_ascii_strtoull(line, &rest, 16);
		const uint64_t size = g_ascii_strtoull(rest, &rest, 16);
		if (rest[0] == ' ' && rest[1] && size)
			vms_symbol_table_add(table, rest + 1, address, size, 't');
	}
}

static bool has_name(const struct vms_fxt_record *record, const char *name)
{
	return record->name.length == strlen(name) &&
	       memcmp(record->name.text, name, record->name.length) == 0;
}

static void read_code(struct vms_recorded_system *system, const struct vms_fxt_record *record)
{
	const struct vms_bytes payload = { record->payload, record->payload_size };
	struct vms_bytes code;
	uint64_t number, offset;
	if (!vms_recorded_code_parse(payload, &number, &offset, &code))
		return;
	struct vms_recorded_file *file = get_file(system, number);
	if (!file->code)
		file->code = vms_recorded_code_new();
	vms_recorded_code_add(file->code, offset, code);
}

/* The symbols of the kernel of a system. */
static struct vms_symbol_table *get_kernel(const struct vms_recording *recording,
					   struct vms_recorded_system *system)
{
	if (!system->kernel)
		system->kernel = vms_symbol_table_new(system == &recording->guest ? VMS_GUEST_KERNEL
										  : "vmlinux");
	return system->kernel;
}

static void read_attachment(struct vms_recording *recording, const struct vms_fxt_record *record)
{
	struct vms_recorded_system *system = recording->current;
	if (has_name(record, VMS_RECORDS_CODE)) {
		read_code(system, record);
		return;
	}
	g_autofree char *text = g_strndup(record->payload, record->payload_size);
	if (has_name(record, VMS_RECORDS_KERNEL)) {
		add_symbols(get_kernel(recording, system), text);
	} else if (has_name(record, VMS_RECORDS_SYMBOLS)) {
		char *lines;
		struct vms_recorded_file *file =
			get_file(system, g_ascii_strtoull(text, &lines, 10));
		if (!file->symbols)
			file->symbols = vms_symbol_table_new("file");
		add_symbols(file->symbols, *lines == '\n' ? lines + 1 : lines);
	}
}

static void read_record(struct vms_recording *recording, const struct vms_fxt_record *record,
			uint64_t time_ns)
{
	if (vms_records_is_sample(record))
		return;
	if (record->type == VMS_FXT_LARGE_BLOB) {
		read_attachment(recording, record);
	} else if (vms_records_is_event(record, "session")) {
		read_session(recording, record, time_ns);
	} else if (vms_records_is_event(record, "end")) {
		read_end(recording, record);
	} else if (vms_records_is_event(record, "file")) {
		read_file(recording->current, record);
	} else if (vms_records_is_event(record, "process")) {
		read_process_event(recording, record, time_ns, EVENT_PROCESS);
	} else if (vms_records_is_event(record, "mapping")) {
		read_process_event(recording, record, time_ns, EVENT_MAPPING);
	} else if (vms_records_is_event(record, "failures")) {
		read_failure(recording, record);
	} else if (vms_records_is_event(record, "vcpu thread")) {
		vms_machine_threads_add_vcpu(&recording->threads,
					     vms_records_number(record, "number"),
					     vms_records_number(record, "process"),
					     vms_records_number(record, "thread"));
	} else if (recording->current == &recording->host &&
		   record->type == VMS_FXT_KERNEL_OBJECT) {
		vms_machine_threads_read_name(&recording->threads, record);
	} else {
		vms_vcpu_records_get(record,
				     (struct vms_sample_stats *)(void *)recording->vcpus->data,
				     recording->vcpus->len);
	}
}

static void note_damage(struct vms_recording *recording, const struct vms_fxt_damage *damage,
			bool is_truncated)
{
	const struct vms_recording_damage noted = { damage->offset, damage->size, damage->reason,
						    is_truncated };
	if (recording->damages->len < DAMAGES_LIMIT)
		g_array_append_val(recording->damages, noted);
}

/* Notes to which system the records from this one on belong. */
static void follow_system(struct vms_recording *recording, const struct vms_fxt_record *record)
{
	vms_records_begins_system(record, &recording->provider);
	struct vms_recorded_system **system =
		&recording->system_of[recording->provider == VMS_RECORDS_GUEST];
	/* Older files have one provider. Its session says whether it is a guest. */
	if (vms_records_is_event(record, "session") && !(*system)->has_session) {
		g_autofree char *engine = vms_records_text(record, "engine");
		*system = g_strcmp0(engine, "guest") == 0 ? &recording->guest : &recording->host;
	}
	recording->current = *system;
}

static void read_all(struct vms_recording *recording)
{
	struct vms_fxt_reader *reader = vms_fxt_reader_new(recording->bytes);
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) != VMS_FXT_END) {
		if (step != VMS_FXT_RECORD) {
			note_damage(recording, &damage, step == VMS_FXT_TRUNCATED);
			continue;
		}
		follow_system(recording, &record);
		read_record(recording, &record, vms_fxt_reader_ns(reader, record.time));
	}
	vms_fxt_reader_free(reader);
}

/* ---- address spaces ---------------------------------------------------------------- */

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
			  const struct process_event *event)
{
	struct process *process = get_process(system, event->pid);
	struct generation *generation = last_generation(process);
	const struct vms_recorded_file *file = get_file(system, event->file);
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
	const struct process_event *x = a, *y = b;
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
		struct vms_recorded_file *file = get_file(system, mapping.file);
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
		const struct process_event *event =
			&g_array_index(system->process_events, struct process_event, i);
		if (event->kind == EVENT_MAPPING) {
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

static void make_spaces(struct vms_recording *recording, struct vms_recorded_system *system)
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

/*
 * Makes the symbols of the kernels known: those of a host, or of a guest alone, are the kernel's.
 * Beside a host, those of a guest are loaded code.
 */
static void map_kernels(struct vms_recording *recording)
{
	/* At any address, because a guest may be a kernel without programs. */
	struct vms_mapping mapping = { .end = UINT64_MAX };
	struct vms_symbol_table *host = get_kernel(recording, &recording->host);
	struct vms_symbol_table *guest = get_kernel(recording, &recording->guest);
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

/* ---- second pass ------------------------------------------------------------------- */

static guint hash_stack(gconstpointer data)
{
	const struct vms_recorded_stack *stack = data;
	uint64_t hash = (uint64_t)stack->cpu << 32 | stack->space;
	for (size_t i = 0; i < stack->size; i += 8) {
		uint64_t pc;
		memcpy(&pc, (const uint8_t *)stack->pcs + i, sizeof(pc));
		hash = (hash ^ pc) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (guint)(hash ^ hash >> 32);
}

static gboolean equal_stacks(gconstpointer a, gconstpointer b)
{
	const struct vms_recorded_stack *x = a, *y = b;
	return x->space == y->space && x->cpu == y->cpu && x->size == y->size &&
	       x->kinds == y->kinds && x->in_guest == y->in_guest &&
	       memcmp(x->pcs, y->pcs, x->size) == 0;
}

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

static void count_stack(struct vms_recording *recording, struct vms_recorded_system *system,
			const struct vms_fxt_record *record, uint64_t time_ns)
{
	const uint32_t pid = (uint32_t)record->thread.pid;
	struct process *process = get_process(system, pid);
	struct generation *generation = find_generation(process, time_ns);
	/* A guest of which no processes are known has none at all. */
	const bool has_space = generation || pid != 0 || system == &recording->host;
	if (!generation && has_space) {
		generation = begin_generation(recording, process, 0, NULL, "");
		map_generation(recording, system, pid, generation);
	}
	process->has_samples = true;
	const uint64_t n_kernel = vms_records_number(record, "kernel");
	process->has_user |= record->payload_size > n_kernel * 8;
	struct vms_recorded_stack key = {
		.space = has_space ? generation->space : VMS_NO_SPACE,
		.cpu = (uint32_t)MIN(vms_records_number(record, "cpu"), CPUS_LIMIT - 1),
		.pcs = record->payload,
		.size = record->payload_size,
		.kinds = n_kernel | vms_records_number(record, "end") << 32 |
			 vms_records_number(record, "kernel end") << 40 |
			 (uint64_t)(vms_records_number(record, "idle") != 0) << 48 |
			 (vms_records_number(record, "wait") & 0x7f) << 49 |
			 MIN(vms_records_number(record, "wait") >> 8 & 0xffff, 0xff) << 56,
		.is_of_guest = system == &recording->guest,
		.in_guest = vms_records_number(record, "in guest") != 0,
	};
	struct vms_recorded_stack *known = g_hash_table_lookup(recording->stacks, &key);
	if (!known) {
		known = g_memdup2(&key, sizeof(key));
		g_hash_table_add(recording->stacks, known);
	}
	known->weight++;
	const struct vms_recorded_moment moment = { time_ns, known, pid,
						    (uint32_t)record->thread.tid };
	g_array_append_val(system->moments, moment);
}

static void count_stacks(struct vms_recording *recording)
{
	struct vms_fxt_reader *reader = vms_fxt_reader_new(recording->bytes);
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	recording->provider = VMS_RECORDS_HOST;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) != VMS_FXT_END) {
		if (step != VMS_FXT_RECORD)
			continue;
		vms_records_begins_system(&record, &recording->provider);
		if (vms_records_is_sample(&record) && record.payload_size % 8 == 0)
			count_stack(recording,
				    recording->system_of[recording->provider == VMS_RECORDS_GUEST],
				    &record, vms_fxt_reader_ns(reader, record.time));
	}
	vms_fxt_reader_free(reader);
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
	GHashTableIter iter;
	gpointer key, value;
	g_hash_table_iter_init(&iter, shown->processes);
	while (g_hash_table_iter_next(&iter, &key, &value)) {
		const struct process *process = value;
		const struct generation *last = last_generation(process);
		stats->processes += process->has_samples;
		stats->unmapped += process->has_user && last && last->mappings->len == 0;
	}
}

void vms_recorded_stack_get(const struct vms_recorded_stack *stack, struct vms_sample_record *ret)
{
	struct vms_fxt_record record = { .type = VMS_FXT_LARGE_BLOB,
					 .kind = VMS_FXT_BLOB_WITH_METADATA,
					 .payload = stack->pcs,
					 .payload_size = stack->size };
	vms_records_add_number(&record, "kernel", stack->kinds & UINT32_MAX);
	vms_records_add_number(&record, "end", stack->kinds >> 32 & 0xff);
	vms_records_add_number(&record, "kernel end", stack->kinds >> 40 & 0xff);
	vms_records_add_number(&record, "idle", vms_recorded_stack_is_idle(stack));
	vms_records_add_number(&record, "wait",
			       (uint64_t)vms_recorded_stack_waits(stack) | stack->kinds >> 56 << 8);
	vms_records_get_sample(&record, ret);
	ret->space = stack->space;
	ret->in_guest = stack->in_guest;
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
	recording->guest_spaces = g_hash_table_new(NULL, NULL);
	recording->system_of[0] = recording->current = &recording->host;
	recording->system_of[1] = &recording->guest;
	recording->provider = VMS_RECORDS_HOST;
	vms_machine_threads_init(&recording->threads);
	recording->stacks = g_hash_table_new_full(hash_stack, equal_stacks, g_free, NULL);
	recording->damages = g_array_new(FALSE, FALSE, sizeof(struct vms_recording_damage));
	recording->vcpus = g_array_new(FALSE, TRUE, sizeof(struct vms_sample_stats));
	recording->symbolizer = vms_symbolizer_new();
	recording->first_ns = UINT64_MAX;
	if (!load_bytes(recording, path, error))
		return NULL;
	read_all(recording);
	make_spaces(recording, &recording->host);
	make_spaces(recording, &recording->guest);
	map_kernels(recording);
	count_stacks(recording);
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

/* The samples of each CPU, for a profile. */
struct cpu_samples {
	struct vms_tree *trees[CPUS_LIMIT]; /* NULL beyond the last CPU */
	struct vms_sample_times times[CPUS_LIMIT];
	size_t n;
};

/* Removes frames at the leaf. */
static void cut_leaf(struct vms_stack *stack, unsigned n)
{
	memmove(stack->frame, stack->frame + n, (stack->n - n) * sizeof(stack->frame[0]));
	stack->n -= n;
	stack->n_kernel -= MIN(n, stack->n_kernel);
}

/* Counts a joined stack. `samples` are two, to decode it. Returns the node. */
static uint32_t add_joined(const struct vms_recording *recording,
			   const struct vms_recorded_stack *stack, struct vms_tree *tree,
			   struct vms_sample_record *samples, bool leaf_first)
{
	struct vms_guest_part part = { .role = stack->role, .in_guest = stack->in_guest };
	cut_leaf(&samples[0].stack, stack->cut);
	if (stack->guest) {
		vms_recorded_stack_get(stack->guest, &samples[1]);
		for (unsigned i = 0; i < samples[1].stack.n_kernel; i++)
			samples[1].stack.frame[i].code = recording->guest_kernel;
		part.guest = &samples[1];
	}
	return vms_samples_add_machine_path(tree, &samples[0], &part, leaf_first, stack->weight);
}

static void add_stacks(const struct vms_recording *recording, struct cpu_samples *samples,
		       bool leaf_first)
{
	g_autofree struct vms_sample_record *sample = g_new(struct vms_sample_record, 2);
	GHashTableIter iter;
	gpointer key;
	g_hash_table_iter_init(&iter, recording->joined ? recording->joined : recording->stacks);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		struct vms_recorded_stack *stack = key;
		for (; samples->n <= stack->cpu; samples->n++) {
			samples->trees[samples->n] = vms_tree_new(VMS_TREE_LIMIT);
			vms_sample_times_init(&samples->times[samples->n], SIZE_MAX);
		}
		struct vms_tree *tree = samples->trees[stack->cpu];
		vms_recorded_stack_get(stack, sample);
		stack->node =
			stack->of ? add_joined(recording, stack, tree, sample, leaf_first)
				  : vms_samples_add_path(tree, sample, leaf_first, stack->weight);
	}
}

static void add_times(const struct vms_recording *recording, struct cpu_samples *samples)
{
	g_autofree struct vms_sample_record *sample = g_new0(struct vms_sample_record, 1);
	for (guint i = 0; i < recording->shown->moments->len; i++) {
		const struct vms_recorded_moment *moment =
			&g_array_index(recording->shown->moments, struct vms_recorded_moment, i);
		sample->time_ns = moment->time_ns;
		sample->space = moment->stack->space;
		sample->pid = moment->pid;
		sample->tid = moment->tid;
		vms_sample_times_add(&samples->times[moment->stack->cpu], sample,
				     moment->stack->node);
	}
}

static void free_cpu_samples(struct cpu_samples *samples)
{
	for (size_t i = 0; i < samples->n; i++) {
		vms_tree_free(samples->trees[i]);
		vms_sample_times_clear(&samples->times[i]);
	}
	g_free(samples);
}

static int find_role(void *data, uint32_t pid, uint32_t tid)
{
	return vms_machine_threads_role(data, pid, tid);
}

struct vms_profile *vms_recording_profile(struct vms_recording *recording, unsigned flags,
					  bool leaf_first, GError **error)
{
	if (recording->shown->moments->len == 0) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
				    "the recording has no samples");
		return NULL;
	}
	struct cpu_samples *samples = g_new0(struct cpu_samples, 1);
	add_stacks(recording, samples, leaf_first);
	add_times(recording, samples);
	g_autofree const struct vms_sample_times **times =
		g_new(const struct vms_sample_times *, samples->n);
	for (size_t i = 0; i < samples->n; i++)
		times[i] = &samples->times[i];
	const struct vms_profile_source source = {
		.symbolizer = recording->symbolizer,
		.trees = (const struct vms_tree *const *)samples->trees,
		.times = times,
		.n_trees = samples->n,
		.flags = flags | VMS_PROFILE_MERGE_VCPUS,
		.leaf_first = leaf_first,
		.roles = recording->threads.roles,
		.role_of = recording->joined ? find_role : NULL,
		.data = &recording->threads,
	};
	struct vms_profile *profile = vms_profile_new(&source);
	free_cpu_samples(samples);
	return profile;
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

/* What runs in the guest. */
static void describe_guest_system(const struct vms_recording *recording,
				  struct vms_run_facts *facts)
{
	const struct vms_recorded_system *guest = &recording->guest;
	facts->system = g_strdup(guest->name);
	facts->release = g_strdup(guest->release);
	facts->version = g_strdup(guest->version);
	facts->hostname = g_strdup(guest->host);
	facts->unwinder = g_strdup(recording->unwinder);
}

static void describe_host(const struct vms_recording *recording, struct vms_run_facts *facts)
{
	const struct vms_recorded_system *host = &recording->host;
	facts->is_host = true;
	facts->machine_description = g_strdup_printf(
		"%s, %s %s %s, %" G_GUINT64_FORMAT " CPU%s", host->host ? host->host : "unknown",
		host->name ? host->name : "unknown system", host->release ? host->release : "",
		host->machine ? host->machine : "", host->cpus, host->cpus == 1 ? "" : "s");
	if (recording->joined)
		describe_guest_system(recording, facts);
	const char *guest = recording->machine_name ? recording->machine_name : "a machine";
	facts->title = recording->joined ? g_strdup_printf("%s with its guest, on %s, %.1f s",
							   guest, facts->machine_description,
							   (double)facts->elapsed_ns / 1e9)
					 : g_strdup_printf("Processes of %s, %.1f s",
							   facts->machine_description,
							   (double)facts->elapsed_ns / 1e9);
}

static void describe_guest(const struct vms_recording *recording, struct vms_run_facts *facts)
{
	facts->machine_name = g_strdup(recording->machine_name);
	facts->machine_description =
		g_strdup(recording->description ? recording->description : "unknown machine");
	describe_guest_system(recording, facts);
	facts->n_vcpus = recording->vcpus->len;
	facts->vcpus =
		g_memdup2(recording->vcpus->data, facts->n_vcpus * sizeof(struct vms_sample_stats));
	for (size_t i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		facts->reasons[i] = g_strdup(recording->reasons[i]);
	vms_run_facts_set_title(facts);
}

/* Returns the time between two samples of a CPU; the mean if the period is one of instructions. */
static uint64_t get_interval(const struct vms_recording *recording, uint64_t elapsed_ns)
{
	const struct vms_recording_stats *stats = &recording->stats;
	const uint64_t per_cpu = stats->samples / MAX(recording->shown->cpus, 1);
	return MAX(stats->period_instructions ? elapsed_ns / MAX(per_cpu, 1) : stats->period_ns, 1);
}

struct vms_run_facts *vms_recording_facts(const struct vms_recording *recording)
{
	struct vms_run_facts *facts = g_new0(struct vms_run_facts, 1);
	const bool has_time = recording->last_ns >= recording->first_ns;
	facts->interval_instructions = recording->stats.period_instructions;
	facts->begin_ns = recording->shown->begin_ns;
	facts->begin_utc_ns = (int64_t)recording->stats.begin_real_ns;
	facts->elapsed_ns = recording->stats.is_complete ? recording->stats.session.elapsed_ns
			    : has_time			 ? recording->last_ns - recording->first_ns
							 : 0;
	facts->interval_ns = get_interval(recording, facts->elapsed_ns);
	facts->end = recording->stats.is_complete && !recording->failure ? VMS_SAMPLE_COMPLETE
									 : VMS_SAMPLE_FAILED;
	facts->error = g_strdup(recording->failure);
	facts->items = g_array_new(FALSE, FALSE, sizeof(struct vms_run_item));
	if (recording->shown == &recording->guest)
		describe_guest(recording, facts);
	else
		describe_host(recording, facts);
	return facts;
}
