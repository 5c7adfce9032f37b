/* SPDX-License-Identifier: MIT */
/*
 * The first pass over a recording: what its records say of the sessions, the processes and the
 * files. Samples are left to the second pass, because a sample may be in the file before an older
 * mapping.
 */
#include "capture/fxt_reader.h"
#include "capture/fxt_writer.h"
#include "sample/recording-private.h"
#include "sample/vcpu_records.h"
#include <string.h>

#define DAMAGES_LIMIT 1000

/*
 * What an entry of a table costs beside its bytes; and what a symbol costs, with its place in the
 * sorted table and in that by name.
 */
#define ENTRY_BYTES	64
#define STEPS_OF_ENTRY	10
#define SYMBOL_BYTES	56
#define STEPS_OF_SYMBOL 20

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
	system->version = vms_recorded_text(recording, event, "version");
	system->name = vms_recorded_text(recording, event, "system");
	system->release = vms_recorded_text(recording, event, "release");
	system->machine = vms_recorded_text(recording, event, "machine");
	system->host = vms_recorded_text(recording, event, "host");
	system->cpus = vms_records_number(event, "cpus");
	if (system == &recording->host)
		return;
	recording->machine_name = vms_recorded_text(recording, event, "guest");
	recording->unwinder = vms_recorded_text(recording, event, "unwinder");
	recording->description = vms_recorded_text(recording, event, "description");
	recording->stats.period_instructions = vms_records_number(event, "instructions");
	g_array_set_size(recording->vcpus, (guint)MIN(system->cpus, VMS_RECORDED_CPUS_LIMIT));
}

static void read_end(struct vms_recording *recording, const struct vms_fxt_record *event)
{
	struct vms_sampler_stats *stats = &recording->current->stats;
	if (!recording->failure)
		recording->failure = vms_recorded_text(recording, event, "failure");
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
		recording->reasons[kind] = vms_recorded_text(recording, event, "reason");
}

struct vms_recorded_file *vms_recorded_file_get(struct vms_recording *recording,
						struct vms_recorded_system *system, uint64_t number)
{
	struct vms_recorded_file *file = g_hash_table_lookup(system->files, &number);
	if (file)
		return file;
	if (!vms_budget_step(recording->for_processes, STEPS_OF_ENTRY) ||
	    !vms_budget_take(recording->for_processes, VMS_BUDGET_BYTES,
			     sizeof(*file) + ENTRY_BYTES))
		return NULL;
	file = g_new0(struct vms_recorded_file, 1);
	file->number = number;
	g_hash_table_insert(system->files, &file->number, file);
	return file;
}

static void read_file(struct vms_recording *recording, const struct vms_fxt_record *event)
{
	struct vms_recorded_file *file = vms_recorded_file_get(recording, recording->current,
							       vms_records_number(event, "number"));
	if (!file || file->path || file->build_id)
		return;
	file->path = vms_recorded_text(recording, event, "path");
	file->build_id = vms_recorded_text(recording, event, "build id");
	file->stamp = vms_records_number(event, "stamp");
}

static void read_process_event(struct vms_recording *recording, const struct vms_fxt_record *record,
			       uint64_t time_ns, enum vms_recorded_event_kind kind)
{
	struct vms_recorded_event event = { .time_ns = time_ns,
					    .kind = kind,
					    .pid = (uint32_t)record->thread.pid,
					    .parent =
						    (uint32_t)vms_records_number(record, "parent"),
					    .start = vms_records_number(record, "start"),
					    .end = vms_records_number(record, "end"),
					    .offset = vms_records_number(record, "offset"),
					    .file = vms_records_number(record, "file") };
	const char *comm = vms_recorded_text(recording, record, "comm");
	g_strlcpy(event.comm, comm ? comm : "", sizeof(event.comm));
	event.container = vms_recorded_text(recording, record, "container");
	if ((kind == VMS_RECORDED_PROCESS || event.end > event.start) &&
	    vms_budget_take(recording->for_processes, VMS_BUDGET_BYTES, sizeof(event)))
		g_array_append_val(recording->current->process_events, event);
}

/* Adds the symbols of an attachment, a line each. */
static void add_symbols(struct vms_budget *budget, struct vms_symbol_table *table, char *lines)
{
	for (char *line = lines, *end; line && *line; line = end) {
		char *rest;
		end = strchr(line, '\n');
		const size_t length = end ? (size_t)(end - line) : strlen(line);
		if (!vms_budget_step(budget, STEPS_OF_SYMBOL + VMS_STEPS_OF_BYTES(length)) ||
		    !vms_budget_take(budget, VMS_BUDGET_BYTES, length + SYMBOL_BYTES))
			return;
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

static void read_code(struct vms_recording *recording, const struct vms_fxt_record *record)
{
	const struct vms_bytes payload = { record->payload, record->payload_size };
	struct vms_bytes code;
	uint64_t number, offset;
	if (!vms_recorded_code_parse(payload, &number, &offset, &code) ||
	    !vms_budget_step(recording->for_symbols,
			     STEPS_OF_SYMBOL + VMS_STEPS_OF_BYTES(code.size)) ||
	    !vms_budget_take(recording->for_symbols, VMS_BUDGET_BYTES, code.size + SYMBOL_BYTES))
		return;
	struct vms_recorded_file *file =
		vms_recorded_file_get(recording, recording->current, number);
	if (!file)
		return;
	if (!file->code)
		file->code = vms_recorded_code_new();
	vms_recorded_code_add(file->code, offset, code);
}

struct vms_symbol_table *vms_recorded_kernel(const struct vms_recording *recording,
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
	struct vms_budget *budget = recording->for_symbols;
	if (has_name(record, VMS_RECORDS_CODE)) {
		read_code(recording, record);
		return;
	}
	if (!vms_budget_step(budget, VMS_STEPS_OF_BYTES(record->payload_size)))
		return;
	g_autofree char *text = g_strndup(record->payload, record->payload_size);
	if (has_name(record, VMS_RECORDS_KERNEL)) {
		add_symbols(budget, vms_recorded_kernel(recording, system), text);
	} else if (has_name(record, VMS_RECORDS_SYMBOLS)) {
		char *lines;
		struct vms_recorded_file *file = vms_recorded_file_get(
			recording, system, g_ascii_strtoull(text, &lines, 10));
		if (!file)
			return;
		if (!file->symbols)
			file->symbols = vms_symbol_table_new("file");
		add_symbols(budget, file->symbols, *lines == '\n' ? lines + 1 : lines);
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
		read_file(recording, record);
	} else if (vms_records_is_event(record, "process")) {
		read_process_event(recording, record, time_ns, VMS_RECORDED_PROCESS);
	} else if (vms_records_is_event(record, "mapping")) {
		read_process_event(recording, record, time_ns, VMS_RECORDED_MAPPING);
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
	const struct vms_recording_damage noted = { .offset = damage->offset,
						    .size = damage->size,
						    .reason = damage->reason,
						    .is_truncated = is_truncated };
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
		const char *engine = vms_recorded_text(recording, record, "engine");
		*system = g_strcmp0(engine, "guest") == 0 ? &recording->guest : &recording->host;
	}
	recording->current = *system;
}

void vms_recording_read_records(struct vms_recording *recording)
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
