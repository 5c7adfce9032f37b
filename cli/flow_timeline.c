/* SPDX-License-Identifier: MIT */
#include "flow_timeline.h"
#include "base/outfile.h"
#include "flow_output.h"
#include <string.h>

#define BUFFER_BYTES (1U << 20)

struct timeline {
	struct session *session;
	struct vms_outfile *file;
	uint64_t begin_ns;
	GString *out;
	GTree *tracks; /* pid << 32 | tid → the last name of the task; "" for a vCPU */
	bool is_first; /* no event has been written yet */
};

/* The track that shows an event. vCPUs are threads of process 0, with the vCPU's number as tid. */
struct track {
	uint32_t pid, tid;
	const char *comm; /* of a task; NULL for a vCPU's track */
};

static struct track get_track(const struct vms_flow_hit *hit)
{
	if (hit->has_task && hit->tid != 0)
		return (struct track) { hit->pid, hit->tid, hit->comm };
	return (struct track) { 0, hit->vcpu, NULL };
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);
	json_object_object_add(object, key, json_object_new_string(valid));
}

static struct json_object *make_event(const char *phase, const char *name,
				      const struct track *track)
{
	struct json_object *event = json_object_new_object();
	add_text(event, "ph", phase);
	add_text(event, "name", name);
	json_object_object_add(event, "pid", json_object_new_int64(track->pid));
	json_object_object_add(event, "tid", json_object_new_int64(track->tid));
	return event;
}

/* Appends an event to the file's array, and frees it. */
static void append_event(struct timeline *timeline, struct json_object *event)
{
	if (!timeline->is_first)
		g_string_append_c(timeline->out, ',');
	timeline->is_first = false;
	flow_output_object(timeline->out, event);
}

/* Trace events count microseconds; decimals keep the nanoseconds. */
static void add_us(struct json_object *object, const char *key, uint64_t ns)
{
	g_autofree char *text =
		g_strdup_printf("%" G_GINT64_MODIFIER "u.%03u", ns / 1000, (unsigned)(ns % 1000));
	json_object_object_add(object, key, json_object_new_double_s((double)ns / 1000, text));
}

static void append_name(struct timeline *timeline, const char *kind, const char *name,
			const struct track *track)
{
	struct json_object *event = make_event("M", kind, track);
	struct json_object *arguments = json_object_new_object();
	add_text(arguments, "name", name);
	json_object_object_add(event, "args", arguments);
	append_event(timeline, event);
}

/* Notes the name of a track. exec changes a process's name: the last one counts. */
static void note_track(struct timeline *timeline, const struct track *track)
{
	const uint64_t key = (uint64_t)track->pid << 32 | track->tid;
	const char *comm = track->comm ? track->comm : "";
	const char *known = g_tree_lookup(timeline->tracks, &key);
	if (!known || strcmp(known, comm) != 0)
		g_tree_insert(timeline->tracks, g_memdup2(&key, sizeof(key)), g_strdup(comm));
}

static gboolean append_names_of(gpointer key, gpointer comm, gpointer timeline)
{
	const uint64_t number = *(const uint64_t *)key;
	const struct track track = { (uint32_t)(number >> 32), (uint32_t)number, comm };
	g_autofree char *vcpu = g_strdup_printf("vCPU %u", track.tid);
	append_name(timeline, "process_name", *track.comm ? track.comm : "vCPUs", &track);
	append_name(timeline, "thread_name", *track.comm ? track.comm : vcpu, &track);
	return FALSE;
}

static int compare_tracks(const void *a, const void *b, void *data)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	(void)data;
	return x < y ? -1 : x > y;
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

static void add_values(struct json_object *arguments, const struct vms_flow_record *record,
		       const struct vms_probe *probe, get_value get)
{
	struct vms_flow_value value;
	for (size_t i = 0; probe && get(record, i, &value); i++) {
		g_autoptr(GString) text = g_string_new(NULL);
		flow_output_value(text, probe, i, &value);
		add_text(arguments, vms_probe_entry_name(probe, i), text->str);
	}
}

static struct json_object *collect_values(const struct vms_flow_record *record,
					  const struct vms_flow_hit *hit)
{
	struct json_object *arguments = json_object_new_object();
	add_values(arguments, record, vms_flow_record_probe(record), vms_flow_record_value);
	add_values(arguments, record, vms_flow_record_common(record), vms_flow_record_common_value);
	add_values(arguments, record, vms_flow_record_returned(record),
		   vms_flow_record_returned_value);
	json_object_object_add(arguments, "cpu", json_object_new_int((int)hit->vcpu));
	json_object_object_add(arguments, "sequence", json_object_new_uint64(hit->sequence));
	return arguments;
}

static void append_record(struct timeline *timeline, const struct vms_flow_record *record)
{
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	const struct track track = get_track(&hit);
	const char *saved = vms_flow_record_where(record);
	g_autofree char *where =
		saved ? g_strdup(saved) : flow_output_place(timeline->session, hit.va);
	const uint64_t end_ns = hit.time_ns - MIN(timeline->begin_ns, hit.time_ns);
	note_track(timeline, &track);
	struct json_object *event = make_event(hit.is_call ? "X" : "i", where, &track);
	add_us(event, "ts", end_ns - MIN(hit.duration_ns, end_ns));
	if (hit.is_call)
		add_us(event, "dur", MIN(hit.duration_ns, end_ns));
	else
		add_text(event, "s", "t"); /* shown on its thread only */
	json_object_object_add(event, "args", collect_values(record, &hit));
	append_event(timeline, event);
}

static bool write_events(struct timeline *timeline, GError **error)
{
	const bool written =
		vms_outfile_write(timeline->file, timeline->out->str, timeline->out->len, error);
	g_string_truncate(timeline->out, 0);
	return written;
}

static bool append_each(struct vms_flow_record *record, void *data, GError **error)
{
	struct timeline *timeline = data;
	append_record(timeline, record);
	return timeline->out->len < BUFFER_BYTES || write_events(timeline, error);
}

bool flow_timeline_write(struct session *session, const struct vms_flow_report *report,
			 uint64_t begin_ns, const char *path, GError **error)
{
	g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
	if (!file)
		return false;
	g_autoptr(GString) out = g_string_new("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	g_autoptr(GTree) tracks = g_tree_new_full(compare_tracks, NULL, g_free, g_free);
	struct timeline timeline = { .session = session,
				     .file = file,
				     .begin_ns = begin_ns,
				     .out = out,
				     .tracks = tracks,
				     .is_first = true };
	if (!vms_flow_report_each(report, append_each, &timeline, error))
		return false;
	g_tree_foreach(tracks, append_names_of, &timeline);
	g_string_append(out, "]}\n");
	return write_events(&timeline, error) && vms_outfile_commit(file, error);
}
